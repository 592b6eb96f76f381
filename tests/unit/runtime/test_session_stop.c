/* Sessions that are stopped, by request or by their timeouts, and what is left of them. */
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/lib/session_fixture.h"

#define STOPPED(id) "Box session " ID(id) " is stopped: remove it to make a new one"

static void quiet_start(void)
{
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	start();
}

static struct box_session_op *stop_id(const char *physical_id, struct note *note)
{
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_stop(sessions, physical_id, on_removed, note, &op, &err), 1);
	return op;
}

static void make_stopped(const char *id, const char *physical_id)
{
	struct note note = {0};
	make_live(id);
	(void)stop_id(physical_id, &note);
	headless_gone();
	ASSERT_INT(note.calls, 1);
	expect_status(physical_id, "stopped");
}

static void make_timed(const char *id, bool persistent, int64_t idle_sec, int64_t duration_sec)
{
	struct note note = {0};
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	char physical[BOX_PHYSICAL_ID_SIZE];
	struct box_spec spec = spec_of("");
	spec.persistent = persistent;
	spec.idle_timeout_sec = idle_sec;
	spec.max_duration_sec = duration_sec;
	ASSERT_INT(box_tenant_physical_id(&first, box_str(id), physical, &err), 0);
	ASSERT_INT(box_sessions_open(sessions, physical, &first, kept(spec), on_opened, &note,
			   &session, &op, &err),
		1);
	headless_made();
	ASSERT_INT(note.calls, 1);
}

/* The error of a request that uses it. */
static void expect_refused(const char *id, const char *physical_id, const char *text)
{
	struct note note = {0};
	struct box_err err = {0};
	ASSERT(!box_sessions_exec(
		sessions, physical_id, &first, kept(spec_of("x")), NULL, on_ran, &note, &err));
	ASSERT_STR(err.text, text);
	ASSERT_INT(err.code, BOX_ERR_SESSION_CONFLICT);
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	ASSERT(box_sessions_open(sessions, physical_id, &first, kept(spec_of("")), on_opened, &note,
		       &session, &op, &err) < 0);
	ASSERT_STR(err.text, text);
	ASSERT_INT(note.calls, 0);
	(void)id;
}

TEST(stop_ends_the_box_and_keeps_the_name)
{
	quiet_start();
	struct note running = {0};
	struct note stopped = {0};
	struct note again = {0};
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	make_live("s");
	(void)exec("s", "sleep", &running);
	(void)stop_id(ID("s"), &stopped);
	expect_status(ID("s"), "closing");
	expect_error(&running, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(stopped.calls, 0);
	headless_gone();
	ASSERT_INT(stopped.calls, 1);
	ASSERT_INT(headless.boxes, 0);
	expect_status(ID("s"), "stopped");
	expect_refused("s", ID("s"), STOPPED("s"));
	ASSERT_INT(box_sessions_stop(sessions, ID("s"), on_removed, &again, &op, &err), 0);
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT_INT(box_sessions_count_boxes(sessions), 0);
	ASSERT_INT(box_sessions_count_placed(sessions, &first), 0);
	ASSERT_INT(box_sessions_count_workspace(sessions, &first), 0);
	ASSERT_INT(box_sessions_remove(sessions, ID("s"), on_removed, &again, &op, &err), 0);
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s"); /* recreated */
	finish();
}

TEST(stop_unknown)
{
	quiet_start();
	struct note note = {0};
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	ASSERT(box_sessions_stop(sessions, ID("s"), on_removed, &note, &op, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_SESSION_NOT_FOUND);
	finish();
}

/* A removal meanwhile takes precedence; a request that uses it gets an error. */
TEST(stop_and_remove_at_once)
{
	quiet_start();
	struct note stopped = {0};
	struct note removed = {0};
	struct note waiting = {0};
	make_live("s");
	(void)stop_id(ID("s"), &stopped);
	(void)remove_id(ID("s"), &removed);
	expect_not_shown(ID("s"), 0);
	headless_gone();
	ASSERT_INT(stopped.calls + removed.calls, 2);
	ASSERT_INT(box_sessions_count(sessions), 0);

	make_live("s");
	(void)stop_id(ID("s"), &stopped);
	(void)exec("s", "late", &waiting);
	headless_gone();
	expect_error(&waiting, BOX_ERR_SESSION_CONFLICT, STOPPED("s"));

	make_live("t");
	(void)remove_id(ID("t"), &removed);
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_stop(sessions, ID("t"), on_removed, &stopped, &op, &err), -ENOENT);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 1); /* s */
	finish();
}

TEST(stop_while_making)
{
	quiet_start();
	struct note opened = {0};
	struct note stopped = {0};
	(void)open_in(&first, "s", &opened);
	(void)stop_id(ID("s"), &stopped);
	expect_error(&opened, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	headless_gone();
	ASSERT_INT(stopped.calls, 1);
	expect_status(ID("s"), "stopped");
	finish();
}

TEST(stopped_ones_leave_room_for_others)
{
	quiet_start();
	rules.max_sessions = 1;
	make_stopped("a", ID("a"));
	make_stopped("b", ID("b"));
	make_live("c");
	ASSERT_INT(box_sessions_count(sessions), 3);
	finish();
}

TEST(an_older_placement_takes_its_stopped_ones_with_it)
{
	quiet_start();
	make_stopped("s", ID("s"));
	box_sessions_retire(sessions, &second);
	ASSERT_INT(box_sessions_count(sessions), 0);
	finish();
}

TEST(stopped_names_have_a_bound_and_an_end)
{
	quiet_start();
	char id[16];
	char physical[BOX_PHYSICAL_ID_SIZE];
	struct box_err err;
	for (int i = 0; i <= BOX_SESSIONS_STOPPED_MAX; i++) {
		(void)snprintf(id, sizeof(id), "n%d", i);
		ASSERT_INT(box_tenant_physical_id(&first, box_str(id), physical, &err), 0);
		make_stopped(id, physical);
	}
	ASSERT_INT(box_sessions_count(sessions), BOX_SESSIONS_STOPPED_MAX);
	ASSERT(!box_sessions_find(sessions, ID("n0"), &err));
	ASSERT(box_sessions_find(sessions, ID("n1"), &err));
	uint64_t now = box_clock_ms();
	box_sessions_tick(sessions, now + BOX_SESSION_STOPPED_SEC * 1000ULL - 60000);
	ASSERT_INT(box_sessions_count(sessions), BOX_SESSIONS_STOPPED_MAX);
	box_sessions_tick(sessions, now + BOX_SESSION_STOPPED_SEC * 1000ULL + 1);
	ASSERT_INT(box_sessions_count(sessions), 0);
	finish();
}

TEST(idle_timeout)
{
	quiet_start();
	struct note running = {0};
	rules.session_ttl_sec = 5;
	make_timed("idle", true, 60, 0);
	make_timed("busy", false, 60, 0);
	(void)exec("busy", "run", &running);
	uint64_t now = box_clock_ms();
	box_sessions_tick(sessions, now + 59000); /* its own timeout, not the runtime's */
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	box_sessions_tick(sessions, now + 61000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	expect_status(ID("idle"), "stopped");
	expect_status(ID("busy"), "running");
	finish();
}

TEST(max_duration)
{
	quiet_start();
	struct note running = {0};
	make_timed("s", false, 0, 60);
	(void)exec("s", "run", &running);
	uint64_t now = box_clock_ms();
	box_sessions_tick(sessions, now + 59000);
	ASSERT_INT(running.calls, 0);
	box_sessions_tick(sessions, now + 61000);
	expect_error(&running, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	headless_gone();
	expect_status(ID("s"), "stopped");
	finish();
}

/* --- for a successor --- */

static char *changes[8];
static int change_count;

static void on_change(void *arg, const struct box_value *change)
{
	(void)arg;
	ASSERT(change_count < 8);
	struct box_arena *arena = box_arena_new();
	changes[change_count++] = box_strdup(json(arena, change));
	box_arena_free(arena);
}

static void replay_all(void)
{
	for (int i = 0; i < change_count; i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value value = tree(arena, changes[i]);
		box_sessions_replay(sessions, &value);
		box_arena_free(arena);
		free(changes[i]);
	}
	change_count = 0;
}

TEST(a_successor_knows_what_is_stopped)
{
	quiet_start();
	rules.changed = on_change;
	headless.mark = 7;
	make_stopped("s", ID("s"));
	ASSERT_INT(change_count, 3);
	ASSERT_STR(changes[1], "{\"stopping\":\"" ID("s") "\"}");
	ASSERT_STR(changes[2], "{\"stopped\":\"" ID("s") "\"}");
	box_sessions_dump(sessions, on_change, NULL);
	ASSERT_INT(change_count, 5);
	ASSERT_STR(changes[4], changes[2]);
	rules.changed = NULL;
	finish();

	quiet_start();
	rules.changed = on_change;
	int before = change_count;
	rules.changed = NULL;
	ASSERT_INT(before, 5);
	replay_all();
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 1);
	expect_status(ID("s"), "stopped");
	expect_refused("s", ID("s"), STOPPED("s"));
	finish();
}

/* This process ended while the box did: a successor ends it, and still keeps the name. */
TEST(a_successor_goes_on_stopping)
{
	quiet_start();
	rules.changed = on_change;
	headless.mark = 7;
	struct note note = {0};
	make_live("s");
	(void)stop_id(ID("s"), &note);
	rules.changed = NULL;
	ASSERT_INT(change_count, 2);
	finish();

	quiet_start();
	replay_all();
	headless.kept = box_alloc(sizeof(*headless.kept));
	headless.kept->mark = 7;
	headless.boxes++;
	expect_status(ID("s"), "closing");
	box_sessions_adopt(sessions);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	expect_status(ID("s"), "stopped");
	finish();
}

TEST(the_end_of_its_time_is_the_same_in_a_successor)
{
	quiet_start();
	rules.changed = on_change;
	headless.mark = 7;
	make_timed("s", true, 30, 60);
	ASSERT_INT(change_count, 1);
	const char *born = strstr(changes[0], "\"born\":");
	ASSERT(born != NULL);
	uint64_t born_ms = strtoull(born + strlen("\"born\":"), NULL, 10);
	ASSERT(strstr(changes[0], "\"idle_timeout_sec\":30,\"max_duration_sec\":60") != NULL);
	rules.changed = NULL;
	finish();

	quiet_start();
	replay_all();
	headless.kept = box_alloc(sizeof(*headless.kept));
	headless.kept->mark = 7;
	headless.boxes++;
	box_sessions_adopt(sessions);
	expect_status(ID("s"), "idle");
	box_sessions_tick(sessions, born_ms + 60001);
	headless_gone();
	expect_status(ID("s"), "stopped");
	finish();
}
