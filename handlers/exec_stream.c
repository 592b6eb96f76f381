/* box_exec_stream and the requests about a command that it runs: commands with live output.
 *
 * Output is sent as parts of one answer as it arrives. What the client, its connection or its
 * acknowledgements do not accept yet is held here, never more than the credit of the backend; a slow
 * reader therefore blocks the command in the end, and no output is lost. Input, signals and the size of
 * the terminal arrive in requests of their own, possibly on another connection of the same workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/table.h"
#include "handlers/actions.h"
#include "handlers/request.h"
#include "handlers/spec_request.h"
#include "runtime/runtime.h"

#define CREDIT_BYTES (1 * BOX_MIB) /* of output under way between the command and the client */
#define PART_BYTES_MAX (256 * BOX_KIB)
#define SIGNAL_MAX 64
#define HELD_PIECES_MAX \
	64 /* then pieces of one stream are joined: each costs more than its bytes */

/* A live command, as its own request and those about it see it. */
struct exec_stream {
	struct box_spec_request asked;
	struct box_request *request;
	struct box_backend_stream live;
	char exec_id[32];
	bool started;
	bool has_stdin;
	bool input_ended;
	struct box_list pieces;
	size_t piece_count;
	bool flushing;
	bool exited; /* the command has ended, with these results */
	struct box_backend_exec_outcome outcome;
};

/* Bytes of stdout or stderr that wait to be sent. */
struct piece {
	struct box_list links;
	bool is_stderr;
	struct box_buf bytes;
};

/* --- out --- */

static void piece_free(struct exec_stream *stream, struct piece *piece)
{
	stream->piece_count--;
	box_list_drop(&piece->links);
	box_buf_free(&piece->bytes);
	free(piece);
}

/* Its exec_id is free from now on; the caller ends the request. */
static void stream_close(struct exec_stream *stream)
{
	box_table_remove(box_request_exec_streams(stream->request), box_str(stream->exec_id));
	while (!box_list_empty(&stream->pieces)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		piece_free(stream, BOX_CONTAINER_OF(stream->pieces.next, struct piece, links));
	}
}

static void send_output(struct exec_stream *stream, bool is_stderr, struct box_str bytes)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr(is_stderr ? "stderr" : "stdout"));
	box_request_add_part_data(stream->request, arena, &event, bytes);
	box_request_send_event(stream->request, &event);
	if (!stream->exited) {
		box_session_op_credit(stream->asked.op, bytes.len);
	}
}

static void send_exit(struct exec_stream *stream)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr("exit"));
	box_spec_request_add_status(arena, &event, &stream->outcome);
	box_spec_request_add_end(arena, &event, &stream->outcome);
	box_spec_request_add_workspace(arena, &event, &stream->asked.spec, &stream->outcome);
	box_request_send_event(stream->request, &event);
}

/* Sends what may be sent; after the last piece the end of the command, which frees the stream. */
static void flush(struct exec_stream *stream)
{
	/* Sending may find that there is room again and call this function. */
	if (stream->flushing) {
		return;
	}
	stream->flushing = true;
	while (!box_list_empty(&stream->pieces)) {
		struct piece *piece = BOX_CONTAINER_OF(stream->pieces.next, struct piece, links);
		if (!box_request_may_send(stream->request)) {
			break;
		}
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		send_output(stream, piece->is_stderr,
			(struct box_str){piece->bytes.bytes, piece->bytes.len});
		piece_free(stream, piece);
	}
	if (stream->exited && box_list_empty(&stream->pieces) &&
		box_request_may_send(stream->request)) {
		struct box_request *request = stream->request;
		send_exit(stream);
		stream_close(stream);
		box_request_end_parts(request);
		return;
	}
	stream->flushing = false;
}

/* --- events of the command --- */

static void started(void *arg)
{
	struct box_request *request = arg;
	struct exec_stream *stream = request->work;
	struct box_value event = box_map_value();
	stream->started = true;
	box_map_add(request->arena, &event, "event", box_cstr("started"));
	box_map_add(request->arena, &event, "exec_id", box_cstr(stream->exec_id));
	box_request_send_event(stream->request, &event);
}

/* The piece that these bytes can be added to, or NULL. The order between two pipes cannot be known, so when
 * many pieces are held the bytes may be added to an earlier one than the last. */
static struct piece *piece_for(struct exec_stream *stream, bool is_stderr, size_t size)
{
	struct box_list *at = stream->pieces.prev;
	for (; at != &stream->pieces; at = at->prev) {
		struct piece *piece = BOX_CONTAINER_OF(at, struct piece, links);
		if (piece->is_stderr == is_stderr) {
			return piece->bytes.len + size <= PART_BYTES_MAX ? piece : NULL;
		}
		if (stream->piece_count < HELD_PIECES_MAX) {
			return NULL;
		}
	}
	return NULL;
}

static void output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct box_request *request = arg;
	struct exec_stream *stream = request->work;
	if (box_list_empty(&stream->pieces) && box_request_may_send(stream->request)) {
		send_output(stream, is_stderr, bytes);
		return;
	}
	struct piece *piece = piece_for(stream, is_stderr, bytes.len);
	if (!piece) {
		piece = box_alloc(sizeof(*piece));
		piece->is_stderr = is_stderr;
		piece->bytes = box_buf(PART_BYTES_MAX);
		box_list_push(&stream->pieces, &piece->links);
		stream->piece_count++;
	}
	(void)box_buf_append(&piece->bytes, bytes.bytes, bytes.len);
	flush(stream);
}

static const struct box_backend_stream_events live_events = {.started = started, .output = output};

static void ran(void *arg, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct exec_stream *stream = request->work;
	(void)session;
	if (err) {
		stream_close(stream);
		box_request_fail(request, err);
		return;
	}
	stream->asked.op = NULL;
	stream->exited = true;
	stream->outcome = *outcome;
	flush(stream);
}

/* --- box_exec_stream --- */

static int check_terminal_size(int64_t rows, int64_t columns, struct box_err *err)
{
	if (rows < 1 || rows > UINT16_MAX || columns < 1 || columns > UINT16_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"rows and cols of a tty must be 1 to %d", UINT16_MAX);
	}
	return 0;
}

static void stream_cancel(struct box_request *request)
{
	struct exec_stream *stream = request->work;
	stream_close(stream);
	if (stream->asked.op) {
		box_session_op_cancel(stream->asked.op);
	}
}

static void stream_drained(struct box_request *request)
{
	flush(request->work);
}

static int read_tty(const struct box_value *tty, struct exec_stream *stream, struct box_err *err)
{
	if (tty->type == BOX_NULL) {
		return 0;
	}
	const struct box_value *rows = tty->type == BOX_MAP ? box_map_get(tty, "rows") : NULL;
	const struct box_value *columns = tty->type == BOX_MAP ? box_map_get(tty, "cols") : NULL;
	if (!rows || rows->type != BOX_INT || !columns || columns->type != BOX_INT ||
		tty->count != 2) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"tty must be null or a map of two integers, rows and cols");
	}
	int r = check_terminal_size(rows->integer, columns->integer, err);
	if (r == 0) {
		stream->live.rows = (uint16_t)rows->integer;
		stream->live.columns = (uint16_t)columns->integer;
	}
	return r;
}

static int read_flag(
	const struct box_pair *pair, const char *name, bool *ret_flag, struct box_err *err)
{
	if (pair->value.type != BOX_BOOL && pair->value.type != BOX_NULL) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s must be a boolean", name);
	}
	*ret_flag = pair->value.type == BOX_BOOL && pair->value.boolean;
	return 0;
}

/* Reads the members that only box_exec_stream has; the rest is a box spec. */
static int read_stream(struct box_request *request, struct exec_stream *stream, struct box_err *err)
{
	struct box_value spec = box_map_value();
	for (uint32_t i = 0; i < request->data->count; i++) {
		const struct box_pair *pair = &request->data->pairs[i];
		int r = 0;
		if (box_str_eq(pair->key, "stdin")) {
			r = read_flag(pair, "stdin", &stream->has_stdin, err);
		} else if (box_str_eq(pair->key, "keep_on_timeout")) {
			r = read_flag(pair, "keep_on_timeout", &stream->live.keep_on_timeout, err);
			stream->live.grace_ms = stream->live.keep_on_timeout ? BOX_EXEC_GRACE_MS
									     : 0;
		} else if (box_str_eq(pair->key, "tty")) {
			r = read_tty(&pair->value, stream, err);
		} else {
			box_map_set(request->arena, &spec, pair->key, pair->value);
		}
		if (r < 0) {
			return r;
		}
	}
	return box_spec_request_read_command(request, &spec, &stream->asked, err);
}

static void name_stream(struct box_request *request, struct exec_stream *stream)
{
	struct box_table *streams = box_request_exec_streams(request);
	do {
		(void)snprintf(stream->exec_id, sizeof(stream->exec_id), "exec-%llu",
			(unsigned long long)++request->runtime->streams_begun);
	} while (box_table_get(streams, box_str(stream->exec_id)));
	box_table_put(streams, box_str(stream->exec_id), stream);
}

static void stream_begin(struct box_request *request, struct box_spec_request *asked)
{
	struct exec_stream *stream = request->work;
	struct box_err err;
	name_stream(request, stream);
	asked->op = box_sessions_exec(request->runtime->sessions, asked->physical_id,
		&request->context, &asked->spec, &stream->live, ran, request, &err);
	if (!asked->op) {
		stream_close(stream);
		box_request_fail(request, &err);
		return;
	}
	request->cancel = stream_cancel;
	request->drained = stream_drained;
}

void box_action_exec_stream(struct box_request *request)
{
	struct box_err err;
	struct exec_stream *stream = box_arena_alloc(request->arena, sizeof(*stream));
	stream->request = request;
	box_list_init(&stream->pieces);
	if (read_stream(request, stream, &err) < 0) {
		box_request_fail(request, &err);
		return;
	}
	stream->live.events = &live_events;
	stream->live.has_stdin = stream->has_stdin;
	stream->live.credit = CREDIT_BYTES;
	request->work = stream;
	box_spec_request_find_skill(request, &stream->asked, stream_begin);
}

/* --- requests about a live command --- */

/* The running stream with data.exec_id, of the same workspace and generation as the request. */
static struct exec_stream *find_stream(struct box_request *request, struct box_err *err)
{
	struct exec_stream *stream = box_table_get(
		box_request_exec_streams(request), box_request_field(request, "exec_id")->str);
	if (!stream || !stream->started || stream->exited ||
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

/* On a terminal the end of input is a character (Ctrl-D), and more input may follow. */
static void add_end_of_input(struct box_request *request, struct given *given)
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
	struct exec_stream *stream = find_stream(request, &err);
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
		add_end_of_input(request, &given);
	}
	stream->input_ended = given.eof;
	if (given.bytes.len == 0) {
		if (given.eof) {
			(void)box_session_op_input(stream->asked.op, given.bytes, true, NULL, NULL);
		}
		input_taken(request, NULL);
		return;
	}
	/* input_taken is never called from inside box_session_op_input, so `input` is still valid here. */
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
	struct exec_stream *stream = find_stream(request, &err);
	int64_t rows = box_request_field(request, "rows")->integer;
	int64_t columns = box_request_field(request, "cols")->integer;
	int r = stream ? check_terminal_size(rows, columns, &err) : -ENOENT;
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
	struct exec_stream *stream = find_stream(request, &err);
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
