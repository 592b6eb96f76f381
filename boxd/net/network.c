/* Network slots at the router, and the start and end of the router and of pasta.
 *
 * The router is made for the first box and stays. pasta is started when the host has a default route, and
 * restarted when it dies. While the host's addresses cannot be refused, pasta is stopped, so that nothing
 * goes out.
 *
 * Who calls whom in boxd/net, downwards only:
 *
 *     network.c          from boxd/box and the loop: slots, the host's changes, when pasta runs
 *       pasta.c          how pasta is started
 *       egress_rules.c   the rules of one slot
 *       host_ports.c     loopback addresses, listening sockets, when port proxies run
 *         port_proxy.c   the process that copies the connections of one box
 *       router.c         namespaces, the rules for all boxes, the host's addresses
 *         router_child.c forks for all of the above: openers of fds, nft
 *     netlink.c          rtnetlink, for network.c, router.c and netns.c
 *     netns.c            from boxd/box: network namespaces of boxes, from inside
 *
 * Egress by name would be added between policy and addresses, in box_network_set_egress. Rules are made
 * from struct box_egress_rules_addresses, never from the policy (plan/egress.h). Today every entry of a
 * policy is an address, so box_egress_rules_resolve only points to it. With names, a process for each box,
 * started and watched like a port proxy (in its own file, with its pidfd in this file's epoll set), would
 * answer the box's DNS in place of pasta (BOX_ROUTER_DNS), and pass the addresses of each allowed name to
 * egress_rules.c. They belong in a set of the slot, since the rules themselves are compared word by word.
 */
#include "boxd/net/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/net/egress_rules.h"
#include "boxd/net/host_ports.h"
#include "boxd/net/netlink.h"
#include "boxd/net/netns.h"
#include "boxd/net/pasta.h"
#include "boxd/net/router.h"
#include "boxd/net/router_child.h"

#define SLOTS_NET UINT32_C(0xc6130000) /* 198.19.0.0: two addresses per slot */
/* Packets to the last box of a slot must not reach the next one: the kernel forgets UDP flows in less
 * time than this. */
#define SLOT_REST_MS 180000
#define TAKEN UINT64_MAX
#define ROUTER_INDEX 100000 /* of the first veth, beyond what the kernel gives itself */
#define MTU 65520           /* pasta's own */

#define PASTA_READY_MS 2000
#define PASTA_PAUSE_MIN_MS 100
#define PASTA_PAUSE_MAX_MS 10000
#define PASTA_GOOD_RUN_MS 10000

struct box_network {
	uid_t uid;
	gid_t gid;
	bool made; /* the router exists */
	struct box_router router;
	int epoll; /* of the three fds below, and of port proxies */
	int timer; /* when failed steps are tried again */
	int watch; /* reports changes of the host's addresses and routes */
	int pidfd; /* pasta's, or -1 */
	uint64_t pasta_started_ms;
	uint32_t pause_ms;
	bool in_pause;
	bool host_has_route; /* a default route */
	bool closed;         /* refusing the host's addresses has failed: nothing may go out */
	struct box_router_denied denied;  /* as set in the rules */
	struct box_router_denied current; /* as found on the host */
	struct box_egress_rules_slots egress_rules;
	struct box_host_ports *host_ports;
	uint64_t free_since_ms[BOX_ROUTER_SLOTS_MAX]; /* 0: always; TAKEN: not now */
};

static int watch_fd(struct box_network *network, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(network->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

struct box_network *box_network_new(uid_t uid, gid_t gid)
{
	struct box_network *network = calloc(1, sizeof(*network));
	if (!network) {
		return NULL;
	}
	network->uid = uid;
	network->gid = gid;
	network->router = (struct box_router){uid, gid, -1, -1, -1};
	network->watch = network->pidfd = -1;
	network->epoll = epoll_create1(EPOLL_CLOEXEC);
	network->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (network->epoll < 0 || network->timer < 0 || box_netlink_watch(&network->watch) < 0 ||
		watch_fd(network, network->timer) < 0 || watch_fd(network, network->watch) < 0) {
		box_network_free(network);
		return NULL;
	}
	network->host_ports = box_host_ports_new(&network->router, network->epoll);
	return network;
}

/* Ends pasta, or reaps it if it has ended by itself. */
static void end_pasta(struct box_network *network)
{
	if (network->pidfd < 0) {
		return;
	}
	box_router_child_end(network->pidfd);
	/* Removed from the epoll set explicitly, before close(): a box that is being made may hold a
	 * copy of the fd. */
	(void)epoll_ctl(network->epoll, EPOLL_CTL_DEL, network->pidfd, NULL);
	(void)close(network->pidfd);
	network->pidfd = -1;
}

void box_network_free(struct box_network *network)
{
	if (!network) {
		return;
	}
	box_host_ports_free(network->host_ports);
	end_pasta(network);
	box_router_close(&network->router);
	box_close_p(&network->watch);
	box_close_p(&network->timer);
	box_close_p(&network->epoll);
	free(network);
}

bool box_network_is_possible(struct box_network *network, struct box_err *err)
{
	const char *why = !box_pasta_path()    ? "pasta is missing: install passt and nftables"
		: !box_router_child_nft_path() ? "nft is missing: install passt and nftables"
					       : box_pasta_tun_problem(network->uid);
	if (why) {
		(void)box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOENT,
			"boxes cannot have a network: %s", why);
		return false;
	}
	return true;
}

/* --- pasta --- */

static int start_pasta(struct box_network *network)
{
	pid_t pid = -1;
	int r = box_pasta_start(&network->router, &pid, &network->pidfd);
	if (r < 0) {
		return r;
	}
	network->pasta_started_ms = box_clock_ms();
	BOX_LOG(BOX_LOG_DEBUG, "network.pasta_started", box_log_int("pid", pid));
	return watch_fd(network, network->pidfd);
}

static void try_later(struct box_network *network)
{
	uint32_t pause_ms = network->pause_ms < PASTA_PAUSE_MIN_MS ? PASTA_PAUSE_MIN_MS
								   : 2 * network->pause_ms;
	network->pause_ms = BOX_MIN(pause_ms, PASTA_PAUSE_MAX_MS);
	network->in_pause = true;
	struct itimerspec when = {
		.it_value = {network->pause_ms / 1000, network->pause_ms % 1000 * 1000000L}};
	(void)timerfd_settime(network->timer, 0, &when, NULL);
}

/* Starts pasta when it should run and does not. */
static void ensure_pasta(struct box_network *network)
{
	if (!network->made || network->pidfd >= 0 || network->in_pause || network->closed ||
		!network->host_has_route) {
		return;
	}
	int r = start_pasta(network);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "network.pasta_failed", box_log_errno("error", r));
		end_pasta(network);
		try_later(network);
	}
}

/* Checks whether pasta has ended. */
static void check_pasta(struct box_network *network)
{
	siginfo_t info = {0};
	(void)waitid(P_PIDFD, (id_t)network->pidfd, &info, WEXITED | WNOWAIT | WNOHANG);
	if (info.si_pid == 0) {
		return;
	}
	uint64_t ran_ms = box_clock_ms() - network->pasta_started_ms;
	BOX_LOG(BOX_LOG_WARNING, "network.pasta_ended", box_log_int("pid", info.si_pid),
		box_log_str("by", info.si_code == CLD_EXITED ? "exit" : "signal"),
		box_log_int("status", info.si_status), box_log_int("ran_ms", (int64_t)ran_ms));
	end_pasta(network);
	if (ran_ms > PASTA_GOOD_RUN_MS) {
		network->pause_ms = 0;
	}
	try_later(network);
}

/* Waits until its interface exists, it has ended, or it took too long. */
static int await_pasta(struct box_network *network, struct box_err *err)
{
	uint64_t end_ms = box_clock_ms() + PASTA_READY_MS;
	while (network->pidfd >= 0 && !box_router_has_uplink(&network->router)) {
		struct pollfd wait = {.fd = network->pidfd, .events = POLLIN};
		if (poll(&wait, 1, 1) == 1) {
			check_pasta(network);
		} else if (box_clock_ms() > end_ms) {
			end_pasta(network);
			try_later(network);
		}
	}
	if (network->pidfd < 0 && network->host_has_route) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
			"the network of boxes has no way out: pasta does not start");
	}
	return 0;
}

/* --- the host --- */

/* Refuses the present addresses of the host. Another gateway means that the host is in another network:
 * pasta reads the host's resolver when it starts, so it is restarted. */
static int follow_host(struct box_network *network, struct box_err *err)
{
	bool has_route = false;
	int r = box_router_read_host(&network->current, &has_route);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "the host's addresses: %s", box_err_strerror(-r));
	}
	network->host_has_route = has_route;
	bool moved = !box_netlink_address_list_equal(
		&network->current.gateways, &network->denied.gateways);
	if (!moved && !network->closed &&
		box_netlink_address_list_equal(&network->current.host, &network->denied.host)) {
		return 0;
	}
	r = box_router_set_denied(&network->router, &network->current, err);
	if (r < 0) {
		return r;
	}
	memcpy(&network->denied, &network->current, sizeof(network->denied));
	network->closed = false;
	if (moved && has_route) {
		end_pasta(network);
	}
	return 0;
}

static void host_changed(struct box_network *network)
{
	struct box_err err = {0};
	if (follow_host(network, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "network.closed", box_log_str("why", err.text));
		network->closed = true;
		end_pasta(network);
		try_later(network);
	}
	ensure_pasta(network);
}

/* The watch was opened before this first look, so no change is missed. */
static int make_router(struct box_network *network, struct box_err *err)
{
	if (!box_network_is_possible(network, err)) {
		return -ENOENT;
	}
	int r = box_router_read_host(&network->denied, &network->host_has_route);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "the host's addresses: %s", box_err_strerror(-r));
	}
	r = box_router_make(network->uid, network->gid, &network->denied, &network->router, err);
	network->made = r == 0;
	return r;
}

/* --- slots --- */

/* The lowest slot that was free long enough, or else the one that was free longest. */
static int find_slot(const struct box_network *network, uint32_t *ret_number)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t rest_ms = box_router_is_left_out("rest") ? 0 : SLOT_REST_MS;
	uint64_t oldest_ms = TAKEN;
	uint32_t oldest = 0;
	for (uint32_t i = 0; i < BOX_ROUTER_SLOTS_MAX && oldest_ms > 0; i++) {
		uint64_t since_ms = network->free_since_ms[i];
		if (since_ms != TAKEN && now_ms - since_ms > rest_ms) {
			since_ms = 0;
		}
		if (since_ms < oldest_ms) {
			oldest_ms = since_ms;
			oldest = i;
		}
	}
	if (oldest_ms == TAKEN) {
		return -EUSERS;
	}
	*ret_number = oldest;
	return 0;
}

/* Makes the router and its way out, if they are missing. */
static int make_ready(struct box_network *network, struct box_err *err)
{
	if (!network->made) {
		int r = make_router(network, err);
		if (r < 0) {
			return r;
		}
	}
	if (box_netlink_changed(network->watch)) {
		host_changed(network);
	}
	if (box_router_has_uplink(&network->router)) {
		return 0;
	}
	network->in_pause = false;
	ensure_pasta(network);
	return await_pasta(network, err);
}

int box_network_take_slot(
	struct box_network *network, struct box_network_slot *ret_slot, struct box_err *err)
{
	int r = make_ready(network, err);
	if (r < 0) {
		return r;
	}
	uint32_t number = 0;
	if (find_slot(network, &number) < 0) {
		return box_err_set(err, BOX_ERR_CAPACITY, EUSERS,
			"too many boxes with a network (limit %d)", BOX_ROUTER_SLOTS_MAX);
	}
	r = box_egress_rules_clear(&network->egress_rules, &network->router, number, err);
	if (r < 0) {
		network->free_since_ms[number] = box_clock_ms();
		return r;
	}
	network->free_since_ms[number] = TAKEN;
	*ret_slot = (struct box_network_slot){
		.number = number,
		.router_address = htonl(SLOTS_NET + 2 * number),
		.box_address = htonl(SLOTS_NET + 2 * number + 1),
	};
	return 0;
}

int box_network_attach(struct box_network *network, const struct box_network_slot *slot, int netns,
	struct box_err *err)
{
	char name[16];
	(void)snprintf(name, sizeof(name), BOX_ROUTER_VETH, slot->number);
	int index = ROUTER_INDEX + (int)slot->number;
	struct box_netlink_veth_end near = {name, index, network->router.netns};
	struct box_netlink_veth_end far = {"eth0", BOX_NETNS_ETH0_INDEX, netns};
	struct box_netlink_batch batch = {0};
	box_netlink_veth(&batch, &near, &far, MTU);
	box_netlink_disable_ipv6_autoconf(&batch, index);
	box_netlink_address(&batch, index, slot->router_address, 31);
	box_netlink_up(&batch, index);
	int r = box_netlink_send(network->router.socket, &batch);
	if (r == -EEXIST || r == -EBUSY) {
		/* The veth of an earlier box of this slot. Deleting a pair takes the kernel tens of
		 * milliseconds, so it was left to the end of that box's namespace. */
		struct box_netlink_batch old = {0};
		box_netlink_delete(&old, index);
		(void)box_netlink_send(network->router.socket, &old);
		r = box_netlink_send(network->router.socket, &batch);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "the network of the box: veth pair: %s",
			box_err_strerror(-r));
	}
	return 0;
}

int box_network_set_egress(struct box_network *network, const struct box_network_slot *slot,
	const struct box_egress *policy, uint32_t *ret_host_address, struct box_err *err)
{
	if (policy->limited) {
		/* Where a policy becomes addresses, see above. */
		const struct box_egress_rules_addresses addresses = box_egress_rules_resolve(
			policy);
		int r = box_egress_rules_set(
			&network->egress_rules, &network->router, slot->number, &addresses, err);
		if (r < 0) {
			return r;
		}
	}
	if (policy->host_port_count == 0) {
		return 0;
	}
	return box_host_ports_open(
		network->host_ports, slot->number, policy, ret_host_address, err);
}

void box_network_release_slot(struct box_network *network, const struct box_network_slot *slot)
{
	if (slot->number >= BOX_ROUTER_SLOTS_MAX || network->free_since_ms[slot->number] != TAKEN) {
		return;
	}
	box_host_ports_close(network->host_ports, slot->number);
	box_egress_rules_release(&network->egress_rules, slot->number);
	network->free_since_ms[slot->number] = box_clock_ms();
}

/* --- the loop --- */

static int get_fd(const void *arg)
{
	const struct box_network *network = arg;
	return network->epoll;
}

static void step(void *arg, short revents)
{
	struct box_network *network = arg;
	if (!revents) {
		return;
	}
	uint64_t expired;
	bool again = read(network->timer, &expired, sizeof(expired)) == sizeof(expired);
	if (again) {
		network->in_pause = false;
	}
	if (network->pidfd >= 0) {
		check_pasta(network);
	}
	box_host_ports_step(network->host_ports);
	bool changed = box_netlink_changed(network->watch);
	if (network->made && (changed || (again && network->closed))) {
		host_changed(network);
	}
	ensure_pasta(network);
}

struct box_event_source box_network_event_source(struct box_network *network)
{
	return (struct box_event_source){.arg = network, .fd = get_fd, .step = step};
}
