/* One function for each resource of a box, in order of dependency. What the first process needs is in
 * struct box_first_process, of which the clone gets a copy. */
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
#include "boxd/files/host_mount.h"
#include "boxd/net/netns.h"
#include "protocol/init.h"
#include "protocol/packet.h"

#define INIT_NICE (-10)

/* Fills err: which step of making a box failed, with which errno. Returns r. */
static int fail(struct box_err *err, const char *step, int r)
{
	return box_err_set(
		err, BOX_ERR_BOX, -r, "the box cannot be made: %s: %s", step, box_err_strerror(-r));
}

/* --- what the first process starts with --- */

static void start_close(struct box_first_process *start)
{
	box_close_p(&start->orders);
	box_close_p(&start->control);
	box_close_p(&start->report);
	box_close_p(&start->boot);
	for (size_t i = 0; i < start->procs_fd_count; i++) {
		box_close_p(&start->procs_fds[i]);
	}
	for (size_t i = 0; i < BOX_PLAN_STEPS_MAX; i++) {
		box_close_p(&start->trees[i]);
	}
	/* `init` and `vmm` are owned by the host state. */
}

static struct box_first_process start_of(
	const struct box_host_state *host_state, const struct box_plan *plan)
{
	struct box_first_process start = {
		.plan = plan,
		.anchor = host_state->common.anchor,
		.same_uid = host_state->ids == NULL,
		.orders = -1,
		.control = -1,
		.report = -1,
		.boot = -1,
		.init = host_state->init,
		.vmm = plan->ask->kind == BOX_PLAN_KIND_MICROVM ? host_state->vmm : -1,
	};
	memset(start.trees, 0xff, sizeof(start.trees)); /* -1 each */
	return start;
}

/* --- ids, cgroup, mounts, network slot, boot file, sockets --- */

static int take_ids(
	struct box_host_state *host_state, struct box_resources *resources, struct box_err *err)
{
	if (!host_state->ids) {
		return 0;
	}
	int r = box_id_ranges_take(host_state->ids, &resources->first_id);
	if (r < 0) {
		return fail(err, "a range of user ids", r);
	}
	resources->has_ids = true;
	return 0;
}

/* Without limits: those of a later request are not known yet. */
static int make_cgroup(struct box_host_state *host_state, const char *name,
	struct box_resources *resources, struct box_first_process *start, struct box_err *err)
{
	static const struct box_cgroup_limits none;
	if (!host_state->host.cgroups) {
		return 0;
	}
	int r = box_cgroup_make(host_state->cgroups, name, &none, &resources->cgroup, err);
	if (r < 0) {
		return r;
	}
	if (resources->has_ids) {
		box_cgroup_set_root_id(resources->cgroup, resources->first_id);
	}
	return box_cgroup_open_procs_fds(
		resources->cgroup, start->procs_fds, &start->procs_fd_count, err);
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

/* A detached mount cannot be cloned, and need not be: it belongs to this box alone. */
static int copy_fd(int fd, int *ret_copy)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		return -errno;
	}
	*ret_copy = copy;
	return 0;
}

/* The mounts that all boxes share; the workspace folder comes with the order. */
static int open_trees(const struct box_host_state *host_state, const struct box_root *root,
	struct box_first_process *start, struct box_err *err)
{
	const int *entries = root ? root->trees : host_state->common.entries;
	int etc = root ? root->etc : host_state->common.etc;
	for (size_t i = 0; i < start->plan->step_count; i++) {
		const struct box_plan_step *step = &start->plan->steps[i];
		if (step->kind != BOX_PLAN_STEP_TREE || step->tree == BOX_PLAN_TREE_HOST_PATH) {
			continue;
		}
		int from = step->tree == BOX_PLAN_TREE_ETC ? etc
			: step->tree == BOX_PLAN_TREE_DEV  ? host_state->common.dev
			: step->tree == BOX_PLAN_TREE_KVM  ? host_state->common.kvm
							   : entries[step->entry];
		bool shared = step->tree == BOX_PLAN_TREE_DEV || step->tree == BOX_PLAN_TREE_KVM;
		int r = root && root->once && !shared ? copy_fd(from, &start->trees[i])
						      : clone_common(from, &start->trees[i]);
		if (r < 0) {
			return fail(err, step->target, r);
		}
	}
	return 0;
}

/* If the box must know its slot from the start: a guest reads its address from the boot file, and a
 * first process with a network namespace of its own configures that. */
static int take_early_slot(struct box_host_state *host_state, const struct box_plan *plan,
	struct box_resources *resources, struct box_err *err)
{
	bool early = plan->ask->kind == BOX_PLAN_KIND_MICROVM || !host_state->netns;
	if (!plan->network || !early) {
		return 0;
	}
	int r = box_network_take_slot(host_state->network, &resources->slot, err);
	resources->has_slot = r == 0;
	return r;
}

static int make_boot_file(const struct box_host_state *host_state,
	const struct box_resources *resources, struct box_first_process *start, struct box_err *err)
{
	const struct box_network_slot *slot = resources->has_slot ? &resources->slot : NULL;
	int r = box_boot_file_make(host_state, start->plan, slot, &start->boot);
	return r < 0 ? fail(err, "boot file", r) : 0;
}

/* Room for a few packets each way: what does not fit is copied and waits, which costs a turn of both
 * programs. A plain user gets what the host allows, which may be less. */
static void widen_socket(int fd)
{
	int bytes = BOX_INIT_SOCKET_BYTES;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
}

/* Socket pairs and a pipe: our ends go to the warm box, the child's to `start`. */
static int make_sockets(
	struct box_warm_box *warm, struct box_first_process *start, struct box_err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return fail(err, "socketpair", -errno);
	}
	warm->resources.control = pair[0];
	start->control = pair[1];
	widen_socket(pair[0]);
	widen_socket(pair[1]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return fail(err, "socketpair", -errno);
	}
	warm->orders = pair[0];
	start->orders = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0) {
		return fail(err, "pipe", -errno);
	}
	warm->resources.report = pair[0];
	start->report = pair[1];
	if (fcntl(warm->resources.report, F_SETFL, O_NONBLOCK) < 0) {
		return fail(err, "pipe", -errno);
	}
	return 0;
}

/* --- the clone --- */

static int clone_child(
	const struct box_first_process *start, struct box_resources *resources, struct box_err *err)
{
	int r = resources->has_ids ? box_userns_owner_begin(resources->first_id) : 0;
	if (r < 0) {
		return fail(err, "owner of the user namespace", r);
	}
	int folder = resources->cgroup ? box_cgroup_folder(resources->cgroup) : -1;
	/* The child makes the cgroup namespace when it is in its cgroup; the network namespace may
	 * exist already. */
	uint64_t not_now = CLONE_NEWCGROUP | (start->own_network ? 0 : CLONE_NEWNET);
	struct clone_args args = {
		.flags = (BOX_PLAN_NAMESPACES & ~not_now) | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
			(folder >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)&resources->pidfd,
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
	if (resources->has_ids) {
		box_userns_owner_end();
	}
	if (start->same_uid) {
		(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
	}
	if (pid < 0) {
		resources->pidfd = -1;
		return fail(err, "clone3", -errnum);
	}
	resources->pid = (pid_t)pid;
	return 0;
}

/* If boxd cannot make a network namespace, the clone makes its own and configures it. */
static int clone_with_network(struct box_host_state *host_state, struct box_first_process *start,
	struct box_warm_box *warm, struct box_err *err)
{
	struct box_resources *resources = &warm->resources;
	char path[64];
	start->own_network = true;
	start->slot = resources->has_slot ? &resources->slot : NULL;
	int r = clone_child(start, resources, err);
	if (r < 0) {
		return r;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", resources->pid);
	resources->netns = open(path, O_RDONLY | O_CLOEXEC);
	if (resources->netns < 0) {
		return fail(err, "network namespace", -errno);
	}
	if (!resources->has_slot) {
		return 0;
	}
	return box_network_attach(host_state->network, &resources->slot, resources->netns, err);
}

/* Clones within the network namespace that boxd has made, so that the child inherits it. */
static int clone_in_network(struct box_host_state *host_state,
	const struct box_first_process *start, struct box_warm_box *warm, struct box_err *err)
{
	int r = box_netns_make(host_state->netns, &warm->resources.netns);
	if (r < 0) {
		return fail(err, "network namespace", r);
	}
	r = box_netns_enter(host_state->netns, warm->resources.netns);
	if (r < 0) {
		return fail(err, "network namespace", r);
	}
	r = clone_child(start, &warm->resources, err);
	box_netns_return(host_state->netns);
	return r;
}

static int write_maps(const struct box_host_state *host_state,
	const struct box_resources *resources, struct box_err *err)
{
	int pid = resources->pid;
	uint32_t inside = host_state->ids ? 0 : BOX_PLAN_PAYLOAD_ID;
	uint32_t outside = host_state->ids ? resources->first_id : 0;
	uint32_t count = host_state->ids ? BOX_PLAN_ID_COUNT : 1;
	int r = host_state->ids ? 0 : box_userns_deny_groups(pid);
	if (r < 0) {
		return fail(err, "id maps", r);
	}
	r = box_userns_write_map(pid, "uid_map", inside, outside, count);
	if (r < 0) {
		return fail(err, "id maps", r);
	}
	r = box_userns_write_map(pid, "gid_map", inside, outside, count);
	return r < 0 ? fail(err, "id maps", r) : 0;
}

/* The child waits for this byte until its maps are written. */
static int send_release(const struct box_warm_box *warm, struct box_err *err)
{
	int r = box_packet_send(warm->orders, "", 1, NULL, 0);
	return r < 0 ? fail(err, "release", r) : 0;
}

/* --- first half: a warm box --- */

static int prepare_start(struct box_host_state *host_state, const char *name,
	const struct box_root *root, struct box_warm_box *warm, struct box_first_process *start,
	struct box_err *err)
{
	struct box_resources *resources = &warm->resources;
	int r = take_ids(host_state, resources, err);
	if (r < 0) {
		return r;
	}
	r = make_cgroup(host_state, name, resources, start, err);
	if (r < 0) {
		return r;
	}
	r = open_trees(host_state, root, start, err);
	if (r < 0) {
		return r;
	}
	r = take_early_slot(host_state, start->plan, resources, err);
	if (r < 0) {
		return r;
	}
	r = make_boot_file(host_state, resources, start, err);
	if (r < 0) {
		return r;
	}
	return make_sockets(warm, start, err);
}

static int clone_and_release(struct box_host_state *host_state, struct box_warm_box *warm,
	struct box_first_process *start, struct box_err *err)
{
	int r = host_state->netns ? clone_in_network(host_state, start, warm, err)
				  : clone_with_network(host_state, start, warm, err);
	if (r < 0) {
		return r;
	}
	r = write_maps(host_state, &warm->resources, err);
	if (r < 0) {
		return r;
	}
	/* box-init must be scheduled among the commands that it serves, whose niceness is reset. */
	(void)setpriority(PRIO_PROCESS, (id_t)warm->resources.pid, INIT_NICE);
	return send_release(warm, err);
}

/* A step that boxd does for the child has failed. If the child has died, its own report has the reason. */
static int prefer_report(
	const struct box_warm_box *warm, const struct box_plan *plan, int r, struct box_err *err)
{
	struct box_err reported;
	if (warm->resources.pidfd < 0) {
		return r;
	}
	int read = box_first_process_read_report(warm->resources.report, plan, &reported);
	if (read >= 0) {
		return r;
	}
	*err = reported;
	return read;
}

int box_make_warm(struct box_host_state *host_state, const char *name, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *warm, struct box_err *err)
{
	_cleanup_(start_close) struct box_first_process start = start_of(host_state, plan);
	*warm = (struct box_warm_box){
		.resources = BOX_RESOURCES_NONE, .ask = *plan->ask, .orders = -1};
	int r = prepare_start(host_state, name, root, warm, &start, err);
	if (r == 0) {
		r = clone_and_release(host_state, warm, &start, err);
	}
	if (r < 0) {
		box_close_p(&start.report); /* so that EOF shows when the child ends */
		return prefer_report(warm, plan, r, err);
	}
	return 0;
}

bool box_make_warm_fits(const struct box_host_state *host_state, const struct box_warm_box *warm,
	const struct box_plan_request *ask)
{
	return box_plan_same_shape(&warm->ask, ask, &host_state->host);
}

void box_make_warm_close(struct box_warm_box *warm)
{
	box_close_p(&warm->orders);
}

/* --- second half: limits, workspace folder, network, order --- */

int box_make_open_folder(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int *ret_source, struct box_err *err)
{
	const struct box_host_mount_request wanted = {.path = ask->host_path,
		.what = "host_path",
		.make = ask->host_mode == BOX_PLAN_MOUNT_RW,
		.writable = ask->host_mode == BOX_PLAN_MOUNT_RW,
		.asker = {.namespace = ask->tenant}};
	if (ask->host_mode == BOX_PLAN_MOUNT_NONE) {
		return 0;
	}
	return box_host_mount_open(&wanted, host_state->mount_roots, ret_source, err);
}

int box_make_check_quota(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int source, struct box_err *err)
{
	struct box_quota_state state = {0};
	enum box_quota_verdict verdict = BOX_QUOTA_NEEDS_WORK;
	if (ask->host_mode != BOX_PLAN_MOUNT_RW || ask->quota_bytes == 0) {
		return 0;
	}
	int r = box_quota_read_state(source, &state, err);
	if (r < 0) {
		return r;
	}
	r = box_quota_decide(&host_state->quota, &state, ask->quota_bytes, false, &verdict, err);
	if (r < 0 || verdict == BOX_QUOTA_READY) {
		return r;
	}
	return box_err_set(err, BOX_ERR_BOX, ESTALE,
		"the quota of host_path cannot be enforced: the folder was changed while the box was "
		"made");
}

static int set_limits(
	const struct box_plan *plan, const struct box_resources *resources, struct box_err *err)
{
	const struct box_cgroup_limits limits = {
		.memory_bytes = plan->limit_bytes,
		.pids = plan->limit_pids,
		.cpu_milli = plan->cpu_milli,
	};
	return plan->limited ? box_cgroup_limit(resources->cgroup, &limits, err) : 0;
}

static struct box_host_mount_owner owner_of(
	const struct box_host_state *host_state, const struct box_resources *resources)
{
	return (struct box_host_mount_owner){
		.map = host_state->ids != NULL,
		.uid = resources->first_id + BOX_PLAN_PAYLOAD_ID,
		.gid = resources->first_id + BOX_PLAN_PAYLOAD_ID,
	};
}

/* *ret_tree is not written when the workspace is not a folder of the host. */
static int detach_host_path(const struct box_host_state *host_state,
	const struct box_resources *resources, const struct box_plan_request *ask, int source,
	int *ret_tree, struct box_err *err)
{
	struct box_host_mount_owner owner = owner_of(host_state, resources);
	bool read_only = ask->host_mode == BOX_PLAN_MOUNT_RO;
	if (source < 0) {
		return 0;
	}
	return box_host_mount_detach(source, read_only, &owner, ret_tree, err);
}

/* A network slot and the veth pair, if boxd may enter the box's network namespace. */
static int attach_network(
	struct box_host_state *host_state, struct box_resources *resources, struct box_err *err)
{
	if (!resources->has_slot) {
		int r = box_network_take_slot(host_state->network, &resources->slot, err);
		if (r < 0) {
			return r;
		}
		resources->has_slot = true;
	}
	return box_network_attach(host_state->network, &resources->slot, resources->netns, err);
}

static int configure_network(
	struct box_host_state *host_state, struct box_resources *resources, struct box_err *err)
{
	int r = box_netns_enter(host_state->netns, resources->netns);
	if (r < 0) {
		return fail(err, "network", r);
	}
	r = box_netns_configure(resources->slot.box_address, resources->slot.router_address);
	box_netns_return(host_state->netns);
	return r < 0 ? fail(err, "network", r) : 0;
}

/* If boxd cannot enter the namespace, the box has had its slot and its veth from the beginning. The
 * egress rules are set before anything of the box runs. */
static int connect_network(struct box_host_state *host_state, const struct box_plan *plan,
	struct box_resources *resources, struct box_err *err)
{
	if (!plan->network) {
		return 0;
	}
	if (host_state->netns) {
		int r = attach_network(host_state, resources, err);
		if (r < 0) {
			return r;
		}
	}
	int r = box_network_set_egress(host_state->network, &resources->slot, &plan->ask->egress,
		&resources->host_address, err);
	if (r < 0 || !host_state->netns) {
		return r;
	}
	return configure_network(host_state, resources, err);
}

static int send_order(
	const struct box_plan *plan, const struct box_warm_box *warm, int tree, struct box_err *err)
{
	char order = plan->quota_bytes > 0 ? BOX_INIT_ORDER_QUOTA : BOX_INIT_ORDER_PLAIN;
	int r = box_packet_send(warm->orders, &order, 1, &tree, tree >= 0 ? 1 : 0);
	/* If box-init has died, its report has the reason. */
	return r < 0 && r != -EPIPE ? fail(err, "order", r) : 0;
}

int box_make_from_warm(struct box_host_state *host_state, const struct box_plan *plan, int source,
	struct box_warm_box *warm, struct box_err *err)
{
	_cleanup_(box_close_p) int tree = -1;
	int r = set_limits(plan, &warm->resources, err);
	if (r < 0) {
		return r;
	}
	r = detach_host_path(host_state, &warm->resources, plan->ask, source, &tree, err);
	if (r < 0) {
		return r;
	}
	r = connect_network(host_state, plan, &warm->resources, err);
	if (r < 0) {
		return r;
	}
	return send_order(plan, warm, tree, err);
}

int box_make_mount(struct box_host_state *host_state, const struct box_resources *resources,
	int source, bool read_only, int *ret_mount, struct box_err *err)
{
	struct box_host_mount_owner owner = owner_of(host_state, resources);
	return box_host_mount_detach(source, read_only, &owner, ret_mount, err);
}
