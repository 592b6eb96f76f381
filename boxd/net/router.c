/* The router's namespaces and its rules.
 *
 * Rules are set by nft, once; later only the sets of refused addresses change. nft runs inside,
 * with CAP_NET_ADMIN over the router and no right outside of it. What was set is read back and
 * compared: a rule that is not there is a router that is not there. */
#include "boxd/net/router.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "boxd/net/network.h"
#include "boxd/net/router_nft.h"
#include "plan/egress.h"
#include "protocol/packet.h"

#define CHILD_MS 10000 /* a child of ours that takes longer is ended */
#define LOOKS_MAX 16
#define LO_INDEX 1
#define FLOWS_PER_BOX 4096 /* connections and UDP flows that one box may have at once */
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)

#ifdef BOX_ROUTER_WITHOUT
const char *box_router_without = "";
bool box_router_is_left_out(const char *name)
{
	const char *at = strstr(box_router_without, name);
	size_t len = strlen(name);
	while (at && ((at != box_router_without && at[-1] != ',') || (at[len] && at[len] != ','))) {
		at = strstr(at + len, name);
	}
	return at != NULL;
}
#else
bool box_router_is_left_out(const char *name)
{
	(void)name;
	return false;
}
#endif

/* Every rule has this comment, so that they can be counted in what nft lists. */
#define MARK "comment \"box\""
#define REFUSE "counter jump refuse " MARK

static const char *const sets =
	"table inet box {\n"
	"set host { type ipv4_addr; }\n"
	"set gateways { type ipv4_addr; }\n"
	"set flows { type ipv4_addr; size 65535; flags dynamic; }\n"
	"map egress { type ifname : verdict; }\n"
	"chain refuse { }\n"
	"chain early { type filter hook prerouting priority -300; policy accept; }\n"
	"chain input { type filter hook input priority 0; policy drop; }\n"
	"chain forward { type filter hook forward priority 0; policy drop; }\n"
	"chain late { type nat hook postrouting priority 100; policy accept; }\n"
	"}\n";

/* In this order. A test that leaves a defence out puts `instead` in its place. */
static const struct rule {
	const char *defence;
	const char *chain;
	const char *text;
	const char *instead;
} rules[] = {
	/* A reset comes at once, where the kernel sends only so many ICMP messages a second. */
	{"reset", "refuse", "meta l4proto tcp reject with tcp reset " MARK, NULL},
	{"reject", "refuse", "reject with icmpx type admin-prohibited " MARK, NULL},
	{"ipv6", "early", "meta nfproto ipv6 counter drop " MARK, NULL},
	/* A source that is not the box's own has its route elsewhere. */
	{"spoof", "early", "iifname \"b*\" fib saddr . iif oif missing counter drop " MARK, NULL},
	/* The ports of the host that this box may have, see egress_rules.c. */
	{"egress", "input", "ip daddr " BOX_EGRESS_HOST " iifname vmap @egress " MARK, NULL},
	{"router", "input", "iifname \"b*\" " REFUSE, "iifname \"b*\" accept " MARK},
	{"answers", "forward",
		"iifname \"out\" oifname \"b*\" ct state established,related accept " MARK, NULL},
	{"ways", "forward", "iifname != \"b*\" counter drop " MARK, NULL},
	{"boxes", "forward", "oifname \"b*\" " REFUSE, "oifname \"b*\" accept " MARK},
	/* One box cannot take the ports and sockets of all. */
	{"flows", "forward",
		"ct state new add @flows { ip saddr ct count over " TEXT(
			FLOWS_PER_BOX) " } " REFUSE,
		NULL},
	/* Boxes with an allowlist go their own way, here and below, once nothing refuses it for all;
	 * it leads nowhere but to what they may have. */
	{"egress", "forward",
		"oifname \"out\" ip daddr " BOX_NETWORK_DNS
		" udp dport 53 iifname vmap @egress " MARK,
		NULL},
	/* Before the sets: a host may have this address itself. pasta answers in its place. */
	{"dns", "forward", "oifname \"out\" ip daddr " BOX_NETWORK_DNS " udp dport 53 accept " MARK,
		NULL},
	{"special", "forward",
		"ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/4, 240.0.0.0/4, "
		"100.100.100.200, 192.0.0.192 } " REFUSE,
		NULL},
	{"host", "forward", "ip daddr @host " REFUSE, NULL},
	{"gateway", "forward", "ip daddr @gateways " REFUSE, NULL},
	{"egress", "forward", "oifname \"out\" iifname vmap @egress " MARK, NULL},
	{"out", "forward", "oifname \"out\" accept " MARK, NULL},
	{"masquerade", "late", "oifname \"out\" masquerade " MARK, NULL},
};
#define RULE_COUNT (BOX_COUNT_OF(rules))

/* Returns how many rules there must be then. */
static size_t write_rules(int fd)
{
	size_t count = 0;
	(void)dprintf(fd, "%s", sets);
	for (size_t i = 0; i < RULE_COUNT; i++) {
		const struct rule *rule = &rules[i];
		const char *text = box_router_is_left_out(rule->defence) ? rule->instead
									 : rule->text;
		if (text) {
			(void)dprintf(fd, "add rule inet box %s %s\n", rule->chain, text);
			count++;
		}
	}
	return count;
}

static void write_set(int fd, const char *name, const struct box_netlink_address_list *list)
{
	(void)dprintf(fd, "flush set inet box %s\n", name);
	for (size_t i = 0; i < list->count; i++) {
		char text[INET_ADDRSTRLEN];
		(void)inet_ntop(AF_INET, &list->addresses[i], text, sizeof(text));
		(void)dprintf(fd, "add element inet box %s { %s }\n", name, text);
	}
}

/* Again when something changed while it was read. */
int box_router_read_host(struct box_router_denied *ret_refused, bool *ret_way)
{
	int r = -EINTR;
	for (int turn = 0; turn < LOOKS_MAX && r == -EINTR; turn++) {
		ret_refused->host.count = 0;
		ret_refused->gateways.count = 0;
		r = box_netlink_addresses(&ret_refused->host);
		r = r < 0 ? r : box_netlink_gateways(&ret_refused->gateways, ret_way);
	}
	box_netlink_address_list_sort(&ret_refused->host);
	box_netlink_address_list_sort(&ret_refused->gateways);
	return r;
}

/* Children. */

int box_router_child_begin(pid_t parent)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	for (int number = 1; number < NSIG; number++) {
		(void)sigaction(number, &action, NULL);
	}
	sigset_t none;
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 ||
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	return getppid() == parent ? 0 : -EOWNERDEAD;
}

int box_router_child_become(uid_t uid, gid_t gid, pid_t parent)
{
	if (uid != geteuid() &&
		(setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
			setresuid(uid, uid, uid) < 0)) {
		return -errno;
	}
	/* The change of ids has taken this away. */
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	return getppid() == parent ? 0 : -EOWNERDEAD;
}

void box_router_child_exec(const char *path, char *const arguments[], int input, int output)
{
	char *const environment[] = {NULL};
	if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
		dup2(output, STDERR_FILENO) >= 0 && close_range(3, ~0U, 0) == 0 &&
		chdir("/") == 0) {
		(void)execve(path, arguments, environment);
	}
}

int box_router_child_wait(pid_t pid)
{
	_cleanup_(box_close_p) int pidfd = pidfd_open(pid, 0);
	struct pollfd wait = {.fd = pidfd, .events = POLLIN};
	if (pidfd < 0 || poll(&wait, 1, CHILD_MS) != 1) {
		(void)kill(pid, SIGKILL);
	}
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	return info.si_code == CLD_EXITED ? info.si_status : -EINTR;
}

static int make_namespaces(
	const struct box_router *router, const void *arg, pid_t parent, int fds[BOX_ROUTER_FDS_MAX])
{
	(void)arg;
	int r = box_router_child_become(router->uid, router->gid, parent);
	if (r < 0) {
		return r;
	}
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		return -errno;
	}
	fds[0] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	fds[1] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return fds[0] < 0 || fds[1] < 0 ? -errno : 0;
}

/* With our own rights, not those of the router's user namespace: it must reach into boxes too. */
static int open_socket(
	const struct box_router *router, const void *arg, pid_t parent, int fds[BOX_ROUTER_FDS_MAX])
{
	(void)arg;
	(void)parent;
	if (setns(router->netns, CLONE_NEWNET) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int forward = open(
		"/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
	if (forward < 0 || write(forward, "1", 1) != 1) {
		return -errno;
	}
	return box_netlink_open(&fds[0]);
}

_Noreturn static void run_opener(const struct box_router_opener *opener,
	const struct box_router *router, pid_t parent, int socket)
{
	int fds[BOX_ROUTER_FDS_MAX];
	memset(fds, 0xff, sizeof(fds)); /* -1 each */
	int r = box_router_child_begin(parent);
	int32_t result = r < 0 ? r : opener->run(router, opener->arg, parent, fds);
	(void)box_packet_send(
		socket, &result, sizeof(result), fds, result < 0 ? 0 : opener->fd_count);
	_exit(0);
}

int box_router_open(const struct box_router_opener *opener, const struct box_router *router,
	int ret_fds[BOX_ROUTER_FDS_MAX], struct box_err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "router: socket: %s", box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = sockets[0];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_opener(opener, router, parent, sockets[1]);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(sockets[1]);
	struct box_packet packet = {0};
	if (r == 0) {
		(void)box_router_child_wait(pid);
		r = box_packet_recv(ours, &packet);
	}
	if (r == 0) {
		r = packet.size == sizeof(int32_t) ? (int32_t)packet.kind : -EPROTO;
	}
	if (r == 0 && packet.fd_count == opener->fd_count) {
		memcpy(ret_fds, packet.fds, opener->fd_count * sizeof(ret_fds[0]));
		return 0;
	}
	box_packet_close_fds(&packet);
	r = r < 0 ? r : -EPROTO;
	return box_err_set(
		err, BOX_ERR_OS, -r, "router: %s: %s", opener->name, box_err_strerror(-r));
}

const char *box_router_find_program(const char *const *paths)
{
	for (; *paths; paths++) {
		if (access(*paths, X_OK) == 0) {
			return *paths;
		}
	}
	return NULL;
}

static size_t count_text(const char *text, const char *what)
{
	size_t count = 0;
	while ((text = strstr(text, what))) {
		count++;
		text += strlen(what);
	}
	return count;
}

/* Whether the listing has exactly these elements in a set. */
static bool set_is(const char *text, const char *name, const struct box_netlink_address_list *list)
{
	char opening[32];
	(void)snprintf(opening, sizeof(opening), "set %s {", name);
	const char *at = strstr(text, opening);
	const char *end = at ? strstr(at, "\n\t}") : NULL;
	at = at ? strstr(at, "elements = {") : NULL;
	struct box_netlink_address_list *found = calloc(1, sizeof(*found));
	bool same = found && end;
	for (at = at && at < end ? at + strcspn(at, "{") : NULL; same && at && at < end;) {
		at += strspn(at, "{}, \t\n");
		size_t len = strcspn(at, "{}, \t\n");
		char word[INET_ADDRSTRLEN] = "";
		uint32_t address;
		if (len > 0 && at < end) {
			(void)snprintf(word, sizeof(word), "%.*s", (int)len, at);
			same = len < sizeof(word) && inet_pton(AF_INET, word, &address) == 1 &&
				box_netlink_address_list_add(found, address) == 0;
		}
		at += len;
	}
	if (same) {
		box_netlink_address_list_sort(found);
		same = box_netlink_address_list_equal(found, list);
	}
	free(found);
	return same;
}

/* What nft lists for a question; to be freed. */
static int ask_nft(
	struct box_router *router, const char *question, char **ret_text, struct box_err *err)
{
	_cleanup_(box_close_p) int input = memfd_create("list", MFD_CLOEXEC);
	if (input < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "nft: memfd: %s", box_err_strerror(errno));
	}
	(void)dprintf(input, "%s\n", question);
	return box_router_run_nft(router, input, ret_text, err);
}

static int differs(struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
		"the rules of the router are not what was set");
}

/* One at a time: nft 1.0.6 finds only the last of several. The whole ruleset would do, but grows
 * with what boxes do and are allowed to. */
static int check_sets(
	struct box_router *router, const struct box_router_denied *refused, struct box_err *err)
{
	_cleanup_(box_free_p) char *host = NULL;
	_cleanup_(box_free_p) char *gateways = NULL;
	int r = ask_nft(router, "list set inet box host", &host, err);
	r = r < 0 ? r : ask_nft(router, "list set inet box gateways", &gateways, err);
	if (!host || !gateways) {
		return r < 0 ? r : -EIO;
	}
	return set_is(host, "host", &refused->host) &&
			set_is(gateways, "gateways", &refused->gateways)
		? 0
		: differs(err);
}

static int check_rules(struct box_router *router, size_t count, struct box_err *err)
{
	_cleanup_(box_free_p) char *listing = NULL;
	int r = ask_nft(router, "list ruleset", &listing, err);
	if (!listing) {
		return r < 0 ? r : -EIO;
	}
	return count_text(listing, MARK) == count && count_text(listing, "policy drop;") == 2
		? 0
		: differs(err);
}

static int change_rules(struct box_router *router, const struct box_router_denied *refused,
	bool anew, struct box_err *err)
{
	_cleanup_(box_close_p) int input = memfd_create("rules", MFD_CLOEXEC);
	_cleanup_(box_free_p) char *said = NULL;
	if (input < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "nft: memfd: %s", box_err_strerror(errno));
	}
	size_t count = anew ? write_rules(input) : 0;
	write_set(input, "host", &refused->host);
	write_set(input, "gateways", &refused->gateways);
	int r = box_router_run_nft(router, input, &said, err);
	r = r < 0 || !anew ? r : check_rules(router, count, err);
	return r < 0 ? r : check_sets(router, refused, err);
}

int box_router_deny(
	struct box_router *router, const struct box_router_denied *refused, struct box_err *err)
{
	return change_rules(router, refused, false, err);
}

/* The address at which boxes find ports of the host is the router's. */
static int have_host_address(struct box_router *router, struct box_err *err)
{
	struct box_netlink_batch batch = {0};
	box_netlink_up(&batch, LO_INDEX);
	box_netlink_address(&batch, LO_INDEX, inet_addr(BOX_EGRESS_HOST), 32);
	int r = box_netlink_send(router->socket, &batch);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "router: address: %s", box_err_strerror(-r))
		     : 0;
}

int box_router_make(uid_t uid, gid_t gid, const struct box_router_denied *refused,
	struct box_router *ret_router, struct box_err *err)
{
	static const struct box_router_opener maker = {
		.name = "new namespaces", .run = make_namespaces, .fd_count = 2};
	static const struct box_router_opener socket_opener = {
		.name = "forwarding", .run = open_socket, .fd_count = 1};
	_cleanup_(box_router_close) struct box_router router = {uid, gid, -1, -1, -1};
	int fds[BOX_ROUTER_FDS_MAX];
	memset(fds, 0xff, sizeof(fds)); /* -1 each */
	int r = box_router_open(&maker, &router, fds, err);
	if (r < 0) {
		return r;
	}
	router.userns = fds[0];
	router.netns = fds[1];
	r = box_router_open(&socket_opener, &router, fds, err);
	router.socket = r < 0 ? -1 : fds[0];
	r = r < 0 ? r : have_host_address(&router, err);
	r = r < 0 ? r : change_rules(&router, refused, true, err);
	if (r < 0) {
		return r;
	}
	*ret_router = router;
	router = (struct box_router){uid, gid, -1, -1, -1};
	return 0;
}

void box_router_close(struct box_router *router)
{
	box_close_p(&router->socket);
	box_close_p(&router->netns);
	box_close_p(&router->userns);
}

bool box_router_has_uplink(struct box_router *router)
{
	struct box_netlink_batch batch = {0};
	box_netlink_route_to(&batch, htonl(UINT32_C(0x01010101)));
	return box_netlink_send(router->socket, &batch) == 0;
}
