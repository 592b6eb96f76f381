/* Live commands through the dispatcher: the requests, and the parts that come back. */
#pragma once

#include "tests/unit/lib/dispatch_fixture.h"

/* Starts the command `cmd` in the running session "s" as request `seq`; `more` are further members
 * of data, each with a comma before it. */
static inline void stream_with(
	struct connection *connection, int64_t seq, const char *cmd, const char *more)
{
	char data[512];
	(void)snprintf(data, sizeof(data), "\"session_id\":\"s\",\"cmd\":\"%s\"%s", cmd, more);
	ask(connection, seq, "box_exec_stream", data);
}

/* The same with acknowledgements. */
static inline void stream_flowing(struct connection *connection, int64_t seq, const char *cmd)
{
	char text[512];
	(void)snprintf(text, sizeof(text),
		"{\"seq_id\":%lld,\"action\":\"box_exec_stream\",\"stream_flow_control\":1,"
		"\"data\":{\"session_id\":\"s\",\"cmd\":\"%s\"},\"context\":{" PLACE
		",\"placement_generation\":1}}",
		(long long)seq, cmd);
	receive(connection, text);
}

static inline void start_live(struct connection *connection)
{
	start_with(connection);
	make_live(connection, "s");
}

/* A part of request 5, index 0: not numbered. */
static inline void expect_part(struct connection *connection, int at, int index, const char *data)
{
	char text[4096];
	char number[64] = "";
	if (index > 0) {
		(void)snprintf(number, sizeof(number), ",\"stream_index\":%d", index);
	}
	(void)snprintf(text, sizeof(text),
		"{\"seq_id\":5,\"code\":0,\"message\":\"success\",\"data\":%s,"
		"\"chunk_status\":\"continue\"%s}",
		data, number);
	expect_answer(connection, at, text);
}

static inline void expect_end(struct connection *connection, int at)
{
	expect_answer(connection, at,
		"{\"seq_id\":5,\"code\":0,\"message\":\"success\",\"data\":{},"
		"\"chunk_status\":\"end\"}");
	ASSERT_INT(connection->count, at + 1);
}

#define STARTED(id) "{\"event\":\"started\",\"exec_id\":\"" id "\"}"
#define OUT(text) "{\"event\":\"stdout\",\"data\":\"" text "\"}"
#define ERR(text) "{\"event\":\"stderr\",\"data\":\"" text "\"}"
#define EXITED(status, code, reason, signal)                                \
	"{\"event\":\"exit\",\"status\":\"" status "\",\"exit_code\":" code \
	",\"duration_ms\":7,\"end\":{\"reason\":\"" reason "\",\"signal\":" signal "}}"
#define EXITED_WELL EXITED("completed", "0", "exit", "null")

static inline void say_out(const char *cmd, const char *text)
{
	headless_output(cmd, false, text, strlen(text));
}

static inline void say_err(const char *cmd, const char *text)
{
	headless_output(cmd, true, text, strlen(text));
}

static const struct box_backend_exec_outcome well = {.duration_ms = 7};

/* Eight parts were sent, numbers 1 to 8; 9 and 10 wait. */
static inline void fill_window(struct connection *connection)
{
	start_live(connection);
	stream_flowing(connection, 5, "a");
	headless_started("a");
	for (int i = 2; i <= 10; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "%d", i);
		headless_output("a", i % 2, text, strlen(text));
	}
	ASSERT_INT(connection->count, 8);
	ASSERT_INT(headless.credit, 7);
}
