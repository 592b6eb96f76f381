/* The first process of a box, between clone and exec of box-init or box-vmm. It is a copy of boxd that
 * must leave nothing of boxd in the box: it closes boxd's fds first, and exec drops boxd's memory. The
 * order of `steps` matters; the comments say why. */
#include "boxd/box/first_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/box/plan_root.h"
#include "boxd/net/netns.h"
#include "protocol/microvm.h"

#define BIT(number) (UINT64_C(1) << (number))
#define PROGRAM_FD (BOX_MICROVM_JAIL_FD + 1)
#define FD_FLOOR (PROGRAM_FD + 1) /* fds are moved beyond the places that they go to */

struct child {
	const struct box_first_process *start;
	int root;
	int writable;
	int place;          /* of the workspace, or -1 */
	size_t failed_step; /* of the plan */
};

static bool is_microvm(const struct child *child)
{
	return child->start->plan->ask->kind == BOX_PLAN_KIND_MICROVM;
}

/* Closes all fds of boxd, above all the control sockets of other boxes. */
static int close_other_fds(struct child *child)
{
	const struct box_first_process *start = child->start;
	int kept[BOX_CGROUP_PROCS_FDS_MAX + BOX_PLAN_STEPS_MAX + 6] = {
		start->orders, start->control, start->report, start->boot, start->init};
	size_t count = 5;
	if (start->vmm >= 0) {
		kept[count++] = start->vmm;
	}
	for (size_t i = 0; i < start->procs_fd_count; i++) {
		kept[count++] = start->procs_fds[i];
	}
	for (size_t i = 0; i < start->plan->step_count; i++) {
		if (start->trees[i] >= 0) {
			kept[count++] = start->trees[i];
		}
	}
	return box_fds_close_but(0, kept, count);
}

/* The clone has reset the signal actions. */
static int unblock_signals(struct child *child)
{
	(void)child;
	sigset_t none;
	(void)sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* So that `ps` (and tests) can tell this process from boxd and from a running box. */
static int take_name(struct child *child)
{
	(void)child;
	return prctl(PR_SET_NAME, "box-warm", 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* EOF means that boxd has ended, or does not want the box any more. */
static int await_maps(struct child *child)
{
	char byte;
	ssize_t got;
	do {
		got = read(child->start->orders, &byte, 1);
	} while (got < 0 && errno == EINTR);
	return got == 1 ? 0 : -EOWNERDEAD;
}

/* First, so that the box's limits apply to everything that follows. */
static int enter_cgroup(struct child *child)
{
	return box_cgroup_enter(child->start->procs_fds, child->start->procs_fd_count);
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

/* A second safeguard: the first is EOF on the control socket. After the change of ids, which clears it. */
static int die_with_parent(struct child *child)
{
	(void)child;
	return prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* If all boxes are one user, boxd has left its own keyring for all of them: one keyring per box would
 * use up this user's quota of keys. */
static int leave_keyring(struct child *child)
{
	if (child->start->same_uid) {
		return 0;
	}
	long r = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	return r < 0 && errno != ENOSYS ? -errno : 0;
}

/* Only now, when we are in our cgroup, which becomes the root of the namespace. */
static int leave_cgroups(struct child *child)
{
	(void)child;
	return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int enter_network(struct child *child)
{
	if (!child->start->own_network) {
		return 0;
	}
	return child->start->slot ? box_netns_configure(child->start->slot->box_address,
					    child->start->slot->router_address)
				  : box_netns_configure_off();
}

static int name_host(struct child *child)
{
	const char *name = child->start->plan->hostname;
	return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

static int separate_mounts(struct child *child)
{
	(void)child;
	(void)umask(0);
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

static struct box_plan_root root_of(const struct box_first_process *start)
{
	return (struct box_plan_root){
		.plan = start->plan,
		.anchor = start->anchor,
		.same_uid = start->same_uid,
		.trees = start->trees,
	};
}

static int make_root(struct child *child)
{
	const struct box_plan_root root = root_of(child->start);
	return box_plan_root_make(&root, &child->root, &child->writable);
}

static int assemble(struct child *child)
{
	const struct box_plan_root root = root_of(child->start);
	return box_plan_root_run_steps(&root, child->root, &child->place, &child->failed_step);
}

/* box-vmm does this itself: it has libraries to load first. */
static int change_root(struct child *child)
{
	return is_microvm(child) ? 0 : box_fsmount_enter_root(child->root);
}

/* Core dumps of 1 byte: a limit of 0 would still start a core_pattern pipe program, on the host. The
 * hard limit may be 0 already, which is fine if cores are files. */
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

/* The lower one of this limit and the present hard limit. */
static int lower(int resource, rlim_t max)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) < 0) {
		return -errno;
	}
	limit.rlim_max = BOX_MIN(limit.rlim_max, max);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

/* Limits that the kernel counts per user, not per cgroup. */
static int limit_counted(bool same_uid)
{
	int r = lower(
		RLIMIT_SIGPENDING, same_uid ? BOX_SIGNALS_PENDING_SHARED : BOX_SIGNALS_PENDING);
	if (r < 0) {
		return r;
	}
	r = lower(RLIMIT_MSGQUEUE, 0);
	return r < 0 ? r : lower(RLIMIT_MEMLOCK, BOX_LOCKED_BYTES_MAX);
}

static int limit_resources(struct child *child)
{
	const struct box_plan *plan = child->start->plan;
	/* The microVM's file server holds an fd for each file that the guest knows. */
	rlim_t max = is_microvm(child) ? BOX_MICROVM_OPEN_FILES : plan->open_files;
	rlim_t tasks = is_microvm(child) ? plan->limit_pids : plan->pids;
	struct rlimit processes = {tasks, tasks};
	int r = limit_core();
	if (r == 0) {
		r = lower(RLIMIT_NOFILE, max);
	}
	if (r == 0 && !is_microvm(child)) {
		r = limit_counted(child->start->same_uid);
	}
	if (r < 0) {
		return r;
	}
	if (!plan->limited && setrlimit(RLIMIT_NPROC, &processes) < 0) {
		return -errno;
	}
	/* boxd may have been started with a real-time policy: commands with one are not bound by the
	 * cgroup's cpu limit. */
	const struct rlimit none = {0, 0};
	if (setrlimit(RLIMIT_RTPRIO, &none) < 0 || setrlimit(RLIMIT_NICE, &none) < 0) {
		return -errno;
	}
	(void)umask(022);
	return 0;
}

/* exec clears the capabilities of users other than root: the ones that box-init needs are kept as
 * ambient. */
static int keep_capabilities(struct child *child)
{
	const uint64_t kept = BIT(CAP_SYS_ADMIN) | BIT(CAP_SETUID) | BIT(CAP_SETGID) |
		BIT(CAP_KILL) | BIT(CAP_SETPCAP);
	return child->start->same_uid ? box_caps_keep_over_exec(kept) : 0;
}

/* Moves `fd` to its number for the program, without CLOEXEC; the fd of the program itself stays
 * CLOEXEC. */
static int place_fd(int fd, int place)
{
	return dup3(fd, place, place == PROGRAM_FD ? O_CLOEXEC : 0) < 0 ? -errno : 0;
}

static int leave_free(int place)
{
	return close_range((unsigned)place, (unsigned)place, 0) < 0 ? -errno : 0;
}

static int arrange_fds(struct child *child)
{
	const struct box_first_process *start = child->start;
	bool microvm = is_microvm(child);
	struct {
		int place;
		int fd;
		bool may_lack;
	} wanted[] = {
		{BOX_INIT_CONTROL_FD, start->control, false},
		{BOX_INIT_REPORT_FD, start->report, false},
		{BOX_INIT_BOOT_FD, start->boot, false},
		{BOX_INIT_ROOT_FD, child->writable, false},
		{BOX_INIT_ORDER_FD, start->orders, false},
		{BOX_INIT_WORKSPACE_FD, child->place, true},
		{BOX_MICROVM_INIT_FD, microvm ? start->init : -1, !microvm},
		{BOX_MICROVM_JAIL_FD, microvm ? child->root : -1, !microvm},
		{PROGRAM_FD, microvm ? start->vmm : start->init, false},
	};
	size_t count = BOX_COUNT_OF(wanted);
	for (size_t i = 0; i < count; i++) {
		int fd = wanted[i].fd;
		wanted[i].fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
		if (wanted[i].fd < 0 && !(fd < 0 && wanted[i].may_lack)) {
			return fd < 0 ? -EBADF : -errno;
		}
	}
	/* NOLINTNEXTLINE(android-cloexec-open): it may become one of the three itself and stay */
	int null = open("/dev/null", O_RDWR | O_NOCTTY);
	if (null < 0) {
		return -errno;
	}
	int r = 0;
	for (int fd = 0; fd <= STDERR_FILENO && r == 0; fd++) {
		r = null == fd ? 0 : place_fd(null, fd);
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		r = wanted[i].fd < 0 ? leave_free(wanted[i].place)
				     : place_fd(wanted[i].fd, wanted[i].place);
	}
	if (r == 0 && close_range(PROGRAM_FD + 1, ~0U, 0) < 0) {
		r = -errno;
	}
	return r;
}

static int execute(struct child *child)
{
	char init[] = "box-init";
	char vmm[] = "box-vmm";
	char *const arguments[] = {is_microvm(child) ? vmm : init, NULL};
	char *const environment[] = {NULL};
	(void)syscall(SYS_execveat, PROGRAM_FD, "", arguments, environment, AT_EMPTY_PATH);
	return -errno;
}

static const struct {
	const char *name;
	int (*run)(struct child *child);
} steps[] = {
	{"take a name", take_name},
	{"close file descriptors", close_other_fds},
	{"unblock signals", unblock_signals},
	{"enter the cgroup", enter_cgroup},
	{"wait for boxd", await_maps},
	{"shut others out", close_to_others},
	{"become root of the user namespace", become_root},
	{"set the parent-death signal", die_with_parent},
	{"leave the session keyring", leave_keyring},
	{"make a cgroup namespace", leave_cgroups},
	{"separate mounts", separate_mounts},
	{"set up the network", enter_network},
	{"set the host name", name_host},
	{"make the root", make_root},
	{"assemble the root", assemble},
	{"change the root", change_root},
	{"set resource limits", limit_resources},
	{"keep capabilities", keep_capabilities},
	{"arrange file descriptors", arrange_fds},
	{"start its program", execute},
};
#define STEP_COUNT (BOX_COUNT_OF(steps))

_Noreturn void box_first_process_run(const struct box_first_process *start)
{
	static struct child child = {.root = -1, .writable = -1, .place = -1};
	int report_fd = start->report;
	child.start = start;
	for (uint32_t step = 0; step < STEP_COUNT; step++) {
		int r = steps[step].run(&child);
		if (steps[step].run == arrange_fds && r == 0) {
			report_fd = BOX_INIT_REPORT_FD;
		}
		if (r < 0) {
			bool mount_step = steps[step].run == assemble;
			struct box_init_report report = {
				.step = mount_step
					? BOX_FIRST_PROCESS_MOUNT_STEP + (uint32_t)child.failed_step
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

const char *box_first_process_step_name(uint32_t number)
{
	return number >= 1 && number <= STEP_COUNT ? steps[number - 1].name : NULL;
}
