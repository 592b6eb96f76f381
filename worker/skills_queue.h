/* What waits for the skill store, and whose turn is next: that of the tenant who was served longest
 * ago, so that one who asks much makes others wait for one request, not for all. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fair_queue.h"
#include "base/list.h"

struct box_skill_store_request;

struct box_skills_queue {
	struct box_list waiting;
	size_t bytes; /* of texts in what waits */
	struct box_fair_queue_history turns;
};

void box_skills_queue_init(struct box_skills_queue *queue);

/* False when too much waits already; then it is not put in. */
bool box_skills_queue_put(struct box_skills_queue *queue, struct box_skill_store_request *ask);
/* The next one, or NULL. */
struct box_skill_store_request *box_skills_queue_take(struct box_skills_queue *queue);
/* One that waits does not any more. */
void box_skills_queue_drop(struct box_skills_queue *queue, struct box_skill_store_request *ask);
