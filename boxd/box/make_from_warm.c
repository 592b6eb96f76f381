/* What depends on the request: limits, the folder of the host, the network as root. Then the order,
 * which lets box-init go on. */
#include "boxd/box/make_from_warm.h"

#include <errno.h>

#include "base/cleanup.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/files/host_mount.h"
#include "boxd/net/netns.h"
#include "protocol/init.h"
#include "protocol/packet.h"

static struct box_host_mount_owner owner_of(
	const struct box_host_state *ground, const struct box_resources *living)
{
	return (struct box_host_mount_owner){
		.map = ground->ids != NULL,
		.uid = living->first_id + BOX_PLAN_PAYLOAD_ID,
		.gid = living->first_id + BOX_PLAN_PAYLOAD_ID,
	};
}

static int set_limits(
	const struct box_plan *plan, const struct box_resources *living, struct box_err *err)
{
	const struct box_cgroup_limits limits = {
		.memory_bytes = plan->limit_bytes,
		.pids = plan->limit_pids,
		.cpu_milli = plan->cpu_milli,
	};
	return plan->limited ? box_cgroup_limit(living->cgroup, &limits, err) : 0;
}

int box_make_open_folder(const struct box_host_state *ground, const struct box_plan_request *ask,
	int *ret_source, struct box_err *err)
{
	*ret_source = -1;
	const struct box_host_mount_request wanted = {.path = ask->host_path,
		.what = "host_path",
		.make = ask->host_mode == BOX_PLAN_MOUNT_RW,
		.writable = ask->host_mode == BOX_PLAN_MOUNT_RW,
		.asker = {.namespace = ask->tenant}};
	return ask->host_mode == BOX_PLAN_MOUNT_NONE
		? 0
		: box_host_mount_open(&wanted, ground->mount_roots, ret_source, err);
}

int box_make_check_quota(const struct box_host_state *ground, const struct box_plan_request *ask,
	int source, struct box_err *err)
{
	struct box_quota_state state = {0};
	enum box_quota_verdict verdict = BOX_QUOTA_NEEDS_WORK;
	if (ask->host_mode != BOX_PLAN_MOUNT_RW || ask->quota_bytes == 0) {
		return 0;
	}
	int r = box_quota_read_state(source, &state, err);
	r = r < 0
		? r
		: box_quota_decide(&ground->quota, &state, ask->quota_bytes, false, &verdict, err);
	return r < 0 || verdict == BOX_QUOTA_READY
		? r
		: box_err_set(err, BOX_ERR_BOX, ESTALE,
			  "the quota of host_path cannot be held: the folder was changed while the "
			  "box was made");
}

/* -1 stays where there is none. */
static int detach_host_path(const struct box_host_state *ground, const struct box_resources *living,
	const struct box_plan_request *ask, int source, int *ret_tree, struct box_err *err)
{
	struct box_host_mount_owner owner = owner_of(ground, living);
	return source < 0 ? 0
			  : box_host_mount_detach(source, ask->host_mode == BOX_PLAN_MOUNT_RO,
				    &owner, ret_tree, err);
}

static int take_seat(struct box_host_state *ground, struct box_warm_box *blank, struct box_err *err)
{
	struct box_resources *living = &blank->living;
	int r = living->has_seat ? 0 : box_network_take_slot(ground->network, &living->seat, err);
	living->has_seat = r == 0;
	return r < 0 ? r : box_network_attach(ground->network, &living->seat, living->netns, err);
}

/* A seat at the router, with a cable to the box. Where the namespace is not ours to enter, the box
 * had both from the beginning. What it may reach is settled before anything of it runs. */
static int connect_network(struct box_host_state *ground, const struct box_plan *plan,
	struct box_warm_box *blank, struct box_err *err)
{
	struct box_resources *living = &blank->living;
	if (!plan->network) {
		return 0;
	}
	int r = ground->netns ? take_seat(ground, blank, err) : 0;
	r = r < 0 ? r
		  : box_network_set_egress(ground->network, &living->seat, &plan->ask->egress,
			    &living->host_address, err);
	if (r < 0 || !ground->netns) {
		return r;
	}
	r = box_netns_enter(ground->netns, living->netns);
	if (r == 0) {
		r = box_netns_configure(living->seat.box_address, living->seat.router_address);
		box_netns_return(ground->netns);
	}
	return r < 0 ? box_make_fail(err, "network", r) : 0;
}

static int send_order(const struct box_plan *plan, const struct box_warm_box *blank, int tree,
	struct box_err *err)
{
	char order = plan->quota_bytes > 0 ? BOX_INIT_ORDER_QUOTA : BOX_INIT_ORDER_PLAIN;
	int r = box_packet_send(blank->orders, &order, 1, &tree, tree >= 0 ? 1 : 0);
	/* One that has died says why by its report. */
	return r < 0 && r != -EPIPE ? box_make_fail(err, "order", r) : 0;
}

int box_make_from_warm(struct box_host_state *ground, const struct box_plan *plan, int source,
	struct box_warm_box *blank, struct box_err *err)
{
	_cleanup_(box_close_p) int tree = -1;
	int r = set_limits(plan, &blank->living, err);
	r = r < 0 ? r : detach_host_path(ground, &blank->living, plan->ask, source, &tree, err);
	r = r < 0 ? r : connect_network(ground, plan, blank, err);
	return r < 0 ? r : send_order(plan, blank, tree, err);
}

int box_make_mount(struct box_host_state *ground, const struct box_resources *living, int source,
	bool read_only, int *ret_mount, struct box_err *err)
{
	struct box_host_mount_owner owner = owner_of(ground, living);
	return box_host_mount_detach(source, read_only, &owner, ret_mount, err);
}
