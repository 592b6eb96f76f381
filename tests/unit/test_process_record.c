/* What is written of managed processes, and what a successor makes of it. */
#include "tests/unit/process_play.h"

#define CHANGES_MAX 32

static char *changes[CHANGES_MAX];
static int change_count;

static void on_change(void *arg, const struct box_value *change)
{
	ASSERT(arg == &changes && change_count < CHANGES_MAX);
	struct box_arena *arena = box_arena_new();
	changes[change_count++] = box_strdup(json(arena, change));
	box_arena_free(arena);
}

static void forget_changes(void)
{
	while (change_count > 0) {
		free(changes[--change_count]);
	}
}

static void replay(const char *change)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value = tree(arena, change);
	box_sessions_replay(sessions, &value);
	box_arena_free(arena);
}

/* The box that a predecessor left. */
static void leave_box(uint64_t mark)
{
	headless.kept = box_alloc(sizeof(*headless.kept));
	headless.kept->mark = mark;
	headless.boxes++;
}

static void start_marked(void)
{
	start_processes();
	rules.changed = on_change;
	rules.changed_arg = &changes;
	headless.mark = 77;
	make_live("s");
}

/* As if this program had been killed and started again: what was written is replayed. */
static void succeed(void)
{
	char *written[CHANGES_MAX];
	int count = change_count;
	memcpy(written, changes, sizeof(written));
	change_count = 0;
	rules.changed = NULL;
	finish();
	memset(played, 0, sizeof(played));
	start_processes();
	for (int i = 0; i < count; i++) {
		replay(written[i]);
		free(written[i]);
	}
	leave_box(77);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 1);
}

TEST(recorded_and_found_again)
{
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	start_marked();
	uint32_t number = begun("s", "default");
	uint32_t gone = begun("s", "gone");
	ASSERT_INT(box_process_stop(process_of("s", "gone"), on_op, &op, &waiting), 1);
	tell_exit(gone, 0, 0);
	uint32_t over = begun("s", "over");
	tell_exit(over, 4, 0);
	for (int i = 0; i < change_count; i++) {
		ASSERT(!strstr(changes[i], "secret"));
	}
	succeed();
	ASSERT(played_of(number)->found && played_of(over)->found);
	expect_missing("s", "gone");
	/* Until the box has told, they run as far as anybody knows. */
	expect_counts(2, 0);
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "", ""));
	tell(number, (struct box_kept_state){.running = true, .tail = box_str("said")});
	tell_exit(over, 4, 0);
	expect_counts(1, 1);
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "said", ""));
	/* Numbers are not given twice. */
	ASSERT(begun("s", "new") > over);
	finish_processes();
	forget_changes();
}

TEST(dumped_and_found_again)
{
	start_marked();
	uint32_t number = begun("s", "default");
	(void)begun("s", "other");
	forget_changes();
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 3);
	succeed();
	ASSERT(played_of(number)->found);
	struct played *one = played_of(number + 1);
	one->events->state(one->arg, &(struct box_kept_state){.known = false});
	expect_counts(1, 1);
	finish_processes();
	forget_changes();
}

TEST(records_of_others)
{
	static const char *const bad[] = {
		"{\"process\":7}",
		"{\"process\":{}}",
		"{\"process\":{\"session\":\"nosuch\",\"number\":9,\"spec\":{\"command\":\"x\"}}}",
		"{\"process\":{\"session\":\"" ID(
			"s") "\",\"number\":0,\"spec\":{\"command\":\"x\"}}}",
		"{\"process\":{\"session\":\"" ID(
			"s") "\",\"number\":4294967296,\"spec\":{\"command\":\"x\"}}}",
		"{\"process\":{\"session\":\"" ID("s") "\",\"number\":\"9\",\"spec\":{}}}",
		"{\"process\":{\"session\":\"" ID("s") "\",\"number\":9}}",
		"{\"process\":{\"session\":\"" ID(
			"s") "\",\"number\":9,\"spec\":{\"command\":\"\"}}}",
		"{\"forgotten\":9}",
		"{\"forgotten\":\"9\"}",
		"{\"forgotten\":-1}",
	};
	static const char right[] = "{\"process\":{\"session\":\"" ID(
		"s") "\",\"number\":9,\"spec\":{\"command\":\"x\",\"process_id\":\"p\"}}}";
	start_marked();
	forget_changes();
	box_sessions_dump(sessions, on_change, &changes);
	for (size_t i = 0; i < COUNT(bad); i++) {
		changes[change_count++] = box_strdup(bad[i]);
	}
	/* The same one twice is one. */
	changes[change_count++] = box_strdup(right);
	changes[change_count++] = box_strdup(right);
	succeed();
	expect_counts(1, 0);
	tell_running(9);
	ASSERT(process_of("s", "p") != NULL);
	replay("{\"forgotten\":8}");
	expect_counts(1, 0);
	finish_processes();
	forget_changes();
}
