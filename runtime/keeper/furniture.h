/* The part of a boot file that only a microVM's box-init reads. */
#pragma once

#include "runtime/guest/machine.h"
#include "runtime/keeper/network.h"
#include "runtime/plan/plan.h"

/* How many pieces of furniture a plan has. */
size_t box_furniture_count(const struct box_plan *plan);
/* Pure. `to` has room for box_furniture_count. */
void box_furniture_fill(const struct box_plan *plan, struct box_furniture *to);
/* `seat` is NULL for a guest without a network. */
void box_furniture_describe(const struct box_plan *plan, const struct box_network_seat *seat,
	struct box_machine_boot *ret_boot);
