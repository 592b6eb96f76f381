/* nft as a child that is in the router's namespaces and has CAP_NET_ADMIN there, and no right outside.
 * Nothing else changes rules. */
#include "boxd/net/router_nft.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/net/router.h"

#define LISTING_BYTES_MAX (1024 * 1024)

const char *box_router_nft_path(void)
{
	static const char *const paths[] = {
		"/usr/sbin/nft", "/sbin/nft", "/usr/local/sbin/nft", "/usr/bin/nft", NULL};
	return box_router_find_program(paths);
}

/* CAP_NET_ADMIN that survives exec, though nobody is root in there. */
static int keep_net_admin(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	uint32_t bit = UINT32_C(1) << CAP_NET_ADMIN;
	data[0] = (struct __user_cap_data_struct){bit, bit, bit};
	if (syscall(SYS_capset, &header, data) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (long)CAP_NET_ADMIN, 0L, 0L) < 0) {
		return -errno;
	}
	return 0;
}

/* fds: standard input, then where its output goes. */
_Noreturn static void run_nft(
	const struct box_router *router, const char *path, pid_t parent, const int fds[2])
{
	char name[] = "nft";
	/* Lists without what is counted, and protocols as numbers: the same rules, the same text. */
	char stateless[] = "-s";
	char numeric[] = "-p";
	char option[] = "-f";
	char from[] = "-";
	char *const arguments[] = {name, stateless, numeric, option, from, NULL};
	if (box_router_child_begin(parent) == 0 &&
		box_router_child_become(router->uid, router->gid, parent) == 0 &&
		setns(router->userns, CLONE_NEWUSER) == 0 &&
		setns(router->netns, CLONE_NEWNET) == 0 && keep_net_admin() == 0) {
		box_router_child_exec(path, arguments, fds[0], fds[1]);
	}
	(void)dprintf(fds[1], "%s\n", box_err_strerror(errno));
	_exit(127);
}

/* Nobody but us reads or writes these files. */
static char *read_text(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < 0 || size > LISTING_BYTES_MAX) {
		return NULL;
	}
	char *text = calloc(1, (size_t)size + 1);
	if (text && pread(fd, text, (size_t)size, 0) != size) {
		free(text);
		return NULL;
	}
	return text;
}

int box_router_run_nft(
	const struct box_router *router, int input, char **ret_text, struct box_err *err)
{
	const char *path = box_router_nft_path();
	_cleanup_(box_close_p) int output = memfd_create("nft", MFD_CLOEXEC);
	int r = !path ? -ENOENT : output < 0 || lseek(input, 0, SEEK_SET) < 0 ? -errno : 0;
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "nft: %s", box_err_strerror(-r));
	}
	const int fds[2] = {input, output};
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_nft(router, path, parent, fds);
	}
	if (pid < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "nft: fork: %s", box_err_strerror(errno));
	}
	int status = box_router_child_wait(pid);
	_cleanup_(box_free_p) char *text = read_text(output);
	if (status != 0 || !text) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
			"the rules of the router cannot be set: nft: %.*s",
			text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	}
	*ret_text = TAKE_PTR(text);
	return 0;
}
