/* Whether there can be microVMs: found out when the first is wanted, without holding anybody else
 * up. */
#pragma once

#include "boxd/host_state.h"

struct box_jobs;
struct box_microvm_probe;

/* What was asked for may be made; or not, and err says why. `ask` is NULL where nothing was. */
typedef void box_microvm_probe_done(
	void *arg, uint32_t request, const struct box_plan_request *ask, const struct box_err *err);

struct box_microvm_probe *box_microvm_probe_new(struct box_host_state *ground,
	struct box_jobs *errands, const struct box_identity *ids, box_microvm_probe_done *done,
	void *arg);
void box_microvm_probe_free(struct box_microvm_probe *machines);

/* `done` is called once, now or later. A box that is no microVM goes through at once. With `ask` NULL
 * it is only asked whether there can be any. */
void box_microvm_probe_request(
	struct box_microvm_probe *machines, uint32_t request, const struct box_plan_request *ask);
/* Nobody waits any more. */
void box_microvm_probe_drop_requests(struct box_microvm_probe *machines);

/* Who box-vmm runs as when it is tried: whoever may use the device, and no more. */
struct box_microvm_facts;
struct box_identity box_microvm_probe_identity(
	const struct box_microvm_facts *facts, const struct box_identity *ids);
