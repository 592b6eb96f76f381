/* When boxd checks the socket memory of boxes, which no cgroup counts, and how long a check may
 * take. */
#include "boxd/box/socket_memory.h"
#include "tests/unit/lib/boxes_fakes.h"

#define BOXES 50

static struct {
	unsigned looks;
	uint64_t takes_us;
	pid_t greedy;
	pid_t suspect;
	pid_t last;
} kernel;

int box_socket_memory_read(pid_t pid, int netns, bool netlink, uint64_t memory_bytes,
	struct box_socket_memory *ret_held)
{
	(void)netns;
	(void)netlink;
	(void)memory_bytes;
	kernel.looks++;
	kernel.last = pid;
	play.now_us += kernel.takes_us;
	*ret_held = (struct box_socket_memory){
		.netlink_sockets = pid == kernel.greedy, .unlisted_bytes = pid == kernel.suspect};
	return 0;
}

bool box_socket_memory_is_over(const struct box_socket_memory *held, uint64_t memory_bytes)
{
	(void)memory_bytes;
	return held->netlink_sockets > 0;
}

bool box_socket_memory_may_be_over(const struct box_socket_memory *held, uint64_t memory_bytes)
{
	(void)memory_bytes;
	return held->unlisted_bytes > 0;
}

static struct box_boxes *begin_many(void)
{
	struct box_boxes *boxes = begin();
	ask.memory_bytes = 64 * BOX_MIB;
	for (int i = 0; i < BOXES; i++) {
		told.made = 0;
		(void)make_one(boxes);
	}
	return boxes;
}

TEST(quick_looks_are_done_at_once)
{
	struct box_boxes *boxes = begin_many();
	step_later(boxes, BOX_SOCKETS_CHECK_MS - 1);
	ASSERT_INT(kernel.looks, 0);
	step_later(boxes, 1);
	ASSERT_INT(kernel.looks, BOXES);
	ASSERT_INT(timeout_ms(boxes), BOX_SOCKETS_CHECK_MS);
	step_later(boxes, BOX_SOCKETS_CHECK_MS);
	ASSERT_INT(kernel.looks, 2 * BOXES);
	box_boxes_free(boxes);
}

/* 50 boxes, 10 ms for each, would be half a second in which nobody else is served. */
TEST(slow_looks_leave_time_for_others)
{
	struct box_boxes *boxes = begin_many();
	kernel.takes_us = 10000;
	step_later(boxes, BOX_SOCKETS_CHECK_MS);
	ASSERT_INT(kernel.looks, 1);
	pid_t first = kernel.last;
	ASSERT_INT(timeout_ms(boxes), 190);
	step_later(boxes, 189);
	ASSERT_INT(kernel.looks, 1);
	/* Every box is checked once before any is checked twice. */
	for (unsigned i = 2; i <= BOXES; i++) {
		step_later(boxes, (uint64_t)timeout_ms(boxes));
		ASSERT_INT(kernel.looks, i);
		ASSERT(kernel.last != first);
	}
	step_later(boxes, (uint64_t)timeout_ms(boxes));
	ASSERT(kernel.last == first);
	box_boxes_free(boxes);
}

TEST(who_holds_too_much_is_ended)
{
	struct box_boxes *boxes = begin_many();
	kernel.greedy = play.pid; /* the last one's */
	kernel.takes_us = 10000;
	for (int i = 0; i < 2 * BOXES && play.kills == 0; i++) {
		step_later(boxes, (uint64_t)timeout_ms(boxes));
	}
	ASSERT_INT(play.kills, 1);
	box_boxes_free(boxes);
}

/* Closed sockets still exist for a moment. */
TEST(who_may_hold_too_much_is_ended_at_the_third_look_in_a_row)
{
	struct box_boxes *boxes = begin_many();
	for (int i = 0; i < 4; i++) {
		kernel.suspect = i == 2 ? 0 : play.pid;
		step_later(boxes, BOX_SOCKETS_CHECK_MS);
		ASSERT_INT(play.kills, 0);
	}
	step_later(boxes, BOX_SOCKETS_CHECK_MS);
	ASSERT_INT(play.kills, 0);
	step_later(boxes, BOX_SOCKETS_CHECK_MS);
	ASSERT_INT(play.kills, 1);
	box_boxes_free(boxes);
}
