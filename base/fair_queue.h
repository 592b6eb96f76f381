/* A fair queue: tenants share a few slots, and slow work for one tenant must not block the others.
 *
 * Order: the tenant that was served longest ago is next, so a tenant with many requests delays the
 * others by one request, not by all. Slots: one tenant never gets the last of several. Pure; the owner
 * of a queue puts items into it and does the work.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"

#define BOX_FAIR_QUEUE_BUCKETS 256

/* When each tenant was last served, indexed by a hash of its name; tenants with the same hash share
 * turns. */
struct box_fair_queue_history {
	uint64_t served[BOX_FAIR_QUEUE_BUCKETS];
	uint64_t count;
};

/* the smallest value is next */
uint64_t box_fair_queue_last_served(const struct box_fair_queue_history *turns, const char *tenant);
void box_fair_queue_mark_served(struct box_fair_queue_history *turns, const char *tenant);
/* The tenant's bucket, below BOX_FAIR_QUEUE_BUCKETS. */
size_t box_fair_queue_bucket(const char *tenant);

struct box_fair_queue_item {
	struct box_list links;
	char tenant[BOX_TENANT_SIZE];
	bool running;
};

struct box_fair_queue {
	struct box_list waiting; /* in order of arrival */
	struct box_list running;
	size_t waiting_count;
	size_t waiting_max;
	size_t running_count;
	size_t places;
	size_t per_tenant; /* slots that one tenant may have; all but one, unless set lower */
	struct box_fair_queue_history turns;
};

void box_fair_queue_init(struct box_fair_queue *queue, size_t places, size_t waiting_max);

/* Appends an item. False when too many items wait, or too many of this tenant: then it is not added. */
bool box_fair_queue_put(
	struct box_fair_queue *queue, struct box_fair_queue_item *turn, const char *tenant);
/* Takes the next item, which occupies a slot from now on; NULL when nothing may run now. */
struct box_fair_queue_item *box_fair_queue_take(struct box_fair_queue *queue);
/* Removes an item: it stops waiting, or its slot is free again. */
void box_fair_queue_leave(struct box_fair_queue *queue, struct box_fair_queue_item *turn);
/* How many of `count` slots one tenant may have: all but one. */
size_t box_fair_queue_tenant_share(size_t places);
