/* The file that box-init boots from. */
#pragma once

#include "boxd/host_state.h"
#include "boxd/net/network.h"

/* A sealed memory file, to be read from its beginning. `slot` is that of a microVM with a network,
 * else NULL. 0 or -errno. */
int box_boot_file_make(const struct box_host_state *host_state, const struct box_plan *plan,
	const struct box_network_slot *slot, int *ret_fd);
