/* The dispatcher with many requests in flight: limits, cancelling, newer generations, and ends. */
#include <errno.h>

#include "base/limits.h"
#include "handlers/dispatch.h"
#include "handlers/peer.h"
#include "tests/unit/lib/dispatch_fixture.h"

/* --- busy --- */

TEST(busy)
{
	struct connection c = {0};
	struct connection other = {0};
	start_with(&c);
	open_peer(&other);
	make_live(&c, "s");
	for (int i = 0; i < BOX_REQUESTS_MAX; i++) {
		exec(&c, i, "s", "x");
	}
	ASSERT_INT(c.count, 0);
	ASSERT_INT(box_dispatch_request_count(dispatch), BOX_REQUESTS_MAX);
	exec(&c, 500, "s", "x");
	expect_error(&c, 0, "500", "Runtime connection is busy (max 128 concurrent actions)");
	receive(&c, "{\"seq_id\":[],\"action\":\"nope\"}");
	expect_error(&c, 1, "-1", "Runtime connection is busy (max 128 concurrent actions)");
	receive(&c, "{\"seq_id\":5,\"action\":7}");
	expect_error(&c, 2, "5", "Runtime connection is busy (max 128 concurrent actions)");
	/* Cancels and acknowledgements have a limit of their own, and so do other connections. */
	ask(&c, 501, "__stream_ack", "\"seq_id\":1,\"index\":1");
	expect_success(&c, 3, "501", "{\"accepted\":false}");
	receive(&other, "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}");
	ASSERT_INT(other.count, 1);
	ask(&c, 502, "__cancel_action", "\"seq_id\":17");
	expect_success(&c, 4, "502", "{\"cancelled\":true}");
	exec(&c, 503, "s", "again");
	ASSERT_INT(c.count, 5);
	close_peer(&c);
	close_peer(&other);
	finish();
}

static int depth;

static void cancel_within(struct connection *connection)
{
	if (depth < 6) {
		depth++;
		ask(connection, 100 + depth, "__cancel_action", "\"seq_id\":1");
	}
}

static void ack_within(struct connection *connection)
{
	if (depth < BOX_ACKS_MAX + 2) {
		depth++;
		ask(connection, 1000 + depth, "__stream_ack", "\"seq_id\":1,\"index\":1");
	}
}

/* These end at once, so several can only be in flight from inside an answer. */
TEST(busy_lanes)
{
	struct connection c = {.within = cancel_within};
	struct connection d = {.within = ack_within};
	start_with(&c);
	open_peer(&d);
	ask(&c, 100, "__cancel_action", "\"seq_id\":1");
	for (int i = 0; i < BOX_CANCELS_MAX; i++) {
		char seq[16];
		(void)snprintf(seq, sizeof(seq), "%d", 100 + i);
		expect_success(&c, i, seq, "{\"cancelled\":false}");
	}
	expect_error(&c, 4, "104", "Runtime connection is busy (max 4 concurrent actions)");
	depth = 0;
	ask(&d, 1000, "__stream_ack", "\"seq_id\":1,\"index\":1");
	expect_success(&d, 127, "1127", "{\"accepted\":false}");
	expect_error(&d, 128, "1128", "Runtime connection is busy (max 128 concurrent actions)");
	close_peer(&c);
	close_peer(&d);
	finish();
}

/* --- what ends a request --- */

TEST(exec_answers)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "a");
	exec(&c, 2, "s", "b");
	exec(&c, 3, "s", "c");
	ASSERT_INT(c.count, 0);
	headless_ran("b", &good);
	expect_success(&c, 0, "2", RAN("fine"));
	headless_run_failed("c", BOX_ERR_BOX, "it broke");
	expect_error(&c, 1, "3", "BoxError: it broke");
	headless_ran("a",
		&(struct box_backend_exec_outcome){.reason = BOX_BACKEND_END_SIGNAL,
			.signal = 9,
			.exit_code = 137,
			.out = {"", 0},
			.err = {"\xff ", 2}});
	expect_success(&c, 2, "1",
		"{\"session_id\":\"s\",\"backend_name\":\"headless\",\"status\":\"completed\","
		"\"exit_code\":137,\"stdout\":\"\",\"stderr\":\"\xef\xbf\xbd\",\"duration_ms\":0,"
		"\"end\":{\"reason\":\"signal\",\"signal\":9}}");
	exec(&c, 4, "s", "slow");
	headless_ran("slow", &timed_out);
	expect_success(&c, 3, "4",
		"{\"session_id\":\"s\",\"backend_name\":\"headless\",\"status\":\"timed_out\","
		"\"exit_code\":null,\"stdout\":\"\",\"stderr\":\"Command timed out after 30 "
		"seconds.\",\"duration_ms\":0,\"end\":{\"reason\":\"timeout\",\"signal\":null}}");
	finish_with(&c);
}

TEST(cancel)
{
	struct connection c = {0};
	struct connection other = {0};
	start_with(&c);
	open_peer(&other);
	make_live(&c, "s");
	exec(&c, 7, "s", "first");
	exec(&c, 7, "s", "second");
	int at = 0;
	/* Missing; another connection's; another workspace's; without context; itself. */
	ask(&c, 20, "__cancel_action", "\"seq_id\":8");
	expect_success(&c, at++, "20", "{\"cancelled\":false}");
	ask(&other, 21, "__cancel_action", "\"seq_id\":7");
	expect_success(&other, 0, "21", "{\"cancelled\":false}");
	receive(&c,
		"{\"seq_id\":22,\"action\":\"__cancel_action\",\"data\":{\"seq_id\":7},"
		"\"context\":{\"instance_uuid\":\"inst\",\"workspace_uuid\":\"other\"}}");
	expect_success(&c, at++, "22", "{\"cancelled\":false}");
	receive(&c, "{\"seq_id\":23,\"action\":\"__cancel_action\",\"data\":{\"seq_id\":7}}");
	expect_success(&c, at++, "23", "{\"cancelled\":false}");
	ask(&c, 24, "__cancel_action", "\"seq_id\":24");
	expect_success(&c, at++, "24", "{\"cancelled\":false}");
	/* The installation part is ignored; of two with the same seq_id the later one is cancelled.
	 */
	receive(&c,
		"{\"seq_id\":25,\"action\":\"__cancel_action\",\"data\":{\"seq_id\":7},"
		"\"context\":{" PLACE ",\"installation_uuid\":\"n\"}}");
	expect_success(&c, at++, "25", "{\"cancelled\":true}");
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	headless_ran("first", &good);
	expect_success(&c, at++, "7", RAN("fine"));
	ASSERT_INT(c.count, at); /* and no answer for the one that was cancelled */
	ask(&c, 26, "__cancel_action", "\"seq_id\":7");
	expect_success(&c, at++, "26", "{\"cancelled\":false}");
	close_peer(&c);
	close_peer(&other);
	finish();
}

TEST(overtaken_while_running)
{
	struct connection c = {0};
	struct connection other = {0};
	start_with(&c);
	open_peer(&other);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&c, 2, "half", "made"); /* waits for its box */
	ask(&c, 3, "box_delete_session", "\"session_id\":\"s\"");
	int before = c.count;
	receive(&c,
		"{\"seq_id\":4,\"action\":\"box_exec\",\"data\":{\"session_id\":\"s\","
		"\"cmd\":\"untouched\"},\"context\":{\"instance_uuid\":\"inst\","
		"\"workspace_uuid\":\"other\"}}");
	ask_at(&other, 2, 9, "box_get_sessions", "");
	expect_success(&other, 0, "9", "{\"sessions\":[]}");
	/* All requests of the older placement get this error. */
	for (int i = before; i < c.count; i++) {
		ASSERT(strstr(c.answers[i], "\"" STALE "\"") != NULL);
	}
	ASSERT_INT(box_dispatch_request_count(dispatch), 1);
	while (headless_count(HEADLESS_DESTROY) > 0) {
		headless_gone();
	}
	headless_made();
	headless_ran("untouched", &good);
	expect_success(&c, c.count - 1, "4", RAN("fine"));
	exec(&c, 5, "s", "late");
	expect_error(&c, c.count - 1, "5", STALE);
	close_peer(&c);
	close_peer(&other);
	finish();
}

/* A running command whose placement becomes stale gets that error, and not that its session is
 * gone. */
TEST(overtaken_exec)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	ask_at(&c, 2, 9, "box_get_sessions", "");
	ASSERT_INT(c.count, 2);
	expect_error(&c, 0, "1", STALE);
	expect_success(&c, 1, "9", "{\"sessions\":[]}");
	finish_with(&c);
}

TEST(overtaken_create)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_create_session", "\"session_id\":\"s\"");
	ask_at(&c, 2, 9, "box_get_sessions", "");
	ASSERT_INT(c.count, 2);
	expect_error(&c, 0, "1", STALE);
	headless_gone();
	ASSERT_INT(box_sessions_count(runtime->sessions), 0);
	finish_with(&c);
}

TEST(closed_connection)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&c, 2, "half", "x");
	exec(&c, 3, "s", "beside");
	ask(&c, 4, "box_init", "\"local\":{\"host_root\":\"/srv/box\"},\"session_ttl_sec\":5");
	ASSERT_INT(c.count, 0);
	ASSERT_INT(box_dispatch_request_count(dispatch), 4);
	close_peer(&c); /* an answer from here on fails the test */
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 2);
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 1);
	folder_done(folder_arg, 0);
	ASSERT_INT(runtime->config->session_ttl_sec, 300);

	struct connection again = {0};
	open_peer(&again);
	ask(&again, 1, "box_delete_session", "\"session_id\":\"s\"");
	close_peer(&again);
	headless_gone();
	finish();
	box_peer_free(NULL);
}

/* A connection that accepts no more data: the request still ends. */
TEST(broken_connection)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&c, 2, "s", "fail");
	c.broken = true;
	headless_ran("run", &good);
	headless_run_failed("fail", BOX_ERR_BOX, "x");
	receive(&c, "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}");
	receive(&c, "{\"seq_id\":1,\"action\":\"nope\",\"data\":{}}");
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	finish_with(&c);
}

TEST(cancel_all)
{
	struct connection c = {0};
	struct connection d = {0};
	start_with(&c);
	open_peer(&d);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&d, 2, "half", "x");
	ask(&d, 3, "box_init", "\"local\":{\"host_root\":\"/srv/box\"}");
	box_dispatch_cancel_all(dispatch);
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	expect_error(&c, 0, "1", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	/* On each connection the newest first. */
	expect_error(&d, 0, "3", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	expect_error(&d, 1, "2", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	folder_done(folder_arg, 0);
	close_peer(&c);
	close_peer(&d);
	finish();
}

TEST(init)
{
	struct connection c = {0};
	start_with(&c);
	receive(&c, "{\"seq_id\":1,\"action\":\"box_init\",\"data\":{\"session_ttl_sec\":5}}");
	expect_success(&c, 0, "1", "{\"initialized\":true}");
	receive(&c,
		"{\"seq_id\":2,\"action\":\"box_init\",\"data\":{\"limits\":"
		"{\"max_sessions\":-1}}}");
	expect_error(&c, 1, "2", "ValueError: box.limits.max_sessions must be between 0 and 5000");
	receive(&c,
		"{\"seq_id\":3,\"action\":\"box_init\",\"data\":{\"local\":"
		"{\"host_root\":\"/srv/box\"}}}");
	ASSERT_INT(c.count, 2);
	folder_done(folder_arg, -ENOTDIR);
	expect_error(&c, 2, "3",
		"BoxValidationError: box.local.default_workspace must point to a directory on the "
		"Box runtime host");
	receive(&c, "{\"seq_id\":4,\"action\":\"box_init\",\"data\":{\"backend\":\"host\"}}");
	expect_error(&c, 3, "4",
		"BoxValidationError: host backend requires local stdio control or WebSocket "
		"control protected by LANGBOT_BOX_CONTROL_TOKEN");
	finish_with(&c);
}

TEST(sessions_by_hand)
{
	struct connection c = {0};
	start_with(&c);
	int at = 0;
	ask(&c, 1, "box_get_session", "\"session_id\":\"a/b\"");
	expect_error(&c, at++, "1", "BoxSessionNotFoundError: session " ID("a-b") " not found");
	make_live(&c, "a/b");
	ask(&c, 2, "box_exec", "\"session_id\":\"a b\",\"cmd\":\"x\",\"memory_mb\":64");
	expect_error(&c, at++, "2",
		"BoxSessionConflictError: Box session " ID(
			"a-b") " already exists with memory_mb=512");
	ask(&c, 3, "box_delete_session", "\"session_id\":\"a/b\"");
	headless_gone();
	expect_success(&c, at++, "3", "{\"deleted\":\"a/b\"}");
	exec(&c, 4, "s", "run");
	ask(&c, 5, "box_delete_session", "\"session_id\":\"s\"");
	/* While the box is made: the command gets the error at once. */
	ASSERT_INT(c.count, at + 1);
	expect_error(&c, at++, "4",
		"BoxSessionNotFoundError: session " ID("s") " was removed while it was in use");
	headless_gone();
	expect_success(&c, at++, "5", "{\"deleted\":\"s\"}");
	make_live(&c, "s");
	receive(&c, "{\"seq_id\":6,\"action\":\"box_shutdown\",\"data\":{}}");
	expect_success(&c, at++, "6", "{}");
	headless_gone();
	ASSERT_INT(box_sessions_count(runtime->sessions), 0);
	finish_with(&c);
}
