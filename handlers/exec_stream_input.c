/* Requests about a live command: they may come on another connection of the same workspace. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/table.h"
#include "handlers/actions.h"
#include "handlers/exec_stream.h"

#define SIGNAL_MAX 64

int box_exec_stream_check_size(int64_t rows, int64_t columns, struct box_err *err)
{
	if (rows < 1 || rows > UINT16_MAX || columns < 1 || columns > UINT16_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"rows and cols of a tty must be 1 to %d", UINT16_MAX);
	}
	return 0;
}

/* The stream of data.exec_id, if it is one of the asker's own workspace and runs. */
static struct box_exec_stream_state *find_stream(struct box_request *request, struct box_err *err)
{
	struct box_exec_stream_state *stream = box_table_get(
		box_request_exec_streams(request), box_request_field(request, "exec_id")->str);
	if (!stream || !stream->started || stream->over ||
		stream->request->context.generation != request->context.generation ||
		!box_tenant_same_workspace(&stream->request->context, &request->context)) {
		(void)box_err_set(err, BOX_ERR_VALIDATION, ENOENT, "exec_id names no running exec");
		return NULL;
	}
	return stream;
}

/* --- input --- */

struct given {
	struct box_str bytes;
	bool eof;
};

static int read_given(struct box_request *request, struct given *given, struct box_err *err)
{
	const struct box_value *eof = box_request_field(request, "eof");
	given->eof = eof && eof->boolean;
	int r = box_request_read_data(request, "data", &given->bytes, err);
	if (r == 0 && !given->bytes.bytes) {
		given->bytes = box_str("");
	}
	return r;
}

/* A terminal has no end of input but the character for it, and goes on after that. */
static void sign_off(struct box_request *request, struct given *given)
{
	char *bytes = box_arena_bytes(request->arena, given->bytes.len + 1);
	memcpy(bytes, given->bytes.bytes, given->bytes.len);
	bytes[given->bytes.len] = 4;
	given->bytes = (struct box_str){bytes, given->bytes.len + 1};
	given->eof = false;
}

static void input_taken(void *arg, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_value answer = box_map_value();
	if (err) {
		box_request_fail(request, err);
		return;
	}
	box_request_reply(request, &answer);
}

static void input_cancel(struct box_request *request)
{
	box_session_forget_input(request->work, request);
}

void box_action_exec_input(struct box_request *request)
{
	struct box_err err;
	struct given given = {0};
	struct box_exec_stream_state *stream = find_stream(request, &err);
	if (!stream || read_given(request, &given, &err) < 0) {
		box_request_fail(request, &err);
		return;
	}
	if (!stream->has_stdin || stream->input_ended) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, EPIPE,
			stream->has_stdin ? "the input has ended already"
					  : "the exec has no stdin");
		box_request_fail(request, &err);
		return;
	}
	if (stream->live.rows > 0 && given.eof) {
		sign_off(request, &given);
	}
	stream->input_ended = given.eof;
	if (given.bytes.len == 0) {
		if (given.eof) {
			(void)box_session_op_input(stream->asked.op, given.bytes, true, NULL, NULL);
		}
		input_taken(request, NULL);
		return;
	}
	/* Not from inside the call is it told that it was taken, so it still waits here. */
	struct box_session_input *input = box_arena_alloc(request->arena, sizeof(*input));
	request->work = input;
	request->cancel = input_cancel;
	*input = box_session_op_input(
		stream->asked.op, given.bytes, given.eof, input_taken, request);
}

void box_action_exec_resize(struct box_request *request)
{
	struct box_err err;
	struct box_value answer = box_map_value();
	struct box_exec_stream_state *stream = find_stream(request, &err);
	int64_t rows = box_request_field(request, "rows")->integer;
	int64_t columns = box_request_field(request, "cols")->integer;
	int r = stream ? box_exec_stream_check_size(rows, columns, &err) : -ENOENT;
	if (r == 0 && stream->live.rows == 0) {
		r = box_err_set(&err, BOX_ERR_VALIDATION, ENOTTY, "the exec has no tty");
	}
	if (r < 0) {
		box_request_fail(request, &err);
		return;
	}
	box_session_op_resize(stream->asked.op, (uint16_t)rows, (uint16_t)columns);
	box_request_reply(request, &answer);
}

void box_action_exec_signal(struct box_request *request)
{
	struct box_err err;
	struct box_value answer = box_map_value();
	struct box_exec_stream_state *stream = find_stream(request, &err);
	int64_t number = box_request_field(request, "signal")->integer;
	if (stream && (number < 1 || number > SIGNAL_MAX)) {
		(void)box_err_set(
			&err, BOX_ERR_VALIDATION, EINVAL, "signal must be 1 to %d", SIGNAL_MAX);
		stream = NULL;
	}
	if (!stream) {
		box_request_fail(request, &err);
		return;
	}
	box_session_op_signal(stream->asked.op, (int)number);
	box_request_reply(request, &answer);
}
