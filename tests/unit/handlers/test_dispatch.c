/* The dispatcher, one message at a time: the order of the checks, the text of each refusal, answers
 * that are too large, and the counters. */
#include "base/limits.h"
#include "handlers/actions.h"
#include "handlers/dispatch.h"
#include "tests/unit/lib/dispatch_fixture.h"

/* --- one message at a time --- */

TEST(simple_answers)
{
	static const struct {
		const char *message;
		const char *answer; /* NULL: none */
	} rows[] = {
		{"{\"seq_id\":7,\"action\":\"__ping\",\"data\":{}}",
			"{\"seq_id\":7,\"code\":0,\"message\":\"success\",\"data\":{},"
			"\"chunk_status\":\"continue\"}"},
		{"{\"seq_id\":\"7\",\"action\":\"__ping\",\"data\":{}}",
			"{\"seq_id\":\"7\",\"code\":0,\"message\":\"success\",\"data\":{},"
			"\"chunk_status\":\"continue\"}"},
		{"[]", NULL},
		{"null", NULL},
		{"{}", NULL},
		{"{\"seq_id\":7,\"code\":0,\"message\":\"success\",\"data\":{}}", NULL},
		{"{\"seq_id\":7,\"action\":\"__ping\",\"code\":0,\"data\":{}}", NULL},
	};
	start();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct connection c = {0};
		open_peer(&c);
		receive(&c, rows[i].message);
		ASSERT_INT(c.count, rows[i].answer != NULL);
		if (rows[i].answer) {
			expect_answer(&c, 0, rows[i].answer);
			ASSERT_INT(c.codecs[0], 1);
		}
		close_peer(&c);
	}
	ASSERT_INT(runtime->metrics.ignored_messages, 5);
	finish();
}

TEST(refusals)
{
	static const struct {
		const char *message;
		const char *seq;
		const char *text;
	} rows[] = {
		{"{\"action\":\"__ping\",\"data\":{}}", "-1",
			"ValidationError: 1 validation error for ActionRequest\nseq_id\n  Field "
			"required"},
		{"{\"seq_id\":\"x\",\"action\":\"__ping\",\"data\":{}}", "\"x\"",
			"ValidationError: 1 validation error for ActionRequest\nseq_id\n  Input "
			"should be a valid integer, unable to parse string as an integer"},
		{"{\"seq_id\":3,\"action\":7,\"data\":{}}", "3",
			"ValidationError: 1 validation error for ActionRequest\naction\n  Input "
			"should be a valid string"},
		{"{\"seq_id\":3,\"action\":\"nope\"}", "3",
			"ValidationError: 1 validation error for ActionRequest\ndata\n  Field "
			"required"},
		{"{\"seq_id\":3,\"action\":\"nope\",\"data\":{}}", "3",
			"ValueError: Action nope not found"},
		{"{\"seq_id\":3,\"action\":\"\",\"data\":{}}", "3",
			"ValueError: Action  not found"},
		{"{\"seq_id\":3,\"action\":\"a\\nBoxAdmissionError: x\",\"data\":{}}", "3",
			"ValueError: Action a?BoxAdmissionError? x not found"},
		{"{\"seq_id\":3,\"action\":\"box_get_session\",\"data\":{}}", "3",
			"KeyError: 'session_id'"},
		{"{\"seq_id\":3,\"action\":\"box_get_session\",\"data\":{\"session_id\":null}}",
			"3", "ValueError: session_id must be str, not null"},
		{"{\"seq_id\":3,\"action\":\"box_get_session\",\"data\":{\"session_id\":7}}", "3",
			"ValueError: session_id must be str, not int"},
		{"{\"seq_id\":3,\"action\":\"box_start_managed_process\",\"data\":"
		 "{\"session_id\":\"s\"}}",
			"3", "KeyError: 'spec'"},
		{"{\"seq_id\":3,\"action\":\"box_start_managed_process\",\"data\":"
		 "{\"session_id\":\"s\",\"spec\":[]}}",
			"3", "ValueError: spec must be map, not list"},
		{"{\"seq_id\":3,\"action\":\"__file_chunk\",\"data\":{\"file_key\":\"k\","
		 "\"chunk_index\":0,\"chunk_amount\":1.5}}",
			"3", "ValueError: chunk_amount must be int, not float"},
		{"{\"seq_id\":3,\"action\":\"__file_chunk\",\"data\":{\"file_key\":\"k\","
		 "\"chunk_index\":1,\"chunk_amount\":1,\"chunk_base64\":\"\"}}",
			"3", "ValueError: Invalid file chunk position"},
		{"{\"seq_id\":3,\"action\":\"__file_chunk\",\"data\":{\"file_key\":\"k\","
		 "\"chunk_index\":0,\"chunk_amount\":1}}",
			"3", "KeyError: 'chunk_base64'"},
		{"{\"seq_id\":3,\"action\":\"__file_chunk\",\"data\":{\"file_key\":\"k\","
		 "\"chunk_index\":0,\"chunk_amount\":1,\"chunk_base64\":\"?\"}}",
			"3", "ValueError: chunk_base64 is not valid base64"},
		{"{\"seq_id\":3,\"action\":\"box_get_session\",\"data\":{\"session_id\":\" \"}}",
			"3", "ValueError: Box session_id must not be empty"},
		{"{\"seq_id\":3,\"action\":\"box_get_session\",\"data\":{\"session_id\":\"--\"}}",
			"3", "ValueError: Box session_id must contain a valid character"},
		{"{\"seq_id\":3,\"action\":\"box_create_session\",\"data\":"
		 "{\"session_id\":\"--\"}}",
			"3", "BoxValidationError: Box session_id must contain a valid character"},
		{"{\"seq_id\":3,\"action\":\"box_exec\",\"data\":{\"session_id\":\"s\"}}", "3",
			"BoxValidationError: cmd must not be empty"},
		{"{\"seq_id\":3,\"action\":\"__cancel_action\",\"data\":{}}", "3",
			"ValueError: Cancellation requires an integer seq_id"},
		{"{\"seq_id\":3,\"action\":\"__cancel_action\",\"data\":{\"seq_id\":\"1\"}}", "3",
			"ValueError: Cancellation requires an integer seq_id"},
		{"{\"seq_id\":3,\"action\":\"__stream_ack\",\"data\":{\"seq_id\":1}}", "3",
			"ValueError: Stream acknowledgement requires integer sequence and index"},
		{"{\"seq_id\":3,\"action\":\"__ping\",\"data\":{},\"context\":"
		 "{\"instance_uuid\":\"other\",\"workspace_uuid\":\"ws\"}}",
			"3",
			"PermissionError: Box action context does not match the trusted instance"},
	};
	start();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct connection c = {0};
		open_peer(&c);
		receive(&c, rows[i].message);
		ASSERT_INT(c.count, 1);
		expect_error(&c, 0, rows[i].seq, rows[i].text);
		close_peer(&c);
	}
	ASSERT_INT(runtime->metrics.unknown_actions, 3);
	finish();
}

/* Each message has all faults from its own on: the first in the order of checks is reported. */
TEST(order_of_checks)
{
	struct connection c = {0};
	start();
	configure("{\"require_context\":true,\"admission\":{\"required\":true}}");
	open_peer(&c);
	int at = 0;
	runtime->stopping = true;
#define BAD "\"data\":{\"session_id\":7}"
	receive(&c, "{\"seq_id\":[],\"action\":\"nope\"," BAD "}");
	expect_error(&c, at++, "-1",
		"ValidationError: 1 validation error for ActionRequest\nseq_id\n  Input should be "
		"a valid integer");
	receive(&c, "{\"seq_id\":1,\"action\":\"nope\"," BAD "}");
	expect_error(&c, at++, "1", "ValueError: Action nope not found");
	receive(&c, "{\"seq_id\":1,\"action\":\"box_get_session\"," BAD "}");
	expect_error(&c, at++, "1",
		"PermissionError: Box tenant action requires a trusted Workspace context");
	receive(&c,
		"{\"seq_id\":1,\"action\":\"box_get_session\"," BAD
		",\"context\":{\"instance_uuid\":\"x\",\"workspace_uuid\":\"w\"}}");
	expect_error(&c, at++, "1",
		"PermissionError: Box action context does not match the trusted instance");
	receive(&c,
		"{\"seq_id\":1,\"action\":\"box_get_session\"," BAD ",\"context\":{" PLACE "}}");
	expect_error(&c, at++, "1", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	runtime->stopping = false;
	receive(&c,
		"{\"seq_id\":1,\"action\":\"box_get_session\"," BAD ",\"context\":{" PLACE "}}");
	ASSERT(strstr(c.answers[at++],
		       "\"BoxReadinessError: Managed sandbox isolation is not ready "
		       "(failed checks: ") != NULL);
	/* Without a sandbox the generation is checked next, then the fields. */
	ask_at(&c, 5, 1, "box_get_skill", "");
	expect_error(&c, at++, "1", "KeyError: 'name'");
	ask_at(&c, 4, 1, "box_get_skill", "");
	expect_error(&c, at++, "1", STALE);
	/* No earlier check may change the generation. */
	struct box_context context = {box_str("inst"), box_str("ws"), 1};
	ask_at(&c, 9, 1, "box_get_session", "\"session_id\":\"s\"");
	at++;
	ASSERT_INT(box_generations_current(runtime->generations, &context), 5);
	finish_with(&c);
}

/* Clients from before tenancy send no context. */
TEST(without_context)
{
	struct connection c = {0};
	start_with(&c);
	receive(&c, "{\"seq_id\":1,\"action\":\"box_get_sessions\",\"data\":{}}");
	expect_success(&c, 0, "1", "{\"sessions\":[]}");
	receive(&c, "{\"seq_id\":2,\"action\":\"box_get_sessions\",\"data\":{},\"context\":null}");
	expect_success(&c, 1, "2", "{\"sessions\":[]}");
	make_live(&c, "s");
	receive(&c, "{\"seq_id\":3,\"action\":\"box_get_sessions\",\"data\":{}}");
	expect_success(&c, 2, "3", "{\"sessions\":[]}"); /* another tenant's */
	finish_with(&c);
}

/* --- what does not fit --- */

TEST(answer_too_large)
{
	struct connection c = {.most = 1500};
	static char out[4000];
	start_with(&c);
	make_live(&c, "s");
	/* The output of an exec is clipped further until the answer fits. */
	memset(out, 'x', sizeof(out));
	exec(&c, 1, "s", "run");
	headless_ran("run",
		&(struct box_backend_exec_outcome){.out = {out, sizeof(out)}, .err = {"", 0}});
	ASSERT_INT(c.count, 1);
	ASSERT(strstr(c.answers[0],
		       "\\n... [raw output clipped at 1024 bytes, 2976 bytes discarded]"
		       "\",\"stderr\":\"\"") != NULL);
	/* Other answers become an error. */
	for (int i = 0; i < 3; i++) {
		char id[16];
		(void)snprintf(id, sizeof(id), "more-%d", i);
		make_live(&c, id);
	}
	ask(&c, 2, "box_get_sessions", "");
	expect_error(&c, 1, "2", "BoxError: the answer does not fit a message of 16777216 bytes");
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	finish_with(&c);
}

/* Text from a box cannot pass for an error name. */
TEST(smuggled_names)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	headless_run_failed("run", BOX_ERR_BOX, "BoxAdmissionError: x BoxReadinessError:Error:");
	expect_error(&c, 0, "1", "BoxError: BoxAdmissionError; x BoxReadinessError;Error;");
	exec(&c, 2, "s", "run");
	headless_run_failed("run", BOX_ERR_NONE, "ValueError: no name in front");
	expect_error(&c, 1, "2", "ValueError; no name in front");
	ask(&c, 3, "box_exec",
		"\"session_id\":\"s\",\"cmd\":\"x\",\"BoxCapacityExceededError: \":1");
	expect_error(&c, 2, "3",
		"BoxValidationError: 1 validation error for BoxSpec\nBoxCapacityExceededError? \n"
		"  Extra inputs are not permitted");
	ask(&c, 4, "box_exec",
		"\"session_id\":\"s\",\"cmd\":\"x\",\"host_path\":\"/etc/BoxAdmissionError:\"");
	ASSERT(strstr(c.answers[3], "Error:") == strstr(c.answers[3], "Error: host_path"));
	ASSERT(strstr(strstr(c.answers[3], "Error:") + 1, "Error:") == NULL);
	finish_with(&c);
}

/* Text that was cut inside a character, as from a sender with a small buffer. */
TEST(an_errors_text_is_utf8)
{
	struct connection c = {0};
	start_with(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	headless_run_failed("run", BOX_ERR_BOX, "a\xc3\xa9 \xff \xe7\x95");
	expect_error(&c, 0, "1", "BoxError: a\xc3\xa9 \xef\xbf\xbd \xef\xbf\xbd");
	finish_with(&c);
}

/* --- counts --- */

static const struct box_metrics_action *row(const char *name)
{
	for (const struct box_metrics_action *a = runtime->metrics.actions; a->name; a++) {
		if (strcmp(a->name, name) == 0) {
			return a;
		}
	}
	TEST_FAIL("no row for %s", name);
}

static void expect_counts(const char *name, uint64_t ok, uint64_t errors, uint64_t cancelled)
{
	const struct box_metrics_action *action = row(name);
	uint64_t all = 0;
	ASSERT_INT(action->results[BOX_RESULT_OK], ok);
	ASSERT_INT(action->results[BOX_RESULT_ERROR], errors);
	ASSERT_INT(action->results[BOX_RESULT_CANCELLED], cancelled);
	for (int i = 0; i < BOX_METRICS_BUCKETS; i++) {
		all += action->buckets[i];
	}
	ASSERT_INT(all, ok + errors + cancelled);
}

TEST(metrics)
{
	struct connection c = {0};
	start();
	for (size_t i = 0; i < box_actions_count; i++) {
		ASSERT_STR(runtime->metrics.actions[i].name, box_actions[i].name);
	}
	open_peer(&c);
	make_live(&c, "s");
	receive(&c, "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}");
	receive(&c, "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}");
	exec(&c, 1, "s", "a");
	exec(&c, 2, "s", "b");
	exec(&c, 3, "s", "c");
	exec(&c, 4, "s", "d");
	headless_ran("a", &good);
	headless_run_failed("b", BOX_ERR_BOX, "x");
	ask(&c, 5, "__cancel_action", "\"seq_id\":3");
	ask(&c, 6, "box_get_session", "");
	receive(&c, "{\"seq_id\":1,\"action\":\"nope\",\"data\":{}}");
	receive(&c, "[]");
	close_peer(&c);
	expect_counts("__ping", 2, 0, 0);
	expect_counts("box_create_session", 1, 0, 0);
	expect_counts("box_exec", 1, 1, 2);
	expect_counts("__cancel_action", 1, 0, 0);
	expect_counts("box_get_session", 0, 1, 0);
	expect_counts("box_status", 0, 0, 0);
	ASSERT_INT(runtime->metrics.unknown_actions, 1);
	ASSERT_INT(runtime->metrics.ignored_messages, 1);
	finish();
}
