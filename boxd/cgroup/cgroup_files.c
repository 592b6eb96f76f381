/* Reads and writes the files of a cgroup folder, and reads limits back.
 *
 * A limit counts as set only when the kernel shows the value that was written; values are rounded here
 * as the kernel rounds them, so a difference means that the kernel has changed the limit. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/cgroup/cgroup_manager.h"

uint64_t box_cgroup_quota_us(uint32_t cpu_milli)
{
	uint64_t quota = (uint64_t)cpu_milli * BOX_CGROUP_PERIOD_US / 1000;
	return quota < BOX_CGROUP_QUOTA_MIN_US ? BOX_CGROUP_QUOTA_MIN_US : quota;
}

uint64_t box_cgroup_round_to_pages(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	return bytes < page ? page : bytes / page * page;
}

int box_cgroup_open_below(int mount, const char *below, int *ret_fd)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, mount, below, &how, sizeof(how));
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

static int read_opened(int fd, char *text, size_t room)
{
	size_t len = 0;
	while (len < room) {
		ssize_t n = pread(fd, text + len, room - len, (off_t)len);
		if (n < 0) {
			return -errno;
		}
		if (n == 0) {
			text[len] = '\0';
			return (int)len;
		}
		len += (size_t)n;
	}
	return -E2BIG;
}

int box_cgroup_read(int folder, const char *file, char *text, size_t room)
{
	_cleanup_(box_close_p) int fd = openat(folder, file, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : read_opened(fd, text, room);
}

int box_cgroup_write(int folder, const char *file, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, file, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	return n < 0 ? -errno : 0;
}

int box_cgroup_write_checked(int folder, const char *file, const char *text, struct box_err *err)
{
	char back[64];
	_cleanup_(box_close_p) int fd = openat(folder, file, O_RDWR | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pwrite(fd, text, strlen(text), 0);
	if (n < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot write %s to %s: %s", text, file,
			box_err_strerror(errno));
	}
	int len = read_opened(fd, back, sizeof(back));
	if (len < 0) {
		return box_err_set(err, BOX_ERR_BOX, -len, "cannot read %s back: %s", file,
			box_err_strerror(-len));
	}
	back[strcspn(back, "\n")] = '\0';
	if (strcmp(back, text) != 0) {
		return box_err_set(err, BOX_ERR_BOX, ERANGE, "%s is %s where %s was written", file,
			back, text);
	}
	return 0;
}

int box_cgroup_write_number_checked(
	int folder, const char *file, uint64_t number, struct box_err *err)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return box_cgroup_write_checked(folder, file, text, err);
}

/* By its mode: to change its owner, boxd may lack the capability. */
int box_cgroup_make_writable(int folder, const char *file, struct box_err *err)
{
	return fchmodat(folder, file, 0666, 0) < 0
		? box_err_set(err, BOX_ERR_BOX, errno, "cannot unlock %s: %s", file,
			  box_err_strerror(errno))
		: 0;
}

/* The kernel checks whether the opener of cgroup.procs may move a process, not the writer. If boxd
 * opened the file, whoever holds the fd could move any process of the host into a group, and everything
 * in the group is killed with the box. */
int box_cgroup_open_procs_fd(
	int folder, const char *file, uint32_t id, int *ret_procs_fd, struct box_err *err)
{
	int r = id != 0 ? box_cgroup_make_writable(folder, file, err) : 0;
	if (r < 0) {
		return r;
	}
	int fd = id != 0 && seteuid(id) < 0
		? -1
		: openat(folder, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	int errnum = errno;
	/* The change of the euid may have made this process dumpable. */
	if (id != 0 && (seteuid(0) < 0 || prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0)) {
		abort();
	}
	if (fd < 0) {
		return box_err_set(err, BOX_ERR_BOX, errnum, "cannot open %s: %s", file,
			box_err_strerror(errnum));
	}
	*ret_procs_fd = fd;
	return 0;
}

int box_cgroup_pid_list_open(struct box_cgroup_pid_list *list, int folder)
{
	int fd = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	list->fd = fd;
	list->at = 0;
	list->len = 0;
	return 0;
}

/* Returns -1 at the end. */
static int next_byte(struct box_cgroup_pid_list *list)
{
	if (list->at == list->len) {
		ssize_t n = read(list->fd, list->bytes, sizeof(list->bytes));
		list->at = 0;
		list->len = n > 0 ? (size_t)n : 0;
	}
	return list->at < list->len ? (unsigned char)list->bytes[list->at++] : -1;
}

bool box_cgroup_pid_list_next(struct box_cgroup_pid_list *list, pid_t *ret_pid)
{
	pid_t pid = 0;
	int byte = 0;
	while ((byte = next_byte(list)) >= 0) {
		if (byte >= '0' && byte <= '9' && pid < INT_MAX / 10) {
			pid = pid * 10 + (byte - '0');
		} else if (pid > 0) {
			*ret_pid = pid;
			return true;
		}
	}
	return false;
}

void box_cgroup_pid_list_close(struct box_cgroup_pid_list *list)
{
	box_close_p(&list->fd);
}
