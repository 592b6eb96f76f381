/* Splits the stdio stream into messages, and JSON messages into lines.
 *
 * Every byte is compared once to find the end of its line, and copied at most once more: a small
 * message is copied into its arena, a large one takes over the whole input buffer. Memory grows with
 * received bytes, never by a declared size, and a buffer that has grown is freed.
 */
#include "codec/stdio_framer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "codec/msgpack_scan.h"

/* One read brings at most this much, so at most this much has to be moved after a message. */
#define READ_BYTES (64 * BOX_KIB)
#define READ_BYTES_LEAST (4 * BOX_KIB)
#define ROOM_MAX (BOX_MESSAGE_BYTES_MAX + 2 * READ_BYTES)

struct box_stdio_framer {
	char *bytes;
	size_t start; /* of what has not been returned yet */
	size_t end;
	size_t room;
	size_t searched; /* bytes from start on that contain no line end */
	enum box_codec codec;
	const char *broken; /* the reason, once the stream cannot continue */
	struct box_msgpack_scan scan;
	bool in_chunks; /* between chunk_start and chunk_end */
	size_t declared;
	struct box_buf assembly;
};

struct box_stdio_framer *box_stdio_framer_new(void)
{
	struct box_stdio_framer *framer = box_alloc(sizeof(*framer));
	framer->codec = BOX_CODECS_;
	framer->assembly = box_buf(BOX_MESSAGE_BYTES_MAX);
	return framer;
}

void box_stdio_framer_free(struct box_stdio_framer *framer)
{
	if (framer) {
		box_buf_free(&framer->assembly);
		free(framer->bytes);
		free(framer);
	}
}

enum box_codec box_stdio_framer_codec(const struct box_stdio_framer *framer)
{
	return framer->codec;
}

static void drop_input(struct box_stdio_framer *framer)
{
	free(framer->bytes);
	framer->bytes = NULL;
	framer->start = framer->end = framer->room = framer->searched = 0;
}

static enum box_stdio_framer_result break_off(
	struct box_stdio_framer *framer, const char *why, const char **ret_why)
{
	framer->broken = why;
	*ret_why = why;
	drop_input(framer);
	box_buf_free(&framer->assembly);
	return BOX_STDIO_FRAMER_BROKEN;
}

/* Moves the rest to the front, and shrinks a buffer that has grown for a long line. */
static void tidy(struct box_stdio_framer *framer)
{
	size_t len = framer->end - framer->start;
	if (framer->start > 0) {
		memmove(framer->bytes, framer->bytes + framer->start, len);
		framer->start = 0;
		framer->end = len;
	}
	if (len == 0 && framer->room > READ_BYTES) {
		drop_input(framer);
	} else if (len < READ_BYTES && framer->room > 2 * READ_BYTES) {
		framer->room = 2 * READ_BYTES;
		framer->bytes = box_realloc(framer->bytes, framer->room);
	}
}

char *box_stdio_framer_space(struct box_stdio_framer *framer, size_t *ret_len)
{
	const char *why;
	/* Reached only if the caller reads on without taking messages. */
	if (framer->end - framer->start > BOX_MESSAGE_BYTES_MAX + READ_BYTES) {
		(void)break_off(framer, "messages were not taken", &why);
	}
	tidy(framer);
	if (framer->room - framer->end < READ_BYTES_LEAST) {
		framer->room = framer->room ? framer->room * 2 : READ_BYTES;
		framer->room = BOX_MIN(framer->room, ROOM_MAX);
		framer->bytes = box_realloc(framer->bytes, framer->room);
	}
	size_t free_bytes = framer->room - framer->end;
	*ret_len = BOX_MIN(free_bytes, READ_BYTES);
	return framer->bytes + framer->end;
}

void box_stdio_framer_filled(struct box_stdio_framer *framer, size_t len)
{
	if (len == 0 || framer->broken) {
		return;
	}
	if (framer->codec == BOX_CODECS_) {
		unsigned char first = (unsigned char)framer->bytes[0];
		if (first == '{' || first == ' ' || first == '\t' || first == '\r' ||
			first == '\n') {
			framer->codec = BOX_CODEC_JSON;
		} else if ((first & 0xf0) == 0x80 || first == 0xde || first == 0xdf) {
			framer->codec = BOX_CODEC_MSGPACK;
			box_msgpack_scan_start(&framer->scan);
		} else {
			framer->broken = "first byte is neither JSON nor msgpack";
			return;
		}
	}
	framer->end += len;
}

static void consume(struct box_stdio_framer *framer, size_t len)
{
	framer->start += len;
	framer->searched = 0;
}

/* The next len bytes as memory of the arena; `extra` bytes after them are dropped. */
static char *take(
	struct box_stdio_framer *framer, struct box_arena *arena, size_t len, size_t extra)
{
	char *from = framer->bytes + framer->start;
	if (len < READ_BYTES) {
		char *copy = box_arena_bytes(arena, len);
		memcpy(copy, from, len);
		consume(framer, len + extra);
		return copy;
	}
	/* The message takes over the buffer; what follows it, at most one read, moves to a new one. */
	size_t left = framer->end - framer->start - len - extra;
	size_t offset = framer->start;
	size_t room = 0;
	char *fresh = NULL;
	if (left > 0) {
		room = left < READ_BYTES ? READ_BYTES : left;
		fresh = box_realloc(NULL, room);
		memcpy(fresh, from + len + extra, left);
	}
	char *old = box_realloc(framer->bytes, offset + len);
	box_arena_adopt(arena, old);
	framer->bytes = fresh;
	framer->start = framer->searched = 0;
	framer->end = left;
	framer->room = room;
	return old + offset;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Decodes the bytes in the arena into a message, which owns the arena. */
static enum box_stdio_framer_result give(struct box_arena *arena, enum box_codec codec, char *bytes,
	size_t len, struct box_message *ret_message, const char **ret_why)
{
	struct box_message message = {.arena = arena, .codec = codec, .wire_bytes = len};
	int r = codec == BOX_CODEC_JSON
		? box_json_decode(arena, bytes, len, &message.value, ret_why)
		: box_msgpack_decode(arena, bytes, len, &message.value, ret_why);
	if (r == 0 && message.value.type != BOX_MAP) {
		*ret_why = "not a map";
		r = -EBADMSG;
	}
	if (r < 0) {
		box_arena_free(arena);
		return BOX_STDIO_FRAMER_IGNORED;
	}
	*ret_message = message;
	return BOX_STDIO_FRAMER_MESSAGE;
}

static bool is_type(const struct box_value *map, const char *name)
{
	const struct box_value *type = box_map_get(map, "type");
	return type && type->type == BOX_STR && box_str_eq(type->str, name);
}

/* A member as a whole number, or -1. */
static int64_t count_of(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type == BOX_INT && value->integer >= 0 ? value->integer : -1;
}

static enum box_stdio_framer_result chunk_start(
	struct box_stdio_framer *framer, const struct box_value *map, const char **ret_why)
{
	int64_t declared = count_of(map, "total_size");
	if (declared < 0 || declared > (int64_t)BOX_MESSAGE_BYTES_MAX) {
		return break_off(framer, "bad total_size of a chunked message", ret_why);
	}
	framer->in_chunks = true;
	framer->declared = (size_t)declared;
	return BOX_STDIO_FRAMER_MORE;
}

static enum box_stdio_framer_result chunk_data(
	struct box_stdio_framer *framer, const struct box_value *map, const char **ret_why)
{
	const struct box_value *data = box_map_get(map, "data");
	if (!data || data->type != BOX_STR) {
		return break_off(framer, "chunk without data", ret_why);
	}
	if (count_of(map, "offset") != (int64_t)framer->assembly.len) {
		return break_off(framer, "wrong offset of a chunk", ret_why);
	}
	if (data->str.len > framer->declared - framer->assembly.len ||
		box_buf_append(&framer->assembly, data->str.bytes, data->str.len) < 0) {
		return break_off(framer, "chunked message exceeds its declared size", ret_why);
	}
	return BOX_STDIO_FRAMER_MORE;
}

static enum box_stdio_framer_result chunk_end(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why)
{
	size_t len = framer->assembly.len;
	if (len != framer->declared) {
		return break_off(framer, "incomplete chunked message", ret_why);
	}
	framer->in_chunks = false;
	struct box_arena *arena = box_arena_new();
	char *text = NULL;
	if (len > 0) {
		char *memory = framer->assembly.bytes - BOX_BUF_HEADROOM;
		memory = box_realloc(memory, BOX_BUF_HEADROOM + len);
		box_arena_adopt(arena, memory);
		text = memory + BOX_BUF_HEADROOM;
		framer->assembly = box_buf(BOX_MESSAGE_BYTES_MAX);
	}
	return give(arena, BOX_CODEC_JSON, text, len, ret_message, ret_why);
}

/* A line inside a chunked message. Decoded in place: nothing of it is kept. */
static enum box_stdio_framer_result next_chunk(struct box_stdio_framer *framer, size_t len,
	struct box_message *ret_message, const char **ret_why)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value;
	enum box_stdio_framer_result result = BOX_STDIO_FRAMER_IGNORED;
	char *line = framer->bytes + framer->start;
	int r = box_json_decode(arena, line, len, &value, ret_why);
	consume(framer, len + 1);
	if (r == 0 && is_type(&value, "chunk_data")) {
		result = chunk_data(framer, &value, ret_why);
	} else if (r == 0 && is_type(&value, "chunk_end")) {
		result = chunk_end(framer, ret_message, ret_why);
	} else if (r == 0) {
		*ret_why = "another line inside a chunked message";
	}
	box_arena_free(arena);
	return result;
}

/* A line outside of chunked messages: a message, or the start of a chunked one. */
static enum box_stdio_framer_result next_plain(struct box_stdio_framer *framer, size_t len,
	struct box_message *ret_message, const char **ret_why)
{
	if (framer->bytes[framer->start] != '{') {
		consume(framer, len + 1);
		*ret_why = "not a JSON map";
		return BOX_STDIO_FRAMER_IGNORED;
	}
	struct box_message message;
	struct box_arena *arena = box_arena_new();
	char *line = take(framer, arena, len, 1);
	enum box_stdio_framer_result result = give(
		arena, BOX_CODEC_JSON, line, len, &message, ret_why);
	if (result != BOX_STDIO_FRAMER_MESSAGE) {
		return result;
	}
	if (is_type(&message.value, "chunk_start")) {
		result = chunk_start(framer, &message.value, ret_why);
	} else if (is_type(&message.value, "chunk_data") || is_type(&message.value, "chunk_end")) {
		*ret_why = "chunk without a chunk_start";
		result = BOX_STDIO_FRAMER_IGNORED;
	} else {
		*ret_message = message;
		return BOX_STDIO_FRAMER_MESSAGE;
	}
	box_arena_free(message.arena);
	return result;
}

static enum box_stdio_framer_result next_json(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why)
{
	for (;;) {
		const char *line = framer->bytes + framer->start;
		size_t have = framer->end - framer->start;
		const char *newline = have > framer->searched
			? memchr(line + framer->searched, '\n', have - framer->searched)
			: NULL;
		size_t len = newline ? (size_t)(newline - line) : have;
		if (len > BOX_MESSAGE_BYTES_MAX) {
			return break_off(framer, "line too long", ret_why);
		}
		if (!newline) {
			framer->searched = have;
			return BOX_STDIO_FRAMER_MORE;
		}
		size_t blank = 0;
		while (blank < len && is_blank(line[blank])) {
			blank++;
		}
		if (blank == len) {
			consume(framer, len + 1);
			continue;
		}
		consume(framer, blank);
		enum box_stdio_framer_result result = framer->in_chunks
			? next_chunk(framer, len - blank, ret_message, ret_why)
			: next_plain(framer, len - blank, ret_message, ret_why);
		if (result != BOX_STDIO_FRAMER_MORE) {
			return result;
		}
	}
}

static enum box_stdio_framer_result next_msgpack(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why)
{
	size_t walked = (size_t)framer->scan.used;
	size_t have = framer->end - framer->start;
	if (have == walked) {
		return BOX_STDIO_FRAMER_MORE;
	}
	size_t used;
	const char *why;
	int r = box_msgpack_scan_feed(
		&framer->scan, framer->bytes + framer->start + walked, have - walked, &used, &why);
	if (r < 0) {
		return break_off(framer, why, ret_why);
	}
	if (r == 0) {
		return BOX_STDIO_FRAMER_MORE;
	}
	box_msgpack_scan_start(&framer->scan);
	struct box_arena *arena = box_arena_new();
	char *bytes = take(framer, arena, walked + used, 0);
	return give(arena, BOX_CODEC_MSGPACK, bytes, walked + used, ret_message, ret_why);
}

enum box_stdio_framer_result box_stdio_framer_next(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why)
{
	if (framer->broken) {
		return break_off(framer, framer->broken, ret_why);
	}
	if (framer->start == framer->end) {
		tidy(framer);
		return BOX_STDIO_FRAMER_MORE;
	}
	enum box_stdio_framer_result result = framer->codec == BOX_CODEC_JSON
		? next_json(framer, ret_message, ret_why)
		: next_msgpack(framer, ret_message, ret_why);
	if (result == BOX_STDIO_FRAMER_MORE) {
		tidy(framer);
	}
	return result;
}

/* Writes {"type":"chunk_data",...} for the first bytes of text; *ret_piece is how many. */
static int append_chunk(
	struct box_buf *out, const char *text, size_t len, size_t offset, size_t *ret_piece)
{
	size_t before = out->len;
	size_t piece = len;
	if (piece > BOX_STDIO_CHUNK_BYTES) {
		piece = box_utf8_floor(text, BOX_STDIO_CHUNK_BYTES);
	}
	for (;;) {
		int r = box_buf_append_str(out, "{\"type\":\"chunk_data\",\"data\":");
		if (r == 0) {
			r = box_json_encode_str(out, (struct box_str){text, piece});
		}
		if (r == 0) {
			r = box_buf_printf(out, ",\"offset\":%zu}\n", offset);
		}
		if (r < 0) {
			return r;
		}
		if (out->len - before <= BOX_STDIO_LINE_OUT_MAX) {
			*ret_piece = piece;
			return 0;
		}
		/* Assumes that characters may need six bytes each, the longest escape. */
		out->len = before;
		piece = box_utf8_floor(text, piece / 2);
	}
}

static int append_chunks(struct box_buf *out, const char *text, size_t len)
{
	int r = box_buf_printf(out, "{\"type\":\"chunk_start\",\"total_size\":%zu}\n", len);
	for (size_t offset = 0; r == 0 && offset < len;) {
		size_t piece = 0;
		r = append_chunk(out, text + offset, len - offset, offset, &piece);
		offset += piece;
	}
	return r < 0 ? r : box_buf_append_str(out, "{\"type\":\"chunk_end\"}\n");
}

int box_stdio_framer_encode_json(struct box_buf *out, const char *text, size_t len)
{
	size_t before = out->len;
	int r;
	if (len > BOX_STDIO_CHUNK_BYTES) {
		r = append_chunks(out, text, len);
	} else {
		r = box_buf_append(out, text, len);
		if (r == 0) {
			r = box_buf_append(out, "\n", 1);
		}
	}
	if (r < 0) {
		out->len = before;
	}
	return r;
}
