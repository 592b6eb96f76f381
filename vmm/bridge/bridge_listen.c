/* One call after the other; in a jail nobody but the machine sees the path. */
#include "vmm/bridge/bridge_listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"

int box_bridge_listen(const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path)) {
		return -ENAMETOOLONG;
	}
	memcpy(address.sun_path, path, strlen(path));
	_cleanup_(box_close_p) int fd = socket(
		AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return -errno;
	}
	mode_t mask = umask(0);
	int r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r == 0 && listen(fd, 1) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}
