/* The stdio framer: which messages come out wherever the stream is split; its limits and its
 * memory. */
#include <errno.h>
#include <malloc.h>
#include <time.h>

#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "codec/stdio_framer.h"
#include "tests/unit/lib/test.h"

#define READ_MOST (64 * BOX_KIB)

/* Takes everything and records it: messages as JSON, `I(why)`, `B(why)`. */
static bool drain(struct box_stdio_framer *framer, struct box_buf *record)
{
	for (;;) {
		struct box_message message;
		const char *why = NULL;
		switch (box_stdio_framer_next(framer, &message, &why)) {
		case BOX_STDIO_FRAMER_MORE:
			return true;
		case BOX_STDIO_FRAMER_MESSAGE:
			ASSERT_INT(message.codec, box_stdio_framer_codec(framer));
			ASSERT_INT(box_json_encode(record, &message.value), 0);
			box_arena_free(message.arena);
			break;
		case BOX_STDIO_FRAMER_IGNORED:
			ASSERT_INT(box_buf_printf(record, "I(%s)", why), 0);
			break;
		case BOX_STDIO_FRAMER_BROKEN:
			ASSERT_INT(box_buf_printf(record, "B(%s)", why), 0);
			return false;
		}
	}
}

/* Feeds `len` bytes, at most `step` at a time. False once the stream is broken. */
static bool feed(struct box_stdio_framer *framer, const char *stream, size_t len, size_t step,
	struct box_buf *record)
{
	bool alive = true;
	for (size_t at = 0; alive && at < len;) {
		size_t piece;
		char *space = box_stdio_framer_space(framer, &piece);
		ASSERT(piece >= 1 && piece <= READ_MOST);
		piece = piece < step ? piece : step;
		piece = piece < len - at ? piece : len - at;
		memcpy(space, stream + at, piece);
		box_stdio_framer_filled(framer, piece);
		at += piece;
		alive = drain(framer, record);
	}
	return alive;
}

static void assert_gives(const char *stream, size_t len, const char *expected)
{
	static const size_t steps[] = {1, 2, 3, 5, 8, 13, 64, 1000, READ_MOST};
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct box_stdio_framer *framer = box_stdio_framer_new();
		struct box_buf record = box_buf(BOX_MIB);
		(void)feed(framer, stream, len, steps[i], &record);
		ASSERT_INT(box_buf_append(&record, "", 1), 0);
		ASSERT_STR(record.bytes, expected);
		box_buf_free(&record);
		box_stdio_framer_free(framer);
	}
}

#define START(n) "{\"type\":\"chunk_start\",\"total_size\":" #n "}\n"
#define DATA(text, offset) \
	"{\"type\":\"chunk_data\",\"data\":\"" text "\",\"offset\":" #offset "}\n"
#define END "{\"type\":\"chunk_end\"}\n"

TEST(lines_become_messages)
{
	static const struct {
		const char *stream;
		const char *expected;
	} table[] = {
		{"{\"a\":1}\n", "{\"a\":1}"},
		{"{}\n{}\n", "{}{}"},
		{"{\"a\":1}\n{\"b\":2}\n{\"c\"", "{\"a\":1}{\"b\":2}"},
		{"\n \n\t\r\n{}\r\n\r\n", "{}"},
		{"  {\"a\" : 1}  \n", "{\"a\":1}"},
		{"{}", ""},
		{"{]\n{}\n", "I(key expected){}"},
		{"{}x\n{}\n", "I(text after the document){}"},
		{"{\"a\":1,\"a\":2}\n{}\n", "I(duplicate map key){}"},
		{"{}\n[1]\n\"x\"\n5\nhello\n{}\n",
			"{}I(not a JSON map)I(not a JSON map)I(not a JSON map)I(not a JSON map){}"},
		{"{\"a\":\"\xff\"}\n{}\n", "I(not UTF-8){}"},
		{"{}\n\x80\n", "{}I(not a JSON map)"},
		{"{\"type\":\"other\"}\n{\"type\":1}\n{\"type\":null}\n",
			"{\"type\":\"other\"}{\"type\":1}{\"type\":null}"},
		{"{\"type\":\"chunk\"}\n{\"type\":\"chunk_start2\"}\n",
			"{\"type\":\"chunk\"}{\"type\":\"chunk_start2\"}"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_gives(table[i].stream, strlen(table[i].stream), table[i].expected);
	}
	assert_gives("{}\n\0\n{}\n", 8, "{}I(not a JSON map){}");
}

TEST(chunked_messages)
{
	static const struct {
		const char *stream;
		const char *expected;
	} table[] = {
		{START(7) DATA("{\\\"a\\\":", 0) DATA("1}", 5) END "{}\n", "{\"a\":1}{}"},
		{START(2) DATA("{}", 0) END START(2) DATA("{}", 0) END, "{}{}"},
		{START(2) DATA("", 0) DATA("{}", 0) DATA("", 2) END, "{}"},
		{"{\"total_size\":2,\"x\":0,\"type\":\"chunk_start\"}\n"
		 "{\"offset\":0,\"data\":\"{}\",\"type\":\"chunk_data\"}\n"
		 "{\"x\":1,\"type\":\"chunk_end\"}\n",
			"{}"},
		/* The offset counts bytes, not characters. */
		{START(14) DATA("{\\\"a\\\":\\\"\xc3\xa9\\u20ac", 0) DATA("\\\"}", 11) END,
			"B(incomplete chunked message)"},
		{START(13) DATA("{\\\"a\\\":\\\"\xc3\xa9\\u20ac", 0) DATA("\\\"}", 11) END,
			"{\"a\":\"\xc3\xa9\xe2\x82\xac\"}"},
		/* Lines that do not belong to the chunked message are dropped, blank lines
		 * silently. */
		{START(2) "\n \nnoise\n{\"a\":1}\n[1]\n{\"type\":\"chunk_start\",\"total_size\":9}\n" DATA(
			 "{}", 0) END,
			"I(not a value)I(another line inside a chunked message)"
			"I(another line inside a chunked message)"
			"I(another line inside a chunked message){}"},
		{DATA("{}", 0) "{}\n", "I(chunk without a chunk_start){}"},
		{END "{}\n", "I(chunk without a chunk_start){}"},
		{START(2) DATA("{}", 0) END END, "{}I(chunk without a chunk_start)"},
		/* A complete chunked message with invalid contents is dropped like a line. */
		{START(0) END "{}\n", "I(empty text){}"},
		{START(3) DATA("[1]", 0) END "{}\n", "I(not a map){}"},
		{START(1) DATA("{", 0) END "{}\n", "I(key expected){}"},
		/* Inside a chunked message the type is ignored. */
		{START(19) DATA("{\\\"type\\\":\\\"chunk_end\\\"}", 0) END,
			"B(chunked message exceeds its declared size)"},
		{START(19) DATA("{\\\"type\\\":\\\"chunk_en\\\"}", 0) END,
			"{\"type\":\"chunk_en\"}"},
		{START(20) DATA("{\\\"type\\\":\\\"chunk_end\\\"}", 0) END,
			"{\"type\":\"chunk_end\"}"},
		{START(2) DATA("{}", 1), "B(wrong offset of a chunk)"},
		{START(4) DATA("{}", 0) DATA("{}", 0), "B(wrong offset of a chunk)"},
		{START(4) DATA("{}", -1), "B(wrong offset of a chunk)"},
		{START(4) DATA("{}", 0.0), "B(wrong offset of a chunk)"},
		{START(4) DATA("{}", "0"), "B(wrong offset of a chunk)"},
		{START(4) "{\"type\":\"chunk_data\",\"data\":\"{}\"}\n",
			"B(wrong offset of a chunk)"},
		{START(4) "{\"type\":\"chunk_data\",\"offset\":0}\n", "B(chunk without data)"},
		{START(4) "{\"type\":\"chunk_data\",\"offset\":0,\"data\":5}\n",
			"B(chunk without data)"},
		{START(1) DATA("{}", 0), "B(chunked message exceeds its declared size)"},
		{START(3) DATA("{}", 0) END, "B(incomplete chunked message)"},
		{START(3) END, "B(incomplete chunked message)"},
		{START(-1) "{}\n", "B(bad total_size of a chunked message)"},
		{START(2.0) "{}\n", "B(bad total_size of a chunked message)"},
		{START("2") "{}\n", "B(bad total_size of a chunked message)"},
		{START(16777217) "{}\n", "B(bad total_size of a chunked message)"},
		{START(99999999999999999999) "{}\n", "B(bad total_size of a chunked message)"},
		{"{\"type\":\"chunk_start\"}\n{}\n", "B(bad total_size of a chunked message)"},
		{START(16777216) DATA("{}", 0), ""},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_gives(table[i].stream, strlen(table[i].stream), table[i].expected);
	}
}

TEST(msgpack_streams)
{
	static const struct {
		const char *stream;
		size_t len;
		const char *expected;
	} table[] = {
#define ROW(bytes, expected) {bytes, sizeof(bytes) - 1, expected}
		ROW("\x80", "{}"),
		ROW("\x81\xa1k\x01\x80\x81\xa1l\xc0", "{\"k\":1}{}{\"l\":null}"),
		ROW("\xde\x00\x01\xa1k\x93\x01\x02\x03\xdf\x00\x00\x00\x00", "{\"k\":[1,2,3]}{}"),
		ROW("\x81\xa1k", ""),
		ROW("\x80\x05\xc0\x80", "{}I(not a map)I(not a map){}"),
		ROW("\x81\xa1k\xa1\xff\x80", "I(a string is not valid UTF-8){}"),
		ROW("\x82\xa1k\x01\xa1k\x01\x80", "I(duplicate map key){}"),
		ROW("\x80\xc1\x80", "{}B(ext or unknown type)"),
		ROW("\x81\x01\x01", "B(a map key is not a string)"),
		ROW("\xdf\xff\xff\xff\xff", "B(count declared beyond the message limit)"),
		ROW("\x81\xa1k\xdb\xff\xff\xff\xff", "B(size declared beyond the message limit)"),
		ROW("\x81\xa4type\xab\x63hunk_start", "{\"type\":\"chunk_start\"}"),
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_gives(table[i].stream, table[i].len, table[i].expected);
	}
}

TEST(the_first_byte_decides)
{
	for (int first = 0; first < 256; first++) {
		bool json = first == '{' || first == ' ' || first == '\t' || first == '\r' ||
			first == '\n';
		bool msgpack = (first >= 0x80 && first <= 0x8f) || first == 0xde || first == 0xdf;
		struct box_stdio_framer *framer = box_stdio_framer_new();
		struct box_message message;
		const char *why;
		ASSERT_INT(box_stdio_framer_codec(framer), BOX_CODECS_);
		ASSERT_INT(box_stdio_framer_next(framer, &message, &why), BOX_STDIO_FRAMER_MORE);
		size_t room;
		*box_stdio_framer_space(framer, &room) = (char)first;
		box_stdio_framer_filled(framer, 0);
		ASSERT_INT(box_stdio_framer_codec(framer), BOX_CODECS_);
		box_stdio_framer_filled(framer, 1);
		ASSERT_INT(box_stdio_framer_codec(framer),
			json              ? BOX_CODEC_JSON
				: msgpack ? BOX_CODEC_MSGPACK
					  : BOX_CODECS_);
		enum box_stdio_framer_result result = box_stdio_framer_next(framer, &message, &why);
		if (first == 0x80) {
			ASSERT_INT(result, BOX_STDIO_FRAMER_MESSAGE);
			box_arena_free(message.arena);
		} else {
			ASSERT_INT(result,
				json || msgpack ? BOX_STDIO_FRAMER_MORE : BOX_STDIO_FRAMER_BROKEN);
		}
		box_stdio_framer_free(framer);
	}
	box_stdio_framer_free(NULL);
}

TEST(a_broken_stream_stays_broken)
{
	struct box_stdio_framer *framer = box_stdio_framer_new();
	struct box_buf record = box_buf(BOX_MIB);
	ASSERT(!feed(framer, "x{}\n", 4, 4, &record));
	for (int i = 0; i < 3; i++) {
		ASSERT(!feed(framer, "{}\n", 3, 3, &record));
	}
	const char *once = "B(first byte is neither JSON nor msgpack)";
	ASSERT_INT(record.len, 4 * strlen(once));
	ASSERT(memcmp(record.bytes, once, strlen(once)) == 0);
	box_buf_free(&record);
	box_stdio_framer_free(framer);
}

/* {"k":"xxx..."} in `len` bytes, without the newline. */
static char *long_line(size_t len)
{
	char *line = malloc(len + 1);
	ASSERT(line != NULL);
	memset(line, 'x', len);
	put_bytes(line, "{\"k\":\"", 6);
	put_bytes(line + len - 2, "\"}", 2);
	line[len] = '\n';
	return line;
}

static size_t input_memory(struct box_stdio_framer *framer)
{
	size_t room;
	return malloc_usable_size(box_stdio_framer_space(framer, &room));
}

TEST(large_lines_and_the_memory_behind_them)
{
	static const size_t sizes[] = {READ_MOST - 1, READ_MOST, READ_MOST + 1, 100000, BOX_MIB,
		BOX_MESSAGE_BYTES_MAX - 1, BOX_MESSAGE_BYTES_MAX};
	struct box_stdio_framer *framer = box_stdio_framer_new();
	struct box_buf record = box_buf(64 * BOX_MIB);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char *line = long_line(sizes[i]);
		for (int bad = 0; bad < 2; bad++) {
			line[sizes[i] - 1] = bad ? 'x' : '}';
			ASSERT(feed(framer, "{}\n", 3, 3, &record));
			record.len = 0;
			ASSERT(feed(framer, line, sizes[i] + 1, 50000, &record));
			if (bad) {
				const char *why = "I(',' or the end of a list or map expected)";
				ASSERT_BYTES(record.bytes, record.len, why, strlen(why));
			} else {
				ASSERT_INT(record.len, sizes[i]);
				ASSERT(memcmp(record.bytes, line, sizes[i]) == 0);
			}
			ASSERT(input_memory(framer) <= 2 * READ_MOST + 64);
		}
		free(line);
	}
	box_buf_free(&record);
	box_stdio_framer_free(framer);
}

/* A message that follows a large one in the same read is kept. */
TEST(small_lines_behind_large_ones)
{
	struct box_buf stream = box_buf(8 * BOX_MIB);
	struct box_buf expected = box_buf(8 * BOX_MIB);
	char *line = long_line(70000);
	for (int i = 0; i < 20; i++) {
		for (int j = 0; j < i; j++) {
			ASSERT_INT(box_buf_printf(&stream, "{\"i\":%d,\"j\":%d}\n", i, j), 0);
			ASSERT_INT(box_buf_printf(&expected, "{\"i\":%d,\"j\":%d}", i, j), 0);
		}
		ASSERT_INT(box_buf_append(&stream, line, 70001), 0);
		ASSERT_INT(box_buf_append(&expected, line, 70000), 0);
	}
	for (size_t step = 1000; step <= READ_MOST; step += 9000) {
		struct box_stdio_framer *framer = box_stdio_framer_new();
		struct box_buf record = box_buf(8 * BOX_MIB);
		ASSERT(feed(framer, stream.bytes, stream.len, step, &record));
		ASSERT_INT(record.len, expected.len);
		ASSERT(memcmp(record.bytes, expected.bytes, expected.len) == 0);
		box_buf_free(&record);
		box_stdio_framer_free(framer);
	}
	free(line);
	box_buf_free(&stream);
	box_buf_free(&expected);
}

TEST(a_line_too_long_breaks_the_stream)
{
	size_t len = BOX_MESSAGE_BYTES_MAX + 1;
	char *line = long_line(len);
	for (int newline = 0; newline < 2; newline++) {
		struct box_stdio_framer *framer = box_stdio_framer_new();
		struct box_buf record = box_buf(BOX_MIB);
		ASSERT(feed(framer, line, BOX_MESSAGE_BYTES_MAX, READ_MOST, &record));
		ASSERT_INT(record.len, 0);
		ASSERT(!feed(
			framer, line + BOX_MESSAGE_BYTES_MAX, 1 + (size_t)newline, 2, &record));
		ASSERT_BYTES(record.bytes, record.len, "B(line too long)", 16);
		ASSERT(input_memory(framer) <= 2 * READ_MOST + 64);
		box_buf_free(&record);
		box_stdio_framer_free(framer);
	}
	free(line);
}

/* Scanned again from its start at every read, this line would be 1 TiB of work. */
TEST(a_long_line_in_small_reads_takes_linear_time)
{
	size_t len = BOX_MESSAGE_BYTES_MAX;
	char *line = long_line(len);
	struct box_stdio_framer *framer = box_stdio_framer_new();
	struct box_buf record = box_buf(64 * BOX_MIB);
	clock_t before = clock();
	ASSERT(feed(framer, line, len + 1, 128, &record));
	ASSERT((clock() - before) / CLOCKS_PER_SEC < 5);
	ASSERT_INT(record.len, len);
	box_buf_free(&record);
	box_stdio_framer_free(framer);
	free(line);
}

TEST(a_large_msgpack_message)
{
	size_t len = 3 * BOX_MIB;
	char *bytes = malloc(len + 10);
	ASSERT(bytes != NULL);
	memset(bytes, 'x', len + 10);
	put_bytes(bytes, "\x81\xa1k\xdb\x00\x30\x00\x00", 8);
	put_bytes(bytes + len + 8, "\x80\x80", 2);
	struct box_stdio_framer *framer = box_stdio_framer_new();
	struct box_buf record = box_buf(8 * BOX_MIB);
	ASSERT(feed(framer, bytes, len + 10, 30011, &record));
	ASSERT_INT(record.len, len + 12);
	ASSERT(memcmp(record.bytes, "{\"k\":\"xxx", 9) == 0);
	ASSERT(memcmp(record.bytes + record.len - 7, "x\"}{}{}", 7) == 0);
	ASSERT(input_memory(framer) <= 2 * READ_MOST + 64);
	box_buf_free(&record);
	box_stdio_framer_free(framer);
	free(bytes);
}

TEST(reading_without_taking_is_bounded)
{
	struct box_stdio_framer *framer = box_stdio_framer_new();
	struct box_message message;
	const char *why;
	for (size_t total = 0; total < 2 * BOX_MESSAGE_BYTES_MAX;) {
		size_t room;
		char *space = box_stdio_framer_space(framer, &room);
		memset(space, '\n', room);
		box_stdio_framer_filled(framer, room);
		total += room;
	}
	ASSERT_INT(box_stdio_framer_next(framer, &message, &why), BOX_STDIO_FRAMER_BROKEN);
	ASSERT_STR(why, "messages were not taken");
	box_stdio_framer_free(framer);
}

/* Frames the text, checks the lines one by one, reads them back. */
static size_t assert_frames(const char *text, size_t len)
{
	struct box_buf lines = box_buf(64 * BOX_MIB);
	struct box_buf record = box_buf(64 * BOX_MIB);
	size_t count = 0;
	ASSERT_INT(box_stdio_framer_encode_json(&lines, text, len), 0);
	for (const char *at = lines.bytes; at < lines.bytes + lines.len; count++) {
		const char *end = memchr(at, '\n', (size_t)(lines.bytes + lines.len - at));
		ASSERT(end != NULL && end - at + 1 <= BOX_STDIO_LINE_OUT_MAX);
		at = end + 1;
	}
	struct box_stdio_framer *framer = box_stdio_framer_new();
	ASSERT(feed(framer, lines.bytes, lines.len, READ_MOST, &record));
	ASSERT_INT(record.len, len);
	ASSERT(memcmp(record.bytes, text, len) == 0);
	box_stdio_framer_free(framer);
	box_buf_free(&record);
	box_buf_free(&lines);
	return count;
}

TEST(what_goes_out_comes_back)
{
	for (size_t len = BOX_STDIO_CHUNK_BYTES - 2; len <= BOX_STDIO_CHUNK_BYTES + 2; len++) {
		char *line = long_line(len);
		ASSERT_INT(assert_frames(line, len), len <= BOX_STDIO_CHUNK_BYTES ? 1 : 4);
		free(line);
	}
	char *line = long_line(BOX_MIB);
	ASSERT_INT(assert_frames(line, BOX_MIB), 64 + 2);
	/* Quotes and backslashes double inside a chunk. */
	for (size_t i = 6; i + 3 < BOX_MIB; i += 2) {
		put_bytes(line + i, i % 4 ? "\\\\" : "\\\"", 2);
	}
	ASSERT_INT(assert_frames(line, BOX_MIB), 64 + 2);
	free(line);
	/* Code points of 2, 3 and 4 bytes at every position of the cut. */
	static const char *const points[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
	for (size_t i = 0; i < COUNT(points); i++) {
		for (size_t shift = 0; shift < 4; shift++) {
			struct box_buf text = box_buf(BOX_MIB);
			ASSERT_INT(box_buf_append_str(&text, "{\"kkkk\":\""), 0);
			ASSERT_INT(box_buf_append(&text, "abcd", shift), 0);
			while (text.len < 40000) {
				ASSERT_INT(box_buf_append_str(&text, points[i]), 0);
			}
			ASSERT_INT(box_buf_append_str(&text, "\"}"), 0);
			ASSERT_INT(assert_frames(text.bytes, text.len), 5);
			box_buf_free(&text);
		}
	}
}

TEST(the_chunk_lines_themselves)
{
	size_t len = BOX_STDIO_CHUNK_BYTES + 1;
	char *line = long_line(len);
	struct box_buf lines = box_buf(BOX_MIB);
	struct box_buf expected = box_buf(BOX_MIB);
	ASSERT_INT(box_stdio_framer_encode_json(&lines, line, len), 0);
	ASSERT_INT(
		box_buf_printf(&expected,
			"{\"type\":\"chunk_start\",\"total_size\":16385}\n"
			"{\"type\":\"chunk_data\",\"data\":\"{\\\"k\\\":\\\"%.*s\\\"\",\"offset\":0}\n"
			"{\"type\":\"chunk_data\",\"data\":\"}\",\"offset\":16384}\n"
			"{\"type\":\"chunk_end\"}\n",
			(int)len - 8, line + 6),
		0);
	ASSERT_BYTES(lines.bytes, lines.len, expected.bytes, expected.len);
	box_buf_free(&lines);
	/* Without enough room the buffer is unchanged. */
	for (size_t limit = 1; limit < expected.len; limit += 997) {
		struct box_buf small = box_buf(limit);
		ASSERT_INT(box_buf_append(&small, "#", 1), 0);
		ASSERT_INT(box_stdio_framer_encode_json(&small, line, len), -EMSGSIZE);
		ASSERT_INT(small.len, 1);
		box_buf_free(&small);
	}
	box_buf_free(&expected);
	free(line);
}

/* Text full of characters with six-byte escapes still gives no line over the limit. */
TEST(lines_stay_short_whatever_the_text)
{
	static char text[100000];
	struct box_buf lines = box_buf(BOX_MIB);
	memset(text, '\x01', sizeof(text));
	ASSERT_INT(box_stdio_framer_encode_json(&lines, text, sizeof(text)), 0);
	size_t escapes = 0;
	for (const char *at = lines.bytes; at < lines.bytes + lines.len;) {
		const char *end = memchr(at, '\n', (size_t)(lines.bytes + lines.len - at));
		ASSERT(end != NULL && end - at + 1 <= BOX_STDIO_LINE_OUT_MAX);
		for (; at < end; at++) {
			escapes += *at == '\\';
		}
		at++;
	}
	ASSERT_INT(escapes, sizeof(text));
	box_buf_free(&lines);
}
