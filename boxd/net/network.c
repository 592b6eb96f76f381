/* Seats at the router, and the lives of the router and of pasta.
 *
 * The router is made for the first box and stays. pasta is started when the host has a default
 * route, and again when it dies. When the host's addresses cannot be refused, nothing goes out:
 * pasta is ended until they can be. */
#include "boxd/net/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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
#include "boxd/net/router.h"
#include "boxd/net/router_nft.h"

#define SEATS_NET UINT32_C(0xc6130000) /* 198.19.0.0: two addresses a seat */
/* Answers that were meant for the last box of a seat do not come to the next one: the kernel
 * forgets a flow of UDP sooner than this. */
#define SEAT_REST_MS 180000
#define TAKEN UINT64_MAX
#define ROUTER_INDEX 100000 /* of b0, beyond what the kernel gives itself */
#define MTU 65520           /* pasta's own */

#define PASTA_READY_MS 2000
#define PASTA_PAUSE_MIN_MS 100
#define PASTA_PAUSE_MAX_MS 10000
#define PASTA_GOOD_RUN_MS 10000
#define TUN "/dev/net/tun"

struct box_network {
	uid_t uid;
	gid_t gid;
	bool made; /* the router */
	struct box_router router;
	int epoll; /* of the three that follow */
	int timer; /* for what is to be tried again */
	int watch; /* the host's addresses and routes */
	int pidfd; /* pasta's, or -1 */
	uint64_t pasta_started_ms;
	uint32_t pause_ms;
	bool in_pause;
	bool host_has_way;
	bool closed; /* the host's addresses are not refused: nothing may go out */
	struct box_router_denied refused;
	struct box_router_denied wanted;
	struct box_egress_rules_slots egress;
	struct box_host_ports *offers;
	uint64_t free_since_ms[BOX_NETWORK_SLOTS_MAX]; /* 0: always; TAKEN: not now */
};

static const char *find_pasta(void)
{
	static const char *const paths[] = {
		"/usr/bin/pasta", "/usr/local/bin/pasta", "/bin/pasta", NULL};
	return box_router_find_program(paths);
}

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
	network->offers = box_host_ports_new(&network->router, network->epoll);
	return network;
}

/* A pasta that is ended by us; one that has died by itself is only waited for. */
static void end_pasta(struct box_network *network)
{
	if (network->pidfd < 0) {
		return;
	}
	(void)pidfd_send_signal(network->pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)network->pidfd, &(siginfo_t){0}, WEXITED) < 0 &&
		errno == EINTR) {
	}
	/* By hand: a box that is being made may hold a copy of the fd, which would keep it
	 * there. */
	(void)epoll_ctl(network->epoll, EPOLL_CTL_DEL, network->pidfd, NULL);
	(void)close(network->pidfd);
	network->pidfd = -1;
}

void box_network_free(struct box_network *network)
{
	if (!network) {
		return;
	}
	box_host_ports_free(network->offers);
	end_pasta(network);
	box_router_close(&network->router);
	box_close_p(&network->watch);
	box_close_p(&network->timer);
	box_close_p(&network->epoll);
	free(network);
}

bool box_network_is_possible(struct box_network *network, struct box_err *err)
{
	const char *why = NULL;
	if (!find_pasta()) {
		why = "pasta is missing: install passt and nftables";
	} else if (!box_router_nft_path()) {
		why = "nft is missing: install passt and nftables";
	} else if (access(TUN, F_OK) < 0) {
		why = "no " TUN ": load the module tun, or give the container this device";
	} else if (network->uid == geteuid() && access(TUN, R_OK | W_OK) < 0) {
		why = TUN " is not open to this user: its mode must be 666";
	}
	if (why) {
		(void)box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOENT,
			"boxes cannot have a network: %s", why);
	}
	return !why;
}

/* pasta. */

/* Where the child of pasta puts what pasta opens: a folder that only it sees. */
#define PASTA_FOLDER "/tmp"
#define PASTA_NETNS PASTA_FOLDER "/net"
#define PASTA_USERNS PASTA_FOLDER "/user"
#define PASTA_TUN PASTA_FOLDER "/tun"

static int bind_fd(int fd, const char *path)
{
	char source[32];
	(void)snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	_cleanup_(box_close_p) int target = open(
		path, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
	return target < 0 || mount(source, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* pasta takes namespaces by path, and the process that would lend it /proc/PID/ns would be one
 * that pasta's uid may look into. So they are put into a mount namespace of its own. */
static int show_namespaces(const struct box_router *router)
{
	const char *options = "size=64k,mode=755";
	(void)umask(0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", PASTA_FOLDER, "tmpfs", MS_NOSUID | MS_NOEXEC, options) < 0) {
		return -errno;
	}
	/* On hosts without udev the device is root's alone; there root gives one of its own. */
	if (router->uid != geteuid() && mknod(PASTA_TUN, S_IFCHR | 0666, makedev(10, 200)) == 0) {
		(void)mount(PASTA_TUN, TUN, NULL, MS_BIND, NULL);
	}
	(void)umask(077);
	int r = bind_fd(router->netns, PASTA_NETNS);
	return r < 0 ? r : bind_fd(router->userns, PASTA_USERNS);
}

#define A(text) ((char[]){text})

_Noreturn static void run_pasta(const struct box_router *router, const char *path, pid_t parent)
{
	char *const arguments[] = {
		/* clang-format off */
		A("pasta"), A("--foreground"), A("--quiet"), A("--ipv4-only"), A("--config-net"),
		A("--ns-ifname"), A(BOX_ROUTER_UPLINK), A("--dns-forward"), A(BOX_NETWORK_DNS),
		A("--tcp-ports"), A("none"), A("--udp-ports"), A("none"), /* into boxes */
		A("--tcp-ns"), A("none"), A("--udp-ns"), A("none"), /* to the host's loopback */
		A("--no-dhcp"), A("--no-dhcpv6"), A("--no-ndp"), A("--no-ra"),
		A("--no-netns-quit"), A("--userns"), A(PASTA_USERNS), A("--netns"), A(PASTA_NETNS),
		box_router_is_left_out("map-gw") ? NULL : A("--no-map-gw"), NULL,
		/* clang-format on */
	};
	/* In a namespace of our own we are uid 0: even so exec gives no rights. */
	long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)setsid();
	if (null >= 0 && box_router_child_begin(parent) == 0 && show_namespaces(router) == 0 &&
		prctl(PR_SET_SECUREBITS, bits) == 0 &&
		prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) == 0 &&
		box_router_child_become(router->uid, router->gid, parent) == 0) {
		box_router_child_exec(path, arguments, null, null);
	}
	_exit(127);
}

static int start_pasta(struct box_network *network)
{
	const char *path = find_pasta();
	if (!path) {
		return -ENOENT;
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_pasta(&network->router, path, parent);
	}
	if (pid < 0) {
		return -errno;
	}
	network->pidfd = pidfd_open(pid, 0);
	if (network->pidfd < 0) {
		(void)kill(pid, SIGKILL);
		return waitpid(pid, NULL, 0) < 0 ? -errno : -EMFILE;
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

/* Starts pasta when it can run and does not. */
static void want_pasta(struct box_network *network)
{
	if (!network->made || network->pidfd >= 0 || network->in_pause || network->closed ||
		!network->host_has_way) {
		return;
	}
	int r = start_pasta(network);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "network.pasta_failed", box_log_errno("error", r));
		end_pasta(network);
		try_later(network);
	}
}

static void pasta_ended(struct box_network *network)
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

/* Until its interface is there, or it has ended, or the time is over. */
static int await_pasta(struct box_network *network, struct box_err *err)
{
	uint64_t end_ms = box_clock_ms() + PASTA_READY_MS;
	while (network->pidfd >= 0 && !box_router_has_uplink(&network->router)) {
		struct pollfd wait = {.fd = network->pidfd, .events = POLLIN};
		if (poll(&wait, 1, 1) == 1) {
			pasta_ended(network);
		} else if (box_clock_ms() > end_ms) {
			end_pasta(network);
			try_later(network);
		}
	}
	if (network->pidfd < 0 && network->host_has_way) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
			"the network of boxes has no way out: pasta does not start");
	}
	return 0;
}

/* The host. */

/* Refuses what the host has now. Another gateway is another network: pasta reads the host's
 * resolver at its start, so it begins anew. */
static int follow_host(struct box_network *network, struct box_err *err)
{
	bool way = false;
	int r = box_router_read_host(&network->wanted, &way);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "the host's addresses: %s", box_err_strerror(-r));
	}
	network->host_has_way = way;
	bool moved = !box_netlink_address_list_equal(
		&network->wanted.gateways, &network->refused.gateways);
	if (!moved && !network->closed &&
		box_netlink_address_list_equal(&network->wanted.host, &network->refused.host)) {
		return 0;
	}
	r = box_router_deny(&network->router, &network->wanted, err);
	if (r < 0) {
		return r;
	}
	memcpy(&network->refused, &network->wanted, sizeof(network->refused));
	network->closed = false;
	if (moved && way) {
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
	want_pasta(network);
}

/* The watch was open before this first look: no change falls between. */
static int make_router(struct box_network *network, struct box_err *err)
{
	if (!box_network_is_possible(network, err)) {
		return -ENOENT;
	}
	int r = box_router_read_host(&network->refused, &network->host_has_way);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "the host's addresses: %s", box_err_strerror(-r));
	}
	r = box_router_make(network->uid, network->gid, &network->refused, &network->router, err);
	network->made = r == 0;
	return r;
}

/* Seats. */

/* The lowest that has rested; when none has, the one that has rested longest. */
static int take_seat(struct box_network *network, uint32_t *ret_number)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t rest_ms = box_router_is_left_out("rest") ? 0 : SEAT_REST_MS;
	uint64_t oldest_ms = TAKEN;
	uint32_t oldest = 0;
	for (uint32_t i = 0; i < BOX_NETWORK_SLOTS_MAX && oldest_ms > 0; i++) {
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
	network->free_since_ms[oldest] = TAKEN;
	*ret_number = oldest;
	return 0;
}

int box_network_slot(
	struct box_network *network, struct box_network_slot *ret_seat, struct box_err *err)
{
	int r = network->made ? 0 : make_router(network, err);
	if (r < 0) {
		return r;
	}
	if (box_netlink_changed(network->watch)) {
		host_changed(network);
	}
	if (!box_router_has_uplink(&network->router)) {
		network->in_pause = false;
		want_pasta(network);
		r = await_pasta(network, err);
	}
	uint32_t number = 0;
	if (r == 0 && take_seat(network, &number) < 0) {
		r = box_err_set(err, BOX_ERR_CAPACITY, EUSERS,
			"no more than %d boxes can have a network", BOX_NETWORK_SLOTS_MAX);
	}
	if (r == 0) {
		r = box_egress_rules_clear(&network->egress, &network->router, number, err);
		network->free_since_ms[number] = r < 0 ? box_clock_ms() : TAKEN;
	}
	if (r < 0) {
		return r;
	}
	*ret_seat = (struct box_network_slot){
		.number = number,
		.router_address = htonl(SEATS_NET + 2 * number),
		.box_address = htonl(SEATS_NET + 2 * number + 1),
	};
	return 0;
}

int box_network_attach(struct box_network *network, const struct box_network_slot *seat, int netns,
	struct box_err *err)
{
	char name[16];
	(void)snprintf(name, sizeof(name), "b%u", seat->number);
	int index = ROUTER_INDEX + (int)seat->number;
	struct box_netlink_veth_end near = {name, index, network->router.netns};
	struct box_netlink_veth_end far = {"eth0", BOX_NETWORK_ETH0_INDEX, netns};
	struct box_netlink_batch batch = {0};
	box_netlink_veth(&batch, &near, &far, MTU);
	box_netlink_disable_ipv6_autoconf(&batch, index);
	box_netlink_address(&batch, index, seat->router_address, 31);
	box_netlink_up(&batch, index);
	int r = box_netlink_send(network->router.socket, &batch);
	if (r == -EEXIST || r == -EBUSY) {
		/* Of a box that had this seat long ago. Taking a pair away takes the kernel tens of
		 * milliseconds, so it is left to the end of the box's namespace. */
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

int box_network_limit(struct box_network *network, const struct box_network_slot *seat,
	const struct box_egress *egress, uint32_t *ret_host_address, struct box_err *err)
{
	int r = egress->limited ? box_egress_rules_set(&network->egress, &network->router,
					  seat->number, egress, err)
				: 0;
	return r < 0 || egress->host_port_count == 0
		? r
		: box_host_ports_open(network->offers, seat->number, egress, ret_host_address, err);
}

void box_network_release(struct box_network *network, const struct box_network_slot *seat)
{
	if (seat->number < BOX_NETWORK_SLOTS_MAX && network->free_since_ms[seat->number] == TAKEN) {
		box_host_ports_close(network->offers, seat->number);
		box_egress_rules_release(&network->egress, seat->number);
		network->free_since_ms[seat->number] = box_clock_ms();
	}
}

int box_network_fd(const struct box_network *network)
{
	return network->epoll;
}

void box_network_step(struct box_network *network)
{
	uint64_t expired;
	bool again = read(network->timer, &expired, sizeof(expired)) == sizeof(expired);
	if (again) {
		network->in_pause = false;
	}
	if (network->pidfd >= 0) {
		pasta_ended(network);
	}
	box_host_ports_step(network->offers);
	bool changed = box_netlink_changed(network->watch);
	if (network->made && (changed || (again && network->closed))) {
		host_changed(network);
	}
	want_pasta(network);
}
