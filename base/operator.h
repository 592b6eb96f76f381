/* What boxd and its clients agree on about the operator of a runtime: where its socket is, whose its
 * connections are, and the name of the instance that its own boxes belong to. */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

/* No client can have this instance: an instance id begins with a letter or digit. */
#define BOX_INSTANCE_OPERATOR "_operator"
/* That of clients older than instance ids (SDK 0.4): they send none, nor a context. No other client can
 * have it. */
#define BOX_INSTANCE_UNNAMED "_unnamed"

/* That of a boxd of root. */
#define BOX_OPERATOR_SOCKET "/run/box/box.sock"

/* Whose the connections are that box-rpc of a boxd of root has taken: an account's, if there is one,
 * else one from here on. */
#define BOX_WORKER_ACCOUNT "box-rpc"
#define BOX_WORKER_IDS_FIRST 0xf0010000U
#define BOX_DYNAMIC_ID_FIRST 61184U /* systemd's range for services without an account */

/* Room for the path of a Unix socket, its NUL included. */
#define BOX_SOCKET_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

/* Where a boxd of this user has its socket. `runtime_dir` is XDG_RUNTIME_DIR, or NULL; one that is
 * not absolute counts as none. 0, or -ENAMETOOLONG. */
int box_operator_socket_path(
	uid_t uid, const char *runtime_dir, char ret_path[BOX_SOCKET_PATH_SIZE]);
