/* The few rtnetlink calls that the router and its boxes need.
 *
 * Requests are collected in a batch of fixed size and sent at once; all functions for batches are
 * async-signal-safe. Addresses are IPv4 in network order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOX_NETLINK_BATCH_BYTES 2048

struct box_netlink_batch {
	size_t size;
	uint32_t count;
	uint32_t optional; /* one bit for each message that may fail */
	_Alignas(8) unsigned char bytes[BOX_NETLINK_BATCH_BYTES];
};

/* We choose the index of a link, so that all requests about it fit into one batch. */
struct box_netlink_veth_end {
	const char *name;
	int index;
	int netns;
};

/* An rtnetlink socket in the network namespace of the caller. */
int box_netlink_open(int *ret_fd);
/* A non-blocking socket that reports changes of IPv4 addresses and routes. */
int box_netlink_watch(int *ret_fd);
/* Discards what can be read: whether there was anything. A lost message counts too. */
bool box_netlink_changed(int fd);

void box_netlink_veth(struct box_netlink_batch *batch, const struct box_netlink_veth_end *near,
	const struct box_netlink_veth_end *far, uint32_t mtu);
/* Turns off IPv6 address autoconfiguration. May fail: there are kernels without IPv6. */
void box_netlink_disable_ipv6_autoconf(struct box_netlink_batch *batch, int index);
void box_netlink_up(struct box_netlink_batch *batch, int index);
void box_netlink_delete(struct box_netlink_batch *batch, int index);
void box_netlink_address(
	struct box_netlink_batch *batch, int index, uint32_t address, unsigned prefix);
void box_netlink_default_route(struct box_netlink_batch *batch, int index, uint32_t gateway);
/* Fails with -ENETUNREACH when there is no route to the gateway. */
void box_netlink_route_to(struct box_netlink_batch *batch, uint32_t address);

/* Sends and waits for every answer: 0, or the first error of a message that may not fail. */
int box_netlink_send(int fd, struct box_netlink_batch *batch);

/* A sorted list without duplicates. */
#define BOX_NETLINK_ADDRESSES_MAX 8192
struct box_netlink_address_list {
	size_t count;
	uint32_t addresses[BOX_NETLINK_ADDRESSES_MAX];
};

/* Each of these adds to the list. -E2BIG when there are too many. */
int box_netlink_address_list_add(struct box_netlink_address_list *list, uint32_t address);
/* Every IPv4 address of the caller's network namespace. */
int box_netlink_addresses(struct box_netlink_address_list *list);
/* The gateways of its default routes; `ret_found` tells whether there is a default route at all,
 * with a gateway or without. */
int box_netlink_gateways(struct box_netlink_address_list *list, bool *ret_found);

void box_netlink_address_list_sort(struct box_netlink_address_list *list);
bool box_netlink_address_list_equal(
	const struct box_netlink_address_list *a, const struct box_netlink_address_list *b);
