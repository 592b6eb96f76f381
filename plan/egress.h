/* The egress policy of a box with a network: the addresses and ports it may reach, and ports of the
 * host. Pure: parses, prints, compares.
 *
 * Fixed-size, sent between processes as it is. Sorted and without duplicates, so that equal policies
 * have equal bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* Where a box finds the ports of the host that it may reach; the same in all boxes. */
#define BOX_EGRESS_HOST "198.18.0.3"

#define BOX_EGRESS_TEXT 32 /* fits 255.255.255.255/32:65535 */

struct box_egress_allow {
	uint32_t address; /* IPv4, as a number */
	uint16_t port;    /* 0: all ports */
	uint8_t prefix;   /* 0 to 32; address bits beyond it are 0 */
	uint8_t reserved;
};

struct box_egress {
	uint32_t limited; /* 0 or 1. 0: only what no box may reach is refused */
	uint32_t allow_count;
	uint32_t host_port_count;
	struct box_egress_allow allow[BOX_EGRESS_ALLOW_MAX];
	uint16_t host_ports[BOX_EGRESS_HOST_PORTS_MAX]; /* TCP */
};

/* Parses ADDRESS or ADDRESS/PREFIX, either with :PORT. NULL, or what is wrong with the text. */
const char *box_egress_read(const char *text, size_t len, struct box_egress_allow *ret_allow);
/* Always with the prefix, and with the port if there is one. */
void box_egress_write(const struct box_egress_allow *allow, char ret_text[BOX_EGRESS_TEXT]);

/* Sorts both lists and drops duplicates. */
void box_egress_normalize(struct box_egress *egress);
/* Compares two sorted policies. */
bool box_egress_equal(const struct box_egress *a, const struct box_egress *b);

/* Checks a policy from an untrusted source: 0, or -EINVAL with BOX_ERR_VALIDATION. */
int box_egress_check(const struct box_egress *egress, bool network, struct box_err *err);
