/* Owns the second process and the socket to it: one question at a time, each with one answer. */
#include "runtime/guest/steward.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/reboot.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/guest/attach.h"
#include "runtime/guest/boot.h"
#include "runtime/guest/clock.h"
#include "runtime/guest/groups.h"
#include "runtime/guest/machine.h"
#include "runtime/guest/mount.h"

#define FD_FLOOR 16 /* beyond the places of what every box-init has */
#define END_MS 1000

enum kind {
	ASK_TREE,
	ASK_WORKSPACE,
	ASK_MOUNT,
	ASK_GROUP,
	TAKE_GROUPS, /* with an fd */
	SET_CLOCK,   /* not answered */
	END_MACHINE, /* not answered */
};

struct question {
	uint32_t kind;
	uint32_t reserved;
	uint64_t number;
	char name[256];
};

static int socket_fd = -1;

/* --- both sides --- */

union ancillary {
	struct cmsghdr header; /* for its alignment */
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_with(const void *bytes, size_t size, int fd)
{
	union ancillary ancillary = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		message.msg_control = ancillary.bytes;
		message.msg_controllen = sizeof(ancillary.bytes);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* All of `size` and the fd that came with it, or -1. 0 or -errno. */
static int receive_with(void *bytes, size_t size, int *ret_fd)
{
	union ancillary ancillary;
	struct iovec part = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = sizeof(ancillary.bytes),
	};
	ssize_t got;
	do {
		got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	*ret_fd = -1;
	const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (header) {
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	}
	if (got == (ssize_t)size && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		return 0;
	}
	box_close_p(ret_fd);
	return -EPIPE;
}

/* --- in the steward --- */

static int share = -1;
static int groups = -1;

/* Attached at the place, an O_PATH fd: of what is in no namespace nothing can be copied. The root of
 * the share, or -errno; -EINVAL: there is none by this tag, or none that can do this. */
static int mount_share(int place, const char *tag, bool mapped)
{
	const struct box_mount_option options[] = {{"source", tag}, {"dax", "always"}};
	_cleanup_(box_close_p) int mount = box_mount_make(
		"virtiofs", options, mapped ? 2 : 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	int r = mount < 0 ? mount : place < 0 ? -EBADF : box_attach_at(mount, place);
	return r < 0 ? r : TAKE_FD(mount);
}

/* Trees may have a share of their own, out of which files are mapped instead of read; if not, they
 * are in the one that everything else is in. */
static int enter_machines_share(void)
{
	_cleanup_(box_close_p) int place = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(box_close_p) int all = mount_share(place, BOX_MACHINE_SHARE, false);
	if (all < 0 || fchdir(all) < 0) {
		return all < 0 ? all : -errno;
	}
	_cleanup_(box_close_p) int folder = open(
		BOX_MACHINE_TREES, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(box_close_p) int trees = mount_share(folder, BOX_MACHINE_TREES, true);
	return trees < 0 && trees != -EINVAL ? trees : 0;
}

static void end_machine(void)
{
	(void)syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_RESTART, NULL);
}

const struct box_steward box_steward_of_machine = {enter_machines_share, end_machine};

/* One name in a folder of the share. */
static int clone_named(const char *folder, const char *name)
{
	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		return -EINVAL;
	}
	_cleanup_(box_close_p) int fd = openat(
		share, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : box_mount_clone(fd, name);
}

static int clone_numbered(uint64_t number)
{
	char name[BOX_MOUNT_NUMBER_SIZE];
	box_mount_number(name, number, 10);
	return clone_named(BOX_MACHINE_MOUNTS, name);
}

static int take_groups(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	box_close_p(&groups);
	groups = moved;
	return fd >= 0 && moved < 0 ? -errno : 0;
}

/* An fd, 0 for nothing but its success, or -errno. */
static int find_answer(struct question *question, int fd)
{
	question->name[sizeof(question->name) - 1] = '\0';
	switch (question->kind) {
	case ASK_TREE:
		return clone_named(BOX_MACHINE_TREES, question->name);
	case ASK_WORKSPACE:
		return box_mount_clone(share, BOX_MACHINE_WORKSPACE);
	case ASK_MOUNT:
		return clone_numbered(question->number);
	case ASK_GROUP:
		return box_groups_make(groups, question->number);
	case TAKE_GROUPS:
		return take_groups(fd);
	default:
		return -EINVAL;
	}
}

static int answer(struct question *question, int fd)
{
	int32_t found = find_answer(question, fd);
	int32_t errnum = found < 0 ? -found : 0;
	int r = send_with(&errnum, sizeof(errnum), found > 0 ? found : -1);
	if (found > 0) {
		(void)close(found);
	}
	return r;
}

static void serve(const struct box_steward *steward)
{
	static struct question question;
	int fd;
	while (receive_with(&question, sizeof(question), &fd) == 0) {
		int r = 0;
		if (question.kind == SET_CLOCK) {
			box_clock_set(question.number);
		} else if (question.kind == END_MACHINE) {
			steward->end();
			return;
		} else {
			r = answer(&question, fd);
		}
		box_close_p(&fd);
		if (r < 0) {
			break;
		}
	}
	/* PID 1 is gone: so is the box. */
	steward->end();
}

/* The kernel must not choose us when memory runs out. By a /proc of our own: there is no other yet. */
static void stay_alive(void)
{
	_cleanup_(box_close_p) int proc = box_mount_make("proc", NULL, 0, 0);
	_cleanup_(box_close_p) int fd = proc < 0
		? -1
		: openat(proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd < 0 ? 0 : write(fd, "-1000", 5);
	(void)ignored;
}

static int settle(const struct box_steward *steward)
{
	uint64_t keep = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_TIME | 1ULL << CAP_SYS_BOOT;
	(void)prctl(PR_SET_NAME, "box-steward", 0L, 0L, 0L);
	if (unshare(CLONE_NEWNS) < 0) {
		return -errno;
	}
	stay_alive();
	int r = steward->enter_share();
	if (r < 0) {
		return r;
	}
	share = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (share < 0 || prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return box_boot_keep_capabilities(keep);
}

_Noreturn static void steward_main(const struct box_steward *steward)
{
	int32_t errnum = -settle(steward);
	if (send_with(&errnum, sizeof(errnum), -1) == 0 && errnum == 0) {
		serve(steward);
	}
	_exit(1);
}

/* --- in PID 1 --- */

static int hear(void)
{
	int32_t errnum;
	int fd;
	int r = receive_with(&errnum, sizeof(errnum), &fd);
	if (r == 0 && errnum == 0) {
		return fd < 0 ? 0 : fd;
	}
	box_close_p(&fd);
	return r < 0 ? r : -errnum;
}

static int ask(uint32_t kind, uint64_t number, const char *name, int fd)
{
	struct question question = {.kind = kind, .number = number};
	if (socket_fd < 0) {
		return -ENOTCONN;
	}
	if (name) {
		size_t len = strnlen(name, sizeof(question.name));
		if (len == sizeof(question.name)) {
			return -ENAMETOOLONG;
		}
		memcpy(question.name, name, len);
	}
	int r = send_with(&question, sizeof(question), fd);
	return r < 0 || kind == SET_CLOCK || kind == END_MACHINE ? r : hear();
}

int box_steward_start(const struct box_steward *steward)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	int ours = fcntl(pair[0], F_DUPFD_CLOEXEC, FD_FLOOR);
	pid_t pid = ours < 0 ? -1 : fork();
	int r = pid < 0 ? -errno : 0;
	(void)close(pair[0]);
	if (pid == 0) {
		/* Nothing else of what PID 1 has: of its stream least of all. */
		if (dup2(pair[1], STDERR_FILENO + 1) < 0 ||
			syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0) < 0) {
			_exit(1);
		}
		socket_fd = STDERR_FILENO + 1;
		steward_main(steward);
	}
	(void)close(pair[1]);
	if (r < 0) {
		box_close_p(&ours);
		return r;
	}
	socket_fd = ours;
	return hear();
}

int box_steward_give_groups(int box_fd)
{
	return ask(TAKE_GROUPS, 0, NULL, box_fd);
}

void box_steward_forget(void)
{
	box_close_p(&socket_fd);
}

int box_steward_tree(const char *name)
{
	return ask(ASK_TREE, 0, name, -1);
}

int box_steward_workspace(void)
{
	return ask(ASK_WORKSPACE, 0, NULL, -1);
}

int box_steward_mount(uint32_t number)
{
	return ask(ASK_MOUNT, number, NULL, -1);
}

int box_steward_group(uint64_t memory_mib)
{
	return ask(ASK_GROUP, memory_mib, NULL, -1);
}

void box_steward_set_clock(uint64_t realtime_ns)
{
	(void)ask(SET_CLOCK, realtime_ns, NULL, -1);
}

void box_steward_end(void)
{
	if (ask(END_MACHINE, 0, NULL, -1) == 0) {
		struct pollfd gone = {.fd = socket_fd};
		(void)poll(&gone, 1, END_MS);
	}
}
