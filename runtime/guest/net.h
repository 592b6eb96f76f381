/* The network of a microVM: its own loopback, and the card if there is one. */
#pragma once

#include "runtime/guest/machine.h"

/* 0 or -errno. */
int box_net_set_up(const struct box_machine_boot *boot);
/* The mask of so many bits, in network order. Pure. */
uint32_t box_net_mask(uint32_t prefix);
