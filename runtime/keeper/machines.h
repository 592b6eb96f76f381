/* Whether there can be microVMs: found out when the first is wanted, without holding anybody else
 * up. */
#pragma once

#include "runtime/keeper/ground.h"

struct box_errands;
struct box_machines;

/* What was asked for may be made; or not, and err says why. `ask` is NULL where nothing was. */
typedef void box_machines_done(
	void *arg, uint32_t request, const struct box_ask *ask, const struct box_err *err);

struct box_machines *box_machines_new(struct box_ground *ground, struct box_errands *errands,
	const struct box_worker_ids *ids, box_machines_done *done, void *arg);
void box_machines_free(struct box_machines *machines);

/* `done` is called once, now or later. A box that is no microVM goes through at once. With `ask` NULL
 * it is only asked whether there can be any. */
void box_machines_ask(struct box_machines *machines, uint32_t request, const struct box_ask *ask);
/* Nobody waits any more. */
void box_machines_drop(struct box_machines *machines);

/* Who box-vmm runs as when it is tried: whoever may use the device, and no more. */
struct box_machine_facts;
struct box_worker_ids box_machines_ids(
	const struct box_machine_facts *facts, const struct box_worker_ids *ids);
