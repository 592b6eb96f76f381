/* The boot file, which box-init reads first. Called by make.c. */
#pragma once

#include "boxd/host_state.h"
#include "boxd/net/network.h"

/* Makes a sealed memfd, with its offset at the beginning. `slot` is that of a microVM with a network,
 * else NULL. 0 or -errno. */
int box_boot_file_make(const struct box_host_state *host_state, const struct box_plan *plan,
	const struct box_network_slot *slot, int *ret_fd);
