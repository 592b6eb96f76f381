/* The router's namespaces, and the rules for all boxes.
 *
 * The rules are set once; later only the two sets of denied addresses change. Everything is read back
 * and compared: if the rules are not exactly what was set, there is no router. The rules of a single
 * box are in egress_rules.c; this file knows of no box. */
#include "boxd/net/router.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/net/router_child.h"
#include "plan/egress.h"

#define READ_TRIES 16
#define LO_INDEX 1
#define COMMANDS_BYTES_MAX (2 * BOX_MIB) /* two full sets of addresses are 0.8 MiB */
#define FLOWS_PER_BOX 4096               /* connections and UDP flows of one box */
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

/* Every rule has this comment, so that nft's listing shows how many there are. */
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

/* Their order matters. A test that leaves a defence out uses `instead` in its place. */
static const struct rule {
	const char *defence;
	const char *chain;
	const char *text;
	const char *instead;
} rules[] = {
	/* A reset is sent at once; the kernel limits the rate of ICMP messages. */
	{"reset", "refuse", "meta l4proto tcp reject with tcp reset " MARK, NULL},
	{"reject", "refuse", "reject with icmpx type admin-prohibited " MARK, NULL},
	{"ipv6", "early", "meta nfproto ipv6 counter drop " MARK, NULL},
	/* The route back to a source address that is not the box's own uses another interface. */
	{"spoof", "early", "iifname \"b*\" fib saddr . iif oif missing counter drop " MARK, NULL},
	/* The ports of the host that this box may reach, see egress_rules.c. */
	{"egress", "input", "ip daddr " BOX_EGRESS_HOST " iifname vmap @egress " MARK, NULL},
	{"router", "input", "iifname \"b*\" " REFUSE, "iifname \"b*\" accept " MARK},
	{"answers", "forward",
		"iifname \"out\" oifname \"b*\" ct state established,related accept " MARK, NULL},
	{"ways", "forward", "iifname != \"b*\" counter drop " MARK, NULL},
	{"boxes", "forward", "oifname \"b*\" " REFUSE, "oifname \"b*\" accept " MARK},
	/* One box must not use up the ports and sockets of all. */
	{"flows", "forward",
		"ct state new add @flows { ip saddr ct count over " TEXT(
			FLOWS_PER_BOX) " } " REFUSE,
		NULL},
	/* A box with an allowlist goes to its own chain, here and below, after the refusals for all
	 * boxes. That chain accepts what is on the list and refuses the rest. */
	{"egress", "forward",
		"oifname \"out\" ip daddr " BOX_ROUTER_DNS
		" udp dport 53 iifname vmap @egress " MARK,
		NULL},
	/* Before the sets: the host itself may have this address. pasta answers in its place. */
	{"dns", "forward", "oifname \"out\" ip daddr " BOX_ROUTER_DNS " udp dport 53 accept " MARK,
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

/* Returns how many rules nft must list. */
static size_t write_rules(struct box_buf *commands)
{
	size_t count = 0;
	(void)box_buf_append_str(commands, sets);
	for (size_t i = 0; i < RULE_COUNT; i++) {
		const struct rule *rule = &rules[i];
		const char *text = box_router_is_left_out(rule->defence) ? rule->instead
									 : rule->text;
		if (text) {
			(void)box_buf_printf(
				commands, "add rule inet box %s %s\n", rule->chain, text);
			count++;
		}
	}
	return count;
}

static void write_set(
	struct box_buf *commands, const char *name, const struct box_netlink_address_list *list)
{
	(void)box_buf_printf(commands, "flush set inet box %s\n", name);
	for (size_t i = 0; i < list->count; i++) {
		char text[INET_ADDRSTRLEN];
		(void)inet_ntop(AF_INET, &list->addresses[i], text, sizeof(text));
		(void)box_buf_printf(commands, "add element inet box %s { %s }\n", name, text);
	}
}

/* --- reading the rules back --- */

static size_t count_text(const char *text, const char *what)
{
	size_t count = 0;
	while ((text = strstr(text, what))) {
		count++;
		text += strlen(what);
	}
	return count;
}

/* Whether a set in the listing has exactly these elements. */
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

/* nft's output for one `list` command; to be freed. */
static int list_with_nft(
	const struct box_router *router, const char *command, char **ret_text, struct box_err *err)
{
	_cleanup_(box_buf_free) struct box_buf commands = box_buf(COMMANDS_BYTES_MAX);
	(void)box_buf_printf(&commands, "%s\n", command);
	return box_router_child_run_nft(router, &commands, ret_text, err);
}

static int refuse_difference(struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
		"the rules of the router are not what was set");
}

/* One set at a time: of several, nft 1.0.6 finds only the last. Listing the whole ruleset would work,
 * but that grows with the boxes and their allowlists. */
static int check_sets(const struct box_router *router, const struct box_router_denied *denied,
	struct box_err *err)
{
	_cleanup_(box_free_p) char *host = NULL;
	_cleanup_(box_free_p) char *gateways = NULL;
	int r = list_with_nft(router, "list set inet box host", &host, err);
	if (r < 0) {
		return r;
	}
	r = list_with_nft(router, "list set inet box gateways", &gateways, err);
	if (r < 0) {
		return r;
	}
	if (!set_is(host, "host", &denied->host) ||
		!set_is(gateways, "gateways", &denied->gateways)) {
		return refuse_difference(err);
	}
	return 0;
}

static int check_rules(const struct box_router *router, size_t count, struct box_err *err)
{
	_cleanup_(box_free_p) char *listing = NULL;
	int r = list_with_nft(router, "list ruleset", &listing, err);
	if (r < 0) {
		return r;
	}
	if (count_text(listing, MARK) != count || count_text(listing, "policy drop;") != 2) {
		return refuse_difference(err);
	}
	return 0;
}

/* Adds the two sets, after all rules of a new router. */
static int set_rules(const struct box_router *router, const struct box_router_denied *denied,
	bool is_new, struct box_err *err)
{
	_cleanup_(box_buf_free) struct box_buf commands = box_buf(COMMANDS_BYTES_MAX);
	_cleanup_(box_free_p) char *ignored = NULL;
	size_t count = is_new ? write_rules(&commands) : 0;
	write_set(&commands, "host", &denied->host);
	write_set(&commands, "gateways", &denied->gateways);
	int r = box_router_child_run_nft(router, &commands, &ignored, err);
	if (r < 0) {
		return r;
	}
	if (is_new) {
		r = check_rules(router, count, err);
		if (r < 0) {
			return r;
		}
	}
	return check_sets(router, denied, err);
}

int box_router_set_denied(const struct box_router *router, const struct box_router_denied *denied,
	struct box_err *err)
{
	return set_rules(router, denied, false, err);
}

/* --- the namespaces --- */

/* fds: the user namespace and the network namespace in it. */
static int make_namespaces(const struct box_router *router, const void *arg, pid_t parent,
	int fds[BOX_ROUTER_CHILD_FDS_MAX])
{
	(void)arg;
	int r = box_router_child_become_owner(router, parent);
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

/* Turns forwarding on and opens rtnetlink, with boxd's rights instead of those of the router's user
 * namespace: this socket must reach into boxes too. */
static int open_socket(const struct box_router *router, const void *arg, pid_t parent,
	int fds[BOX_ROUTER_CHILD_FDS_MAX])
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

/* The router itself has the address at which boxes find ports of the host. */
static int add_host_address(const struct box_router *router, struct box_err *err)
{
	struct box_netlink_batch batch = {0};
	box_netlink_up(&batch, LO_INDEX);
	box_netlink_address(&batch, LO_INDEX, inet_addr(BOX_EGRESS_HOST), 32);
	int r = box_netlink_send(router->socket, &batch);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "router: address: %s", box_err_strerror(-r));
	}
	return 0;
}

int box_router_make(uid_t uid, gid_t gid, const struct box_router_denied *denied,
	struct box_router *ret_router, struct box_err *err)
{
	static const struct box_router_child_opener maker = {
		.name = "new namespaces", .run = make_namespaces, .fd_count = 2};
	static const struct box_router_child_opener socket_opener = {
		.name = "forwarding", .run = open_socket, .fd_count = 1};
	_cleanup_(box_router_close) struct box_router router = {uid, gid, -1, -1, -1};
	int fds[BOX_ROUTER_CHILD_FDS_MAX];
	int r = box_router_child_open(&maker, &router, fds, err);
	if (r < 0) {
		return r;
	}
	router.userns = fds[0];
	router.netns = fds[1];
	r = box_router_child_open(&socket_opener, &router, fds, err);
	if (r < 0) {
		return r;
	}
	router.socket = fds[0];
	r = add_host_address(&router, err);
	if (r < 0) {
		return r;
	}
	r = set_rules(&router, denied, true, err);
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

bool box_router_has_uplink(const struct box_router *router)
{
	struct box_netlink_batch batch = {0};
	box_netlink_route_to(&batch, htonl(UINT32_C(0x01010101)));
	return box_netlink_send(router->socket, &batch) == 0;
}

/* --- the host --- */

int box_router_read_host(struct box_router_denied *ret_denied, bool *ret_has_default_route)
{
	int r = -EINTR;
	/* Read again if something changed meanwhile. */
	for (int i = 0; i < READ_TRIES && r == -EINTR; i++) {
		ret_denied->host.count = 0;
		ret_denied->gateways.count = 0;
		r = box_netlink_addresses(&ret_denied->host);
		if (r == 0) {
			r = box_netlink_gateways(&ret_denied->gateways, ret_has_default_route);
		}
	}
	box_netlink_address_list_sort(&ret_denied->host);
	box_netlink_address_list_sort(&ret_denied->gateways);
	return r;
}
