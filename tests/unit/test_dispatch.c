/* The dispatcher with peers that write down every answer: which check comes first, what each
 * refusal says, what cancels and overtakes, and what is counted. Boxes are headless. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "handlers/actions.h"
#include "handlers/dispatch.h"
#include "runtime/runtime.h"
#include "tests/unit/headless.h"
#include "tests/unit/test.h"
#include "transport/json.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define ANSWERS_MAX 512
#define STALE "PermissionError: Stale Box placement generation"
#define ID(id) "ws-108378aeed2d7cca4480d35e-g1-" id

struct connection {
	struct box_peer *peer;
	int count;
	char *answers[ANSWERS_MAX];
	int codecs[ANSWERS_MAX];
	size_t most; /* an answer longer than this does not fit; 0: any does */
	bool broken;
	bool freed;
	void (*within)(struct connection *connection); /* called from inside send */
};

static struct box_runtime *runtime;
static struct box_dispatch *dispatch;
static box_folder_done *folder_done;
static void *folder_arg;

static void host_folder(
	void *host, const char *path, enum box_folder_wish wish, box_folder_done *done, void *arg)
{
	(void)host;
	(void)path;
	(void)wish;
	folder_done = done;
	folder_arg = arg;
}

static uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static void host_record(void *host, const struct box_value *change)
{
	(void)host;
	(void)change;
}

static const struct box_host host_ops = {
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static int answered(void *arg, int codec, const struct box_value *answer)
{
	struct connection *connection = arg;
	if (connection->freed) {
		TEST_FAIL("an answer was sent to a connection that is closed");
	}
	if (connection->broken) {
		return -EPIPE;
	}
	struct box_buf out = box_buf(connection->most ? connection->most : 64 * BOX_MIB);
	if (box_json_encode(&out, answer) < 0) {
		box_buf_free(&out);
		return -EMSGSIZE;
	}
	ASSERT(connection->count < ANSWERS_MAX);
	char *text = box_alloc(out.len + 1);
	memcpy(text, out.bytes, out.len);
	box_buf_free(&out);
	connection->codecs[connection->count] = codec;
	connection->answers[connection->count++] = text;
	if (connection->within) {
		connection->within(connection);
	}
	return 0;
}

static const struct box_peer_ops peer_ops = {.send = answered};

static void configure(const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_null();
	struct box_err err = {0};
	const char *why = NULL;
	char *copy = box_arena_strndup(arena, text, strlen(text));
	ASSERT_INT(box_json_decode(arena, copy, strlen(copy), &map, &why), 0);
	if (box_runtime_configure(runtime, BOX_LAYER_FILE, &map, &err) < 0) {
		TEST_FAIL("refused: %s: %s", text, err.text);
	}
	box_arena_free(arena);
	runtime->backend = &headless_backend;
	runtime->session_rules.backend = &headless_backend;
	runtime->session_rules.backend_name = "headless";
}

static void start(void)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	runtime = box_runtime_new(&setup, &host_ops, NULL);
	dispatch = box_dispatch_new(runtime);
	configure("{}");
	box_runtime_pin(runtime, box_str("inst"));
}

static void open_peer(struct connection *connection)
{
	connection->peer = box_peer_new(dispatch, &peer_ops, connection);
}

static void close_peer(struct connection *connection)
{
	box_peer_free(connection->peer);
	connection->freed = true;
	for (int i = 0; i < connection->count; i++) {
		free(connection->answers[i]);
	}
}

static void finish(void)
{
	ASSERT_INT(box_dispatch_under_way(dispatch), 0);
	box_sessions_remove_all(runtime->sessions);
	while (headless.pending) {
		headless_gone();
	}
	ASSERT_INT(headless.boxes, 0);
	box_dispatch_free(dispatch);
	box_runtime_free(runtime);
}

static void receive(struct connection *connection, const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_value *message = box_arena_alloc(arena, sizeof(*message));
	const char *why = NULL;
	char *copy = box_arena_strndup(arena, text, strlen(text));
	if (box_json_decode(arena, copy, strlen(copy), message, &why) < 0) {
		TEST_FAIL("test input is no JSON: %s: %s", text, why);
	}
	box_peer_receive(connection->peer, arena, message, 1);
}

#define PLACE "\"instance_uuid\":\"inst\",\"workspace_uuid\":\"ws\""

/* A request of the workspace "ws" at a generation; data is what stands in the braces. */
static void ask_at(struct connection *connection, int64_t generation, int64_t seq,
	const char *action, const char *data)
{
	struct box_arena *arena = box_arena_new();
	receive(connection,
		box_arena_printf(arena,
			"{\"seq_id\":%lld,\"action\":\"%s\",\"data\":{%s},\"context\":{" PLACE
			",\"placement_generation\":%lld}}",
			(long long)seq, action, data, (long long)generation));
	box_arena_free(arena);
}

static void ask(struct connection *connection, int64_t seq, const char *action, const char *data)
{
	ask_at(connection, 1, seq, action, data);
}

static void exec(struct connection *connection, int64_t seq, const char *id, const char *cmd)
{
	char data[256];
	(void)snprintf(data, sizeof(data), "\"session_id\":\"%s\",\"cmd\":\"%s\"", id, cmd);
	ask(connection, seq, "box_exec", data);
}

static void make_live(struct connection *connection, const char *id)
{
	char data[256];
	(void)snprintf(data, sizeof(data), "\"session_id\":\"%s\"", id);
	int before = connection->count;
	ask(connection, 1000, "box_create_session", data);
	headless_made();
	ASSERT_INT(connection->count, before + 1);
	free(connection->answers[--connection->count]);
}

/* The answer number `at`, from 0, is exactly this one. */
static void expect_answer(struct connection *connection, int at, const char *text)
{
	ASSERT(connection->count > at);
	ASSERT_STR(connection->answers[at], text);
}

static void expect_error(
	struct connection *connection, int at, const char *seq, const char *message)
{
	struct box_buf out = box_buf(BOX_MIB);
	ASSERT_INT(box_buf_printf(&out, "{\"seq_id\":%s,\"code\":1,\"message\":", seq), 0);
	ASSERT_INT(box_json_encode_str(&out, box_str(message)), 0);
	ASSERT_INT(box_buf_append_str(&out, ",\"data\":{},\"chunk_status\":\"continue\"}"), 0);
	ASSERT_INT(box_buf_append(&out, "", 1), 0);
	expect_answer(connection, at, out.bytes);
	box_buf_free(&out);
}

static void expect_success(struct connection *connection, int at, const char *seq, const char *data)
{
	char text[4096];
	(void)snprintf(text, sizeof(text),
		"{\"seq_id\":%s,\"code\":0,\"message\":\"success\",\"data\":%s,"
		"\"chunk_status\":\"continue\"}",
		seq, data);
	expect_answer(connection, at, text);
}

static const struct box_exec_outcome good = {
	.out = {"fine\n", 5}, .err = {"", 0}, .duration_ms = 7};
static const struct box_exec_outcome timed_out = {
	.reason = BOX_END_TIMEOUT, .out = {"", 0}, .err = {"", 0}};

#define RAN(out)                                                                        \
	"{\"session_id\":\"s\",\"backend_name\":\"headless\",\"status\":\"completed\"," \
	"\"exit_code\":0,\"stdout\":\"" out "\",\"stderr\":\"\",\"duration_ms\":7,"     \
	"\"end\":{\"reason\":\"exit\",\"signal\":null}}"

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

/* Each message has every fault from its own on: the first in the order of checks is told. */
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
	/* What needs no sandbox goes on to the fence and then to the fields. */
	ask_at(&c, 5, 1, "box_get_skill", "");
	expect_error(&c, at++, "1", "KeyError: 'name'");
	ask_at(&c, 4, 1, "box_get_skill", "");
	expect_error(&c, at++, "1", STALE);
	/* Nothing before the fence may move it. */
	struct box_context context = {box_str("inst"), box_str("ws"), 1};
	ask_at(&c, 9, 1, "box_get_session", "\"session_id\":\"s\"");
	at++;
	ASSERT_INT(box_fence_current(runtime->fence, &context), 5);
	close_peer(&c);
	finish();
}

/* Clients older than tenancy: no context at all. */
TEST(without_context)
{
	struct connection c = {0};
	start();
	open_peer(&c);
	receive(&c, "{\"seq_id\":1,\"action\":\"box_get_sessions\",\"data\":{}}");
	expect_success(&c, 0, "1", "{\"sessions\":[]}");
	receive(&c, "{\"seq_id\":2,\"action\":\"box_get_sessions\",\"data\":{},\"context\":null}");
	expect_success(&c, 1, "2", "{\"sessions\":[]}");
	make_live(&c, "s");
	receive(&c, "{\"seq_id\":3,\"action\":\"box_get_sessions\",\"data\":{}}");
	expect_success(&c, 2, "3", "{\"sessions\":[]}"); /* another tenant's */
	close_peer(&c);
	finish();
}

/* --- busy --- */

TEST(busy)
{
	struct connection c = {0};
	struct connection other = {0};
	start();
	open_peer(&c);
	open_peer(&other);
	make_live(&c, "s");
	for (int i = 0; i < BOX_REQUESTS_MAX; i++) {
		exec(&c, i, "s", "x");
	}
	ASSERT_INT(c.count, 0);
	ASSERT_INT(box_dispatch_under_way(dispatch), BOX_REQUESTS_MAX);
	exec(&c, 500, "s", "x");
	expect_error(&c, 0, "500", "Runtime connection is busy (max 128 concurrent actions)");
	receive(&c, "{\"seq_id\":[],\"action\":\"nope\"}");
	expect_error(&c, 1, "-1", "Runtime connection is busy (max 128 concurrent actions)");
	receive(&c, "{\"seq_id\":5,\"action\":7}");
	expect_error(&c, 2, "5", "Runtime connection is busy (max 128 concurrent actions)");
	/* Cancelling and acknowledging have room of their own, other connections too. */
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

/* These end at once, so the only way to have several under way is from inside an answer. */
TEST(busy_lanes)
{
	struct connection c = {.within = cancel_within};
	struct connection d = {.within = ack_within};
	start();
	open_peer(&c);
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
	start();
	open_peer(&c);
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
		&(struct box_exec_outcome){.reason = BOX_END_SIGNAL,
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
	close_peer(&c);
	finish();
}

TEST(cancel)
{
	struct connection c = {0};
	struct connection other = {0};
	start();
	open_peer(&c);
	open_peer(&other);
	make_live(&c, "s");
	exec(&c, 7, "s", "first");
	exec(&c, 7, "s", "second");
	int at = 0;
	/* Not there; another connection's; another workspace's; of no context; itself. */
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
	/* The installation part does not count; of two with one seq_id the later goes. */
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
	start();
	open_peer(&c);
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
	/* Everything of the older placement is told so, by that name. */
	for (int i = before; i < c.count; i++) {
		ASSERT(strstr(c.answers[i], "\"" STALE "\"") != NULL);
	}
	ASSERT_INT(box_dispatch_under_way(dispatch), 1);
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

/* A command under way when its placement is overtaken is told so, not that its session went. */
TEST(overtaken_exec)
{
	struct connection c = {0};
	start();
	open_peer(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	ask_at(&c, 2, 9, "box_get_sessions", "");
	ASSERT_INT(c.count, 2);
	expect_error(&c, 0, "1", STALE);
	expect_success(&c, 1, "9", "{\"sessions\":[]}");
	close_peer(&c);
	finish();
}

TEST(overtaken_create)
{
	struct connection c = {0};
	start();
	open_peer(&c);
	ask(&c, 1, "box_create_session", "\"session_id\":\"s\"");
	ask_at(&c, 2, 9, "box_get_sessions", "");
	ASSERT_INT(c.count, 2);
	expect_error(&c, 0, "1", STALE);
	ASSERT_INT(box_sessions_count(runtime->sessions), 0);
	close_peer(&c);
	finish();
}

TEST(closed_connection)
{
	struct connection c = {0};
	start();
	open_peer(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&c, 2, "half", "x");
	exec(&c, 3, "s", "beside");
	ask(&c, 4, "box_init", "\"local\":{\"host_root\":\"/srv/box\"},\"session_ttl_sec\":5");
	ASSERT_INT(c.count, 0);
	ASSERT_INT(box_dispatch_under_way(dispatch), 4);
	close_peer(&c); /* an answer from here on fails the test */
	ASSERT_INT(box_dispatch_under_way(dispatch), 0);
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

/* A connection that takes no more: the request ends all the same. */
TEST(broken_connection)
{
	struct connection c = {0};
	start();
	open_peer(&c);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&c, 2, "s", "fail");
	c.broken = true;
	headless_ran("run", &good);
	headless_run_failed("fail", BOX_ERR_BOX, "x");
	receive(&c, "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}");
	receive(&c, "{\"seq_id\":1,\"action\":\"nope\",\"data\":{}}");
	ASSERT_INT(box_dispatch_under_way(dispatch), 0);
	close_peer(&c);
	finish();
}

TEST(cancel_all)
{
	struct connection c = {0};
	struct connection d = {0};
	start();
	open_peer(&c);
	open_peer(&d);
	make_live(&c, "s");
	exec(&c, 1, "s", "run");
	exec(&d, 2, "half", "x");
	ask(&d, 3, "box_init", "\"local\":{\"host_root\":\"/srv/box\"}");
	box_dispatch_cancel_all(dispatch);
	ASSERT_INT(box_dispatch_under_way(dispatch), 0);
	expect_error(&c, 0, "1", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	expect_error(&d, 0, "2", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	expect_error(&d, 1, "3", "BoxRuntimeUnavailableError: Box runtime is shutting down");
	folder_done(folder_arg, 0);
	close_peer(&c);
	close_peer(&d);
	finish();
}

TEST(init)
{
	struct connection c = {0};
	start();
	open_peer(&c);
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
	close_peer(&c);
	finish();
}

TEST(sessions_by_hand)
{
	struct connection c = {0};
	start();
	open_peer(&c);
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
	/* While it is made: gone at once, and the command is told. */
	ASSERT_INT(c.count, at + 2);
	expect_error(&c, at++, "4",
		"BoxSessionNotFoundError: session " ID("s") " was removed while it was in use");
	expect_success(&c, at++, "5", "{\"deleted\":\"s\"}");
	make_live(&c, "s");
	receive(&c, "{\"seq_id\":6,\"action\":\"box_shutdown\",\"data\":{}}");
	expect_success(&c, at++, "6", "{}");
	headless_gone();
	ASSERT_INT(box_sessions_count(runtime->sessions), 0);
	close_peer(&c);
	finish();
}

/* --- what does not fit --- */

TEST(answer_too_large)
{
	struct connection c = {.most = 1500};
	static char out[4000];
	start();
	open_peer(&c);
	make_live(&c, "s");
	/* An exec's output is clipped harder until the answer fits. */
	memset(out, 'x', sizeof(out));
	exec(&c, 1, "s", "run");
	headless_ran("run", &(struct box_exec_outcome){.out = {out, sizeof(out)}, .err = {"", 0}});
	ASSERT_INT(c.count, 1);
	ASSERT(strstr(c.answers[0],
		       "\\n... [raw output clipped at 1024 bytes, 2976 bytes discarded]"
		       "\",\"stderr\":\"\"") != NULL);
	/* Others become an error. */
	for (int i = 0; i < 3; i++) {
		char id[16];
		(void)snprintf(id, sizeof(id), "more-%d", i);
		make_live(&c, id);
	}
	ask(&c, 2, "box_get_sessions", "");
	expect_error(&c, 1, "2", "BoxError: the answer does not fit a message of 16777216 bytes");
	ASSERT_INT(box_dispatch_under_way(dispatch), 0);
	close_peer(&c);
	finish();
}

/* Nothing that a box says can pass for the name of another error. */
TEST(smuggled_names)
{
	struct connection c = {0};
	start();
	open_peer(&c);
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
	close_peer(&c);
	finish();
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
