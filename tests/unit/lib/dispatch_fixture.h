/* The dispatcher with peers that record every answer. Boxes come from the manual backend. */
#pragma once

#include <errno.h>

#include "base/log.h"
#include "handlers/dispatch.h"
#include "handlers/peer.h"
#include "runtime/runtime.h"
#include "runtime/skill_store.h"
#include "tests/unit/lib/json_tree.h"
#include "tests/unit/lib/manual_backend.h"

#define ANSWERS_MAX 512
#define STALE "PermissionError: Stale Box placement generation"

struct connection {
	struct box_peer *peer;
	int count;
	char *answers[ANSWERS_MAX];
	int codecs[ANSWERS_MAX];
	size_t most; /* an answer longer than this does not fit; 0: any does */
	bool broken;
	bool congested;
	bool freed;
	void (*within)(struct connection *connection); /* called from inside send */
};

static struct box_runtime *runtime;
static struct box_dispatch *dispatch;
static box_runtime_folder_done *folder_done;
static void *folder_arg;

static inline void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	(void)host;
	(void)path;
	(void)wish;
	folder_done = done;
	folder_arg = arg;
}

static inline uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static inline void host_record(void *host, const struct box_value *change)
{
	(void)host;
	(void)change;
}

/* Unanswered requests to the skill store, oldest first. */
static struct box_list skills_asked = {&skills_asked, &skills_asked};

static inline void host_ask_skills(void *host, struct box_skill_store_request *asked)
{
	(void)host;
	box_list_push(&skills_asked, &asked->links);
}

static inline void host_cancel_skills(void *host, struct box_skill_store_request *asked)
{
	(void)host;
	box_list_drop(&asked->links);
}

/* Removes and returns the oldest one. */
static inline struct box_skill_store_request *take_skills_ask(void)
{
	struct box_list *item = box_list_pop(&skills_asked);
	ASSERT(item != NULL);
	return BOX_CONTAINER_OF(item, struct box_skill_store_request, links);
}

static const struct box_runtime_host host_ops = {
	.ask_skills = host_ask_skills,
	.cancel_skills = host_cancel_skills,
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static inline int answered(void *arg, int codec, const struct box_value *answer)
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

static inline bool is_congested(const void *arg)
{
	const struct connection *connection = arg;
	return connection->congested;
}

static const struct box_peer_ops peer_ops = {.send = answered, .congested = is_congested};

static inline void configure(const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = tree(arena, text);
	struct box_err err = {0};
	if (box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &map, &err) < 0) {
		TEST_FAIL("refused: %s: %s", text, err.text);
	}
	box_arena_free(arena);
	runtime->backend = &headless_backend;
	runtime->session_rules.backend = &headless_backend;
	runtime->session_rules.backend_name = "headless";
}

static inline void start(void)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	runtime = box_runtime_new(&setup, &host_ops, NULL);
	dispatch = box_dispatch_new(runtime);
	configure("{}");
	box_runtime_pin_instance(runtime, box_str("inst"));
}

static inline void open_peer(struct connection *connection)
{
	connection->peer = box_peer_new(
		dispatch, &peer_ops, connection, &(struct box_peer_identity){0});
}

static inline void close_peer(struct connection *connection)
{
	box_peer_free(connection->peer);
	connection->freed = true;
	for (int i = 0; i < connection->count; i++) {
		free(connection->answers[i]);
	}
}

static inline void finish(void)
{
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	box_sessions_remove_all(runtime->sessions);
	while (headless.pending) {
		headless_gone();
	}
	ASSERT_INT(headless.boxes, 0);
	box_dispatch_free(dispatch);
	box_runtime_free(runtime);
}

static inline void start_with(struct connection *connection)
{
	start();
	open_peer(connection);
}

static inline void finish_with(struct connection *connection)
{
	close_peer(connection);
	finish();
}

static inline void receive(struct connection *connection, const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_value *message = box_arena_alloc(arena, sizeof(*message));
	*message = tree(arena, text);
	box_peer_receive(connection->peer, arena, message, 1);
}

#define PLACE "\"instance_uuid\":\"inst\",\"workspace_uuid\":\"ws\""

/* A request of the workspace "ws" at a generation; `data` is the text inside the braces. */
static inline void ask_at(struct connection *connection, int64_t generation, int64_t seq,
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

static inline void ask(
	struct connection *connection, int64_t seq, const char *action, const char *data)
{
	ask_at(connection, 1, seq, action, data);
}

static inline void exec(struct connection *connection, int64_t seq, const char *id, const char *cmd)
{
	char data[256];
	(void)snprintf(data, sizeof(data), "\"session_id\":\"%s\",\"cmd\":\"%s\"", id, cmd);
	ask(connection, seq, "box_exec", data);
}

static inline void make_live(struct connection *connection, const char *id)
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
static inline void expect_answer(struct connection *connection, int at, const char *text)
{
	ASSERT(connection->count > at);
	ASSERT_STR(connection->answers[at], text);
}

static inline void expect_error(
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

static inline void expect_success(
	struct connection *connection, int at, const char *seq, const char *data)
{
	char text[4096];
	(void)snprintf(text, sizeof(text),
		"{\"seq_id\":%s,\"code\":0,\"message\":\"success\",\"data\":%s,"
		"\"chunk_status\":\"continue\"}",
		seq, data);
	expect_answer(connection, at, text);
}

static const struct box_backend_exec_outcome good = {
	.out = {"fine\n", 5}, .err = {"", 0}, .duration_ms = 7};
static const struct box_backend_exec_outcome timed_out = {
	.reason = BOX_BACKEND_END_TIMEOUT, .out = {"", 0}, .err = {"", 0}};

#define RAN(out)                                                                        \
	"{\"session_id\":\"s\",\"backend_name\":\"headless\",\"status\":\"completed\"," \
	"\"exit_code\":0,\"stdout\":\"" out "\",\"stderr\":\"\",\"duration_ms\":7,"     \
	"\"end\":{\"reason\":\"exit\",\"signal\":null}}"
