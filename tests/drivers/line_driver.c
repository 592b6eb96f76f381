/* A line in a loop, for system tests: requests come as lines on stdin, what happens goes out as lines.
 *
 *   line_driver JSON     {endpoint, boxd, config, ping_interval_ms, ping_wait_ms, connect_ms, pause_ms,
 *                       pause_max_ms}, each of which may be left out
 *   in:   {"action": ..., "data": {...}, "id": N, "stream": bool}   {"zip": BYTES, "id": N}
 *   out:  {"event": "up"}   {"event": "down", "why": TEXT, "pause_ms": N}
 *         {"event": "answer", "id": N, "data": {...}}   {"event": "error", "id": N, "error": TEXT}
 *         {"event": "over", "slowest_us": N} when stdin has ended: no step took longer
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "client/calls.h"
#include "codec/json.h"

#define LINE_BYTES (64 * BOX_KIB)

struct asked {
	int64_t id;
	int64_t seq_id;
	bool stream;
	char *bytes; /* of an upload */
};

static struct box_line *line;

static void say(struct box_arena *arena, const char *event, struct box_value more, int64_t id)
{
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	struct box_value said = box_map_value();
	box_map_add(arena, &said, "event", box_cstr(event));
	if (id >= 0) {
		box_map_add(arena, &said, "id", box_int(id));
	}
	for (uint32_t i = 0; i < more.count; i++) {
		box_map_add_str(arena, &said, more.pairs[i].key, more.pairs[i].value);
	}
	if (box_json_encode(&out, &said) < 0) {
		abort();
	}
	printf("%.*s\n", (int)out.len, out.bytes);
	(void)fflush(stdout);
	box_buf_free(&out);
}

static void say_error(int64_t id, const struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_value more = box_map_value();
	box_map_add(arena, &more, "error",
		box_cstr(box_arena_printf(arena, "%s: %s", box_code_name(err->code), err->text)));
	say(arena, "error", more, id);
	box_arena_free(arena);
}

static void went_up(void *arg)
{
	struct box_arena *arena = box_arena_new();
	(void)arg;
	say(arena, "up", box_map_value(), -1);
	box_arena_free(arena);
}

static void went_down(void *arg, const struct box_err *why, int64_t pause_ms)
{
	struct box_arena *arena = box_arena_new();
	struct box_value more = box_map_value();
	(void)arg;
	box_map_add(arena, &more, "why", box_cstr(why->text));
	box_map_add(arena, &more, "pause_ms", box_int(pause_ms));
	say(arena, "down", more, -1);
	box_arena_free(arena);
}

static void answered(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct asked *asked = arg;
	if (err) {
		say_error(asked->id, err);
	} else {
		struct box_arena *arena = box_arena_new();
		struct box_value more = box_map_value();
		box_map_add(arena, &more, "data", *data);
		say(arena, "answer", more, asked->id);
		box_arena_free(arena);
	}
	if (asked->stream && !last) {
		box_line_taken(line, asked->seq_id);
	}
	if (last) {
		free(asked);
	}
}

static void uploaded(void *arg, const char *file_key, const struct box_err *err)
{
	struct asked *asked = arg;
	struct box_err refused;
	const struct box_skill_zip_args zip = {.file_key = file_key, .filename = "x.zip"};
	free(asked->bytes);
	asked->bytes = NULL;
	if (!err &&
		box_call_preview_skill_zip_async(line, &zip, answered, asked, NULL, &refused) < 0) {
		err = &refused;
	}
	if (err) {
		say_error(asked->id, err);
		free(asked);
	}
}

static void take_line(char *text, size_t len)
{
	struct box_arena *arena = box_arena_new();
	struct box_value message;
	struct box_err err;
	const char *why;
	if (box_json_decode(arena, text, len, &message, &why) < 0) {
		abort();
	}
	const char *action = box_arena_strndup(
		arena, box_get_str(&message, "action").bytes, box_get_str(&message, "action").len);
	int64_t zip_bytes = box_get_int(&message, "zip", -1);
	struct asked *asked = box_alloc(sizeof(*asked));
	*asked = (struct asked){.id = box_get_int(&message, "id", 0),
		.stream = box_get_bool(&message, "stream", false)};
	struct box_upload *upload;
	int r;
	if (zip_bytes >= 0) {
		asked->bytes = box_alloc((size_t)zip_bytes + 1);
		r = box_upload_start(
			line, asked->bytes, (size_t)zip_bytes, uploaded, asked, &upload, &err);
	} else {
		r = (asked->stream ? box_line_submit_stream : box_line_submit)(line, action,
			box_map_get(&message, "data"), answered, asked, &asked->seq_id, &err);
	}
	if (r < 0) {
		say_error(asked->id, &err);
		free(asked->bytes);
		free(asked);
	}
	box_arena_free(arena);
}

static bool take_input(void)
{
	static char held[LINE_BYTES];
	static size_t len;
	ssize_t got = read(STDIN_FILENO, held + len, sizeof(held) - len);
	if (got <= 0) {
		return false;
	}
	len += (size_t)got;
	char *end;
	while ((end = memchr(held, '\n', len))) {
		size_t used = (size_t)(end - held) + 1;
		take_line(held, used - 1);
		len -= used;
		memmove(held, held + used, len);
	}
	return true;
}

static const char *text_or_null(
	struct box_arena *arena, const struct box_value *map, const char *key)
{
	struct box_str text = box_get_str(map, key);
	return text.len > 0 ? box_arena_strndup(arena, text.bytes, text.len) : NULL;
}

static void open_line(struct box_arena *arena, char *text)
{
	static const struct box_line_events events = {went_up, went_down};
	struct box_value told;
	struct box_err err;
	const char *why;
	if (box_json_decode(arena, text, strlen(text), &told, &why) < 0) {
		abort();
	}
	const struct box_line_options options = {
		.client = {.endpoint = text_or_null(arena, &told, "endpoint"),
			.boxd = text_or_null(arena, &told, "boxd"),
			.spawn = true},
		.config = box_map_get(&told, "config"),
		.times = {.ping_interval_ms = box_get_int(&told, "ping_interval_ms", 0),
			.ping_wait_ms = box_get_int(&told, "ping_wait_ms", 0),
			.connect_ms = box_get_int(&told, "connect_ms", 0),
			.pause_ms = box_get_int(&told, "pause_ms", 0),
			.pause_max_ms = box_get_int(&told, "pause_max_ms", 0)},
		.events = &events,
	};
	if (box_line_open(&options, &line, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct box_arena *arena = box_arena_new();
	uint64_t slowest_us = 0;
	if (argc != 2) {
		return 2;
	}
	open_line(arena, argv[1]);
	for (bool open = true; open;) {
		struct pollfd ready[] = {
			{.fd = box_line_fd(line), .events = box_line_poll_events(line)},
			{.fd = STDIN_FILENO, .events = POLLIN},
		};
		(void)poll(ready, 2, box_line_timeout_ms(line));
		uint64_t began = box_clock_us();
		box_line_step(line);
		uint64_t took = box_clock_us() - began;
		slowest_us = took > slowest_us ? took : slowest_us;
		open = !ready[1].revents || take_input();
	}
	box_line_close(line);
	struct box_value more = box_map_value();
	box_map_add(arena, &more, "slowest_us", box_int((int64_t)slowest_us));
	say(arena, "over", more, -1);
	box_arena_free(arena);
	return 0;
}
