/* rtnetlink messages, written and parsed by hand with the kernel's own structs, no library. A batch is
 * one buffer on the caller's stack; answers come from the kernel, but lengths are still checked. */
#include "boxd/net/netlink.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ANSWER_BYTES 32768 /* the kernel sends at most this much at once */
#define ANSWER_MS 2000     /* the kernel answers at once, or something is wrong */
#define DRAIN_TURNS 1024
#define RTM_BEFORE NLMSG_SPACE(sizeof(struct rtmsg))
#define CREATE (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)

static int open_socket(uint32_t groups, int flags, int *ret_fd)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
	if (fd < 0) {
		return -errno;
	}
	/* Otherwise an error answer contains the whole request. */
	int one = 1;
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int box_netlink_open(int *ret_fd)
{
	return open_socket(0, 0, ret_fd);
}

int box_netlink_watch(int *ret_fd)
{
	return open_socket(RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE, SOCK_NONBLOCK, ret_fd);
}

bool box_netlink_changed(int fd)
{
	bool changed = false;
	for (int turn = 0; turn < DRAIN_TURNS; turn++) {
		char bytes[64]; /* the rest of a message is discarded */
		ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
		if (got < 0 && errno != ENOBUFS) {
			break;
		}
		changed = true;
	}
	return changed;
}

/* Writing. */

static void put(struct box_netlink_batch *batch, const void *data, size_t len)
{
	size_t at = batch->size;
	size_t end = at + NLMSG_ALIGN(len);
	batch->size = end; /* larger than the buffer if something did not fit: then not sent */
	if (end <= sizeof(batch->bytes) && len > 0) {
		memset(batch->bytes + at, 0, end - at);
		memcpy(batch->bytes + at, data, len);
	}
}

static void put_attribute(
	struct box_netlink_batch *batch, uint16_t type, const void *data, size_t len)
{
	struct nlattr head = {.nla_type = type, .nla_len = (uint16_t)(NLA_HDRLEN + len)};
	put(batch, &head, sizeof(head));
	put(batch, data, len);
}

static void put_u32(struct box_netlink_batch *batch, uint16_t type, uint32_t value)
{
	put_attribute(batch, type, &value, sizeof(value));
}

static void put_text(struct box_netlink_batch *batch, uint16_t type, const char *text)
{
	put_attribute(batch, type, text, strlen(text) + 1);
}

static size_t nest_begin(struct box_netlink_batch *batch, uint16_t type)
{
	size_t at = batch->size;
	put_attribute(batch, type, NULL, 0);
	return at;
}

static void nest_end(struct box_netlink_batch *batch, size_t at)
{
	if (batch->size <= sizeof(batch->bytes)) {
		uint16_t len = (uint16_t)(batch->size - at);
		memcpy(batch->bytes + at, &len, sizeof(len)); /* nla_len comes first */
	}
}

/* The sequence number is the message's position in the batch, from 1. */
static size_t message_begin(struct box_netlink_batch *batch, uint16_t type, uint16_t flags)
{
	size_t at = batch->size;
	batch->count++;
	struct nlmsghdr head = {.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
		.nlmsg_seq = batch->count};
	put(batch, &head, sizeof(head));
	return at;
}

static void message_end(struct box_netlink_batch *batch, size_t at)
{
	if (batch->size <= sizeof(batch->bytes)) {
		uint32_t len = (uint32_t)(batch->size - at);
		memcpy(batch->bytes + at, &len, sizeof(len)); /* nlmsg_len comes first */
	}
}

static void put_link(struct box_netlink_batch *batch, int index, unsigned flags)
{
	struct ifinfomsg link = {.ifi_index = index, .ifi_flags = flags, .ifi_change = flags};
	put(batch, &link, sizeof(link));
}

static void put_end(
	struct box_netlink_batch *batch, const struct box_netlink_veth_end *end, uint32_t mtu)
{
	put_text(batch, IFLA_IFNAME, end->name);
	put_u32(batch, IFLA_MTU, mtu);
	put_u32(batch, IFLA_NET_NS_FD, (uint32_t)end->netns);
}

void box_netlink_veth(struct box_netlink_batch *batch, const struct box_netlink_veth_end *near,
	const struct box_netlink_veth_end *far, uint32_t mtu)
{
	size_t message = message_begin(batch, RTM_NEWLINK, CREATE);
	put_link(batch, near->index, 0);
	put_end(batch, near, mtu);
	size_t info = nest_begin(batch, IFLA_LINKINFO);
	put_text(batch, IFLA_INFO_KIND, "veth");
	size_t data = nest_begin(batch, IFLA_INFO_DATA);
	size_t peer = nest_begin(batch, VETH_INFO_PEER);
	put_link(batch, far->index, 0);
	put_end(batch, far, mtu);
	nest_end(batch, peer);
	nest_end(batch, data);
	nest_end(batch, info);
	message_end(batch, message);
}

void box_netlink_disable_ipv6_autoconf(struct box_netlink_batch *batch, int index)
{
	size_t message = message_begin(batch, RTM_SETLINK, NLM_F_ACK);
	batch->optional |= UINT32_C(1) << batch->count;
	put_link(batch, index, 0);
	size_t families = nest_begin(batch, IFLA_AF_SPEC);
	size_t family = nest_begin(batch, AF_INET6);
	uint8_t none = IN6_ADDR_GEN_MODE_NONE;
	put_attribute(batch, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
	nest_end(batch, family);
	nest_end(batch, families);
	message_end(batch, message);
}

void box_netlink_up(struct box_netlink_batch *batch, int index)
{
	size_t message = message_begin(batch, RTM_NEWLINK, NLM_F_ACK);
	put_link(batch, index, IFF_UP);
	message_end(batch, message);
}

void box_netlink_delete(struct box_netlink_batch *batch, int index)
{
	size_t message = message_begin(batch, RTM_DELLINK, NLM_F_ACK);
	put_link(batch, index, 0);
	message_end(batch, message);
}

void box_netlink_address(
	struct box_netlink_batch *batch, int index, uint32_t address, unsigned prefix)
{
	size_t message = message_begin(batch, RTM_NEWADDR, CREATE);
	struct ifaddrmsg head = {.ifa_family = AF_INET,
		.ifa_prefixlen = (uint8_t)prefix,
		.ifa_scope = RT_SCOPE_UNIVERSE,
		.ifa_index = (uint32_t)index};
	put(batch, &head, sizeof(head));
	put_u32(batch, IFA_LOCAL, address);
	put_u32(batch, IFA_ADDRESS, address);
	message_end(batch, message);
}

void box_netlink_default_route(struct box_netlink_batch *batch, int index, uint32_t gateway)
{
	size_t message = message_begin(batch, RTM_NEWROUTE, CREATE);
	struct rtmsg head = {.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_UNICAST};
	put(batch, &head, sizeof(head));
	put_u32(batch, RTA_GATEWAY, gateway);
	put_u32(batch, RTA_OIF, (uint32_t)index);
	message_end(batch, message);
}

void box_netlink_route_to(struct box_netlink_batch *batch, uint32_t address)
{
	size_t message = message_begin(batch, RTM_GETROUTE, NLM_F_ACK);
	struct rtmsg head = {.rtm_family = AF_INET, .rtm_dst_len = 32};
	put(batch, &head, sizeof(head));
	put_u32(batch, RTA_DST, address);
	message_end(batch, message);
}

/* Reading. */

static ssize_t receive(int fd, void *bytes, size_t size)
{
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int ready = poll(&wait, 1, ANSWER_MS);
		if (ready == 0) {
			return -ETIMEDOUT;
		}
		ssize_t got = ready < 0 ? -1 : recv(fd, bytes, size, MSG_TRUNC);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got > (ssize_t)size) {
			return -EMSGSIZE;
		}
		return got < 0 ? -errno : got;
	}
}

static int send_all(int fd, const void *bytes, size_t size)
{
	for (;;) {
		ssize_t sent = send(fd, bytes, size, 0);
		if (sent >= 0) {
			return 0;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

static const unsigned char *body_of(const struct nlmsghdr *head)
{
	return (const unsigned char *)head + NLMSG_HDRLEN;
}

/* 0 for an acknowledgement, else the error. */
static int error_of(const struct nlmsghdr *head)
{
	if (head->nlmsg_len < NLMSG_LENGTH(sizeof(int))) {
		return -EPROTO;
	}
	int error;
	memcpy(&error, body_of(head), sizeof(error));
	return error;
}

int box_netlink_send(int fd, struct box_netlink_batch *batch)
{
	if (batch->size > sizeof(batch->bytes) || batch->count > 31) {
		return -E2BIG;
	}
	int r = send_all(fd, batch->bytes, batch->size);
	int result = r;
	uint32_t left = r < 0 ? 0 : batch->count;
	_Alignas(8) unsigned char bytes[4096];
	while (left > 0) {
		ssize_t got = receive(fd, bytes, sizeof(bytes));
		if (got < 0) {
			return (int)got;
		}
		size_t rest = (size_t)got;
		for (struct nlmsghdr *head = (struct nlmsghdr *)bytes; NLMSG_OK(head, rest);
			head = NLMSG_NEXT(head, rest)) {
			bool ours = head->nlmsg_seq >= 1 && head->nlmsg_seq <= batch->count;
			if (head->nlmsg_type != NLMSG_ERROR || !ours) {
				continue;
			}
			left -= left > 0;
			bool optional = (batch->optional >> head->nlmsg_seq) & 1U;
			if (result == 0 && !optional) {
				result = error_of(head);
			}
		}
	}
	return result;
}

/* `fixed` is the size of the struct before the attributes. */
static bool find_u32(struct nlmsghdr *head, size_t fixed, uint16_t type, uint32_t *ret_value)
{
	size_t before = NLMSG_SPACE(fixed);
	size_t rest = head->nlmsg_len > before ? head->nlmsg_len - before : 0;
	struct rtattr *at = (struct rtattr *)((unsigned char *)head + before);
	for (; RTA_OK(at, rest); at = RTA_NEXT(at, rest)) {
		if (at->rta_type == type && RTA_PAYLOAD(at) == sizeof(*ret_value)) {
			memcpy(ret_value, RTA_DATA(at), sizeof(*ret_value));
			return true;
		}
	}
	return false;
}

/* Called for each message of a dump: 0 to go on, 1 when nothing more is of interest, or -errno. */
typedef int visit_message(struct nlmsghdr *head, void *context);

/* 1 at the end of the dump, 0 when more will come. */
static int visit_answer(unsigned char *bytes, size_t size, visit_message *visit, void *context)
{
	size_t rest = size;
	for (struct nlmsghdr *head = (struct nlmsghdr *)bytes; NLMSG_OK(head, rest);
		head = NLMSG_NEXT(head, rest)) {
		if (head->nlmsg_flags & NLM_F_DUMP_INTR) {
			return -EINTR;
		}
		if (head->nlmsg_type == NLMSG_DONE) {
			return 1;
		}
		int r = head->nlmsg_type == NLMSG_ERROR ? error_of(head) : visit(head, context);
		if (r != 0) {
			return r;
		}
	}
	return 0;
}

/* `body` is the fixed struct that the request begins with. The socket is used for this call only: a
 * visitor may leave answers unread. */
static int dump(uint16_t type, const void *body, size_t size, visit_message *visit, void *context)
{
	struct box_netlink_batch request = {0};
	size_t message = message_begin(&request, type, NLM_F_DUMP);
	put(&request, body, size);
	message_end(&request, message);
	unsigned char *answer = calloc(1, ANSWER_BYTES);
	if (!answer) {
		return -ENOMEM;
	}
	_cleanup_(box_close_p) int fd = -1;
	int r = box_netlink_open(&fd);
	if (r == 0) {
		r = send_all(fd, request.bytes, request.size);
	}
	while (r == 0) {
		ssize_t got = receive(fd, answer, ANSWER_BYTES);
		r = got < 0 ? (int)got : visit_answer(answer, (size_t)got, visit, context);
	}
	free(answer);
	return r > 0 ? 0 : r;
}

/* Lists. */

int box_netlink_address_list_add(struct box_netlink_address_list *list, uint32_t address)
{
	if (list->count == BOX_NETLINK_ADDRESSES_MAX) {
		return -E2BIG;
	}
	list->addresses[list->count++] = address;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;
	return (left > right) - (left < right);
}

void box_netlink_address_list_sort(struct box_netlink_address_list *list)
{
	if (list->count == 0) {
		return;
	}
	qsort(list->addresses, list->count, sizeof(list->addresses[0]), compare);
	size_t kept = 1;
	for (size_t i = 1; i < list->count; i++) {
		if (list->addresses[i] != list->addresses[kept - 1]) {
			list->addresses[kept++] = list->addresses[i];
		}
	}
	list->count = kept;
}

bool box_netlink_address_list_equal(
	const struct box_netlink_address_list *a, const struct box_netlink_address_list *b)
{
	return a->count == b->count &&
		(a->count == 0 ||
			memcmp(a->addresses, b->addresses, a->count * sizeof(uint32_t)) == 0);
}

static int visit_address(struct nlmsghdr *head, void *context)
{
	uint32_t address;
	if (head->nlmsg_type != RTM_NEWADDR) {
		return 0;
	}
	/* On a point-to-point link IFA_ADDRESS is the peer's address. */
	size_t fixed = sizeof(struct ifaddrmsg);
	if (!find_u32(head, fixed, IFA_LOCAL, &address) &&
		!find_u32(head, fixed, IFA_ADDRESS, &address)) {
		return 0;
	}
	return box_netlink_address_list_add(context, address);
}

int box_netlink_addresses(struct box_netlink_address_list *list)
{
	struct ifaddrmsg body = {.ifa_family = AF_INET};
	return dump(RTM_GETADDR, &body, sizeof(body), visit_address, list);
}

struct defaults {
	struct box_netlink_address_list *list;
	bool found;
};

/* The gateways of a multipath route. */
static int visit_ways(struct nlmsghdr *head, struct box_netlink_address_list *list)
{
	size_t rest = RTM_PAYLOAD(head);
	struct rtattr *ways = (struct rtattr *)((unsigned char *)head + RTM_BEFORE);
	while (RTA_OK(ways, rest) && ways->rta_type != RTA_MULTIPATH) {
		ways = RTA_NEXT(ways, rest);
	}
	int left = RTA_OK(ways, rest) ? (int)RTA_PAYLOAD(ways) : 0;
	int r = 0;
	for (struct rtnexthop *hop = RTA_DATA(ways); r == 0 && left > 0 && RTNH_OK(hop, left);
		left -= (int)RTNH_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop)) {
		struct rtattr *inside = RTNH_DATA(hop);
		uint32_t gateway;
		if (hop->rtnh_len >= RTNH_LENGTH(RTA_LENGTH(sizeof(gateway))) &&
			inside->rta_type == RTA_GATEWAY && RTA_PAYLOAD(inside) == sizeof(gateway)) {
			memcpy(&gateway, RTA_DATA(inside), sizeof(gateway));
			r = box_netlink_address_list_add(list, gateway);
		}
	}
	return r;
}

/* The kernel lists routes by destination, so default routes come first and a table of a million routes
 * costs nothing. */
static int visit_route(struct nlmsghdr *head, void *context)
{
	struct defaults *defaults = context;
	struct rtmsg route;
	if (head->nlmsg_type != RTM_NEWROUTE || head->nlmsg_len < NLMSG_LENGTH(sizeof(route))) {
		return 0;
	}
	memcpy(&route, body_of(head), sizeof(route));
	if (route.rtm_table != RT_TABLE_MAIN) {
		return 0;
	}
	if (route.rtm_dst_len > 0) {
		return 1;
	}
	defaults->found |= route.rtm_type == RTN_UNICAST;
	uint32_t gateway;
	if (find_u32(head, sizeof(route), RTA_GATEWAY, &gateway)) {
		return box_netlink_address_list_add(defaults->list, gateway);
	}
	return visit_ways(head, defaults->list);
}

int box_netlink_gateways(struct box_netlink_address_list *list, bool *ret_found)
{
	struct rtmsg body = {.rtm_family = AF_INET};
	struct defaults defaults = {.list = list};
	int r = dump(RTM_GETROUTE, &body, sizeof(body), visit_route, &defaults);
	if (r == 0) {
		*ret_found = defaults.found;
	}
	return r;
}
