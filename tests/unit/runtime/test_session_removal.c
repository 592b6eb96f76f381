/* Sessions: removing and cancelling in every state, one and many at once. */
#include <errno.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/unit/lib/session_fixture.h"

/* --- removing --- */

TEST(remove_unknown)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_remove(sessions, ID("s"), on_removed, &note, &op, &err), -ENOENT);
	ASSERT_INT(err.code, BOX_ERR_SESSION_NOT_FOUND);
	ASSERT_STR(err.text, "session " ID("s") " not found");
	ASSERT(box_sessions_find(sessions, ID("s"), &err) == NULL);
	finish();
}

TEST(remove_while_running)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note removed = {0};
	make_live("s");
	(void)exec("s", "a", &a);
	(void)exec("s", "b", &b);
	(void)remove_id(ID("s"), &removed);
	expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	expect_error(&b, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 2);
	ASSERT_INT(removed.calls, 0);
	expect_not_shown(ID("s"), 0);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(removed.sessions_then, 0);
	finish();
}

TEST(remove_while_making)
{
	start();
	struct note a = {0};
	struct note opened = {0};
	struct note removed = {0};
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &opened);
	(void)remove_id(ID("s"), &removed);
	expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	expect_error(&opened, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 1);
	/* The fate of the box is not known yet. */
	ASSERT_INT(removed.calls, 0);
	expect_not_shown(ID("s"), 0);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(removed.sessions_then, 0);
	make_live("s");
	finish();
}

TEST(remove_twice)
{
	start();
	struct note one = {0};
	struct note two = {0};
	make_live("s");
	(void)remove_id(ID("s"), &one);
	(void)remove_id(ID("s"), &two);
	ASSERT_INT(headless.begun[HEADLESS_DESTROY], 1);
	headless_gone();
	ASSERT_INT(one.calls, 1);
	ASSERT_INT(two.calls, 1);
	finish();
}

TEST(exec_while_removing)
{
	start();
	struct note removed = {0};
	struct note a = {0};
	struct note b = {0};
	struct note opened = {0};
	struct box_err err = {0};
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	(void)exec("s", "a", &a);
	(void)exec("s", "b", &b);
	(void)open_in(&first, "s", &opened);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 1);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 2);
	ASSERT_INT(a.calls + b.calls + opened.calls, 0);
	headless_made();
	ASSERT_INT(opened.calls, 1);
	headless_ran("a", &good);
	headless_ran("b", &good);
	expect_ran(&a, "fine");
	expect_ran(&b, "fine");
	ASSERT(box_sessions_find(sessions, ID("s"), &err) != NULL);
	finish();
}

/* A spec cannot conflict with a session that is being removed, only with its replacement. */
TEST(other_spec_while_removing)
{
	start();
	struct note removed = {0};
	struct note a = {0};
	struct note b = {0};
	struct box_err err = {0};
	struct box_spec other = spec_of("b");
	other.cpus = 0.5;
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, NULL, on_ran, &b, &err) !=
		NULL);
	(void)exec("s", "a", &a);
	headless_gone();
	expect_error(&a, BOX_ERR_SESSION_CONFLICT,
		"Box session " ID("s") " already exists with cpus=0.5");
	headless_made();
	headless_ran("b", &good);
	expect_ran(&b, "fine");
	finish();
}

/* --- cancelling --- */

TEST(cancel_while_making)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct box_session_op *op_a = exec("s", "a", &a);
	struct box_session_op *op_b = exec("s", "b", &b);
	box_session_op_cancel(op_a);
	ASSERT_INT(box_sessions_count(sessions), 1); /* b still needs it */
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 0);
	box_session_op_cancel(op_b);
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 1); /* until its box is gone */

	op_a = exec("s", "a", &a);
	(void)exec("s", "b", &b);
	box_session_op_cancel(op_a);
	ASSERT_INT(headless_count(HEADLESS_MAKE), 0);
	headless_gone();
	headless_made();
	ASSERT_INT(headless_count(HEADLESS_EXEC), 1);
	headless_ran("b", &good);
	expect_ran(&b, "fine");
	ASSERT_INT(a.calls, 0);
	finish();
}

TEST(cancel_running)
{
	start();
	struct note a = {0};
	struct note b = {0};
	make_live("s");
	struct box_session_op *op = exec("s", "a", &a);
	(void)exec("s", "b", &b);
	box_session_op_cancel(op);
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 1);
	expect_status(ID("s"), "running");
	headless_ran("b", &good);
	expect_status(ID("s"), "idle"); /* the session of a cancelled command stays */
	ASSERT_INT(a.calls, 0);
	expect_ran(&b, "fine");
	finish();
}

TEST(cancel_while_removing)
{
	start();
	struct note removed = {0};
	struct note waiting = {0};
	make_live("s");
	struct box_session_op *removal = remove_id(ID("s"), &removed);
	struct box_session_op *op = exec("s", "a", &waiting);
	box_session_op_cancel(op);
	box_session_op_cancel(removal);
	ASSERT_INT(box_sessions_count(sessions), 1); /* it continues without its client */
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(removed.calls + waiting.calls, 0);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	finish();
}

/* --- many at once --- */

TEST(retire)
{
	start();
	struct note old_run = {0};
	struct note old_open = {0};
	struct note kept_run = {0};
	struct note other_run = {0};
	make_live("old");
	(void)exec("old", "old", &old_run);
	(void)open_in(&first, "half", &old_open);
	(void)exec_in(&second, "s", "kept", &kept_run);
	(void)exec_in(&elsewhere, "s", "other", &other_run);
	ASSERT_INT(box_sessions_count_workspace(sessions, &first), 3);
	ASSERT_INT(box_sessions_count_workspace(sessions, &elsewhere), 1);
	box_sessions_retire(sessions, &first); /* nothing is older than 1 */
	ASSERT_INT(box_sessions_count(sessions), 4);
	box_sessions_retire(sessions, &second);
	expect_error(&old_run, BOX_ERR_SESSION_NOT_FOUND, REMOVED("old"));
	expect_error(&old_open, BOX_ERR_SESSION_NOT_FOUND, REMOVED("half"));
	headless_gone();
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 2);
	headless_made();
	headless_made();
	headless_ran("kept", &good);
	headless_ran("other", &good);
	expect_ran(&kept_run, "fine");
	expect_ran(&other_run, "fine");
	finish();
}

TEST(idle)
{
	start();
	struct note running = {0};
	struct note making = {0};
	struct note opened = {0};
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	struct box_session *session = NULL;
	rules.session_ttl_sec = 10;
	make_live("idle");
	make_live("running");
	(void)exec("running", "run", &running);
	struct box_spec persistent = spec_of("");
	persistent.persistent = true;
	ASSERT_INT(box_sessions_open(sessions, ID("persistent"), &first, &persistent, on_opened,
			   &opened, &session, &op, &err),
		1);
	headless_made();
	(void)open_in(&first, "making", &making);
	uint64_t now = box_clock_ms();

	box_sessions_tick(sessions, 0);
	box_sessions_tick(sessions, now);
	box_sessions_tick(sessions, now + 9000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	rules.session_ttl_sec = 0;
	box_sessions_tick(sessions, now + 1000000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	rules.session_ttl_sec = 10;
	box_sessions_tick(sessions, now + 10000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	box_sessions_tick(sessions, now + 10000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	ASSERT(box_sessions_find(sessions, ID("idle"), &err) == NULL);
	ASSERT_INT(box_sessions_count(sessions), 3);

	/* The end of a command counts as use. */
	headless_ran("run", &good);
	headless_made();
	box_sessions_tick(sessions, box_clock_ms() + 9000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	box_sessions_tick(sessions, box_clock_ms() + 11000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 2);
	headless_gone();
	headless_gone();
	ASSERT(box_sessions_find(sessions, ID("persistent"), &err) != NULL);
	finish();
}

TEST(remove_all)
{
	start();
	struct note run = {0};
	struct note making = {0};
	struct note removed = {0};
	make_live("live");
	make_live("closing");
	(void)remove_id(ID("closing"), &removed);
	(void)exec("live", "run", &run);
	(void)open_in(&first, "making", &making);
	box_sessions_remove_all(sessions);
	expect_error(&run, BOX_ERR_SESSION_NOT_FOUND, REMOVED("live"));
	expect_error(&making, BOX_ERR_SESSION_NOT_FOUND, REMOVED("making"));
	ASSERT_INT(box_sessions_count(sessions), 3);
	expect_not_shown(ID("live"), 0);
	box_sessions_remove_all(sessions);
	headless_gone();
	headless_gone();
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(box_sessions_count(sessions), 0);
	finish();
}

/* --- one instance --- */

TEST(remove_those_of_one_instance)
{
	static const struct box_context operators = {{"_operator", 9}, {"ws", 2}, 1};
	char physical[BOX_PHYSICAL_ID_SIZE];
	struct box_err err = {0};
	struct note note = {0};
	start();
	make_live("a");
	(void)open_in(&operators, "own", &note);
	headless_made();
	ASSERT_INT(box_tenant_physical_id(&operators, box_str("own"), physical, &err), 0);
	box_sessions_remove_instance(sessions, first.instance);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT(box_sessions_find(sessions, physical, &err) != NULL);
	ASSERT(box_sessions_find(sessions, ID("a"), &err) == NULL);
	make_live("a");
	box_sessions_remove_instance(sessions, operators.instance);
	headless_gone();
	ASSERT(box_sessions_find(sessions, physical, &err) == NULL);
	ASSERT(box_sessions_find(sessions, ID("a"), &err) != NULL);
	box_sessions_remove_all(sessions);
	headless_gone();
	finish();
}
