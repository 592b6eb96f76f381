/* Output of a process split into messages: lines, text, bytes with offsets. */
#include <errno.h>

#include "base/limits.h"
#include "base/macros.h"
#include "tests/unit/lib/test.h"
#include "transport/relay_output.h"

#define MOST BOX_MESSAGE_BYTES_MAX

static struct box_relay_output output;
static uint64_t at;

static void begin(enum box_relay_output_kind kind, uint64_t offset)
{
	box_relay_output_init(&output, kind);
	at = offset;
}

static int add_bytes(const void *bytes, size_t len)
{
	/* A block of its own, so that a read past it is detected. */
	char *own = malloc(len + 1);
	ASSERT(own);
	memcpy(own, bytes, len);
	int r = box_relay_output_add(&output, at, (struct box_str){own, len});
	free(own);
	at += len;
	return r;
}

static void add(const char *text)
{
	ASSERT_INT(add_bytes(text, strlen(text)), 0);
}

static void expect_bytes(const void *bytes, size_t len, uint64_t end)
{
	const struct box_relay_output_chunk *chunk = box_relay_output_first(&output);
	ASSERT(chunk != NULL);
	ASSERT_BYTES(chunk->bytes, chunk->len, bytes, len);
	ASSERT_INT(chunk->end, end);
	ASSERT_INT(chunk->sent, 0);
	box_relay_output_drop_first(&output);
}

static void expect(const char *text, uint64_t end)
{
	expect_bytes(text, strlen(text), end);
}

static void expect_none(void)
{
	ASSERT(box_relay_output_first(&output) == NULL);
	ASSERT_INT(output.ready_bytes, 0);
}

static void finish(void)
{
	expect_none();
	box_relay_output_free(&output);
}

/* --- lines --- */

TEST(lines)
{
	begin(BOX_RELAY_OUTPUT_LINES, 100);
	add("one\ntwo\nthr");
	expect("one", 104);
	expect("two", 108);
	expect_none();
	ASSERT_INT(output.rest.len, 3);
	ASSERT_INT(output.rest_end, 111);
	add("ee\n");
	expect("three", 114);
	add("\n\n\r\n\n");
	expect("\r", 118);
	expect_none();
	add("");
	add("x");
	add("\n");
	expect("x", 121);
	finish();
}

/* Wherever it is split, the same lines come out, and the last one needs no newline. */
TEST(lines_cut_everywhere)
{
	static const char text[] = "{\"a\":1}\n\n\xc3\xa9t\xc3\xa9\nlast";
	size_t len = strlen(text);
	for (size_t first = 0; first <= len; first++) {
		for (size_t second = first; second <= len; second++) {
			begin(BOX_RELAY_OUTPUT_LINES, 0);
			ASSERT_INT(add_bytes(text, first), 0);
			ASSERT_INT(add_bytes(text + first, second - first), 0);
			ASSERT_INT(add_bytes(text + second, len - second), 0);
			expect("{\"a\":1}", 8);
			expect("\xc3\xa9t\xc3\xa9", 15);
			expect_none();
			box_relay_output_end(&output);
			expect("last", len);
			finish();
		}
	}
}

TEST(the_end_of_lines)
{
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	box_relay_output_end(&output);
	expect_none();
	add("a\n");
	expect("a", 2);
	box_relay_output_end(&output);
	expect_none();
	add("b");
	box_relay_output_end(&output);
	box_relay_output_end(&output);
	expect("b", 3);
	finish();
}

TEST(lines_are_utf8)
{
	static const struct {
		const char *raw;
		const char *text;
	} table[] = {
		{"a\xff"
		 "b\n",
			"a\xef\xbf\xbd"
			"b"},
		{"\xc3\n", "\xef\xbf\xbd"},
		{"\xe2\x82\n", "\xef\xbf\xbd"},
		{"\xed\xa0\x80x\n",
			"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			"x"},
		{"\xf0\x9f\x98\x80\n", "\xf0\x9f\x98\x80"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		begin(BOX_RELAY_OUTPUT_LINES, 7);
		add(table[i].raw);
		/* The offset counts the bytes written, not those of the message. */
		expect(table[i].text, 7 + strlen(table[i].raw));
		finish();
	}
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	ASSERT_INT(add_bytes("a\0b\n", 4), 0);
	expect_bytes("a\0b", 3, 4);
	finish();
}

static char *filled(size_t len)
{
	char *bytes = malloc(len);
	ASSERT(bytes);
	memset(bytes, 'x', len);
	return bytes;
}

TEST(a_line_of_the_greatest_length)
{
	char *bytes = filled(MOST);
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	ASSERT_INT(add_bytes(bytes, MOST - 1), 0);
	ASSERT_INT(add_bytes("x\nnext\n", 7), 0);
	expect_bytes(bytes, MOST, MOST + 1);
	expect("next", MOST + 6);
	ASSERT_INT(add_bytes(bytes, MOST), 0);
	expect_none();
	box_relay_output_end(&output);
	expect_bytes(bytes, MOST, 2 * MOST + 6);
	finish();
	free(bytes);
}

TEST(one_byte_more)
{
	char *bytes = filled(MOST);
	begin(BOX_RELAY_OUTPUT_LINES, 1000);
	add("before\n");
	ASSERT_INT(add_bytes(bytes, MOST), 0);
	/* A line that does not fit is not taken at all: it will be offered again. */
	ASSERT_INT(add_bytes("x\nafter\nha", 10), -EMSGSIZE);
	ASSERT(output.skip);
	ASSERT_INT(output.rest.len, 0);
	ASSERT_INT(output.rest_end, 1007 + MOST);
	expect("before", 1007);
	expect_none();
	box_relay_output_free(&output);
	/* To the next reader, which continues there. */
	begin(BOX_RELAY_OUTPUT_LINES, 1007 + MOST);
	output.skip = true;
	ASSERT_INT(add_bytes("x\nafter\nha", 10), 0);
	ASSERT(!output.skip);
	expect("after", 1007 + MOST + 8);
	ASSERT_INT(output.rest.len, 2);
	box_relay_output_free(&output);
	/* After whole lines in the same block. */
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	char *more = filled(MOST + 9);
	put_bytes(more, "one\ntwo\n", 8);
	ASSERT_INT(add_bytes(more, MOST + 9), -EMSGSIZE);
	ASSERT_INT(output.rest_end, 8);
	expect("one", 4);
	expect("two", 8);
	finish();
	free(more);
	free(bytes);
}

TEST(skipping)
{
	char *bytes = filled(MOST);
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	output.skip = true;
	/* Its length is not limited. */
	for (int i = 0; i < 3; i++) {
		ASSERT_INT(add_bytes(bytes, MOST), 0);
		ASSERT_INT(output.rest.len, 0);
	}
	ASSERT(output.skip);
	expect_none();
	box_relay_output_end(&output);
	expect_none();
	add("end\n\nx\n");
	ASSERT(!output.skip);
	expect("x", at);
	finish();
	free(bytes);
}

/* Each invalid UTF-8 byte becomes three: the size of the message counts, not that of the line. */
TEST(a_line_that_is_too_long_as_text)
{
	const size_t third = MOST / 3;
	char *bytes = filled(MOST);
	memset(bytes, '\xff', third + 1);
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	ASSERT_INT(add_bytes(bytes, third), 0);
	ASSERT_INT(add_bytes("x\nnext\n", 7), 0);
	const struct box_relay_output_chunk *chunk = box_relay_output_first(&output);
	ASSERT_INT(chunk->len, MOST);
	ASSERT_BYTES(chunk->bytes, 6, "\xef\xbf\xbd\xef\xbf\xbd", 6);
	box_relay_output_drop_first(&output);
	expect("next", third + 7);
	/* One byte more, with its newline and before it. */
	ASSERT_INT(add_bytes(bytes, third), 0);
	ASSERT_INT(add_bytes("\xff\nafter\n", 8), -EMSGSIZE);
	ASSERT(output.skip);
	/* The next reader skips the rest of the line. */
	ASSERT_INT(output.rest_end, third + 7 + third + 1);
	expect_none();
	box_relay_output_free(&output);
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	ASSERT_INT(add_bytes(bytes, third - 9), 0);
	ASSERT_INT(add_bytes(bytes, 9), 0);
	/* The last byte could still start a character. */
	ASSERT_INT(add_bytes(bytes, 1), 0);
	ASSERT_INT(add_bytes(bytes, 1), -EMSGSIZE);
	expect_none();
	box_relay_output_free(&output);
	free(bytes);
}

/* A truncated character counts with its replacement. */
TEST(a_character_at_the_end_of_the_longest_line)
{
	static const struct {
		const char *last; /* of the line, one byte before the others */
		size_t room;      /* left in the message */
		bool fits;
	} rows[] = {{"\xc3\xa9\n", 2, true}, {"\xc3\xa9\n", 1, false},
		{"\xf0\x9f\x98\x80\n", 4, true}, {"\xf0\x9f\x98\n", 3, true},
		{"\xf0\x9f\x98\n", 2, false}, {"\xe2x\n", 4, true}, {"\xe2x\n", 3, false}};
	char *bytes = filled(MOST);
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		begin(BOX_RELAY_OUTPUT_LINES, 0);
		ASSERT_INT(add_bytes(bytes, MOST - rows[i].room), 0);
		ASSERT_INT(add_bytes(rows[i].last, 1), 0);
		ASSERT_INT(add_bytes(rows[i].last + 1, strlen(rows[i].last) - 1),
			rows[i].fits ? 0 : -EMSGSIZE);
		if (rows[i].fits) {
			ASSERT_INT(box_relay_output_first(&output)->len, MOST);
		}
		box_relay_output_free(&output);
	}
	/* End of output in the middle of a character that does not fit. */
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	ASSERT_INT(add_bytes(bytes, MOST - 1), 0);
	ASSERT_INT(add_bytes("\xe2", 1), 0);
	box_relay_output_end(&output);
	expect_bytes(bytes, MOST - 1, MOST);
	finish();
	free(bytes);
}

/* --- text --- */

/* Part of a message that the client may have refused: nothing before it was as long. */
TEST(the_longest)
{
	begin(BOX_RELAY_OUTPUT_LINES, 100);
	ASSERT_INT(box_relay_output_longest_end(&output), 0);
	add("ab\nabcd\n");
	ASSERT_INT(box_relay_output_longest_end(&output), 0);
	expect("ab", 103);
	ASSERT_INT(box_relay_output_longest_end(&output), 103);
	/* As soon as a part of it was sent. */
	box_relay_output_first(&output)->sent = 1;
	ASSERT_INT(box_relay_output_longest_end(&output), 108);
	box_relay_output_first(&output)->sent = 0;
	ASSERT_INT(box_relay_output_longest_end(&output), 103);
	expect("abcd", 108);
	add("efgh\n");
	box_relay_output_first(&output)->sent = 1;
	ASSERT_INT(box_relay_output_longest_end(&output), 108);
	box_relay_output_first(&output)->sent = 0;
	expect("efgh", 113);
	ASSERT_INT(box_relay_output_longest_end(&output), 108);
	finish();
}

TEST(text_as_it_comes)
{
	begin(BOX_RELAY_OUTPUT_TEXT, 5);
	add("a\nb");
	expect("a\nb", 8);
	/* Waiting output is merged, but not into a message that was started. */
	add("\n");
	add("c");
	ASSERT(box_relay_output_first(&output) != NULL);
	add("d");
	add("e");
	expect("\nc", 10);
	expect("de", 12);
	add("");
	finish();
}

/* Every split of a text: each message has whole characters, together they are the text. */
TEST(text_never_inside_a_character)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf0\x9f\x98\x80";
	size_t len = strlen(text);
	for (size_t cut = 0; cut <= len; cut++) {
		char got[64] = "";
		size_t have = 0;
		begin(BOX_RELAY_OUTPUT_TEXT, 0);
		for (size_t i = 0; i < len; i += cut + 1) {
			size_t chunk = len - i < cut + 1 ? len - i : cut + 1;
			ASSERT_INT(add_bytes(text + i, chunk), 0);
			for (struct box_relay_output_chunk *one;
				(one = box_relay_output_first(&output));
				box_relay_output_drop_first(&output)) {
				ASSERT(one->len > 0);
				memcpy(got + have, one->bytes, one->len);
				have += one->len;
				ASSERT_INT(one->end, have);
				/* The next byte begins a character. */
				ASSERT(((unsigned char)text[have] & 0xc0) != 0x80);
			}
			ASSERT_INT(have + output.rest.len, i + chunk);
			ASSERT(output.rest.len <= 3);
		}
		ASSERT_BYTES(got, have, text, len);
		finish();
	}
}

TEST(text_that_is_none)
{
	begin(BOX_RELAY_OUTPUT_TEXT, 0);
	add("\x80\x80\x80");
	expect("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3);
	add("\xe2");
	expect_none();
	add("x");
	expect("\xef\xbf\xbdx", 5);
	/* An incomplete character at the end is replaced, too. */
	add("\xf0\x9f");
	expect_none();
	box_relay_output_end(&output);
	expect("\xef\xbf\xbd", 7);
	add("\xc3\xc3");
	expect("\xef\xbf\xbd", 8);
	add("\xa9");
	expect("\xc3\xa9", 10);
	finish();
}

/* --- bytes --- */

TEST(bytes_with_offsets)
{
	begin(BOX_RELAY_OUTPUT_BYTES, 0x0102030405060708);
	add("a\n");
	add("\xff");
	expect_bytes("\x01\x01\x02\x03\x04\x05\x06\x07\x08"
		     "a\n\xff",
		12, 0x010203040506070b);
	add("b");
	at += 5; /* the next block does not follow */
	add("c");
	expect_bytes("\x01\x01\x02\x03\x04\x05\x06\x07\x0b"
		     "b",
		10, 0x010203040506070c);
	expect_bytes("\x01\x01\x02\x03\x04\x05\x06\x07\x11"
		     "c",
		10, 0x0102030405060712);
	box_relay_output_end(&output);
	finish();
}

/* Much output in small blocks: as many messages, few runs. */
TEST(small_ones_together)
{
	static const enum box_relay_output_kind kinds[] = {
		BOX_RELAY_OUTPUT_LINES, BOX_RELAY_OUTPUT_TEXT, BOX_RELAY_OUTPUT_BYTES};
	for (size_t i = 0; i < COUNT(kinds); i++) {
		int runs = 0;
		uint64_t end = 0;
		begin(kinds[i], 0);
		for (int n = 0; n < 200003; n++) {
			add(n % 3 ? "y\n" : "\n");
		}
		for (const struct box_list *one = output.ready.next; one != &output.ready;
			one = one->next) {
			runs++;
		}
		ASSERT(runs > 1 && runs < 5);
		int count = 0;
		for (const struct box_relay_output_chunk *one;
			(one = box_relay_output_first(&output));
			box_relay_output_drop_first(&output)) {
			ASSERT(one->end > end && one->len <= BOX_WS_FRAME_BYTES);
			end = one->end;
			count++;
		}
		ASSERT_INT(count, kinds[i] == BOX_RELAY_OUTPUT_LINES ? 133335 : runs);
		ASSERT_INT(end, at);
		finish();
	}
	/* Empty lines alone give no message. */
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	for (int n = 0; n < 1000; n++) {
		add("\n\n");
		expect_none();
	}
	finish();
}

TEST(what_is_ready_is_counted_and_freed)
{
	begin(BOX_RELAY_OUTPUT_LINES, 0);
	add("a\n\nbb\nccc");
	ASSERT_INT(output.ready_bytes, 6);
	expect("a", 2);
	ASSERT(output.ready_bytes > 0);
	expect("bb", 6);
	ASSERT_INT(output.ready_bytes, 0);
	add("\n\xff\nx\nrest");
	expect("ccc", 10);
	ASSERT(box_relay_output_first(&output) != NULL);
	/* With messages, a replaced character and a rest. */
	box_relay_output_free(&output);
}
