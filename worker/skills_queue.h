/* Requests that wait for the skill store, and which one is next: one of the tenant that was served longest
 * ago, so that a tenant with many requests makes others wait for one of them, not for all. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fair_queue.h"
#include "base/list.h"

struct box_skill_store_request;

struct box_skills_queue {
	struct box_list waiting;
	size_t bytes; /* of the texts in waiting requests */
	struct box_fair_queue_history turns;
};

void box_skills_queue_init(struct box_skills_queue *queue);

/* False, and the request is not added, if too much is waiting already. */
bool box_skills_queue_put(struct box_skills_queue *queue, struct box_skill_store_request *ask);
/* The next request, or NULL. */
struct box_skill_store_request *box_skills_queue_take(struct box_skills_queue *queue);
/* Removes a waiting request. */
void box_skills_queue_drop(struct box_skills_queue *queue, struct box_skill_store_request *ask);
