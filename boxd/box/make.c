/* One function for each thing that a blank has. Each is in struct box_warm_box at once, so that whoever
 * ends it gives back whatever there is. What the child needs of it is in struct box_first_process, which
 * the clone has a copy of. */
#include "boxd/box/make.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "boxd/box/boot_file.h"
#include "boxd/box/first_process.h"
#include "boxd/box/id_ranges.h"
#include "boxd/box/userns.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/net/netns.h"
#include "protocol/packet.h"

#define INIT_NICE (-10)

int box_make_fail(struct box_err *err, const char *step, int r)
{
	return box_err_set(
		err, BOX_ERR_BOX, -r, "the box cannot be made: %s: %s", step, box_err_strerror(-r));
}

static void start_close(struct box_first_process *start)
{
	box_close_p(&start->orders);
	box_close_p(&start->control);
	box_close_p(&start->report);
	box_close_p(&start->boot);
	for (size_t i = 0; i < start->door_count; i++) {
		box_close_p(&start->doors[i]);
	}
	for (size_t i = 0; i < BOX_PLAN_STEPS_MAX; i++) {
		box_close_p(&start->trees[i]);
	}
	/* `init` and `vmm` belong to the ground. */
}

static int take_ids(
	struct box_host_state *ground, struct box_resources *living, struct box_err *err)
{
	if (!ground->ids) {
		return 0;
	}
	int r = box_id_ranges_take(ground->ids, &living->first_id);
	living->has_ids = r == 0;
	return r < 0 ? box_make_fail(err, "a range of user ids", r) : 0;
}

/* Without limits until it is known which. */
static int make_cgroup(struct box_host_state *ground, const char *name,
	struct box_resources *living, struct box_first_process *start, struct box_err *err)
{
	static const struct box_cgroup_limits none;
	if (!ground->host.cgroups) {
		return 0;
	}
	int r = box_cgroup_make(ground->cgroups, name, &none, &living->cgroup, err);
	if (r < 0) {
		return r;
	}
	if (living->has_ids) {
		box_cgroup_set_root_id(living->cgroup, living->first_id);
	}
	return box_cgroup_open_procs_fds(living->cgroup, start->doors, &start->door_count, err);
}

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

/* A mount that is detached cannot be cloned, and need not: it is for this box alone. */
static int copy_fd(int fd, int *ret_copy)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		return -errno;
	}
	*ret_copy = copy;
	return 0;
}

/* Those that all boxes share; the folder of the host comes with the order. */
static int open_trees(const struct box_host_state *ground, const struct box_root *root,
	struct box_first_process *start, struct box_err *err)
{
	const int *entries = root ? root->trees : ground->common.entries;
	int etc = root ? root->etc : ground->common.etc;
	for (size_t i = 0; i < start->plan->step_count; i++) {
		const struct box_plan_step *step = &start->plan->steps[i];
		if (step->kind != BOX_PLAN_STEP_TREE || step->tree == BOX_PLAN_TREE_HOST_PATH) {
			continue;
		}
		int from = step->tree == BOX_PLAN_TREE_ETC ? etc
			: step->tree == BOX_PLAN_TREE_DEV  ? ground->common.dev
			: step->tree == BOX_PLAN_TREE_KVM  ? ground->common.kvm
							   : entries[step->entry];
		bool shared = step->tree == BOX_PLAN_TREE_DEV || step->tree == BOX_PLAN_TREE_KVM;
		int r = root && root->once && !shared ? copy_fd(from, &start->trees[i])
						      : clone_common(from, &start->trees[i]);
		if (r < 0) {
			return box_make_fail(err, step->target, r);
		}
	}
	return 0;
}

/* A seat at the router, where the box must know it from the beginning: a guest is told its address
 * by its boot file, and a network namespace of the clone's own is set up by the clone. */
static int take_seat(struct box_host_state *ground, const struct box_plan *plan,
	struct box_resources *living, struct box_err *err)
{
	bool early = plan->ask->kind == BOX_PLAN_KIND_MICROVM || !ground->netns;
	if (!plan->network || !early) {
		return 0;
	}
	int r = box_network_take_slot(ground->network, &living->seat, err);
	living->has_seat = r == 0;
	return r;
}

static int make_boot_file(const struct box_host_state *ground, const struct box_resources *living,
	struct box_first_process *start, struct box_err *err)
{
	int r = box_boot_file_make(
		ground, start->plan, living->has_seat ? &living->seat : NULL, &start->boot);
	return r < 0 ? box_make_fail(err, "boot file", r) : 0;
}

/* Room for some packets each way: what does not fit waits in a copy, and each wait is a turn of two
 * programs. A plain user gets what the host allows, and less is fine. */
static void widen_socket(int fd)
{
	int bytes = BOX_INIT_SOCKET_BYTES;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
}

/* Pairs: ours goes to the blank, the child's to `start`. */
static int make_sockets(
	struct box_warm_box *blank, struct box_first_process *start, struct box_err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return box_make_fail(err, "socketpair", -errno);
	}
	blank->living.control = pair[0];
	start->control = pair[1];
	widen_socket(pair[0]);
	widen_socket(pair[1]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return box_make_fail(err, "socketpair", -errno);
	}
	blank->orders = pair[0];
	start->orders = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0) {
		return box_make_fail(err, "pipe", -errno);
	}
	blank->living.report = pair[0];
	start->report = pair[1];
	return fcntl(blank->living.report, F_SETFL, O_NONBLOCK) < 0
		? box_make_fail(err, "pipe", -errno)
		: 0;
}

static int clone_child(
	const struct box_first_process *start, struct box_resources *living, struct box_err *err)
{
	int r = living->has_ids ? box_userns_owner_begin(living->first_id) : 0;
	if (r < 0) {
		return box_make_fail(err, "owner of the user namespace", r);
	}
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
		box_first_process_run(start);
	}
	int errnum = errno;
	if (living->has_ids) {
		box_userns_owner_end();
	}
	if (start->same_uid) {
		(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
	}
	if (pid < 0) {
		living->pidfd = -1;
		return box_make_fail(err, "clone3", -errnum);
	}
	living->pid = (pid_t)pid;
	return 0;
}

/* The clone makes its own network namespace, where none could be made for it, and sets it up. */
static int clone_with_network(struct box_host_state *ground, struct box_first_process *start,
	struct box_warm_box *blank, struct box_err *err)
{
	struct box_resources *living = &blank->living;
	char path[64];
	start->own_network = true;
	start->seat = living->has_seat ? &living->seat : NULL;
	int r = clone_child(start, living, err);
	if (r < 0) {
		return r;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", living->pid);
	blank->living.netns = open(path, O_RDONLY | O_CLOEXEC);
	if (blank->living.netns < 0) {
		return box_make_fail(err, "network namespace", -errno);
	}
	return living->has_seat
		? box_network_attach(ground->network, &living->seat, blank->living.netns, err)
		: 0;
}

/* In one that is there already, from where the clone inherits it. */
static int clone_in_network(struct box_host_state *ground, const struct box_first_process *start,
	struct box_warm_box *blank, struct box_err *err)
{
	int r = box_netns_make(ground->netns, &blank->living.netns);
	r = r < 0 ? r : box_netns_enter(ground->netns, blank->living.netns);
	if (r < 0) {
		return box_make_fail(err, "network namespace", r);
	}
	r = clone_child(start, &blank->living, err);
	box_netns_return(ground->netns);
	return r;
}

static int write_maps(const struct box_host_state *ground, const struct box_resources *living,
	struct box_err *err)
{
	int pid = living->pid;
	uint32_t inside = ground->ids ? 0 : BOX_PLAN_PAYLOAD_ID;
	uint32_t outside = ground->ids ? living->first_id : 0;
	uint32_t count = ground->ids ? BOX_PLAN_ID_COUNT : 1;
	int r = ground->ids ? 0 : box_userns_deny_groups(pid);
	r = r < 0 ? r : box_userns_write_map(pid, "uid_map", inside, outside, count);
	r = r < 0 ? r : box_userns_write_map(pid, "gid_map", inside, outside, count);
	return r < 0 ? box_make_fail(err, "id maps", r) : 0;
}

static int release(const struct box_warm_box *blank, struct box_err *err)
{
	int r = box_packet_send(blank->orders, "", 1, NULL, 0);
	return r < 0 ? box_make_fail(err, "release", r) : 0;
}

/* What was to be done for the child has failed. If that is because it has died, it has said why
 * before. */
static int prefer_report(
	const struct box_warm_box *blank, const struct box_plan *plan, int r, struct box_err *err)
{
	struct box_err said;
	int heard = blank->living.pidfd < 0
		? 0
		: box_first_process_read_report(blank->living.report, plan, &said);
	if (heard >= 0) {
		return r;
	}
	*err = said;
	return heard;
}

void box_make_warm_close(struct box_warm_box *blank)
{
	box_close_p(&blank->orders);
}

int box_make_warm(struct box_host_state *ground, const char *name, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *blank, struct box_err *err)
{
	_cleanup_(start_close) struct box_first_process start = {
		.plan = plan,
		.anchor = ground->common.anchor,
		.same_uid = ground->ids == NULL,
		.orders = -1,
		.control = -1,
		.report = -1,
		.boot = -1,
		.init = ground->init,
		.vmm = plan->ask->kind == BOX_PLAN_KIND_MICROVM ? ground->vmm : -1,
	};
	memset(start.trees, 0xff, sizeof(start.trees)); /* -1 each */
	*blank = (struct box_warm_box){
		.living = BOX_RESOURCES_NONE, .ask = *plan->ask, .orders = -1};
	int r = take_ids(ground, &blank->living, err);
	r = r < 0 ? r : make_cgroup(ground, name, &blank->living, &start, err);
	r = r < 0 ? r : open_trees(ground, root, &start, err);
	r = r < 0 ? r : take_seat(ground, plan, &blank->living, err);
	r = r < 0 ? r : make_boot_file(ground, &blank->living, &start, err);
	r = r < 0 ? r : make_sockets(blank, &start, err);
	if (r == 0) {
		r = ground->netns ? clone_in_network(ground, &start, blank, err)
				  : clone_with_network(ground, &start, blank, err);
	}
	r = r < 0 ? r : write_maps(ground, &blank->living, err);
	if (r == 0) {
		/* box-init must get its turn among the commands that it serves. They are set back. */
		(void)setpriority(PRIO_PROCESS, (id_t)blank->living.pid, INIT_NICE);
		r = release(blank, err);
	}
	if (r < 0) {
		box_close_p(&start.report); /* so that its end shows */
		r = prefer_report(blank, plan, r, err);
	}
	return r;
}

bool box_make_warm_fits(const struct box_host_state *ground, const struct box_warm_box *blank,
	const struct box_plan_request *ask)
{
	return box_plan_same_shape(&blank->ask, ask, &ground->host);
}
