/* The path of the operator's socket as a pure function: boxd opens it, clients look for it. */
#include "base/operator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int box_operator_socket_path(
	uid_t uid, const char *runtime_dir, char ret_path[BOX_SOCKET_PATH_SIZE])
{
	int len;
	if (uid == 0) {
		len = snprintf(ret_path, BOX_SOCKET_PATH_SIZE, "%s", BOX_OPERATOR_SOCKET);
	} else if (runtime_dir && runtime_dir[0] == '/') {
		len = snprintf(ret_path, BOX_SOCKET_PATH_SIZE, "%s/box/box.sock", runtime_dir);
	} else {
		len = snprintf(ret_path, BOX_SOCKET_PATH_SIZE, "/run/user/%u/box/box.sock", uid);
	}
	return (size_t)len < BOX_SOCKET_PATH_SIZE ? 0 : -ENAMETOOLONG;
}
