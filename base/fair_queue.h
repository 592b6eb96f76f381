/* Tenants who want the same few places: whose turn is next, and how many places one of them may have.
 *
 * Turns: the tenant who was served longest ago is next, so that one who asks much makes others wait for
 * one request, not for all. Places: one tenant never has the last of several, so that slow work for one
 * leaves room for the others. Pure; whoever owns a queue puts its items into it and does the work.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"

#define BOX_FAIR_QUEUE_BUCKETS 256

/* When each tenant was served last, by a hash of its name; who shares a place here shares turns. */
struct box_fair_queue_history {
	uint64_t served[BOX_FAIR_QUEUE_BUCKETS];
	uint64_t count;
};

/* The smallest is next. */
uint64_t box_fair_queue_last_served(const struct box_fair_queue_history *turns, const char *tenant);
void box_fair_queue_mark_served(struct box_fair_queue_history *turns, const char *tenant);
/* Where the tenant is counted, below BOX_FAIR_QUEUE_BUCKETS. */
size_t box_fair_queue_bucket(const char *tenant);

struct box_fair_queue_item {
	struct box_list links;
	char tenant[BOX_TENANT_SIZE];
	bool running;
};

struct box_fair_queue {
	struct box_list waiting; /* in the order of arrival */
	struct box_list running;
	size_t waiting_count;
	size_t waiting_max;
	size_t running_count;
	size_t places;
	size_t per_tenant; /* of the places; all but one, unless it is set to less */
	struct box_fair_queue_history turns;
};

void box_fair_queue_init(struct box_fair_queue *queue, size_t places, size_t waiting_max);

/* False when too many wait, or too many of this tenant's: then it is not put in. */
bool box_fair_queue_put(
	struct box_fair_queue *queue, struct box_fair_queue_item *turn, const char *tenant);
/* The next one, which has a place from now on; NULL when there is none, or no place for it. */
struct box_fair_queue_item *box_fair_queue_take(struct box_fair_queue *queue);
/* It waits no longer, or its place is free again. */
void box_fair_queue_leave(struct box_fair_queue *queue, struct box_fair_queue_item *turn);
/* How many of so many one tenant may have: all but one. */
size_t box_fair_queue_tenant_share(size_t places);
