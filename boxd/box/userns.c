/* A user namespace can only be made with a process in it: here one that shares our memory, so that
 * nothing is copied, and waits to be killed. */
#include "boxd/box/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"

#define STACK_BYTES 8192

static int write_proc(int pid, const char *name, const char *text)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	_cleanup_(box_close_p) int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	size_t len = strlen(text);
	return write(fd, text, len) == (ssize_t)len ? 0 : errno ? -errno : -EIO;
}

int box_userns_write_map(
	int pid, const char *name, uint32_t inside, uint32_t outside, uint32_t count)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%u %u %u", inside, outside, count);
	return write_proc(pid, name, text);
}

int box_userns_deny_groups(int pid)
{
	return write_proc(pid, "setgroups", "deny");
}

void box_userns_owner_end(void)
{
	/* The change of ids may have made this process dumpable. */
	if (seteuid(0) < 0 || prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		abort();
	}
}

int box_userns_owner_begin(uint32_t owner)
{
	if (seteuid(owner) < 0) {
		return -errno;
	}
	/* A change of the euid clears the effective capabilities; the permitted ones stay. */
	int r = box_caps_restore_effective();
	if (r < 0) {
		box_userns_owner_end();
	}
	return r;
}

_Noreturn static int wait_for_the_end(void *arg)
{
	(void)arg;
	for (;;) {
		(void)pause();
	}
}

static int open_userns(int pid, int *ret_fd)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

static int map_and_open(
	int pid, uint32_t uid, uint32_t as_uid, uint32_t gid, uint32_t as_gid, int *ret_fd)
{
	int r = box_userns_write_map(pid, "uid_map", uid, as_uid, 1);
	if (r < 0) {
		return r;
	}
	r = box_userns_write_map(pid, "gid_map", gid, as_gid, 1);
	if (r < 0) {
		return r;
	}
	return open_userns(pid, ret_fd);
}

int box_userns_map(uint32_t uid, uint32_t as_uid, uint32_t gid, uint32_t as_gid, int *ret_fd)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	pid_t pid = clone(
		wait_for_the_end, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
	if (pid < 0) {
		return -errno;
	}
	int r = map_and_open(pid, uid, as_uid, gid, as_gid, ret_fd);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
	return r;
}
