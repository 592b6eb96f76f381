/* Commands with live output.
 *
 * Output goes out as parts of one answer as it comes. What the client, its connection or its
 * acknowledgements do not let out yet is held here, never more than the credit that the backend has;
 * so a slow reader ends up blocking the command, and nothing is lost. */
#include "handlers/exec_stream.h"

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
#include "runtime/runtime.h"

#define CREDIT_BYTES (1 * BOX_MIB) /* of output under way between the command and the client */
#define PART_BYTES_MAX (256 * BOX_KIB)
#define HELD_PIECES_MAX 64 /* then both streams are sorted: a piece is more than its bytes */

/* Bytes of one stream that wait to go out. */
struct piece {
	struct box_list links;
	bool is_stderr;
	struct box_buf bytes;
};

/* --- out --- */

static void piece_free(struct box_exec_stream_state *stream, struct piece *piece)
{
	stream->piece_count--;
	box_list_drop(&piece->links);
	box_buf_free(&piece->bytes);
	free(piece);
}

/* Nobody will ask about it any more; the request is the caller's to end. */
static void stream_close(struct box_exec_stream_state *stream)
{
	box_table_remove(box_request_exec_streams(stream->request), box_str(stream->exec_id));
	while (!box_list_empty(&stream->pieces)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		piece_free(stream, BOX_CONTAINER_OF(stream->pieces.next, struct piece, links));
	}
}

static void send_output(struct box_exec_stream_state *stream, bool is_stderr, struct box_str bytes)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr(is_stderr ? "stderr" : "stdout"));
	box_request_add_part_data(stream->request, arena, &event, bytes);
	box_request_send_event(stream->request, &event);
	if (!stream->over) {
		box_session_op_credit(stream->asked.op, bytes.len);
	}
}

static void send_exit(struct box_exec_stream_state *stream)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value event = box_map_value();
	box_map_add(arena, &event, "event", box_cstr("exit"));
	box_spec_request_add_status(arena, &event, &stream->outcome);
	box_spec_request_add_end(arena, &event, &stream->outcome);
	box_spec_request_add_workspace(arena, &event, &stream->asked.spec, &stream->outcome);
	box_request_send_event(stream->request, &event);
}

/* Sends what may go; after the last of it the end, and then the stream is gone. */
static void flush(struct box_exec_stream_state *stream)
{
	/* Sending may find that there is room again, and call us from inside. */
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
	if (stream->over && box_list_empty(&stream->pieces) &&
		box_request_may_send(stream->request)) {
		struct box_request *request = stream->request;
		send_exit(stream);
		stream_close(stream);
		box_request_end_parts(request);
		return;
	}
	stream->flushing = false;
}

/* --- what the command tells --- */

static void started(void *arg)
{
	struct box_request *request = arg;
	struct box_exec_stream_state *stream = request->work;
	struct box_value event = box_map_value();
	stream->started = true;
	box_map_add(request->arena, &event, "event", box_cstr("started"));
	box_map_add(request->arena, &event, "exec_id", box_cstr(stream->exec_id));
	box_request_send_event(stream->request, &event);
}

/* The piece that these bytes can be added to, or NULL. Between two pipes there is no order that
 * anyone could know, so when many pieces are held the last one may be passed over. */
static struct piece *piece_for(struct box_exec_stream_state *stream, bool is_stderr, size_t size)
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
	struct box_exec_stream_state *stream = request->work;
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
	struct box_exec_stream_state *stream = request->work;
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
	struct box_exec_stream_state *stream = request->work;
	stream_close(stream);
	if (stream->asked.op) {
		box_session_op_cancel(stream->asked.op);
	}
}

static void stream_drained(struct box_request *request)
{
	flush(request->work);
}

static int read_tty(
	const struct box_value *tty, struct box_exec_stream_state *stream, struct box_err *err)
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
	int r = box_exec_stream_check_size(rows->integer, columns->integer, err);
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

/* The spec without the members that only a stream has. */
static int read_stream(
	struct box_request *request, struct box_exec_stream_state *stream, struct box_err *err)
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

static void name_stream(struct box_request *request, struct box_exec_stream_state *stream)
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
	struct box_exec_stream_state *stream = request->work;
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
	struct box_exec_stream_state *stream = box_arena_alloc(request->arena, sizeof(*stream));
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
