/* A blank: ids, cgroup, sockets, network namespace, clone, maps. Of it a box: limits, a seat at the
 * router, what is mounted, what box-init reads; then the order. Each thing that was made is in struct
 * box_living at once, so that one function takes back whatever there is. */
#include "runtime/keeper/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/guest/wire.h"
#include "runtime/keeper/cgroup.h"
#include "runtime/keeper/child.h"
#include "runtime/keeper/ids.h"
#include "runtime/keeper/netns.h"
#include "runtime/keeper/source.h"
#include "runtime/keeper/userns.h"

#define OWN_PROCESSES 2
#define INIT_NICE (-10)
#define TAKE_BACK_TRIES 2000 /* a millisecond each */

static int fail(struct box_err *err, const char *step, int r)
{
	return box_err_set(
		err, BOX_ERR_BOX, -r, "the box cannot be made: %s: %s", step, strerrordesc_np(-r));
}

static struct box_source_owner owner_of(
	const struct box_ground *ground, const struct box_living *living)
{
	return (struct box_source_owner){
		.map = ground->ids != NULL,
		.uid = living->first_id + BOX_PLAN_PAYLOAD_ID,
		.gid = living->first_id + BOX_PLAN_PAYLOAD_ID,
	};
}

/* --- trees --- */

static int clone_common(int fd, int *ret_tree)
{
	int tree = open_tree(
		fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (tree < 0) {
		return -errno;
	}
	*ret_tree = tree;
	return 0;
}

static int open_host_path(const struct box_ground *ground, const struct box_living *living,
	const struct box_ask *ask, int *ret_tree, struct box_err *err)
{
	_cleanup_(box_close_p) int source = -1;
	struct box_source_owner owner = owner_of(ground, living);
	int r = box_source_open(ask->host_path, "host_path", ask->host_mode == BOX_ASK_RW, false,
		&ground->policy, &source, err);
	return r < 0
		? r
		: box_source_detach(source, ask->host_mode == BOX_ASK_RO, &owner, ret_tree, err);
}

/* The fds that go with an order: the boot file, then the trees. */
struct cargo {
	int fds[BOX_CHILD_FDS_MAX];
	size_t count;
};

static void cargo_close(struct cargo *cargo)
{
	for (size_t i = 0; i < cargo->count; i++) {
		box_close_p(&cargo->fds[i]);
	}
}

static int open_trees(const struct box_ground *ground, const struct box_living *living,
	const struct box_plan *plan, struct cargo *cargo, struct box_err *err)
{
	int r = 0;
	for (size_t i = 0; i < plan->step_count && r == 0; i++) {
		const struct box_step *step = &plan->steps[i];
		int tree = -1;
		if (step->kind != BOX_STEP_TREE) {
			continue;
		}
		if (step->tree == BOX_TREE_HOST_PATH) {
			r = open_host_path(ground, living, plan->ask, &tree, err);
		} else {
			int from = step->tree == BOX_TREE_ETC ? ground->common.etc
				: step->tree == BOX_TREE_DEV  ? ground->common.dev
							      : ground->common.entries[step->entry];
			r = clone_common(from, &tree);
			r = r < 0 ? fail(err, step->target, r) : 0;
		}
		if (r == 0) {
			cargo->fds[cargo->count++] = tree;
		}
	}
	return r;
}

/* --- what box-init reads --- */

/* One run of bytes, written at once: a box more or less is a matter of a few calls. */
struct boot_text {
	struct box_guest_boot boot;
	char rest[BOX_PLAN_RULES_MAX * sizeof(struct box_guest_rule)];
};

static size_t fill_rules(char *to, const struct box_plan *plan)
{
	static const uint32_t rights[] = {
		[BOX_MAY_READ] = BOX_GUEST_MAY_READ,
		[BOX_MAY_WRITE] = BOX_GUEST_MAY_WRITE,
		[BOX_MAY_USE] = BOX_GUEST_MAY_USE,
	};
	for (size_t i = 0; i < plan->rule_count; i++) {
		struct box_guest_rule *rule = (struct box_guest_rule *)(void *)to + i;
		rule->right = rights[plan->rules[i].may];
		(void)snprintf(rule->path, sizeof(rule->path), "%s", plan->rules[i].path);
	}
	return plan->rule_count * sizeof(struct box_guest_rule);
}

static int make_boot(const struct box_ground *ground, const struct box_plan *plan, int *ret_fd)
{
	static struct boot_text text;
	const struct box_filter *filter = &ground->filters[plan->profile];
	text.boot = (struct box_guest_boot){
		.size = sizeof(text.boot),
		.payload_uid = BOX_PLAN_PAYLOAD_ID,
		.payload_gid = BOX_PLAN_PAYLOAD_ID,
		.same_uid = ground->ids == NULL,
		.landlock_abi = (uint32_t)plan->landlock_abi,
		.rule_count = (uint32_t)plan->rule_count,
		.filter_count = (uint32_t)filter->count,
	};
	_cleanup_(box_close_p) int fd = memfd_create("box-boot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct iovec parts[] = {
		{&text, sizeof(text.boot) + fill_rules(text.rest, plan)},
		{filter->instructions, filter->count * sizeof(filter->instructions[0])},
	};
	ssize_t size = (ssize_t)(parts[0].iov_len + parts[1].iov_len);
	if (fd < 0) {
		return -errno;
	}
	if (writev(fd, parts, 2) != size) {
		return errno ? -errno : -EIO;
	}
	if (lseek(fd, 0, SEEK_SET) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- a blank --- */

static void start_close(struct box_child *start)
{
	box_close_p(&start->orders);
	box_close_p(&start->control);
	box_close_p(&start->report);
	for (size_t i = 0; i < start->door_count; i++) {
		box_close_p(&start->doors[i]);
	}
	/* `init` belongs to the ground. */
}

/* Without limits until it is known which. */
static int make_cgroup(struct box_ground *ground, const char *name, struct box_living *living,
	struct box_child *start, struct box_err *err)
{
	static const struct box_cgroup_limits none;
	if (!ground->host.cgroups) {
		return 0;
	}
	int r = box_cgroup_make(ground->cgroups, name, &none, &living->cgroup, err);
	return r < 0 ? r
		     : box_cgroup_open_doors(living->cgroup, start->doors, &start->door_count, err);
}

static int take_ids(struct box_ground *ground, struct box_living *living, struct box_err *err)
{
	if (!ground->ids) {
		return 0;
	}
	int r = box_ids_take(ground->ids, &living->first_id);
	living->has_ids = r == 0;
	return r < 0 ? fail(err, "a range of user ids", r) : 0;
}

/* Pairs: ours goes to the blank, the child's to `start`. */
static int make_sockets(struct box_blank *blank, struct box_child *start, struct box_err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return fail(err, "socketpair", -errno);
	}
	blank->living.control = pair[0];
	start->control = pair[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return fail(err, "socketpair", -errno);
	}
	blank->orders = pair[0];
	start->orders = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0) {
		return fail(err, "pipe", -errno);
	}
	blank->living.report = pair[0];
	start->report = pair[1];
	return fcntl(blank->living.report, F_SETFL, O_NONBLOCK) < 0 ? fail(err, "pipe", -errno) : 0;
}

static int clone_child(
	const struct box_child *start, struct box_living *living, struct box_err *err)
{
	int folder = living->cgroup ? box_cgroup_folder(living->cgroup) : -1;
	/* The cgroup namespace is made by the child, when it is in its cgroup; that of the network may
	 * be there already. */
	uint64_t not_now = CLONE_NEWCGROUP | (start->own_network ? 0 : CLONE_NEWNET);
	struct clone_args args = {
		.flags = (BOX_PLAN_NAMESPACES & ~not_now) | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
			(folder >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)&living->pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = folder >= 0 ? (uint64_t)folder : 0,
	};
	/* A plain user cannot write the maps of a process that is not dumpable. */
	if (start->same_uid) {
		(void)prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L);
	}
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		box_child_run(start);
	}
	int errnum = errno;
	if (start->same_uid) {
		(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
	}
	if (pid < 0) {
		living->pidfd = -1;
		return fail(err, "clone3", -errnum);
	}
	living->pid = (pid_t)pid;
	return 0;
}

/* The clone makes its own network namespace, where none could be made for it. */
static int clone_with_network(struct box_child *start, struct box_blank *blank, struct box_err *err)
{
	char path[64];
	start->own_network = true;
	int r = clone_child(start, &blank->living, err);
	if (r < 0) {
		return r;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", blank->living.pid);
	blank->netns = open(path, O_RDONLY | O_CLOEXEC);
	return blank->netns < 0 ? fail(err, "network namespace", -errno) : 0;
}

/* In one that is there already, from where the clone inherits it. */
static int clone_in_network(struct box_ground *ground, const struct box_child *start,
	struct box_blank *blank, struct box_err *err)
{
	int r = box_netns_make(ground->netns, &blank->netns);
	r = r < 0 ? r : box_netns_enter(ground->netns, blank->netns);
	if (r < 0) {
		return fail(err, "network namespace", r);
	}
	r = clone_child(start, &blank->living, err);
	box_netns_come_home(ground->netns);
	return r;
}

static int write_maps(
	const struct box_ground *ground, const struct box_living *living, struct box_err *err)
{
	int pid = living->pid;
	uint32_t inside = ground->ids ? 0 : BOX_PLAN_PAYLOAD_ID;
	uint32_t outside = ground->ids ? living->first_id : 0;
	uint32_t count = ground->ids ? BOX_PLAN_ID_COUNT : 1;
	int r = ground->ids ? 0 : box_userns_deny_groups(pid);
	r = r < 0 ? r : box_userns_write_map(pid, "uid_map", inside, outside, count);
	r = r < 0 ? r : box_userns_write_map(pid, "gid_map", inside, outside, count);
	return r < 0 ? fail(err, "id maps", r) : 0;
}

static int release(const struct box_blank *blank, struct box_err *err)
{
	return send(blank->orders, "", 1, MSG_NOSIGNAL) == 1 ? 0 : fail(err, "release", -errno);
}

/* For what failed half-way: the kernel takes at most moments. */
static void take_back(struct box_ground *ground, struct box_living *living)
{
	if (living->pidfd >= 0) {
		box_birth_kill(living);
	}
	for (int tries = 0; box_birth_bury(ground, living) == -EBUSY; tries++) {
		if (tries == TAKE_BACK_TRIES) {
			BOX_LOG(BOX_LOG_ERROR, "box.not_removed", box_kv_int("pid", living->pid));
			return;
		}
		(void)usleep(1000);
	}
}

void box_blank_drop(struct box_ground *ground, struct box_blank *blank)
{
	box_close_p(&blank->orders);
	box_close_p(&blank->netns);
	take_back(ground, &blank->living);
	*blank = (struct box_blank){.orders = -1, .netns = -1};
}

int box_blank_make(struct box_ground *ground, const char *name, struct box_blank *ret_blank,
	struct box_err *err)
{
	struct box_blank blank = {
		.living = {.pidfd = -1, .control = -1, .report = -1}, .orders = -1, .netns = -1};
	_cleanup_(start_close) struct box_child start = {
		.ground = ground,
		.same_uid = ground->ids == NULL,
		.orders = -1,
		.control = -1,
		.report = -1,
		.init = ground->init,
	};
	int r = take_ids(ground, &blank.living, err);
	r = r < 0 ? r : make_cgroup(ground, name, &blank.living, &start, err);
	r = r < 0 ? r : make_sockets(&blank, &start, err);
	if (r == 0) {
		r = ground->netns ? clone_in_network(ground, &start, &blank, err)
				  : clone_with_network(&start, &blank, err);
	}
	r = r < 0 ? r : write_maps(ground, &blank.living, err);
	r = r < 0 ? r : release(&blank, err);
	if (r < 0) {
		box_blank_drop(ground, &blank);
		return r;
	}
	*ret_blank = blank;
	return 0;
}

/* --- a box --- */

static int set_limits(
	const struct box_plan *plan, const struct box_living *living, struct box_err *err)
{
	const struct box_cgroup_limits limits = {
		.memory_bytes = plan->memory_bytes,
		/* What was asked for is for commands; box-init and its mounter come on top. */
		.pids = plan->pids + OWN_PROCESSES,
		.cpu_milli = plan->cpu_milli,
	};
	return plan->limited ? box_cgroup_limit(living->cgroup, &limits, err) : 0;
}

/* A seat at the router, with a cable to the box; set up here where the namespace is ours. */
static int connect_network(struct box_ground *ground, const struct box_plan *plan,
	struct box_blank *blank, struct box_err *err)
{
	struct box_living *living = &blank->living;
	if (!plan->network) {
		return 0;
	}
	int r = box_network_seat(ground->network, &living->seat, err);
	living->has_seat = r == 0;
	r = r < 0 ? r : box_network_attach(ground->network, &living->seat, blank->netns, err);
	if (r < 0 || !ground->netns) {
		return r;
	}
	r = box_netns_enter(ground->netns, blank->netns);
	if (r == 0) {
		r = box_network_enter(&living->seat);
		box_netns_come_home(ground->netns);
	}
	return r < 0 ? fail(err, "network", r) : 0;
}

static int send_order(const struct box_blank *blank, const struct box_plan *plan,
	const struct cargo *cargo, struct box_err *err)
{
	static struct box_child_order order;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(BOX_CHILD_FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec part = {&order, sizeof(order)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(cargo->count * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(cargo->count * sizeof(int));
	memcpy(CMSG_DATA(header), cargo->fds, cargo->count * sizeof(int));
	order.ask = *plan->ask;
	order.has_seat = blank->living.has_seat;
	order.seat = blank->living.seat;
	ssize_t sent = sendmsg(blank->orders, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == (ssize_t)sizeof(order) ? 0 : fail(err, "order", -errno);
}

int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, struct box_blank *blank,
	struct box_living *ret_living, struct box_err *err)
{
	_cleanup_(cargo_close) struct cargo cargo = {.fds = {-1}, .count = 1};
	int r = make_boot(ground, plan, &cargo.fds[0]);
	r = r < 0 ? fail(err, "boot data", r) : set_limits(plan, &blank->living, err);
	r = r < 0 ? r : open_trees(ground, &blank->living, plan, &cargo, err);
	r = r < 0 ? r : connect_network(ground, plan, blank, err);
	/* box-init must get its turn among the commands that it serves. They are set back by it. */
	(void)setpriority(PRIO_PROCESS, (id_t)blank->living.pid, INIT_NICE);
	r = r < 0 ? r : send_order(blank, plan, &cargo, err);
	if (r < 0) {
		box_blank_drop(ground, blank);
		return r;
	}
	*ret_living = blank->living;
	blank->living = (struct box_living){.pidfd = -1, .control = -1, .report = -1};
	box_blank_drop(ground, blank);
	return 0;
}

/* --- the end --- */

void box_birth_kill(const struct box_living *living)
{
	/* It is our child and not yet waited for: this fails only when it has died already. */
	(void)pidfd_send_signal(living->pidfd, SIGKILL, NULL, 0);
}

int box_birth_bury(struct box_ground *ground, struct box_living *living)
{
	if (living->pidfd >= 0) {
		siginfo_t end = {0};
		if (waitid(P_PIDFD, (id_t)living->pidfd, &end, WEXITED | WNOHANG) == 0 &&
			end.si_pid == 0) {
			return -EBUSY;
		}
		(void)close(TAKE_FD(living->pidfd));
	}
	if (living->cgroup) {
		if (box_cgroup_remove(living->cgroup) < 0) {
			return -EBUSY;
		}
		living->cgroup = NULL;
	}
	box_close_p(&living->control);
	box_close_p(&living->report);
	if (living->has_seat) {
		box_network_leave(ground->network, &living->seat);
	}
	if (living->has_ids) {
		box_ids_give(ground->ids, living->first_id);
	}
	*living = (struct box_living){.pidfd = -1, .control = -1, .report = -1};
	return 0;
}

int box_birth_mount(struct box_ground *ground, const struct box_living *living, const char *path,
	bool read_only, int *ret_mount, struct box_err *err)
{
	_cleanup_(box_close_p) int source = -1;
	struct box_source_owner owner = owner_of(ground, living);
	int r = box_source_open(
		path, "extra_mounts.host_path", false, true, &ground->policy, &source, err);
	return r < 0 ? r : box_source_detach(source, read_only, &owner, ret_mount, err);
}
