/* Managed processes: started, replaced, stopped, forgotten, removed with their session. */
#include "base/clock.h"
#include "tests/unit/lib/process_fixture.h"

TEST(from_start_to_end)
{
	start_processes();
	make_live("s");
	expect_missing("s", "default");
	uint32_t number = begun("s", "default");
	ASSERT_STR(played_of(number)->command, "prog");
	ASSERT_INT(played_of(number)->args, 2);
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "", ""));
	tell_running(number);
	tell(number,
		(struct box_backend_process_state){.running = true, .tail = box_str("so far")});
	ASSERT_STR(info_json("s", "default"), SHOWN("running", "null", "so far", ""));
	expect_counts(1, 0);
	tell(number,
		(struct box_backend_process_state){
			.exit_code = 3, .out_ended = true, .tail = {"a\0b\xff", 4}});
	ASSERT_STR(info_json("s", "default"),
		SHOWN("exited", "3", "a\\u0000b\xef\xbf\xbd",
			",\"end\":{\"reason\":\"exit\",\"signal\":null}"));
	expect_counts(0, 1);
	ASSERT(!played_of(number)->dropped);
	finish_processes();
}

TEST(ends)
{
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	tell(number,
		(struct box_backend_process_state){.reason = BOX_BACKEND_END_MEMORY,
			.signal = 9,
			.exit_code = 137,
			.out_ended = true});
	ASSERT_STR(info_json("s", "default"),
		SHOWN("exited", "137", "", ",\"end\":{\"reason\":\"memory\",\"signal\":9}"));
	number = begun("s", "default");
	tell(number,
		(struct box_backend_process_state){.exit_code = 127,
			.out_ended = true,
			.failure = "No such file or directory"});
	ASSERT_STR(info_json("s", "default"),
		SHOWN("exited", "127", "prog: No such file or directory",
			",\"end\":{\"reason\":\"exit\",\"signal\":null}"));
	/* The box has not heard of it. */
	number = begun("s", "default");
	struct played *one = played_of(number);
	one->events->state(one->arg, &(struct box_backend_process_state){.known = false});
	ASSERT_STR(info_json("s", "default"),
		SHOWN("exited", "137", "", ",\"end\":{\"reason\":\"signal\",\"signal\":9}"));
	finish_processes();
}

TEST(the_last_4000_characters_of_stderr)
{
	static char text[16 * 1024];
	struct box_arena *arena = box_arena_new();
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	for (size_t i = 0; i + 2 < sizeof(text); i += 3) {
		put_bytes(text + i, "\xe2\x82\xac", 3);
	}
	for (size_t len = sizeof(text) - 3; len < sizeof(text); len++) {
		tell(number,
			(struct box_backend_process_state){.running = true, .tail = {text, len}});
		struct box_value info = box_process_info(process_of("s", "default"), arena);
		const struct box_value *preview = box_map_get(&info, "stderr_preview");
		/* A truncated character at the end counts as one, too. */
		size_t cut = len % 3 == 0 ? 0 : 3;
		ASSERT_INT(preview->str.len, 3 * (4000 - cut / 3) + cut);
	}
	memset(text, 'e', sizeof(text));
	text[0] = 'b';
	tell(number, (struct box_backend_process_state){.running = true, .tail = {text, 4001}});
	struct box_value info = box_process_info(process_of("s", "default"), arena);
	ASSERT_INT(box_map_get(&info, "stderr_preview")->str.len, 4000);
	ASSERT_INT(box_map_get(&info, "stderr_preview")->str.bytes[0], 'e');
	box_arena_free(arena);
	finish_processes();
}

TEST(a_start_that_fails)
{
	struct ended_op op;
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	keep_fails = "the box has ended";
	ASSERT(begin("s", "default", &op, &waiting) < 0);
	ASSERT_STR(op.err.text, "the box has ended");
	expect_missing("s", "default");
	expect_counts(0, 0);
	keep_fails = NULL;
	/* What an earlier process left behind stays. */
	tell_exit(begun("s", "default"), 5, 0);
	keep_fails = "no";
	ASSERT(begin("s", "default", &op, &waiting) < 0);
	ASSERT_INT(box_process_exit_code(process_of("s", "default")), 5);
	keep_fails = NULL;
	/* A backend without managed processes. */
	playing_ops.processes = NULL;
	ASSERT(begin("s", "default", &op, &waiting) < 0);
	ASSERT_INT(op.err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	playing_ops.processes = &played_ops;
	finish_processes();
}

TEST(a_replacement_that_cannot_be_begun_ends_nothing)
{
	struct ended_op op;
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	uint32_t old = begun("s", "default");
	keep_fails = "too long";
	ASSERT(begin("s", "default", &op, &waiting) < 0);
	ASSERT_INT(op.err.code, BOX_ERR_VALIDATION);
	ASSERT(waiting == NULL);
	ASSERT_INT(played_of(old)->halts, 0);
	ASSERT(box_process_runs(process_of("s", "default")));
	expect_counts(1, 0);
	finish_processes();
}

TEST(replaced_when_the_old_one_has_ended)
{
	struct ended_op op;
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	uint32_t old = begun("s", "default");
	ASSERT_INT(begin("s", "default", &op, &waiting), 1);
	ASSERT_INT(played_of(old)->halts, 1);
	ASSERT_INT(played_of(old)->grace_ms, 5000);
	/* The old process cannot be found any more, the new one not yet; it still counts. */
	expect_missing("s", "default");
	expect_counts(1, 0);
	tell_running(old);
	ASSERT_INT(op.calls, 0);
	struct played *gone = played_of(old);
	tell_exit(old, 0, 0);
	ASSERT(gone->dropped);
	ASSERT_INT(op.calls, 1);
	ASSERT(op.process == process_of("s", "default") && !op.failed);
	expect_counts(1, 0);
	/* An ended process is replaced immediately. */
	tell_exit(old + 1, 0, 0);
	expect_counts(0, 1);
	ASSERT_INT(begun("s", "default"), old + 2);
	expect_counts(1, 0);
	finish_processes();
}

/* Each start replaces the previous one, in order. */
TEST(replaced_twice)
{
	struct ended_op one;
	struct ended_op two;
	struct ended_op three;
	struct box_process_op *waiting[3] = {NULL};
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	ASSERT_INT(begin("s", "default", &one, &waiting[0]), 1);
	ASSERT_INT(begin("s", "default", &two, &waiting[1]), 1);
	ASSERT_INT(begin("s", "default", &three, &waiting[2]), 1);
	box_process_op_cancel(waiting[1]);
	tell_exit(number, 0, 0);
	ASSERT_INT(one.calls, 1);
	ASSERT_INT(three.calls, 0);
	ASSERT_INT(played_of(number + 1)->halts, 1);
	tell_exit(number + 1, 0, 0);
	ASSERT_INT(three.calls, 1);
	ASSERT_INT(two.calls, 0);
	ASSERT_INT(one.calls, 1);
	tell_running(number + 2);
	expect_counts(1, 0);
	finish_processes();
}

TEST(stopped)
{
	struct ended_op op = {0};
	struct ended_op start_op;
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	ASSERT_INT(played_of(number)->halts, 1);
	expect_missing("s", "default");
	ASSERT_INT(op.calls, 0);
	/* A start after a stop waits, too. */
	ASSERT_INT(begin("s", "default", &start_op, &waiting), 1);
	ASSERT_INT(played_of(number)->halts, 1);
	tell_exit(number, 143, 0);
	ASSERT_INT(op.calls, 1);
	ASSERT(!op.failed && !op.process);
	ASSERT_INT(start_op.calls, 1);
	/* An ended process is removed immediately. */
	tell_exit(number + 1, 0, 0);
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 0);
	ASSERT_INT(op.calls, 1);
	expect_missing("s", "default");
	expect_counts(0, 0);
	/* The client is gone: the process is still stopped. */
	number = begun("s", "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	box_process_op_cancel(waiting);
	tell_exit(number, 0, 0);
	ASSERT_INT(op.calls, 1);
	expect_counts(0, 0);
	finish_processes();
}

/* A box that hangs would let callers wait for the end forever. */
TEST(a_stop_that_the_box_does_not_carry_out)
{
	start_processes();
	make_live("s");
	struct ended_op op = {0};
	struct ended_op other = {0};
	struct box_process_op *waiting = NULL;
	(void)begun("s", "default");
	(void)begun("s", "other");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	ASSERT_INT(begin("s", "default", &other, &waiting), 1);
	uint64_t now_ms = box_clock_ms();
	box_sessions_tick(sessions, now_ms + 9900);
	box_sessions_tick(sessions, now_ms + 9950);
	box_sessions_tick(sessions, now_ms + 20000); /* late: its report may wait */
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	ASSERT_INT(op.calls, 0);
	box_sessions_tick(sessions, now_ms + 21000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	ASSERT_INT(op.calls, 1);
	ASSERT(!op.failed);
	ASSERT_INT(other.calls, 1);
	ASSERT(other.failed);
	ASSERT_INT(other.err.code, BOX_ERR_SESSION_NOT_FOUND);
	/* A process that ended in time is not affected. */
	headless_gone();
	make_live("s");
	uint32_t number = begun("s", "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	now_ms = box_clock_ms();
	box_sessions_tick(sessions, now_ms + 20000);
	tell_exit(number, 137, 0);
	box_sessions_tick(sessions, now_ms + 21000);
	ASSERT_INT(op.calls, 2);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	finish_processes();
}

TEST(capacity)
{
	struct ended_op op;
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	make_live("t");
	uint32_t number = begun("s", "a");
	(void)begun("s", "b");
	(void)begun("t", "a");
	(void)begun("t", "default");
	ASSERT(begin("t", "c", &op, &waiting) < 0);
	ASSERT_INT(op.err.code, BOX_ERR_CAPACITY);
	ASSERT_STR(op.err.text, "Box managed process capacity reached (4)");
	/* A replacement needs no free slot; a process that is being stopped counts until it has
	 * ended. */
	ASSERT_INT(begin("s", "a", &op, &waiting), 1);
	struct ended_op other;
	ASSERT(begin("t", "c", &other, &waiting) < 0);
	tell_exit(number, 0, 0);
	ASSERT_INT(op.calls, 1);
	ASSERT(!op.failed);
	tell_exit(number + 1, 0, 0);
	(void)begun("t", "c");
	rules.max_processes = 0;
	ASSERT(begin("s", "z", &op, &waiting) < 0);
	ASSERT_STR(op.err.text, "Box managed process capacity reached (0)");
	finish_processes();
}

TEST(completed_ones_are_forgotten)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	start_processes();
	rules.max_processes = 9;
	make_live("s");
	uint32_t running = begun("s", "running");
	uint32_t number = 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		number = begun("s", names[i]);
		tell_exit(number, (int)i, 0);
		usleep(2000);
	}
	uint64_t now_ms = box_clock_ms();
	box_sessions_tick(sessions, now_ms);
	/* Three at most: the oldest was removed. */
	expect_counts(1, 3);
	expect_missing("s", "a");
	ASSERT(process_of("s", "b") != NULL);
	box_sessions_tick(sessions, now_ms + 299 * 1000);
	expect_counts(1, 3);
	box_sessions_tick(sessions, now_ms + 301 * 1000);
	expect_counts(1, 0);
	ASSERT(!played_of(running)->dropped);
	rules.retention_sec = 0;
	number = begun("s", "a");
	tell_exit(number, 0, 0);
	box_sessions_tick(sessions, box_clock_ms());
	expect_counts(1, 0);
	finish_processes();
}

TEST(a_session_with_a_process_is_not_idle)
{
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	uint64_t later_ms = box_clock_ms() + 1000 * 1000;
	box_sessions_tick(sessions, later_ms);
	ASSERT_INT(box_sessions_count(sessions), 1);
	tell_exit(number, 0, 0);
	box_sessions_tick(sessions, box_clock_ms() + 299 * 1000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	box_sessions_tick(sessions, later_ms);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	finish_processes();
}

/* --- removal --- */

TEST(a_session_takes_its_processes_along)
{
	struct ended_op replacing;
	struct ended_op stopping = {0};
	struct box_process_op *waiting = NULL;
	struct note note = {0};
	start_processes();
	make_live("s");
	make_live("t");
	(void)begun("s", "a");
	(void)begun("s", "b");
	uint32_t other = begun("t", "a");
	ASSERT_INT(begin("s", "a", &replacing, &waiting), 1);
	ASSERT_INT(box_process_stop(process_of("s", "b"), on_op, &stopping, &waiting), 1);
	(void)remove_id(ID("s"), &note);
	/* A stop succeeds, a start cannot. */
	ASSERT_INT(stopping.calls, 1);
	ASSERT(!stopping.failed);
	ASSERT_INT(replacing.calls, 1);
	ASSERT(replacing.failed);
	ASSERT_INT(replacing.err.code, BOX_ERR_SESSION_NOT_FOUND);
	expect_counts(1, 0);
	expect_not_shown(ID("s"), 1); /* nor can a process be started in it */
	headless_gone();
	ASSERT_INT(note.calls, 1);
	ASSERT(!played_of(other)->dropped);
	finish_processes();
}

TEST(a_box_that_is_lost)
{
	struct ended_op stopping = {0};
	struct box_process_op *waiting = NULL;
	struct note note = {0};
	start_processes();
	(void)open_in(&first, "s", &note);
	struct box_backend_box *box = headless_find(HEADLESS_MAKE, NULL)->box;
	headless_made();
	(void)begun("s", "a");
	(void)begun("s", "b");
	ASSERT_INT(box_process_stop(process_of("s", "b"), on_op, &stopping, &waiting), 1);
	headless_lose(box, "gone");
	ASSERT_INT(stopping.calls, 1);
	expect_counts(0, 0);
	finish_processes();
}

TEST(counted_for_a_workspace)
{
	struct note note = {0};
	start_processes();
	make_live("s");
	(void)begun("s", "a");
	(void)open_in(&elsewhere, "s", &note);
	headless_made();
	ASSERT_INT(box_process_count(sessions, &first).running, 1);
	ASSERT_INT(box_process_count(sessions, &second).running, 1);
	ASSERT_INT(box_process_count(sessions, &elsewhere).running, 0);
	finish_processes();
}

static struct box_value listed(void)
{
	struct box_value info = box_map_value();
	box_process_add_session_info(session_of("s"), kept_arena, &info);
	return info;
}

TEST(listed_in_their_session)
{
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	start_processes();
	make_live("s");
	struct box_value info = listed();
	ASSERT(!box_map_get(&info, "managed_processes") && !box_map_get(&info, "managed_process"));
	(void)begun("s", "other");
	info = listed();
	ASSERT_INT(box_map_get(&info, "managed_processes")->count, 1);
	ASSERT(!box_map_get(&info, "managed_process"));
	(void)begun("s", "default");
	info = listed();
	const struct box_value *all = box_map_get(&info, "managed_processes");
	ASSERT_INT(all->count, 2);
	ASSERT(box_map_get(all, "default") && box_map_get(all, "other"));
	ASSERT_STR(json(kept_arena, box_map_get(&info, "managed_process")),
		json(kept_arena, box_map_get(all, "default")));
	/* A process that is being stopped is not shown. */
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	info = listed();
	ASSERT_INT(box_map_get(&info, "managed_processes")->count, 1);
	ASSERT(!box_map_get(&info, "managed_process"));
	finish_processes();
}

/* A limit not below the session's becomes the session's: 512. */
TEST(limits_of_their_own)
{
	static const struct {
		int64_t asked;
		int64_t given;
	} rows[] = {{0, 0}, {4, 4}, {511, 511}, {512, 0}, {513, 0}, {INT64_MAX, 0}};
	start_processes();
	make_live("s");
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_process_spec spec = *process_spec("default", "prog");
		struct box_process *process = NULL;
		struct box_process_op *waiting = NULL;
		struct box_err err;
		spec.memory_mb = rows[i].asked;
		ASSERT_INT(box_process_start(
				   session_of("s"), &spec, on_op, NULL, &process, &waiting, &err),
			0);
		struct played *one = &played[i];
		ASSERT_INT(one->memory_mb, rows[i].given);
		tell_exit(one->number, 0, 0);
	}
	finish_processes();
}
