/* The network in a microVM: loopback, and the network card if there is one. */
#pragma once

#include "protocol/microvm.h"

/* A boot step: brings the interfaces up, with address and default route. 0 or -errno. */
int box_guest_net_set_up(const struct box_microvm_boot *boot);
/* The netmask with so many bits, in network byte order. Pure. */
uint32_t box_guest_net_mask(uint32_t prefix);
