/* Commands with live output and input.
 *
 * Output goes out as parts of one answer as it comes. What the client, its connection or its
 * acknowledgements do not let out yet is held here, never more than the credit that box-init has;
 * so a slow reader ends up blocking the command, and nothing is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/table.h"
#include "base/utf8.h"
#include "handlers/actions.h"
#include "handlers/asked.h"
#include "handlers/request.h"
#include "runtime/runtime.h"

#define CREDIT_BYTES (256 * BOX_KIB) /* of output under way between box-init and the client */
#define PART_BYTES_MAX (128 * BOX_KIB)
#define UNACKNOWLEDGED_MAX 8 /* (wire) */
#define HELD_PIECES_MAX 64   /* then both streams are sorted: a piece is more than its bytes */
#define SIGNAL_MAX 64

/* Bytes of one stream that wait to go out. */
struct piece {
	struct box_list links;
	bool is_stderr;
	struct box_buf bytes;
};

struct stream {
	struct box_asked asked;
	struct box_request *request;
	struct box_live live;
	char exec_id[32];
	bool started;
	bool has_stdin;
	bool input_ended;
	struct box_list pieces;
	size_t piece_count;
	int64_t sent;  /* the index of the last part */
	int64_t acked; /* by the client */
	bool over;     /* the command has ended, with: */
	struct box_exec_outcome outcome;
};

/* --- out --- */

static void piece_free(struct stream *stream, struct piece *piece)
{
	stream->piece_count--;
	box_list_drop(&piece->links);
	box_buf_free(&piece->bytes);
	free(piece);
}

/* Nobody will ask about it any more; the request is the caller's to end. */
static void stream_close(struct stream *stream)
{
	box_table_remove(box_request_streams(stream->request), box_str(stream->exec_id));
	while (!box_list_empty(&stream->pieces)) {
		piece_free(stream, BOX_LIST_ITEM(stream->pieces.next, struct piece, links));
	}
}

static bool may_send(const struct stream *stream)
{
	if (stream->request->flow_control && stream->sent - stream->acked >= UNACKNOWLEDGED_MAX) {
		return false;
	}
	return !box_request_is_clogged(stream->request);
}

static void send_event(struct stream *stream, const struct box_value *event)
{
	stream->sent++;
	(void)box_request_send_part(
		stream->request, event, stream->request->flow_control ? stream->sent : 0);
}

/* As `data` where the codec has bytes or they are text, else as `data_base64`. */
static void add_bytes(const struct box_request *request, struct box_arena *arena,
	struct box_value *event, struct box_str bytes)
{
	if (box_request_has_bytes(request)) {
		box_map_add(arena, event, "data", box_bin(bytes));
	} else if (box_utf8_valid(bytes.bytes, bytes.len)) {
		box_map_add(arena, event, "data", box_text(bytes));
	} else {
		struct box_buf text = box_buf(2 * PART_BYTES_MAX);
		(void)box_base64_encode(&text, bytes.bytes, bytes.len);
		box_map_add(arena, event, "data_base64",
			box_text((struct box_str){
				box_arena_strndup(arena, text.bytes, text.len), text.len}));
		box_buf_free(&text);
	}
}

static void send_piece(struct stream *stream, struct piece *piece)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr(piece->is_stderr ? "stderr" : "stdout"));
	add_bytes(stream->request, arena, &event,
		(struct box_str){piece->bytes.bytes, piece->bytes.len});
	send_event(stream, &event);
}

static void send_exit(struct stream *stream)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr("exit"));
	box_asked_add_status(arena, &event, &stream->outcome);
	box_asked_add_end(arena, &event, &stream->outcome);
	send_event(stream, &event);
}

/* Sends what may go; after the last of it the end, and then the stream is gone. */
static void flush(struct stream *stream)
{
	while (!box_list_empty(&stream->pieces)) {
		struct piece *piece = BOX_LIST_ITEM(stream->pieces.next, struct piece, links);
		if (!may_send(stream)) {
			return;
		}
		size_t len = piece->bytes.len;
		send_piece(stream, piece);
		piece_free(stream, piece);
		if (!stream->over) {
			box_session_op_credit(stream->asked.op, len);
		}
	}
	if (stream->over && may_send(stream)) {
		struct box_request *request = stream->request;
		send_exit(stream);
		stream_close(stream);
		box_request_end_parts(request);
	}
}

/* --- what the command tells --- */

static void started(void *arg)
{
	struct box_request *request = arg;
	struct stream *stream = request->work;
	struct box_value event = box_map_value();
	stream->started = true;
	box_map_add(request->arena, &event, "event", box_cstr("started"));
	box_map_add(request->arena, &event, "exec_id", box_cstr(stream->exec_id));
	send_event(stream, &event);
}

/* The piece that these bytes can be added to, or NULL. Between two pipes there is no order that
 * anyone could know, so when many pieces are held the last one may be passed over. */
static struct piece *piece_for(struct stream *stream, bool is_stderr, size_t size)
{
	struct box_list *at = stream->pieces.prev;
	for (; at != &stream->pieces; at = at->prev) {
		struct piece *piece = BOX_LIST_ITEM(at, struct piece, links);
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
	struct stream *stream = request->work;
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

static const struct box_live_events live_events = {.started = started, .output = output};

static void ran(void *arg, const struct box_session *session,
	const struct box_exec_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct stream *stream = request->work;
	(void)session;
	if (err) {
		stream_close(stream);
		box_request_fail(request, err);
		return;
	}
	stream->asked.op = NULL;
	stream->over = true;
	stream->outcome = *outcome;
	flush(stream);
}

/* --- requests --- */

static void stream_cancel(struct box_request *request)
{
	struct stream *stream = request->work;
	stream_close(stream);
	if (stream->asked.op) {
		box_session_op_cancel(stream->asked.op);
	}
}

static void stream_drained(struct box_request *request)
{
	flush(request->work);
}

static int check_size(int64_t rows, int64_t columns, struct box_err *err)
{
	if (rows < 1 || rows > UINT16_MAX || columns < 1 || columns > UINT16_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"rows and cols of a tty must be 1 to %d", UINT16_MAX);
	}
	return 0;
}

static int read_tty(const struct box_value *tty, struct stream *stream, struct box_err *err)
{
	if (tty->type == BOX_NULL) {
		return 0;
	}
	const struct box_value *rows = tty->type == BOX_MAP ? box_map_get(tty, "rows") : NULL;
	const struct box_value *columns = tty->type == BOX_MAP ? box_map_get(tty, "cols") : NULL;
	if (!rows || rows->type != BOX_INT || !columns || columns->type != BOX_INT) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"tty must be null or a map of the integers rows and cols");
	}
	int r = check_size(rows->integer, columns->integer, err);
	if (r == 0) {
		stream->live.rows = (uint16_t)rows->integer;
		stream->live.columns = (uint16_t)columns->integer;
	}
	return r;
}

/* The spec without the two members that only a stream has. */
static int read_stream(struct box_request *request, struct stream *stream, struct box_err *err)
{
	struct box_value spec = box_map_value();
	for (uint32_t i = 0; i < request->data->count; i++) {
		const struct box_pair *pair = &request->data->pairs[i];
		if (box_str_eq(pair->key, "stdin")) {
			if (pair->value.type != BOX_BOOL && pair->value.type != BOX_NULL) {
				return box_err_set(
					err, BOX_ERR_VALIDATION, EINVAL, "stdin must be a boolean");
			}
			stream->has_stdin = pair->value.type == BOX_BOOL && pair->value.boolean;
		} else if (box_str_eq(pair->key, "tty")) {
			int r = read_tty(&pair->value, stream, err);
			if (r < 0) {
				return r;
			}
		} else {
			box_map_set(request->arena, &spec, pair->key, pair->value);
		}
	}
	return box_asked_read_command(request, &spec, &stream->asked, err);
}

static void name_stream(struct box_request *request, struct stream *stream)
{
	struct box_table *streams = box_request_streams(request);
	do {
		(void)snprintf(stream->exec_id, sizeof(stream->exec_id), "exec-%llu",
			(unsigned long long)++request->runtime->streams_begun);
	} while (box_table_get(streams, box_str(stream->exec_id)));
	box_table_put(streams, box_str(stream->exec_id), stream);
}

void box_handle_exec_stream(struct box_request *request)
{
	struct box_err err;
	struct stream *stream = box_arena_alloc(request->arena, sizeof(*stream));
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
	name_stream(request, stream);
	stream->asked.op = box_sessions_exec(request->runtime->sessions, stream->asked.physical_id,
		&request->context, &stream->asked.spec, &stream->live, ran, request, &err);
	if (!stream->asked.op) {
		stream_close(stream);
		box_request_fail(request, &err);
		return;
	}
	request->cancel = stream_cancel;
	request->drained = stream_drained;
}

/* The stream of data.exec_id, if it is one of the asker's own workspace and runs. */
static struct stream *find_stream(struct box_request *request, struct box_err *err)
{
	struct stream *stream = box_table_get(
		box_request_streams(request), box_request_field(request, "exec_id")->str);
	if (!stream || !stream->started || stream->over ||
		stream->request->context.generation != request->context.generation ||
		!box_context_same_workspace(&stream->request->context, &request->context)) {
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

static int read_base64(struct box_request *request, struct box_str text, struct box_str *ret_bytes,
	struct box_err *err)
{
	size_t room = text.len / 4 * 3 + 3;
	char *bytes = box_arena_bytes(request->arena, room);
	ssize_t len = box_base64_decode(text, bytes, room);
	if (len < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "data_base64 is not base64");
	}
	*ret_bytes = (struct box_str){bytes, (size_t)len};
	return 0;
}

static int read_given(struct box_request *request, struct given *given, struct box_err *err)
{
	const struct box_value *data = box_request_field(request, "data");
	const struct box_value *base64 = box_request_field(request, "data_base64");
	const struct box_value *eof = box_request_field(request, "eof");
	given->eof = eof && eof->boolean;
	if (data && base64) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "data and data_base64 exclude each other");
	}
	if (base64) {
		return read_base64(request, base64->str, &given->bytes, err);
	}
	if (data && data->type != BOX_STR && data->type != BOX_BIN) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "data must be text or bytes");
	}
	given->bytes = data ? data->str : (struct box_str){"", 0};
	return 0;
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

void box_handle_exec_input(struct box_request *request)
{
	struct box_err err;
	struct given given = {0};
	struct stream *stream = find_stream(request, &err);
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

void box_handle_exec_resize(struct box_request *request)
{
	struct box_err err;
	struct box_value answer = box_map_value();
	struct stream *stream = find_stream(request, &err);
	int64_t rows = box_request_field(request, "rows")->integer;
	int64_t columns = box_request_field(request, "cols")->integer;
	int r = stream ? check_size(rows, columns, &err) : -ENOENT;
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

void box_handle_exec_signal(struct box_request *request)
{
	struct box_err err;
	struct box_value answer = box_map_value();
	struct stream *stream = find_stream(request, &err);
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

/* --- acknowledgements --- */

void box_handle_stream_ack(struct box_request *request)
{
	const struct box_value *seq_id = box_map_get(request->data, "seq_id");
	const struct box_value *index = box_map_get(request->data, "index");
	struct box_value answer = box_map_value();
	struct box_err err;
	if (!seq_id || seq_id->type != BOX_INT || !index || index->type != BOX_INT) {
		(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL,
			"Stream acknowledgement requires integer sequence and index");
		box_request_fail(request, &err);
		return;
	}
	struct box_request *asked = box_request_find_stream(request, seq_id->integer);
	struct stream *stream = asked ? asked->work : NULL;
	if (stream && (index->integer < stream->acked || index->integer > stream->sent)) {
		(void)box_err_set(
			&err, BOX_ERR_VALUE, EINVAL, "Invalid stream acknowledgement index");
		box_request_fail(request, &err);
		return;
	}
	if (stream) {
		stream->acked = index->integer;
	}
	box_map_add(request->arena, &answer, "accepted", box_bool(stream != NULL));
	box_request_reply(request, &answer);
	if (stream) {
		flush(stream);
	}
}
