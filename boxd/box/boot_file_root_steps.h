/* The part of a boot file that only a microVM's box-init reads. */
#pragma once

#include "boxd/net/network.h"
#include "plan/plan.h"
#include "protocol/microvm.h"

/* How many root steps a plan has. */
size_t box_boot_file_count_root_steps(const struct box_plan *plan);
/* Pure. `to` has room for box_boot_file_count_root_steps. */
void box_boot_file_fill_root_steps(const struct box_plan *plan, struct box_root_step *to);
/* `slot` is NULL for a guest without a network. */
void box_boot_file_describe_microvm(const struct box_plan *plan,
	const struct box_network_slot *slot, struct box_microvm_boot *ret_boot);
