/* Fair queue: whose turn it is, and how many places one tenant can have. */
#include <stdio.h>

#include "base/fair_queue.h"
#include "tests/unit/lib/test.h"

static struct box_fair_queue queue;

static bool put(struct box_fair_queue_item *turn, const char *tenant)
{
	return box_fair_queue_put(&queue, turn, tenant);
}

TEST(one_tenant_leaves_a_place)
{
	struct box_fair_queue_item slow[4] = {0};
	struct box_fair_queue_item other = {0};
	box_fair_queue_init(&queue, 2, 16);
	for (size_t i = 0; i < 4; i++) {
		ASSERT(put(&slow[i], "ws-slow"));
	}
	ASSERT(box_fair_queue_take(&queue) == &slow[0]);
	ASSERT(!box_fair_queue_take(&queue)); /* the second place is for others */
	ASSERT(put(&other, "ws-other"));
	ASSERT(box_fair_queue_take(&queue) == &other);
	ASSERT(!box_fair_queue_take(&queue));
	box_fair_queue_leave(&queue, &other);
	ASSERT(!box_fair_queue_take(&queue));
	box_fair_queue_leave(&queue, &slow[0]);
	ASSERT(box_fair_queue_take(&queue) == &slow[1]);
	ASSERT_INT(queue.waiting_count, 2);
	ASSERT_INT(queue.running_count, 1);
}

TEST(a_single_place_is_for_all)
{
	struct box_fair_queue_item turns[2] = {0};
	box_fair_queue_init(&queue, 1, 16);
	ASSERT(put(&turns[0], "ws-a"));
	ASSERT(put(&turns[1], "ws-a"));
	ASSERT(box_fair_queue_take(&queue) == &turns[0]);
	ASSERT(!box_fair_queue_take(&queue));
	box_fair_queue_leave(&queue, &turns[0]);
	ASSERT(box_fair_queue_take(&queue) == &turns[1]);
}

TEST(who_came_late_is_next)
{
	struct box_fair_queue_item many[6] = {0};
	struct box_fair_queue_item few[2] = {0};
	box_fair_queue_init(&queue, 4, 16);
	for (size_t i = 0; i < 6; i++) {
		ASSERT(put(&many[i], "ws-many"));
	}
	ASSERT(box_fair_queue_take(&queue) == &many[0]);
	ASSERT(put(&few[0], "ws-few"));
	ASSERT(put(&few[1], "ws-few"));
	ASSERT(box_fair_queue_take(&queue) == &few[0]);
	ASSERT(box_fair_queue_take(&queue) == &many[1]);
	ASSERT(box_fair_queue_take(&queue) == &few[1]);
	ASSERT(!box_fair_queue_take(&queue));
}

TEST(nobody_fills_what_may_wait)
{
	struct box_fair_queue_item turns[16] = {0};
	struct box_fair_queue_item others[3] = {0};
	box_fair_queue_init(&queue, 1, 16);
	for (size_t i = 0; i < 14; i++) {
		ASSERT(put(&turns[i], "ws-a"));
	}
	ASSERT(!put(&turns[14], "ws-a"));
	ASSERT(put(&others[0], "ws-b"));
	ASSERT(put(&others[1], "ws-c"));
	ASSERT(!put(&others[2], "ws-d")); /* now it is full */
	box_fair_queue_leave(&queue, &turns[3]);
	ASSERT(put(&others[2], "ws-d"));
	ASSERT_INT(queue.waiting_count, 16);
}
