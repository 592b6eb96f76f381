/* The network of a microVM: its own loopback, and the card if there is one. */
#pragma once

#include "protocol/microvm.h"

/* 0 or -errno. */
int box_guest_net_set_up(const struct box_microvm_boot *boot);
/* The mask of so many bits, in network order. Pure. */
uint32_t box_guest_net_mask(uint32_t prefix);
