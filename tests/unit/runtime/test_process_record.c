/* What is recorded about managed processes, and how a successor replays it. */
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/lib/process_fixture.h"

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

/* As if this program had been killed and restarted: the record is replayed. */
static void replay_all(void)
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
}

static void adopt_all(void)
{
	leave_box(77);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 1);
}

static void succeed(void)
{
	replay_all();
	adopt_all();
}

/* Nothing runs in it, so it is removed after a while. */
static void expect_idle(void)
{
	box_sessions_tick(sessions, box_clock_ms() + 1000 * 1000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
}

/* A full dump, as the file sometimes is. */
static void write_anew(void *arg, const struct box_value *change)
{
	(void)change;
	forget_changes();
	box_sessions_dump(sessions, on_change, arg);
}

TEST(what_is_forgotten_is_not_written_anew)
{
	start_marked();
	rules.changed = write_anew;
	uint32_t former = begun("s", "default");
	tell_exit(former, 4, 0);
	/* Its slot is reused, and the last record says that it is forgotten. */
	uint32_t number = begun("s", "default");
	succeed();
	expect_counts(1, 0);
	ASSERT(played_of(number)->found);
	ASSERT(box_process_runs(process_of("s", "default")));
	finish_processes();
	forget_changes();
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
	/* Until the box has reported, a process without a recorded end counts as running. */
	expect_counts(1, 1);
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "", ""));
	tell(number, (struct box_backend_process_state){.running = true, .tail = box_str("said")});
	tell_exit(over, 4, 0);
	expect_counts(1, 1);
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "said", ""));
	/* Numbers are never reused. */
	ASSERT(begun("s", "new") > over);
	finish_processes();
	forget_changes();
}

static const char *exited_at(const char *id)
{
	struct box_value info = box_process_info(process_of("s", id), kept_arena);
	const struct box_value *at = box_map_get(&info, "exited_at");
	ASSERT(at && at->type == BOX_STR);
	return box_arena_strndup(kept_arena, at->str.bytes, at->str.len);
}

#define MEMORY ",\"end\":{\"reason\":\"memory\",\"signal\":9}"

/* The first report of its end counts, whatever the box reports later. */
static void expect_end_kept(bool dumped)
{
	char at[64];
	start_marked();
	uint32_t number = begun("s", "default");
	tell(number,
		(struct box_backend_process_state){.reason = BOX_BACKEND_END_MEMORY,
			.exit_code = 137,
			.signal = 9,
			.out_ended = true,
			.tail = box_str("last")});
	(void)snprintf(at, sizeof(at), "%s", exited_at("default"));
	ASSERT_STR(info_json("s", "default"), SHOWN("exited", "137", "last", MEMORY));
	if (dumped) {
		forget_changes();
		box_sessions_dump(sessions, on_change, &changes);
	}
	usleep(2000);
	succeed();
	expect_counts(0, 1);
	ASSERT(played_of(number)->past.ended);
	tell(number,
		(struct box_backend_process_state){.reason = BOX_BACKEND_END_SIGNAL,
			.exit_code = 137,
			.signal = 9,
			.out_ended = true,
			.tail = box_str("last")});
	expect_counts(0, 1);
	ASSERT_STR(info_json("s", "default"), SHOWN("exited", "137", "last", MEMORY));
	ASSERT_STR(exited_at("default"), at);
	expect_idle();
	finish_processes();
	forget_changes();
}

TEST(an_end_is_recorded)
{
	expect_end_kept(false);
}

TEST(an_end_is_dumped)
{
	expect_end_kept(true);
}

/* Stopped and replaced processes do not exist for a successor, either. */
static void expect_stop_goes_on(bool dumped)
{
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	start_marked();
	uint32_t number = begun("s", "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	if (dumped) {
		forget_changes();
		box_sessions_dump(sessions, on_change, &changes);
	}
	succeed();
	expect_missing("s", "default");
	expect_counts(1, 0);
	ASSERT_INT(played_of(number)->halts, 1);
	ASSERT_INT(played_of(number)->grace_ms, 5000);
	tell_running(number);
	expect_missing("s", "default");
	tell_exit(number, 0, 0);
	expect_counts(0, 0);
	finish_processes();
	forget_changes();
}

TEST(a_stop_goes_on)
{
	expect_stop_goes_on(false);
}

TEST(a_stop_is_dumped)
{
	expect_stop_goes_on(true);
}

TEST(what_a_limit_needs_is_recorded)
{
	struct box_err err;
	struct box_process *process = NULL;
	struct box_process_op *waiting = NULL;
	start_marked();
	struct box_process_spec spec = *process_spec("default", "prog");
	played_kills = 7;
	spec.memory_mb = 64;
	ASSERT_INT(box_process_start(session_of("s"), &spec, on_op, NULL, &process, &waiting, &err),
		0);
	uint32_t number = played[0].number;
	ASSERT_INT(played_of(number)->memory_mb, 64);
	played_kills = 8;
	succeed();
	ASSERT_INT(played_of(number)->past.memory_mb, 64);
	ASSERT_INT(played_of(number)->past.oom_kills, 7);
	ASSERT(!played_of(number)->past.ended);
	finish_processes();
	forget_changes();
}

/* A session without a box forgets nothing, however old. */
TEST(retention_waits_for_the_box)
{
	start_marked();
	uint32_t number = begun("s", "default");
	tell_exit(number, 0, 0);
	replay_all();
	box_sessions_tick(sessions, box_clock_ms() + 301 * 1000);
	expect_counts(0, 1);
	adopt_all();
	ASSERT(played_of(number)->found);
	/* Its time counts from its end, not from our start. */
	box_sessions_tick(sessions, box_clock_ms() + 299 * 1000);
	expect_counts(0, 1);
	box_sessions_tick(sessions, box_clock_ms() + 301 * 1000);
	expect_counts(0, 0);
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
	ASSERT_INT(change_count, 4); /* the counter, the session, and both processes */
	succeed();
	ASSERT(played_of(number)->found);
	struct played *one = played_of(number + 1);
	one->events->state(one->arg, &(struct box_backend_process_state){.known = false});
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
		"{\"leaving\":9}",
		"{\"leaving\":\"9\"}",
		"{\"ended\":9}",
		"{\"ended\":{}}",
		"{\"ended\":{\"number\":9,\"code\":0}}",
	};
	static const char *const wrong_ends[] = {
		"{\"ended\":{\"number\":9,\"code\":256}}",
		"{\"ended\":{\"number\":9,\"code\":-1}}",
		"{\"ended\":{\"number\":9,\"signal\":65}}",
		"{\"ended\":{\"number\":9,\"signal\":-1}}",
		"{\"ended\":{\"number\":9,\"reason\":4}}",
		"{\"ended\":{\"number\":9,\"reason\":-1}}",
		"{\"ended\":{\"number\":\"9\",\"code\":0}}",
	};
	static const char right[] = "{\"process\":{\"session\":\"" ID(
		"s") "\",\"number\":9,\"spec\":{\"command\":\"x\",\"process_id\":\"p\"}}}";
	start_marked();
	forget_changes();
	box_sessions_dump(sessions, on_change, &changes);
	for (size_t i = 0; i < COUNT(bad); i++) {
		changes[change_count++] = box_strdup(bad[i]);
	}
	/* A duplicate counts once. */
	changes[change_count++] = box_strdup(right);
	changes[change_count++] = box_strdup(right);
	for (size_t i = 0; i < COUNT(wrong_ends); i++) {
		changes[change_count++] = box_strdup(wrong_ends[i]);
	}
	succeed();
	expect_counts(1, 0);
	tell_running(9);
	ASSERT(process_of("s", "p") != NULL);
	replay("{\"forgotten\":8}");
	expect_counts(1, 0);
	/* A valid one counts once, and an invalid time becomes the current one. */
	replay("{\"ended\":{\"number\":9,\"at\":9223372036854775807,\"code\":7}}");
	replay("{\"ended\":{\"number\":9,\"code\":8}}");
	expect_counts(0, 1);
	ASSERT_INT(box_process_exit_code(process_of("s", "p")), 7);
	replay("{\"forgotten\":9}");
	expect_counts(0, 0);
	played_of(9)->dropped = true;
	expect_idle();
	finish_processes();
	forget_changes();
}
