/* The stdio framer: wherever the stream is split, the same messages come out, none lost, none
 * twice.
 *
 * Input: a byte n, n bytes with the lengths of the pieces (used in a cycle), then the stream. The
 * messages that came out are also framed and read back. */
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "codec/stdio_framer.h"
#include "tests/fuzz/common.h"

/* Records everything that comes out: a letter for each result, messages with their content. */
static bool drain(struct box_stdio_framer *framer, struct box_buf *record)
{
	for (;;) {
		struct box_message message;
		const char *why = NULL;
		switch (box_stdio_framer_next(framer, &message, &why)) {
		case BOX_STDIO_FRAMER_MORE:
			return true;
		case BOX_STDIO_FRAMER_MESSAGE:
			MUST(message.value.type == BOX_MAP);
			MUST(message.codec == box_stdio_framer_codec(framer));
			MUST(box_buf_printf(record, "M%zu ", message.wire_bytes) == 0);
			MUST(box_json_encode(record, &message.value) == 0);
			box_arena_free(message.arena);
			break;
		case BOX_STDIO_FRAMER_IGNORED:
			MUST(why != NULL);
			MUST(box_buf_printf(record, "I%s ", why) == 0);
			break;
		case BOX_STDIO_FRAMER_BROKEN:
			MUST(why != NULL);
			MUST(box_buf_printf(record, "B%s ", why) == 0);
			return false;
		}
	}
}

static void feed(const uint8_t *stream, size_t len, const uint8_t *pieces, size_t piece_count,
	struct box_buf *record)
{
	struct box_stdio_framer *framer = box_stdio_framer_new();
	bool alive = true;
	for (size_t at = 0, turn = 0; alive && at < len; turn++) {
		size_t room;
		char *space = box_stdio_framer_space(framer, &room);
		MUST(room >= 1);
		size_t piece = piece_count > 0 ? pieces[turn % piece_count] + 1U : room;
		piece = piece < room ? piece : room;
		piece = piece < len - at ? piece : len - at;
		memcpy(space, stream + at, piece);
		box_stdio_framer_filled(framer, piece);
		at += piece;
		alive = drain(framer, record);
	}
	box_stdio_framer_free(framer);
}

/* If the stream is JSON, it is framed as one message's text and read back. */
static void frame_and_back(const uint8_t *stream, size_t len)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value;
	const char *why;
	char *copy = box_arena_strndup(arena, (const char *)stream, len);
	if (box_json_decode(arena, copy, len, &value, &why) == 0 && value.type == BOX_MAP &&
		!box_map_get(&value, "type")) {
		struct box_buf text = box_buf(BOX_MESSAGE_BYTES_MAX);
		struct box_buf lines = box_buf(4 * BOX_MESSAGE_BYTES_MAX);
		struct box_buf record = box_buf(8 * BOX_MESSAGE_BYTES_MAX);
		struct box_buf expected = box_buf(8 * BOX_MESSAGE_BYTES_MAX);
		MUST(box_json_encode(&text, &value) == 0);
		MUST(box_stdio_framer_encode_json(&lines, text.bytes, text.len) == 0);
		feed((const uint8_t *)lines.bytes, lines.len, NULL, 0, &record);
		MUST(box_buf_printf(&expected, "M%zu ", text.len) == 0);
		MUST(box_buf_append(&expected, text.bytes, text.len) == 0);
		MUST(record.bytes && record.len == expected.len);
		MUST(memcmp(record.bytes, expected.bytes, record.len) == 0);
		box_buf_free(&text);
		box_buf_free(&lines);
		box_buf_free(&record);
		box_buf_free(&expected);
	}
	box_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || data[0] >= size) {
		return 0;
	}
	const uint8_t *stream = data + 1 + data[0];
	size_t len = size - 1 - data[0];
	struct box_buf whole = box_buf(64 * BOX_MIB);
	struct box_buf cut = box_buf(64 * BOX_MIB);
	feed(stream, len, NULL, 0, &whole);
	feed(stream, len, data + 1, data[0], &cut);
	MUST(whole.len == cut.len);
	MUST(whole.len == 0 || memcmp(whole.bytes, cut.bytes, whole.len) == 0);
	box_buf_free(&whole);
	box_buf_free(&cut);
	frame_and_back(stream, len);
	return 0;
}
