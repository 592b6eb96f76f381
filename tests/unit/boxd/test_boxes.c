/* The life of a box from the request to the end of its last resource, and every failure on the way.
 */
#include "tests/unit/lib/boxes_fakes.h"

TEST(from_the_request_to_the_end)
{
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	box_boxes_end(boxes, box);
	await_event(boxes);
	step(boxes);
	ASSERT_INT(told.gone, 1);
	ASSERT_INT(play.buried, 1);
	box_boxes_free(boxes);
	ASSERT(play.pool_freed);
}

TEST(a_wrong_host_path_costs_no_warm_box)
{
	struct box_boxes *boxes = begin();
	play.open_result = -ENOENT;
	box_boxes_make(boxes, 1, &ask, NULL);
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "open");
	ASSERT_INT(play.taken, 0);
	ASSERT_INT(timeout_ms(boxes), -1);
	box_boxes_free(boxes);
}

TEST(a_birth_that_fails_ends_as_boxes_do)
{
	struct box_boxes *boxes = begin();
	play.begin_result = -EIO;
	play.immortal = true;
	box_boxes_make(boxes, 1, &ask, NULL);
	/* Answered at once, although its child is still alive. */
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "begin");
	ASSERT_INT(play.kills, 1);
	ASSERT_INT(play.buried, 0);
	play.immortal = false;
	step_later(boxes, 5000);
	ASSERT_INT(play.buried, 0);
	/* Its end is noticed at once, and its resources are released. */
	ASSERT_INT(kill(play.pid, SIGKILL), 0);
	await_event(boxes);
	step(boxes);
	ASSERT_INT(play.buried, 1);
	ASSERT_INT(told.gone, 0);
	ASSERT_INT(timeout_ms(boxes), -1);
	box_boxes_free(boxes);
}

TEST(what_boxd_needs_does_not_count_as_the_box_s_time)
{
	struct box_boxes *boxes = begin();
	play.begin_takes_ms = 60000;
	box_boxes_make(boxes, 1, &ask, NULL);
	step(boxes);
	ASSERT_INT(told.failed, 0);
	step_later(boxes, 9999);
	ASSERT_INT(told.failed, 0);
	step_later(boxes, 1);
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "the box cannot be made: it was not ready after 10 s");
	await_event(boxes);
	step(boxes);
	box_boxes_free(boxes);
}

TEST(the_pause_between_tries_doubles)
{
	static const int pauses_ms[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000};
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	play.busy = COUNT(pauses_ms);
	box_boxes_end(boxes, box);
	await_event(boxes);
	step(boxes);
	for (size_t i = 0; i < COUNT(pauses_ms); i++) {
		ASSERT_INT(told.gone, 0);
		ASSERT_INT(timeout_ms(boxes), pauses_ms[i]);
		step_later(boxes, (uint64_t)pauses_ms[i]);
	}
	ASSERT_INT(told.gone, 1);
	box_boxes_free(boxes);
}

TEST(a_process_that_does_not_die_is_watched_until_it_does)
{
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	play.immortal = true;
	box_boxes_end(boxes, box);
	for (int i = 0; i < 20; i++) {
		step_later(boxes, 1000);
	}
	/* Not once a millisecond. */
	ASSERT(play.reaps >= 10 && play.reaps <= 20);
	play.reaps = 0;
	ASSERT_INT(kill(play.pid, SIGKILL), 0);
	/* No time passes: only the pidfd can tell. */
	await_event(boxes);
	step(boxes);
	ASSERT_INT(told.gone, 1);
	play.immortal = false;
	box_boxes_free(boxes);
}

/* A half-made warm box: nothing was cloned yet. */
TEST(a_warm_box_without_a_process_is_given_back)
{
	struct box_boxes *boxes = begin();
	struct box_warm_box warm = {.resources = BOX_RESOURCES_NONE, .orders = -1};
	play.discard(play.arg, &warm);
	step(boxes);
	ASSERT_INT(play.buried, 1);
	ASSERT_INT(play.reaps, 0);
	box_boxes_free(boxes);
}

TEST(no_more_than_there_may_be)
{
	struct box_boxes *boxes = begin();
	struct box_warm_box warm = {.resources = BOX_RESOURCES_NONE, .orders = -1};
	for (int i = 0; i < BOX_BOXES_MAX; i++) {
		play.discard(play.arg, &warm);
	}
	box_boxes_make(boxes, 1, &ask, NULL);
	ASSERT_INT(told.failed, 1);
	ASSERT_INT(told.code, BOX_ERR_CAPACITY);
	ASSERT_STR(told.text, "too many boxes (limit 5120)");
	ASSERT_INT(play.taken, 0);
	step(boxes);
	ASSERT_INT(play.buried, BOX_BOXES_MAX);
	(void)make_one(boxes);
	box_boxes_end(boxes, told.box);
	await_event(boxes);
	box_boxes_free(boxes);
}

/* While boxd ends there are no warm boxes any more, whatever events still arrive. */
TEST(an_event_of_warm_boxes_after_their_end)
{
	struct box_boxes *boxes = begin();
	int ends[2];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = BOX_WARM_POOL_EVENT};
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	ASSERT_INT(write(ends[1], "x", 1), 1);
	ASSERT_INT(epoll_ctl(play.epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
	(void)make_one(boxes);
	ASSERT(play.pool_failures > 0);
	play.pool_failures = 0;
	box_boxes_free(boxes);
	ASSERT(play.pool_freed);
	ASSERT_INT(play.pool_failures, 0);
}

/* A reading far above the reserve is good for 100 ms; one near it is not used twice. */
TEST(memory_that_is_nearly_gone_is_read_for_each_box)
{
	struct box_boxes *boxes = begin();
	host_state.policy.reserve_bytes = 512 * BOX_MIB;
	play.free_bytes = 4096 * BOX_MIB;
	box_boxes_make(boxes, 1, &ask, NULL);
	play.free_bytes = 511 * BOX_MIB;
	box_boxes_make(boxes, 2, &ask, NULL);
	ASSERT_INT(play.begun, 2);
	play.now_us += 100 * 1000;
	box_boxes_make(boxes, 3, &ask, NULL);
	ASSERT_INT(play.begun, 2);
	ASSERT_INT(told.failed, 1);
	play.free_bytes = 1500 * BOX_MIB;
	box_boxes_make(boxes, 4, &ask, NULL);
	ASSERT_INT(play.begun, 3);
	play.free_bytes = 511 * BOX_MIB;
	box_boxes_make(boxes, 5, &ask, NULL);
	ASSERT_INT(told.failed, 2);
	ASSERT_INT(told.code, BOX_ERR_CAPACITY);
	box_boxes_drop_requests(boxes);
	box_boxes_free(boxes);
}

/* 50 at once where there is memory for 10: each counts from the moment it is reserved. */
TEST(no_more_microvms_than_there_is_memory_for)
{
	struct box_boxes *boxes = begin();
	struct box_plan_request machine = ask;
	machine.kind = BOX_PLAN_KIND_MICROVM;
	machine.memory_bytes = 128 * BOX_MIB;
	play.free_bytes = 10 * 256 * BOX_MIB + BOX_MICROVM_RESERVE_BYTES_MIN;
	for (uint32_t i = 1; i <= 50; i++) {
		box_boxes_make(boxes, i, &machine, NULL);
	}
	ASSERT_INT(play.begun, 10);
	ASSERT_INT(told.failed, 40);
	ASSERT_INT(told.code, BOX_ERR_CAPACITY);
	/* Native boxes do not count. */
	box_boxes_make(boxes, 51, &ask, NULL);
	ASSERT_INT(play.begun, 11);
	box_boxes_drop_requests(boxes);
	box_boxes_free(boxes);
}

/* Memory that microVMs already use is no longer free: it does not count twice. */
TEST(memory_that_a_microvm_has_taken_counts_once)
{
	struct box_boxes *boxes = begin();
	struct box_plan_request machine = ask;
	machine.kind = BOX_PLAN_KIND_MICROVM;
	machine.memory_bytes = 128 * BOX_MIB;
	play.free_bytes = 2 * 256 * BOX_MIB + BOX_MICROVM_RESERVE_BYTES_MIN;
	box_boxes_make(boxes, 1, &machine, NULL);
	ASSERT_INT(play.begun, 1);
	play.taken_bytes = 256 * BOX_MIB;
	play.free_bytes -= play.taken_bytes;
	box_boxes_make(boxes, 2, &machine, NULL);
	ASSERT_INT(play.begun, 2);
	play.free_bytes -= play.taken_bytes;
	box_boxes_make(boxes, 3, &machine, NULL);
	ASSERT_INT(told.failed, 1);
	box_boxes_drop_requests(boxes);
	box_boxes_free(boxes);
}

TEST(a_microvm_has_its_own_time)
{
	struct box_boxes *boxes = begin();
	struct box_plan_request machine = ask;
	machine.kind = BOX_PLAN_KIND_MICROVM;
	play.free_bytes = 64 * 1024 * BOX_MIB;
	box_boxes_make(boxes, 1, &machine, NULL);
	step_later(boxes, BOX_MICROVM_START_MS + BOX_MICROVM_REPORT_MS - 1);
	ASSERT_INT(told.failed, 0);
	step_later(boxes, 1);
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "the box cannot be made: it was not ready after 15 s");
	await_event(boxes);
	step(boxes);
	box_boxes_free(boxes);
}

TEST(nothing_of_a_microvm_is_seen_from_outside)
{
	struct box_boxes *boxes = begin();
	const char *workspace;
	bool own;
	int root = -1;
	play.free_bytes = 64 * 1024 * BOX_MIB;
	struct box_plan_request machine = ask;
	machine.kind = BOX_PLAN_KIND_MICROVM;
	box_boxes_make(boxes, 1, &machine, NULL);
	ASSERT_INT(write(play.report, "r", 1), 1);
	step(boxes);
	uint64_t box = told.box;
	ASSERT_INT(box_boxes_root(boxes, box, &root, &workspace, &own), -EOPNOTSUPP);
	ASSERT(box_boxes_is_microvm(boxes, box));
	ASSERT(!box_boxes_is_microvm(boxes, box + 1));
	box_boxes_end(boxes, box);
	await_event(boxes);
	step(boxes);
	box_boxes_free(boxes);
}
