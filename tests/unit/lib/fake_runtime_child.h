/* A scripted runtime over stdin and stdout: the test program itself, started as its own child. Its
 * actions: echo, context, hold and release (answers in reverse order), fail, stream (with flow
 * control), flood and gap (which violate it), mute, seen (what has been received so far), die, deaf
 * (no answers from then on; as "silent" from its start). A live command starts and keeps running;
 * requests to it are recorded; its sizes and its input are held, except for an empty end of input.
 * Chunks of files are recorded. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "client/answer.h"
#include "codec/msgpack.h"
#include "codec/stdio_framer.h"
#include "tests/unit/lib/test.h"

#define DOUBLE "BOX_TEST_DOUBLE" /* set in the child: which script it plays */
#define HELD_MAX 256
#define CHUNKS_MAX 20 /* of a file that it accepts */

struct pretend {
	int64_t held[HELD_MAX];
	size_t held_count;
	int64_t stream_seq;
	int64_t stream_left;
	int64_t stream_index;
	int64_t stream_acknowledged;
	struct box_buf seen;
	bool deaf;
};

static void answer(int64_t seq_id, const struct box_value *data, const char *error, int64_t index)
{
	struct box_arena *arena = box_arena_new();
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	struct box_value message = box_map_value();
	bool end = index < 0;
	box_map_add(arena, &message, "seq_id", box_int(seq_id));
	box_map_add(arena, &message, "code", box_int(error ? 1 : 0));
	box_map_add(arena, &message, "message", box_cstr(error ? error : "success"));
	box_map_add(arena, &message, "data", data ? *data : box_map_value());
	box_map_add(arena, &message, "chunk_status", box_cstr(end ? "end" : "continue"));
	if (index > 0) {
		box_map_add(arena, &message, "stream_index", box_int(index));
	}
	ASSERT_INT(box_msgpack_encode(&out, &message), 0);
	for (size_t at = 0; at < out.len;) {
		ssize_t written = write(STDOUT_FILENO, out.bytes + at, out.len - at);
		ASSERT(written > 0);
		at += (size_t)written;
	}
	box_buf_free(&out);
	box_arena_free(arena);
}

static int64_t number(const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_INT ? value->integer : -1;
}

static void stream_on(struct pretend *self)
{
	while (self->stream_left > 0 &&
		self->stream_index - self->stream_acknowledged < BOX_STREAM_WINDOW) {
		struct box_arena *arena = box_arena_new();
		struct box_value data = box_map_value();
		self->stream_left--;
		self->stream_index++;
		box_map_add(arena, &data, "n", box_int(self->stream_index));
		answer(self->stream_seq, &data, NULL, self->stream_index);
		box_arena_free(arena);
		if (self->stream_left == 0) {
			answer(self->stream_seq, NULL, NULL, -1);
		}
	}
}

static void steered(struct pretend *self, const char *name, const struct box_value *data)
{
	int64_t index = number(data, "index");
	(void)box_buf_printf(&self->seen, "%s %lld", name, (long long)number(data, "seq_id"));
	(void)box_buf_printf(&self->seen, index >= 0 ? ":%lld " : " ", (long long)index);
}

static void serve_stream(struct pretend *self, struct box_str action, int64_t seq_id,
	const struct box_value *message, const struct box_value *data)
{
	if (number(message, "stream_flow_control") != 1) {
		answer(seq_id, NULL, "BoxError: no flow control", 0);
	} else if (box_str_eq(action, "stream")) {
		self->stream_seq = seq_id;
		self->stream_left = number(data, "count");
		self->stream_index = self->stream_acknowledged = 0;
		stream_on(self);
	} else if (box_str_eq(action, "gap")) {
		answer(seq_id, NULL, NULL, 1);
		answer(seq_id, NULL, NULL, 3);
	} else {
		for (int64_t index = 1; index <= BOX_STREAM_WINDOW + 1; index++) {
			answer(seq_id, NULL, NULL, index);
		}
	}
}

static void serve_exec(
	struct pretend *self, struct box_str action, int64_t seq_id, const struct box_value *data)
{
	struct box_arena *arena = box_arena_new();
	const struct box_value *tty = box_map_get(data, "tty");
	if (box_str_eq(action, "box_exec_stream")) {
		struct box_value event = box_map_value();
		box_map_add(arena, &event, "event", box_cstr("started"));
		box_map_add(arena, &event, "exec_id", box_cstr("e"));
		(void)box_buf_printf(&self->seen, "tty %lldx%lld ", (long long)number(tty, "rows"),
			(long long)number(tty, "cols"));
		answer(seq_id, &event, NULL, 1);
	} else if (box_str_eq(action, "box_exec_resize")) {
		(void)box_buf_printf(&self->seen, "size %lldx%lld ",
			(long long)number(data, "rows"), (long long)number(data, "cols"));
		self->held[self->held_count++ % HELD_MAX] = seq_id;
	} else if (box_str_eq(action, "box_exec_input")) {
		const struct box_value *piece = box_map_get(data, "data");
		(void)box_buf_printf(&self->seen, "input %zu ", piece->str.len);
		if (piece->str.len > 0) {
			self->held[self->held_count++ % HELD_MAX] = seq_id;
		} else {
			answer(seq_id, NULL, NULL, 0);
		}
	} else {
		(void)box_buf_printf(
			&self->seen, "signal %lld ", (long long)number(data, "signal"));
		answer(seq_id, NULL, "BoxValidationError: it has ended", 0);
	}
	box_arena_free(arena);
}

static void serve_held(struct pretend *self, int64_t seq_id)
{
	while (self->held_count > 0) {
		struct box_arena *arena = box_arena_new();
		struct box_value data = box_map_value();
		int64_t held = self->held[--self->held_count];
		box_map_add(arena, &data, "held", box_int(held));
		answer(held, &data, NULL, 0);
		box_arena_free(arena);
	}
	answer(seq_id, NULL, NULL, 0);
}

static void serve_seen(struct pretend *self, int64_t seq_id)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "seen",
		box_text((struct box_str){self->seen.len ? self->seen.bytes : "", self->seen.len}));
	answer(seq_id, &data, NULL, 0);
	box_arena_free(arena);
}

static void serve_chunk(struct pretend *self, int64_t seq_id, const struct box_value *data)
{
	int64_t index = number(data, "chunk_index");
	(void)box_buf_printf(&self->seen, "%lld/%lld:%zu ", (long long)index,
		(long long)number(data, "chunk_amount"), box_map_get(data, "chunk")->str.len);
	answer(seq_id, NULL, index < CHUNKS_MAX ? NULL : "ValueError: too large", 0);
}

static void serve(struct pretend *self, const struct box_value *message)
{
	struct box_str action = box_map_get(message, "action")->str;
	const struct box_value *data = box_map_get(message, "data");
	int64_t seq_id = number(message, "seq_id");
	if (self->deaf) {
		return;
	}
	if (box_str_eq(action, "__ping")) {
		answer(seq_id, NULL, NULL, 0);
	} else if (box_str_eq(action, "__file_chunk")) {
		serve_chunk(self, seq_id, data);
	} else if (box_str_eq(action, "deaf")) {
		self->deaf = true;
		answer(seq_id, NULL, NULL, 0);
	} else if (box_str_eq(action, "echo")) {
		answer(seq_id, data, NULL, 0);
	} else if (box_str_eq(action, "context")) {
		answer(seq_id, box_map_get(message, "context"), NULL, 0);
	} else if (box_str_eq(action, "hold")) {
		self->held[self->held_count++ % HELD_MAX] = seq_id;
	} else if (box_str_eq(action, "release")) {
		serve_held(self, seq_id);
	} else if (box_str_eq(action, "fail")) {
		answer(seq_id, NULL, "BoxCapacityExceededError: full (3)", 0);
	} else if (box_str_eq(action, "__stream_ack")) {
		steered(self, "ack", data);
		self->stream_acknowledged = number(data, "index");
		answer(seq_id, NULL, NULL, 0);
		stream_on(self);
	} else if (box_str_eq(action, "__cancel_action")) {
		steered(self, "cancel", data);
		answer(seq_id, NULL, NULL, 0);
	} else if (box_str_eq(action, "seen")) {
		serve_seen(self, seq_id);
	} else if (box_str_eq(action, "die")) {
		(void)fputs("one\ntwo\n", stderr);
		_exit(7);
	} else if (action.len > 8 && memcmp(action.bytes, "box_exec", 8) == 0) {
		serve_exec(self, action, seq_id, data);
	} else if (!box_str_eq(action, "mute")) {
		serve_stream(self, action, seq_id, message, data);
	}
}

/* Runs before main in the child, and does not return. */
__attribute__((constructor)) static void act(void)
{
	const char *what = getenv(DOUBLE);
	if (!what) {
		return;
	}
	if (strcmp(what, "fails") == 0) {
		for (int i = 1; i <= 20; i++) {
			(void)fprintf(stderr, "line %d\n", i);
		}
		_exit(3);
	}
	struct pretend self = {.seen = box_buf(BOX_MIB), .deaf = strcmp(what, "silent") == 0};
	struct box_stdio_framer *framer = box_stdio_framer_new();
	for (;;) {
		struct box_message message;
		const char *why;
		size_t room;
		while (box_stdio_framer_next(framer, &message, &why) == BOX_STDIO_FRAMER_MESSAGE) {
			serve(&self, &message.value);
			box_arena_free(message.arena);
		}
		char *space = box_stdio_framer_space(framer, &room);
		ssize_t got = read(STDIN_FILENO, space, room);
		if (got <= 0) {
			_exit(0);
		}
		box_stdio_framer_filled(framer, (size_t)got);
	}
}
