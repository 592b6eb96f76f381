/* Sessions: a `done` callback that calls back in while others still wait for theirs. */
#include "runtime/session/session.h"
#include "tests/unit/lib/session_fixture.h"

static void then_remove(void *arg)
{
	static struct note removed;
	struct box_err err;
	struct box_session_op *op = NULL;
	(void)box_sessions_remove(sessions, arg, on_removed, &removed, &op, &err);
}

static void then_cancel(void *arg)
{
	box_session_op_cancel(*(struct box_session_op **)arg);
}

/* Two wait for a box, and the first one removes it: the second must not run in it. */
TEST(removed_by_an_opener)
{
	static char id[] = ID("s");
	start();
	struct note opened = {.then = then_remove, .then_arg = id};
	struct note ran = {0};
	(void)open_in(&first, "s", &opened);
	(void)exec("s", "run", &ran);
	headless_made();
	ASSERT_INT(opened.calls, 1);
	while (headless_count(HEADLESS_DESTROY) > 0) {
		headless_gone();
	}
	/* Ended with the error, or started in another box: both are fine. */
	if (ran.calls > 0) {
		expect_error(&ran, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	} else {
		headless_made();
		headless_ran("run", &good);
		expect_ran(&ran, "fine");
	}
	finish();
}

TEST(cancelled_by_one_who_is_told_of_a_failure)
{
	start();
	struct box_session_op *other = NULL;
	struct note a = {.then = then_cancel, .then_arg = &other};
	struct note b = {0};
	(void)exec("s", "a", &a);
	other = exec("s", "b", &b);
	headless_make_failed(BOX_ERR_BOX, "no room");
	expect_error(&a, BOX_ERR_BOX, "no room");
	ASSERT_INT(b.calls, 0);
	finish();
}

TEST(cancelled_by_one_who_is_told_of_a_removal)
{
	for (int live = 0; live < 2; live++) {
		start();
		struct box_session_op *other = NULL;
		struct note a = {.then = then_cancel, .then_arg = &other};
		struct note b = {0};
		(void)exec("s", "a", &a);
		other = exec("s", "b", &b);
		if (live) {
			headless_made();
		}
		box_sessions_remove_all(sessions);
		expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
		ASSERT_INT(b.calls, 0);
		finish();
	}
}

TEST(cancelled_by_a_remover)
{
	start();
	struct box_session_op *other = NULL;
	struct note removed = {.then = then_cancel, .then_arg = &other};
	struct note waiting = {0};
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	other = exec("s", "x", &waiting);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(waiting.calls, 0);
	finish();
}

static void then_exec(void *arg)
{
	(void)exec("s", "again", arg);
}

/* A command whose end is reported requests the next one immediately. */
TEST(exec_again)
{
	start();
	struct note again = {0};
	struct note a = {.then = then_exec, .then_arg = &again};
	make_live("s");
	(void)exec("s", "a", &a);
	headless_ran("a", &good);
	headless_ran("again", &good);
	expect_ran(&again, "fine");

	struct note after = {0};
	struct note slow = {.then = then_exec, .then_arg = &after};
	(void)exec("s", "slow", &slow);
	headless_ran("slow", &(struct box_backend_exec_outcome){.reason = BOX_BACKEND_END_TIMEOUT});
	/* It waits for the end of the session that the slow command ended. */
	ASSERT_INT(after.calls, 0);
	headless_gone();
	headless_made();
	headless_ran("again", &good);
	expect_ran(&after, "fine");

	struct note removed = {0};
	(void)remove_id(ID("s"), &removed);
	headless_gone();
	struct note fresh = {0};
	struct note failed = {.then = then_exec, .then_arg = &fresh};
	(void)exec("s", "x", &failed);
	headless_make_failed(BOX_ERR_BOX, "no room");
	headless_made();
	headless_ran("again", &good);
	expect_ran(&fresh, "fine");
	finish();
}

/* The second removal is answered once everything requested before it is gone. */
TEST(remove_behind_a_waiting_exec)
{
	start();
	struct note one = {0};
	struct note two = {0};
	struct note waiting = {0};
	make_live("s");
	(void)remove_id(ID("s"), &one);
	(void)exec("s", "x", &waiting);
	(void)remove_id(ID("s"), &two);
	headless_gone();
	ASSERT_INT(one.calls, 1);
	while (two.calls == 0 && headless.pending) {
		if (headless_count(HEADLESS_DESTROY) > 0) {
			headless_gone();
		} else {
			headless_made();
		}
	}
	ASSERT_INT(two.calls, 1);
	ASSERT_INT(two.sessions_then, 0);
	ASSERT_INT(waiting.calls, 1);
	finish();
}
