/* Cgroups of single processes in boxes: made once, found again, closed, and removed later when they
 * are still in use. */
#include "tests/unit/lib/boxes_fakes.h"

static struct box_process_cgroups *groups_of(struct box_boxes *boxes, uint64_t box)
{
	struct box_err err;
	struct box_process_cgroups *groups = box_boxes_process_cgroups(boxes, box, &err);
	ASSERT(groups != NULL);
	return groups;
}

static void open_one(struct box_boxes *boxes, uint64_t box, uint32_t process)
{
	struct box_process_cgroups_fds fds = {-1, -1, -1};
	struct box_err err;
	ASSERT_INT(
		box_process_cgroups_open(groups_of(boxes, box), process, 64 << 20, &fds, &err), 0);
	ASSERT_INT(fds.procs_fd, 1000 + process);
	ASSERT_INT(fds.events, 2000 + process);
	ASSERT_INT(fds.rest, 77);
}

static void bury_one(struct box_boxes *boxes, uint64_t box)
{
	box_boxes_end(boxes, box);
	await_event(boxes);
	step(boxes);
	ASSERT_INT(told.gone, 1);
	box_boxes_free(boxes);
}

TEST(a_group_is_made_once_and_closed_once)
{
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	open_one(boxes, box, 5);
	open_one(boxes, box, 6);
	ASSERT_INT(play.parts, 2);
	/* A successor of box-rpc finds it. */
	open_one(boxes, box, 5);
	ASSERT_INT(play.parts, 2);
	box_process_cgroups_close(groups_of(boxes, box), 5);
	box_process_cgroups_close(groups_of(boxes, box), 5);
	box_process_cgroups_close(groups_of(boxes, box), 4711);
	ASSERT_INT(play.parts, 1);
	ASSERT_INT(play.removes, 1);
	ASSERT_INT(timeout_ms(boxes), -1);
	/* The last one is removed with its box. */
	bury_one(boxes, box);
	ASSERT_INT(play.removes, 1);
}

TEST(a_group_that_is_not_empty_is_tried_again)
{
	static const int pauses_ms[] = {
		1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 10000, 10000};
	struct box_process_cgroups_fds fds = {-1, -1, -1};
	struct box_err err;
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	open_one(boxes, box, 5);
	play.busy_part = 5;
	box_process_cgroups_close(groups_of(boxes, box), 5);
	for (size_t i = 0; i < COUNT(pauses_ms); i++) {
		ASSERT_INT(play.removes, i + 1);
		ASSERT_INT(timeout_ms(boxes), pauses_ms[i]);
		step_later(boxes, (uint64_t)pauses_ms[i] - 1);
		ASSERT_INT(play.removes, i + 1);
		step_later(boxes, 1);
	}
	/* It cannot be found any more. */
	ASSERT_INT(box_process_cgroups_open(groups_of(boxes, box), 5, 1, &fds, &err), -ENOENT);
	ASSERT_INT(fds.procs_fd, -1);
	play.busy_part = 0;
	step_later(boxes, 10000);
	ASSERT_INT(play.parts, 0);
	ASSERT_INT(timeout_ms(boxes), -1);
	bury_one(boxes, box);
}

TEST(no_more_groups_than_there_may_be)
{
	struct box_process_cgroups_fds fds;
	struct box_err err;
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	struct box_process_cgroups *groups = groups_of(boxes, box);
	play.part_result = -EIO;
	ASSERT_INT(box_process_cgroups_open(groups, 1, 1, &fds, &err), -EIO);
	ASSERT_STR(err.text, "part");
	play.part_result = 0;
	for (uint32_t i = 1; i <= BOX_PROCESS_CGROUPS_MAX; i++) {
		open_one(boxes, box, i);
	}
	ASSERT_INT(box_process_cgroups_open(groups, 5000, 1, &fds, &err), -EUSERS);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	/* A cgroup that cannot be removed yet counts. */
	play.busy_part = 7;
	box_process_cgroups_close(groups, 7);
	ASSERT_INT(box_process_cgroups_open(groups, 5000, 1, &fds, &err), -EUSERS);
	box_process_cgroups_close(groups, 8);
	open_one(boxes, box, 5000);
	/* It is forgotten with its box. */
	ASSERT(timeout_ms(boxes) >= 0);
	bury_one(boxes, box);
}

TEST(groups_of_boxes_that_have_none)
{
	struct box_err err;
	struct box_boxes *boxes = begin();
	play.unlimited = true;
	uint64_t box = make_one(boxes);
	ASSERT(box_boxes_process_cgroups(boxes, box, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT(box_boxes_process_cgroups(boxes, box + 1, &err) == NULL);
	ASSERT_STR(err.text, "the box has ended");
	box_boxes_end(boxes, box);
	ASSERT(box_boxes_process_cgroups(boxes, box, &err) == NULL);
	ASSERT_STR(err.text, "the box has ended");
	await_event(boxes);
	box_boxes_free(boxes);
}
