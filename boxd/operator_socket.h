/* The operator's Unix socket: a process that may connect to it, by the modes of the socket and of its
 * folder, acts for the operator. boxd opens it once and keeps it, as the other listening sockets.
 * Called by main.c and listeners.c. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/operator.h"

struct box_operator_socket {
	int fd;     /* listening, or -1 */
	int folder; /* the folder that contains it, or -1 */
	bool folder_made;
	ino_t inode; /* of the socket in its folder */
	char path[BOX_SOCKET_PATH_SIZE];
};

#define BOX_OPERATOR_SOCKET_NONE       \
	{                              \
		.fd = -1, .folder = -1 \
	}

/* Opens it at `path`, or with NULL at this user's default path. Makes the folder if it is missing (0711
 * for root, 0700 for others). `group` NULL: mode 0600, else 0660 and that group. 0, or negative with
 * the reason in err: -EADDRINUSE when another boxd listens there. */
int box_operator_socket_open(const char *path, const char *group,
	struct box_operator_socket *ret_socket, struct box_err *err);

/* Closes it and removes it from its folder, unless it has been replaced there. */
void box_operator_socket_close(struct box_operator_socket *socket);
