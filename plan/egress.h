/* What a box with a network may reach, when it may not reach everything: entries of addresses and
 * ports, and ports of the host. Pure: text in, numbers out, and back.
 *
 * Fixed-size, it travels as it is. In order and without doubles, so that two that mean the same are
 * the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* Where a box finds the ports of the host that it may reach. The same in all boxes. */
#define BOX_EGRESS_HOST "198.18.0.3"

#define BOX_EGRESS_TEXT 32 /* room for 255.255.255.255/32:65535 */

struct box_egress_allow {
	uint32_t address; /* IPv4, as a number */
	uint16_t port;    /* 0: every one */
	uint8_t prefix;   /* 0 to 32; the address has no bit beyond it */
	uint8_t reserved;
};

struct box_egress {
	uint32_t limited; /* 0 or 1. 0: what no box may reach is refused, and nothing else */
	uint32_t allow_count;
	uint32_t host_port_count;
	struct box_egress_allow allow[BOX_EGRESS_ALLOW_MAX];
	uint16_t host_ports[BOX_EGRESS_HOST_PORTS_MAX]; /* TCP */
};

/* ADDRESS, ADDRESS/PREFIX, either with :PORT. NULL, or what is wrong with the text. */
const char *box_egress_read(const char *text, size_t len, struct box_egress_allow *ret_allow);
/* With its prefix always, with its port if it has one. */
void box_egress_write(const struct box_egress_allow *allow, char ret_text[BOX_EGRESS_TEXT]);

/* Puts both lists in order and drops doubles. */
void box_egress_normalize(struct box_egress *egress);
/* Of two that are settled. */
bool box_egress_equal(const struct box_egress *a, const struct box_egress *b);

/* As if an attacker had filled it: 0, or -EINVAL with BOX_ERR_VALIDATION. */
int box_egress_check(const struct box_egress *egress, bool network, struct box_err *err);
