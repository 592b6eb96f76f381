/* Which resources of a box a limit holds, on which kind of host. */
#include "plan/bounds.h"
#include "tests/unit/lib/test.h"

static void assert_named(struct box_bounds_facts facts, enum box_bound held, const char *names)
{
	char text[512];
	box_bounds_name(&facts, held, text, sizeof(text));
	ASSERT_STR(text, names);
}

TEST(root_holds_everything)
{
	struct box_bounds_facts facts = {
		.limits = true, .sockets = true, .id_ranges = true, .files = true};
	struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX];
	ASSERT_INT(box_bounds_list(&facts, rows), 12);
	assert_named(facts, BOX_BOUND_NONE, "");
	assert_named(facts, BOX_BOUND_SHARED, "");
}

TEST(a_kernel_without_the_counter_of_sockets)
{
	struct box_bounds_facts facts = {.limits = true, .id_ranges = true, .files = true};
	assert_named(facts, BOX_BOUND_NONE, "TCP and UDP buffers");
}

TEST(one_user_has_one_count_for_all_boxes)
{
	struct box_bounds_facts facts = {.limits = true, .sockets = true, .files = true};
	assert_named(facts, BOX_BOUND_NONE, "");
	assert_named(facts, BOX_BOUND_SHARED,
		"inotify instances and watches, queued signals and timers, locked memory, room in "
		"pipes, descriptors in flight and epoll watches");
}

TEST(without_cgroups_each_row_is_named)
{
	struct box_bounds_facts facts = {.id_ranges = true};
	assert_named(facts, BOX_BOUND_NONE,
		"memory, TCP and UDP buffers, processors, kernel memory of files, pipes and Unix "
		"sockets");
	assert_named(facts, BOX_BOUND_SHARED, "open files");
}

TEST(names_are_cut_where_there_is_no_room)
{
	struct box_bounds_facts facts = {0};
	char text[12];
	box_bounds_name(&facts, BOX_BOUND_NONE, text, sizeof(text));
	ASSERT_STR(text, "memory, TCP");
}

TEST(files_of_a_usual_box)
{
	ASSERT(box_bounds_has_files(0));
	ASSERT(box_bounds_has_files(INT64_MAX));
	ASSERT(box_bounds_has_files(16UL * 128 * 1024));
	ASSERT(!box_bounds_has_files(16UL * 128 * 1024 - 1));
}
