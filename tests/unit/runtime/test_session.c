/* Sessions: making and running, the end of a command, capacity, and what clients can see. */
#include <errno.h>

#include "runtime/session/session.h"
#include "tests/unit/lib/session_fixture.h"

/* --- making and running --- */

TEST(create_and_reuse)
{
	start();
	struct note opened = {0};
	struct note ran = {0};
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	(void)open_in(&first, "s", &opened);
	ASSERT_INT(opened.calls, 0);
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT_STR(headless_find(HEADLESS_MAKE, NULL)->name, ID("s"));
	headless_made();
	ASSERT_INT(opened.calls, 1);

	ASSERT_INT(box_sessions_open(sessions, ID("s"), &first, kept(spec_of("")), on_opened,
			   &opened, &session, &op, &err),
		0);
	ASSERT_INT(opened.calls, 1);
	ASSERT(session == box_sessions_find(sessions, ID("s"), &err));
	ASSERT_STR(box_session_logical_id(session), "s");
	ASSERT_STR(box_session_backend_name(session), "headless");

	(void)exec("s", "run", &ran);
	ASSERT_INT(headless_find(HEADLESS_EXEC, "run")->max_output_bytes, 1000);
	headless_ran("run", &good);
	expect_ran(&ran, "fine");
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 1);
	finish();
}

TEST(exec_makes_its_session)
{
	start();
	struct note ran = {0};
	(void)exec("s", "run", &ran);
	ASSERT_INT(headless.begun[HEADLESS_EXEC], 0);
	headless_made();
	ASSERT_INT(ran.calls, 0);
	headless_ran("run", &(struct box_backend_exec_outcome){.exit_code = 3});
	ASSERT_INT(ran.calls, 1);
	ASSERT_INT(ran.exit_code, 3);
	finish();
}

TEST(conflict)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	struct box_spec other = spec_of("run");
	other.memory_mb = 1024;
	(void)open_in(&first, "s", &note);
	/* While it is made, and when it runs. */
	for (int round = 0; round < 2; round++) {
		ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, NULL, on_ran, &note,
			       &err) == NULL);
		ASSERT_INT(err.code, BOX_ERR_SESSION_CONFLICT);
		ASSERT_STR(err.text, "Box session " ID("s") " already exists with memory_mb=512");
		ASSERT_INT(box_sessions_open(sessions, ID("s"), &first, &other, on_opened, &note,
				   &session, &op, &err),
			-EEXIST);
		if (round == 0) {
			headless_made();
		}
	}
	ASSERT_INT(note.calls, 1);
	finish();
}

TEST(no_backend)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_spec spec = spec_of("run");
	make_live("s");
	headless.unavailable = true;
	ASSERT(box_sessions_exec(sessions, ID("t"), &first, &spec, NULL, on_ran, &note, &err) ==
		NULL);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_STR(err.text, "the backend cannot make boxes now");
	rules.backend = NULL;
	ASSERT(box_sessions_exec(sessions, ID("t"), &first, &spec, NULL, on_ran, &note, &err) ==
		NULL);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_STR(err.text, "no backend here");
	/* An existing session needs no default. */
	(void)exec("s", "run", &note);
	headless_ran("run", &good);
	expect_ran(&note, "fine");
	finish();
}

TEST(exec_while_making)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note opened = {0};
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &opened);
	(void)exec("s", "b", &b);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 0);
	expect_status(ID("s"), "idle");
	headless_made();
	ASSERT_INT(opened.calls, 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 2);
	headless_ran("a", &good);
	headless_ran("b", &good);
	expect_ran(&a, "fine");
	expect_ran(&b, "fine");
	finish();
}

TEST(side_by_side)
{
	start();
	struct note notes[3] = {{0}};
	make_live("s");
	(void)exec("s", "a", &notes[0]);
	(void)exec("s", "b", &notes[1]);
	(void)exec("s", "c", &notes[2]);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 3);
	expect_status(ID("s"), "running");
	headless_ran("b", &good);
	ASSERT_INT(notes[1].calls, 1);
	ASSERT_INT(notes[0].calls + notes[2].calls, 0);
	expect_status(ID("s"), "running");
	headless_run_failed("c", BOX_ERR_BOX, "it broke");
	expect_error(&notes[2], BOX_ERR_BOX, "it broke");
	headless_ran("a", &good);
	expect_ran(&notes[0], "fine");
	expect_status(ID("s"), "idle");
	finish();
}

TEST(make_fails)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note c = {0};
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &b);
	(void)exec("s", "c", &c);
	headless_make_failed(BOX_ERR_BOX, "no room");
	expect_error(&a, BOX_ERR_BOX, "no room");
	expect_error(&b, BOX_ERR_BOX, "no room");
	expect_error(&c, BOX_ERR_BOX, "no room");
	/* The name is already free when the callbacks run. */
	ASSERT_INT(a.sessions_then, 0);
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s");
	finish();
}

/* --- the end of a command --- */

TEST(timeout_removes)
{
	start();
	struct note slow = {0};
	struct note beside = {0};
	make_live("s");
	(void)exec("s", "slow", &slow);
	(void)exec("s", "beside", &beside);
	headless_ran("slow", &(struct box_backend_exec_outcome){.reason = BOX_BACKEND_END_TIMEOUT});
	ASSERT_INT(slow.calls, 1);
	ASSERT(!slow.failed);
	ASSERT_INT(slow.reason, BOX_BACKEND_END_TIMEOUT);
	ASSERT_INT(slow.sessions_then, 1); /* answered before its box is destroyed */
	ASSERT_INT(slow.shown_then, 0);    /* but no longer in any list */
	expect_not_shown(ID("s"), 0);
	expect_error(&beside, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s");
	finish();
}

/* --- capacity --- */

static void expect_full(const char *id)
{
	struct box_err err = {0};
	struct note note = {0};
	struct box_spec spec = spec_of("x");
	ASSERT(box_sessions_exec(sessions, id, &first, &spec, NULL, on_ran, &note, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT_STR(err.text, "Box session capacity reached (2)");
}

TEST(capacity)
{
	start();
	struct note making = {0};
	struct note removed = {0};
	struct note ran = {0};
	struct note third = {0};
	struct note cancelled = {0};
	rules.max_sessions = 2;
	make_live("live");
	(void)open_in(&first, "making", &making);
	expect_full(ID("third"));
	headless_made();
	(void)remove_id(ID("live"), &removed);
	expect_not_shown(ID("live"), 1);
	/* Its box counts until it is destroyed: a session that needs the slot waits, and gets it.
	 */
	(void)open_in(&first, "third", &third);
	box_session_op_cancel(open_in(&first, "cancelled", &cancelled));
	ASSERT_INT(headless_count(HEADLESS_MAKE), 0);
	(void)exec("making", "run", &ran); /* an existing session needs no slot */
	headless_ran("run", &good);
	headless_gone();
	headless_made();
	ASSERT_INT(third.calls, 1);
	ASSERT(!third.failed);
	ASSERT_INT(cancelled.calls, 0);
	expect_full(ID("fourth"));
	finish();
}

/* Two wait for one slot: the second waits for the next free one, or is refused. */
TEST(capacity_of_many_that_wait)
{
	start();
	struct note removed = {0};
	struct note notes[3] = {{0}};
	rules.max_sessions = 2;
	make_live("a");
	make_live("b");
	(void)remove_id(ID("a"), &removed);
	(void)open_in(&first, "c", &notes[0]);
	(void)open_in(&first, "c", &notes[1]);
	(void)open_in(&first, "d", &notes[2]);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	expect_error(&notes[2], BOX_ERR_CAPACITY, "Box session capacity reached (2)");
	headless_made();
	ASSERT_INT(notes[0].calls + notes[1].calls, 2);
	ASSERT(!notes[0].failed && !notes[1].failed);

	(void)remove_id(ID("b"), &removed);
	(void)remove_id(ID("c"), &removed);
	(void)open_in(&first, "e", &notes[0]);
	(void)open_in(&first, "f", &notes[1]);
	headless_gone();
	ASSERT_INT(headless_count(HEADLESS_MAKE), 1);
	headless_gone();
	ASSERT_INT(headless_count(HEADLESS_MAKE), 2);
	headless_made();
	headless_made();
	ASSERT_INT(notes[0].calls + notes[1].calls, 4);
	finish();
}

/* A box that is made for nobody counts, too. */
TEST(capacity_of_cancelled_makes)
{
	start();
	struct note notes[2] = {{0}};
	struct note third = {0};
	rules.max_sessions = 2;
	box_session_op_cancel(exec("a", "x", &notes[0]));
	box_session_op_cancel(open_in(&first, "b", &notes[1]));
	(void)open_in(&first, "third", &third);
	ASSERT_INT(headless_count(HEADLESS_MAKE), 0);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 2);
	headless_gone();
	headless_made();
	ASSERT_INT(third.calls, 1);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT_INT(notes[0].calls + notes[1].calls, 0);
	finish();
}

/* A session that waited for a removal finds the slot taken. */
TEST(capacity_while_waiting)
{
	start();
	struct note removed = {0};
	struct note waiting = {0};
	rules.max_sessions = 2;
	make_live("a");
	make_live("b");
	(void)remove_id(ID("a"), &removed);
	(void)exec("a", "x", &waiting);
	rules.max_sessions = 1;
	headless_gone();
	expect_error(&waiting, BOX_ERR_CAPACITY, "Box session capacity reached (1)");
	finish();
}

/* --- what can be seen --- */

static void expect_time(const char *text)
{
	ASSERT_INT(strlen(text), strlen("2026-11-16T01:55:00.348528Z"));
	ASSERT_INT(text[10], 'T');
	ASSERT_INT(text[26], 'Z');
}

TEST(info)
{
	start();
	struct box_arena *arena = box_arena_new();
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	struct note note = {0};
	struct box_spec spec = spec_of("");
	spec.session_id = "a/b";
	spec.network_on = true;
	spec.host_path = "/srv/x";
	spec.host_path_mode = BOX_MOUNT_RO;
	spec.persistent = true;
	spec.cpus = 1.5;
	spec.workspace_quota_mb = 7;
	ASSERT_INT(box_sessions_open(sessions, ID("a-b"), &first, &spec, on_opened, &note, &session,
			   &op, &err),
		1);
	headless_made();
	struct box_value info = box_session_info(
		box_sessions_find(sessions, ID("a-b"), &err), arena);
	expect_time(info_text(arena, ID("a-b"), "created_at"));
	expect_time(info_text(arena, ID("a-b"), "last_used_at"));
	ASSERT(strcmp(info_text(arena, ID("a-b"), "created_at"),
		       info_text(arena, ID("a-b"), "last_used_at")) <= 0);
	box_map_set(arena, &info, box_str("created_at"), box_cstr("C"));
	box_map_set(arena, &info, box_str("last_used_at"), box_cstr("U"));
	/* clang-format off */
	const char *expected =
		"{\"session_id\":\"a-b\",\"backend_name\":\"headless\","
		"\"backend_session_id\":\"" ID("a-b") "\",\"image\":\"image\",\"network\":\"on\","
		"\"host_path\":\"/srv/x\",\"host_path_mode\":\"ro\","
		"\"mount_path\":\"/workspace\",\"persistent\":true,\"cpus\":1.5,"
		"\"memory_mb\":512,\"pids_limit\":128,\"read_only_rootfs\":true,"
		"\"workspace_quota_mb\":7,\"created_at\":\"C\",\"last_used_at\":\"U\","
		"\"status\":\"idle\"}";
	/* clang-format on */
	ASSERT_STR(json(arena, &info), expected);
	finish();
	/* The info remains valid after the session. */
	ASSERT(box_str_eq(box_map_get(&info, "image")->str, "image"));
	box_arena_free(arena);
}

TEST(list)
{
	start();
	struct box_arena *arena = box_arena_new();
	struct note notes[3] = {{0}};
	make_live("a");
	(void)open_in(&elsewhere, "x", &notes[0]);
	(void)open_in(&first, "b", &notes[1]);
	(void)open_in(&second, "c", &notes[2]);
	struct box_value list = box_sessions_list(sessions, &first, arena);
	ASSERT_INT(list.count, 2);
	ASSERT(box_str_eq(box_map_get(&list.items[0], "session_id")->str, "a"));
	ASSERT(box_str_eq(box_map_get(&list.items[1], "session_id")->str, "b"));
	list = box_sessions_list(sessions, &second, arena);
	ASSERT_INT(list.count, 1);
	ASSERT_INT(box_sessions_list(sessions, &elsewhere, arena).count, 1);
	struct box_context nobody = {{"inst", 4}, {"no", 2}, 1};
	ASSERT_INT(box_sessions_list(sessions, &nobody, arena).count, 0);
	list = box_sessions_list_all(sessions, arena);
	ASSERT_INT(list.count, 4);
	ASSERT(box_str_eq(box_map_get(&list.items[1], "session_id")->str, "x"));
	ASSERT(box_str_eq(box_map_get(&list.items[1], "instance_uuid")->str, "inst"));
	ASSERT(box_str_eq(box_map_get(&list.items[1], "workspace_uuid")->str, "other"));
	ASSERT_INT(box_map_get(&list.items[3], "placement_generation")->integer, 2);
	box_arena_free(arena);
	finish();
}
