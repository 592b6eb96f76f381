/* Whose turn it is at the skill store. */
#include <stdio.h>

#include "base/arena.h"
#include "base/limits.h"
#include "runtime/skill_store.h"
#include "tests/unit/lib/test.h"
#include "worker/skills_queue.h"

static struct box_value nothing = {.type = BOX_MAP};

static void put(
	struct box_skills_queue *queue, struct box_skill_store_request *ask, const char *name)
{
	ask->data = &nothing;
	(void)snprintf(ask->namespace, sizeof(ask->namespace), "%s", name);
	ASSERT(box_skills_queue_put(queue, ask));
}

TEST(in_order_for_one)
{
	struct box_skills_queue queue;
	struct box_skill_store_request asks[3] = {0};
	box_skills_queue_init(&queue);
	ASSERT(!box_skills_queue_take(&queue));
	for (size_t i = 0; i < 3; i++) {
		put(&queue, &asks[i], "ws-a");
	}
	box_skills_queue_drop(&queue, &asks[1]);
	ASSERT(box_skills_queue_take(&queue) == &asks[0]);
	ASSERT(box_skills_queue_take(&queue) == &asks[2]);
	ASSERT(!box_skills_queue_take(&queue));
}

TEST(who_came_late_is_not_last)
{
	struct box_skills_queue queue;
	struct box_skill_store_request many[10] = {0};
	struct box_skill_store_request few[2] = {0};
	struct box_skill_store_request one = {0};
	box_skills_queue_init(&queue);
	for (size_t i = 0; i < 10; i++) {
		put(&queue, &many[i], "ws-many");
	}
	ASSERT(box_skills_queue_take(&queue) == &many[0]);
	put(&queue, &few[0], "ws-few");
	put(&queue, &few[1], "ws-few");
	put(&queue, &one, "ws-one");
	ASSERT(box_skills_queue_take(&queue) == &few[0]);
	ASSERT(box_skills_queue_take(&queue) == &one);
	ASSERT(box_skills_queue_take(&queue) == &many[1]);
	ASSERT(box_skills_queue_take(&queue) == &few[1]);
	ASSERT(box_skills_queue_take(&queue) == &many[2]);
	ASSERT(box_skills_queue_take(&queue) == &many[3]);
}

TEST(bytes)
{
	struct box_skills_queue queue;
	struct box_arena *arena = box_arena_new();
	struct box_value large = box_map_value();
	struct box_skill_store_request asks[3] = {0};
	box_skills_queue_init(&queue);
	/* A request larger than the total limit is accepted when nothing else waits. */
	box_map_add(
		arena, &large, "k", box_text((struct box_str){"x", BOX_SKILLS_WAITING_BYTES_MAX}));
	asks[0].data = asks[1].data = &large;
	asks[2].data = &nothing;
	ASSERT(box_skills_queue_put(&queue, &asks[0]));
	ASSERT_INT(queue.bytes, BOX_SKILLS_WAITING_BYTES_MAX + 1);
	ASSERT(!box_skills_queue_put(&queue, &asks[1]));
	ASSERT(box_skills_queue_take(&queue) == &asks[0]);
	ASSERT_INT(queue.bytes, 0);
	ASSERT(box_skills_queue_put(&queue, &asks[2]));
	ASSERT(box_skills_queue_put(&queue, &asks[1]));
	box_skills_queue_drop(&queue, &asks[1]);
	ASSERT_INT(queue.bytes, 0);
	box_arena_free(arena);
}
