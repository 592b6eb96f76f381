/* The first process of a box, between clone and box-init. It is a copy of boxd that must leave
 * nothing of boxd behind: its fds go first, its memory with exec. The order of `steps` matters,
 * each says why where it is not plain. */
#include "runtime/keeper/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/guest/wire.h"
#include "runtime/keeper/assemble.h"
#include "runtime/keeper/ground.h"

#define FIRST_MOUNT_STEP 64 /* reports beyond this are mount steps of the plan */
#define FD_FLOOR 64         /* fds that are still needed are moved beyond the places they go to */

struct child {
	const struct box_child *start;
	struct box_child_order order;
	struct box_plan plan;
	struct box_assembly assembly;
	int boot;
	int root;
	int writable;
	size_t failed_step; /* of the plan */
};

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Everything of boxd's goes, other boxes' control sockets above all. */
static int close_strangers(struct child *child)
{
	const struct box_child *start = child->start;
	int kept[BOX_CGROUP_DOORS_MAX + 4] = {
		start->orders, start->control, start->report, start->init};
	size_t count = 4;
	for (size_t i = 0; i < start->door_count; i++) {
		kept[count++] = start->doors[i];
	}
	qsort(kept, count, sizeof(kept[0]), compare_fds);
	unsigned from = 0;
	for (size_t i = 0; i < count; i++) {
		if ((unsigned)kept[i] > from && close_range(from, (unsigned)kept[i] - 1, 0) < 0) {
			return -errno;
		}
		from = (unsigned)kept[i] + 1;
	}
	return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

/* Their actions were reset by the clone. */
static int unblock_signals(struct child *child)
{
	(void)child;
	sigset_t none;
	(void)sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* So that people, and tests, tell it from boxd and from a box. */
static int take_name(struct child *child)
{
	(void)child;
	return prctl(PR_SET_NAME, "box-blank", 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* The end of the socket is the end of boxd, or of its wish for a box. */
static int await_maps(struct child *child)
{
	char byte;
	ssize_t got;
	do {
		got = read(child->start->orders, &byte, 1);
	} while (got < 0 && errno == EINTR);
	return got == 1 ? 0 : -EOWNERDEAD;
}

/* Before anything that takes memory or time. */
static int enter_cgroup(struct child *child)
{
	return box_cgroup_go_in(child->start->doors, child->start->door_count);
}

static int close_to_others(struct child *child)
{
	(void)child;
	return prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static int become_root(struct child *child)
{
	if (child->start->same_uid) {
		return 0;
	}
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
		return -errno;
	}
	return 0;
}

/* A second belt: the end of the control socket is the first. After the ids, which clear it. */
static int die_with_parent(struct child *child)
{
	(void)child;
	return prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static int leave_keyring(struct child *child)
{
	(void)child;
	long r = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	return r < 0 && errno != ENOSYS ? -errno : 0;
}

/* Only now are we in our cgroup, which becomes the root of what can be seen. */
static int leave_cgroups(struct child *child)
{
	(void)child;
	return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* The fds of a packet into `fds`; how many there were, or -errno. */
static int receive_order(int socket, struct box_child_order *order, int fds[BOX_CHILD_FDS_MAX])
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(BOX_CHILD_FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec part = {order, sizeof(*order)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t got;
	do {
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (got != (ssize_t)sizeof(*order) || !header || header->cmsg_type != SCM_RIGHTS ||
		(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		return -EOWNERDEAD;
	}
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	return (int)count;
}

/* Here most boxes of the future wait. */
static int await_order(struct child *child)
{
	const struct box_ground *ground = child->start->ground;
	struct box_plan *plan = &child->plan;
	int fds[BOX_CHILD_FDS_MAX];
	int count = receive_order(child->start->orders, &child->order, fds);
	if (count < 1) {
		return count < 0 ? count : -EBADMSG;
	}
	int r = box_plan_make(&child->order.ask, &ground->policy, &ground->host, plan, NULL);
	if (r < 0) {
		return r;
	}
	child->boot = fds[0];
	int next = 1;
	for (size_t i = 0; i < plan->step_count; i++) {
		bool tree = plan->steps[i].kind == BOX_STEP_TREE;
		if (tree && next == count) {
			return -EBADMSG;
		}
		child->assembly.trees[i] = tree ? fds[next++] : -1;
	}
	child->assembly.plan = plan;
	child->assembly.anchor = ground->common.anchor;
	child->assembly.same_uid = child->start->same_uid;
	return 0;
}

static int enter_network(struct child *child)
{
	if (!child->start->own_network) {
		return 0;
	}
	return child->order.has_seat ? box_network_enter(&child->order.seat)
				     : box_network_enter_off();
}

static int name_host(struct child *child)
{
	const char *name = child->plan.hostname;
	return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

static int separate_mounts(struct child *child)
{
	(void)child;
	(void)umask(0);
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

static int make_root(struct child *child)
{
	return box_assemble_root(&child->assembly, &child->root, &child->writable);
}

static int assemble(struct child *child)
{
	return box_assemble(&child->assembly, child->root, &child->failed_step);
}

/* The old root ends up below the new one and is let go. */
static int change_root(struct child *child)
{
	if (fchdir(child->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
		return -errno;
	}
	return 0;
}

/* A core of 1 byte: 0 would still start a program that takes cores from a pipe, on the host.
 * Whoever started boxd may have left us no more than 0: that is fine where cores are files. */
static int limit_core(void)
{
	struct rlimit core = {1, 1};
	if (setrlimit(RLIMIT_CORE, &core) == 0) {
		return 0;
	}
	int r = -errno;
	char first = '|';
	_cleanup_(box_close_p) int fd = open(
		"/proc/sys/kernel/core_pattern", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	core = (struct rlimit){0, 0};
	if (fd < 0 || read(fd, &first, 1) != 1 || first == '|' ||
		setrlimit(RLIMIT_CORE, &core) < 0) {
		return r;
	}
	return 0;
}

static int limit_resources(struct child *child)
{
	const struct box_plan *plan = &child->plan;
	struct rlimit files = {plan->open_files, plan->open_files};
	struct rlimit processes = {plan->pids, plan->pids};
	struct rlimit present;
	int r = limit_core();
	if (r < 0) {
		return r;
	}
	if (getrlimit(RLIMIT_NOFILE, &present) == 0 && present.rlim_max < files.rlim_max) {
		files.rlim_max = present.rlim_max;
		files.rlim_cur = present.rlim_max;
	}
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 ||
		(!plan->limited && setrlimit(RLIMIT_NPROC, &processes) < 0)) {
		return -errno;
	}
	(void)umask(022);
	return 0;
}

/* Exec takes the capabilities of whoever is not root: those that box-init works with are kept. */
static int keep_capabilities(struct child *child)
{
	static const int kept[] = {CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_SETPCAP};
	if (!child->start->same_uid) {
		return 0;
	}
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		data[0].effective |= 1U << kept[i];
	}
	data[0].permitted = data[0].effective;
	data[0].inheritable = data[0].effective;
	if (syscall(SYS_capset, &header, data) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (long)kept[i], 0L, 0L) < 0) {
			return -errno;
		}
	}
	return 0;
}

/* Puts `fd` at its place for box-init, open over exec. */
static int place_fd(int fd, int place)
{
	return dup3(fd, place, 0) < 0 ? -errno : 0;
}

static int arrange_fds(struct child *child)
{
	const struct box_child *start = child->start;
	int wanted[] = {start->control, start->report, child->boot, child->writable, start->init};
	static const int places[] = {
		BOX_GUEST_CONTROL_FD, BOX_GUEST_REPORT_FD, BOX_GUEST_BOOT_FD, BOX_GUEST_ROOT_FD};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		wanted[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, FD_FLOOR);
		if (wanted[i] < 0) {
			return -errno;
		}
	}
	int null = open("/dev/null", O_RDWR | O_NOCTTY); /* it may be one of the three itself */
	if (null < 0) {
		return -errno;
	}
	int r = 0;
	for (int fd = 0; fd <= STDERR_FILENO && r == 0; fd++) {
		r = null == fd ? 0 : place_fd(null, fd);
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r == 0; i++) {
		r = place_fd(wanted[i], places[i]);
	}
	if (r < 0) {
		return r;
	}
	/* The program is the only one beyond: exec closes it. */
	int program = wanted[4];
	if (dup3(program, BOX_GUEST_ROOT_FD + 1, O_CLOEXEC) < 0 ||
		close_range(BOX_GUEST_ROOT_FD + 2, ~0U, 0) < 0) {
		return -errno;
	}
	return 0;
}

static int execute(struct child *child)
{
	(void)child;
	char name[] = "box-init";
	char *const arguments[] = {name, NULL};
	char *const environment[] = {NULL};
	(void)syscall(
		SYS_execveat, BOX_GUEST_ROOT_FD + 1, "", arguments, environment, AT_EMPTY_PATH);
	return -errno;
}

static const struct {
	const char *name;
	int (*run)(struct child *child);
} steps[] = {
	{"take a name", take_name},
	{"close file descriptors", close_strangers},
	{"unblock signals", unblock_signals},
	{"enter the cgroup", enter_cgroup},
	{"wait for boxd", await_maps},
	{"shut others out", close_to_others},
	{"become root of the user namespace", become_root},
	{"set the parent-death signal", die_with_parent},
	{"leave the session keyring", leave_keyring},
	{"make a cgroup namespace", leave_cgroups},
	{"separate mounts", separate_mounts},
	{"wait for an order", await_order},
	{"set up the network", enter_network},
	{"set the host name", name_host},
	{"make the root", make_root},
	{"assemble the root", assemble},
	{"change the root", change_root},
	{"set resource limits", limit_resources},
	{"keep capabilities", keep_capabilities},
	{"arrange file descriptors", arrange_fds},
	{"start box-init", execute},
};
#define STEP_COUNT (sizeof(steps) / sizeof(steps[0]))

_Noreturn void box_child_run(const struct box_child *start)
{
	static struct child child = {.boot = -1, .root = -1, .writable = -1};
	int report_fd = start->report;
	child.start = start;
	for (uint32_t step = 0; step < STEP_COUNT; step++) {
		int r = steps[step].run(&child);
		if (steps[step].run == arrange_fds && r == 0) {
			report_fd = BOX_GUEST_REPORT_FD;
		}
		if (r < 0) {
			bool mount_step = steps[step].run == assemble;
			struct box_guest_report report = {
				.step = mount_step ? FIRST_MOUNT_STEP + (uint32_t)child.failed_step
						   : step + 1,
				.errnum = -r,
			};
			ssize_t ignored = write(report_fd, &report, sizeof(report));
			(void)ignored;
			_exit(1);
		}
	}
	_exit(1);
}

void box_child_describe(uint32_t number, const struct box_plan *plan, char *text, size_t size)
{
	if (number >= 1 && number <= STEP_COUNT) {
		(void)snprintf(text, size, "%s", steps[number - 1].name);
	} else if (number > FIRST_MOUNT_STEP && number - FIRST_MOUNT_STEP < plan->step_count) {
		(void)snprintf(
			text, size, "mount %s", plan->steps[number - FIRST_MOUNT_STEP].target);
	} else {
		const char *name = box_guest_boot_step_name(number);
		(void)snprintf(text, size, "box-init: %s", name ? name : "an unknown step");
	}
}
