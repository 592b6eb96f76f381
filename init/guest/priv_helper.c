/* Owns the privileged helper and the socket to it: one request at a time, each with one answer. In PID 1
 * called by microvm_boot.c and control.c. */
#include "init/guest/priv_helper.h"

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
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "base/fsmount.h"
#include "base/number.h"
#include "init/boot/boot.h"
#include "init/guest/guest_cgroups.h"
#include "init/guest/guest_clock.h"
#include "protocol/microvm.h"

#define FD_FLOOR 16 /* above the fixed fds of every box-init */
#define END_MS 1000
#define FDS_MAX 2 /* in one answer: the requested fd, and memory.events of a cgroup */

enum kind {
	ASK_TREE,
	ASK_WORKSPACE,
	ASK_MOUNT,
	ASK_CGROUP,
	SET_CGROUPS, /* with an fd */
	STEP_CLOCK,  /* not answered */
	END_GUEST,   /* not answered */
};

struct request {
	uint32_t kind;
	uint32_t reserved;
	uint64_t number;
	char name[256];
};

static int socket_fd = -1;

/* --- both sides --- */

static int send_with(const void *bytes, size_t size, const int *fds, size_t fd_count)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	ssize_t sent = box_fds_send(socket_fd, &part, 1, fds, fd_count, 0);
	return sent < 0 ? (int)sent : 0;
}

/* Exactly `size` bytes, and the fds that came with them, else -1. 0 or -errno. */
static int receive_with(void *bytes, size_t size, int list[FDS_MAX])
{
	struct box_fds fds = {.list = list, .max = FDS_MAX};
	list[0] = -1;
	list[1] = -1;
	ssize_t got = box_fds_receive(socket_fd, bytes, size, &fds, 0);
	if (got == (ssize_t)size && !fds.cut) {
		return 0;
	}
	box_fds_close(&fds);
	return -EPIPE;
}

/* --- in the privileged helper --- */

static int share = -1;   /* O_PATH, its root */
static int cgroups = -1; /* the cgroup of the box */

/* Attached, because a mount outside of the mount namespace cannot be copied. */
static int enter_virtiofs(void)
{
	const struct box_fsmount_parameter options[] = {{"source", BOX_MICROVM_SHARE}};
	_cleanup_(box_close_p) int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(box_close_p) int share_fd = box_fsmount_make_by_parameters(
		"virtiofs", options, 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (share_fd < 0 || root < 0) {
		return share_fd < 0 ? share_fd : -EBADF;
	}
	int r = box_fsmount_attach_at(share_fd, root);
	if (r < 0) {
		return r;
	}
	return fchdir(share_fd) < 0 ? -errno : 0;
}

static void reboot_guest(void)
{
	(void)syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_RESTART, NULL);
}

const struct box_priv_helper box_priv_helper_of_microvm = {enter_virtiofs, reboot_guest};

/* Copies the tree at one name in a folder of the share. */
static int clone_named(const char *folder, const char *name)
{
	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		return -EINVAL;
	}
	_cleanup_(box_close_p) int fd = openat(
		share, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : box_fsmount_clone(fd, name);
}

static int clone_numbered(uint64_t number)
{
	char name[BOX_NUMBER_SIZE];
	box_number_put(name, number, 10);
	return clone_named(BOX_MICROVM_MOUNTS, name);
}

static int set_cgroups(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	box_close_p(&cgroups);
	cgroups = moved;
	return fd >= 0 && moved < 0 ? -errno : 0;
}

/* An fd, 0 for success without an fd, or -errno; of a cgroup a second fd too. */
static int find_answer(struct request *request, int fd, int *ret_second)
{
	request->name[sizeof(request->name) - 1] = '\0';
	switch (request->kind) {
	case ASK_TREE:
		return clone_named(BOX_MICROVM_TREES, request->name);
	case ASK_WORKSPACE:
		return box_fsmount_clone(share, BOX_MICROVM_WORKSPACE);
	case ASK_MOUNT:
		return clone_numbered(request->number);
	case ASK_CGROUP:
		return box_guest_cgroups_make(cgroups, request->number, ret_second);
	case SET_CGROUPS:
		return set_cgroups(fd);
	default:
		return -EINVAL;
	}
}

static int answer(struct request *request, int fd)
{
	int fds[FDS_MAX] = {-1, -1};
	int32_t found = find_answer(request, fd, &fds[1]);
	int32_t errnum = found < 0 ? -found : 0;
	fds[0] = found > 0 ? found : -1;
	int r = send_with(&errnum, sizeof(errnum), fds, (fds[0] >= 0) + (fds[1] >= 0));
	box_close_p(&fds[0]);
	box_close_p(&fds[1]);
	return r;
}

static void serve(const struct box_priv_helper *helper)
{
	static struct request request;
	int fds[FDS_MAX];
	while (receive_with(&request, sizeof(request), fds) == 0) {
		int r = 0;
		if (request.kind == STEP_CLOCK) {
			(void)box_guest_clock_step((int64_t)request.number);
		} else if (request.kind == END_GUEST) {
			helper->end();
			return;
		} else {
			r = answer(&request, fds[0]);
		}
		box_close_p(&fds[0]);
		box_close_p(&fds[1]);
		if (r < 0) {
			break;
		}
	}
	/* PID 1 is dead, so the box has ended. */
	helper->end();
}

static void write_file(int folder, const char *name, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd < 0 ? 0 : write(fd, text, strlen(text));
	(void)ignored;
}

/* Through a detached /proc: none is mounted yet. */
static void configure_kernel(void)
{
	_cleanup_(box_close_p) int proc = box_fsmount_make_by_parameters("proc", NULL, 0, 0);
	if (proc >= 0) {
		/* The OOM killer must not choose this process. */
		write_file(proc, "self/oom_score_adj", "-1000");
		/* After a panic reboot one second later, so that the console output gets out. */
		write_file(proc, "sys/kernel/panic", "1");
	}
}

static int set_up(const struct box_priv_helper *helper)
{
	uint64_t keep = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_TIME | 1ULL << CAP_SYS_BOOT;
	(void)prctl(PR_SET_NAME, "box-priv-helper", 0L, 0L, 0L);
	if (unshare(CLONE_NEWNS) < 0) {
		return -errno;
	}
	configure_kernel();
	int r = helper->enter_share();
	if (r < 0) {
		return r;
	}
	share = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (share < 0 || prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return box_caps_keep(keep);
}

_Noreturn static void priv_helper_main(const struct box_priv_helper *helper)
{
	int32_t errnum = -set_up(helper);
	if (send_with(&errnum, sizeof(errnum), NULL, 0) == 0 && errnum == 0) {
		serve(helper);
	}
	_exit(1);
}

/* --- in PID 1 --- */

/* As find_answer; `ret_second` may be NULL. */
static int receive_answer(int *ret_second)
{
	int32_t errnum;
	int fds[FDS_MAX];
	int r = receive_with(&errnum, sizeof(errnum), fds);
	if (r == 0 && errnum == 0) {
		if (ret_second) {
			*ret_second = TAKE_FD(fds[1]);
		}
		box_close_p(&fds[1]);
		return fds[0] < 0 ? 0 : fds[0];
	}
	box_close_p(&fds[0]);
	box_close_p(&fds[1]);
	return r < 0 ? r : -errnum;
}

static int ask_for(uint32_t kind, uint64_t number, const char *name, int fd, int *ret_second)
{
	struct request request = {.kind = kind, .number = number};
	if (socket_fd < 0) {
		return -ENOTCONN;
	}
	if (name) {
		size_t len = strnlen(name, sizeof(request.name));
		if (len == sizeof(request.name)) {
			return -ENAMETOOLONG;
		}
		memcpy(request.name, name, len);
	}
	int r = send_with(&request, sizeof(request), &fd, fd >= 0);
	if (r < 0 || kind == STEP_CLOCK || kind == END_GUEST) {
		return r;
	}
	return receive_answer(ret_second);
}

static int ask(uint32_t kind, uint64_t number, const char *name, int fd)
{
	return ask_for(kind, number, name, fd, NULL);
}

int box_priv_helper_start(const struct box_priv_helper *helper)
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
		/* No other fd of PID 1 is kept, least of all its connection to the host. */
		if (dup2(pair[1], STDERR_FILENO + 1) < 0 ||
			syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0) < 0) {
			_exit(1);
		}
		socket_fd = STDERR_FILENO + 1;
		priv_helper_main(helper);
	}
	(void)close(pair[1]);
	if (r < 0) {
		box_close_p(&ours);
		return r;
	}
	socket_fd = ours;
	return receive_answer(NULL);
}

int box_priv_helper_give_cgroups(int box_fd)
{
	return ask(SET_CGROUPS, 0, NULL, box_fd);
}

void box_priv_helper_forget(void)
{
	box_close_p(&socket_fd);
}

int box_priv_helper_open_tree(const char *name)
{
	return ask(ASK_TREE, 0, name, -1);
}

int box_priv_helper_open_workspace(void)
{
	return ask(ASK_WORKSPACE, 0, NULL, -1);
}

int box_priv_helper_open_mount(uint32_t number)
{
	return ask(ASK_MOUNT, number, NULL, -1);
}

int box_priv_helper_make_cgroup(uint64_t memory_mib, int *ret_events)
{
	return ask_for(ASK_CGROUP, memory_mib, NULL, -1, ret_events);
}

void box_priv_helper_step_clock(int64_t step_ns)
{
	(void)ask(STEP_CLOCK, (uint64_t)step_ns, NULL, -1);
}

void box_priv_helper_end_microvm(void)
{
	if (ask(END_GUEST, 0, NULL, -1) == 0) {
		struct pollfd gone = {.fd = socket_fd};
		(void)poll(&gone, 1, END_MS);
	}
}
