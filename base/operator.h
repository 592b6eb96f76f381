/* What boxd and its clients agree on about the operator of a runtime: the path of the socket, who owns
 * its connections, and the instance that the operator's own boxes belong to. */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

/* Reserved: an instance id begins with a letter or digit, so no client can have this one. */
#define BOX_INSTANCE_OPERATOR "_operator"
/* The instance of clients older than instance ids (SDK 0.4), which send neither an id nor a context.
 * Reserved in the same way. */
#define BOX_INSTANCE_UNNAMED "_unnamed"

/* the path when boxd runs as root */
#define BOX_OPERATOR_SOCKET "/run/box/box.sock"

/* The owner of connections that box-rpc of a root boxd has accepted: the account's uid if the account
 * exists, else an id from this range. */
#define BOX_WORKER_ACCOUNT "box-rpc"
#define BOX_WORKER_IDS_FIRST 0xf0010000U
#define BOX_DYNAMIC_ID_FIRST 61184U /* systemd's range for services without an account */

/* Size of the path of a Unix socket, with its NUL. */
#define BOX_SOCKET_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

/* The path of the socket for a boxd of this user. `runtime_dir` is XDG_RUNTIME_DIR or NULL; a relative
 * one is ignored. 0, or -ENAMETOOLONG. */
int box_operator_socket_path(
	uid_t uid, const char *runtime_dir, char ret_path[BOX_SOCKET_PATH_SIZE]);
