/* A command's output as text: repair, strip and the clip line. The tables were computed with
 * Python's bytes.decode("utf-8", "replace") and str.strip(), which the reference uses. */
#include "base/arena.h"
#include "base/utf8.h"
#include "runtime/session/output.h"
#include "tests/unit/lib/test.h"

#define BYTES(literal)                         \
	{                                      \
		(literal), sizeof(literal) - 1 \
	}
#define FFFD "\xef\xbf\xbd"
#define MORE 100000 /* a limit that is never reached here */

/* clang-format off */
static const struct {
	struct box_str raw;
	struct box_str text;
} repairs[] = {
	{BYTES("plain"), BYTES("plain")},
	{BYTES("\x80"), BYTES(FFFD)},
	{BYTES("\xbf"), BYTES(FFFD)},
	{BYTES("\xc0"), BYTES(FFFD)},
	{BYTES("\xc1\x81"), BYTES(FFFD FFFD)},
	{BYTES("\xc2"), BYTES(FFFD)},
	{BYTES("\xc2" "A"), BYTES(FFFD "A")},
	{BYTES("\xc2\x80"), BYTES("\xc2\x80")},
	{BYTES("\xdf\xbf"), BYTES("\xdf\xbf")},
	{BYTES("\xe0"), BYTES(FFFD)},
	{BYTES("\xe0\x80"), BYTES(FFFD FFFD)},
	{BYTES("\xe0\x9f\xbf"), BYTES(FFFD FFFD FFFD)},
	{BYTES("\xe0\xa0"), BYTES(FFFD)},
	{BYTES("\xe0\xa0\x80"), BYTES("\xe0\xa0\x80")},
	{BYTES("\xe1\x80"), BYTES(FFFD)},
	{BYTES("\xe1\x80" "A"), BYTES(FFFD "A")},
	{BYTES("\xe1" "A\x80"), BYTES(FFFD "A" FFFD)},
	{BYTES("\xed\x9f\xbf"), BYTES("\xed\x9f\xbf")},
	{BYTES("\xed\xa0\x80"), BYTES(FFFD FFFD FFFD)},
	{BYTES("\xed\xbf\xbf"), BYTES(FFFD FFFD FFFD)},
	{BYTES("\xee\x80\x80"), BYTES("\xee\x80\x80")},
	{BYTES("\xef\xbf\xbf"), BYTES("\xef\xbf\xbf")},
	{BYTES("\xf0"), BYTES(FFFD)},
	{BYTES("\xf0\x80\x80\x80"), BYTES(FFFD FFFD FFFD FFFD)},
	{BYTES("\xf0\x8f\xbf\xbf"), BYTES(FFFD FFFD FFFD FFFD)},
	{BYTES("\xf0\x90"), BYTES(FFFD)},
	{BYTES("\xf0\x90\x80"), BYTES(FFFD)},
	{BYTES("\xf0\x90\x80\x80"), BYTES("\xf0\x90\x80\x80")},
	{BYTES("\xf0\x9f\x98\x80"), BYTES("\xf0\x9f\x98\x80")},
	{BYTES("\xf0\x9f\x98" "A"), BYTES(FFFD "A")},
	{BYTES("\xf0\x9f\x98\xf0\x9f\x98\x80"), BYTES(FFFD "\xf0\x9f\x98\x80")},
	{BYTES("\xf1\x80\x80"), BYTES(FFFD)},
	{BYTES("\xf4\x8f\xbf\xbf"), BYTES("\xf4\x8f\xbf\xbf")},
	{BYTES("\xf4\x90\x80\x80"), BYTES(FFFD FFFD FFFD FFFD)},
	{BYTES("\xf5\x80\x80\x80"), BYTES(FFFD FFFD FFFD FFFD)},
	{BYTES("\xf8\x88\x80\x80\x80"), BYTES(FFFD FFFD FFFD FFFD FFFD)},
	{BYTES("\xfe\xff"), BYTES(FFFD FFFD)},
	{BYTES("\xff"), BYTES(FFFD)},
	{BYTES("a\xff" "b"), BYTES("a" FFFD "b")},
	{BYTES("\xff\xff\xff"), BYTES(FFFD FFFD FFFD)},
	{BYTES("\xe4\xbd\xa0\xe5\xa5"), BYTES("\xe4\xbd\xa0" FFFD)},
	{BYTES("\xc3(\xa0\xa1"), BYTES(FFFD "(" FFFD FFFD)},
	{BYTES("\xe2(\xa1"), BYTES(FFFD "(" FFFD)},
	{BYTES("\xe2\x82("), BYTES(FFFD "(")},
	{BYTES("\xf0(\x8c\xbc"), BYTES(FFFD "(" FFFD FFFD)},
	{BYTES("\xf0\x90(\xbc"), BYTES(FFFD "(" FFFD)},
	{BYTES("\xf0(\x8c("), BYTES(FFFD "(" FFFD "(")},
	{BYTES("x\xe2\x82"), BYTES("x" FFFD)},
	{BYTES("\x00\x01\x80\x02"), BYTES("\x00\x01" FFFD "\x02")},
	{BYTES("\xed\xa0\xbd\xed\xb8\x80"), BYTES(FFFD FFFD FFFD FFFD FFFD FFFD)},
};

static const char *const spaces[] = {
	"\x09", "\x0a", "\x0b", "\x0c", "\x0d", "\x1c", "\x1d", "\x1e", "\x1f", " ", "\xc2\x85",
	"\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
	"\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87",
	"\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
	"\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
};
/* clang-format on */

/* From memory of exactly its size, so that a read past it is detected. */
static struct box_str text_of(
	struct box_arena *arena, struct box_str raw, uint64_t discarded, size_t limit)
{
	char *exact = malloc(raw.len ? raw.len : 1);
	memcpy(exact, raw.bytes, raw.len);
	box_arena_adopt(arena, exact);
	return box_output_text(arena, (struct box_str){exact, raw.len}, discarded, limit);
}

static void expect(struct box_str raw, uint64_t discarded, size_t limit, const char *expected)
{
	struct box_arena *arena = box_arena_new();
	struct box_str text = text_of(arena, raw, discarded, limit);
	ASSERT_BYTES(text.bytes, text.len, expected, strlen(expected));
	box_arena_free(arena);
}

/* Each between two letters, so that nothing is stripped, and each alone at the end. */
TEST(repair)
{
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < COUNT(repairs); i++) {
		struct box_str raw = repairs[i].raw;
		struct box_str good = repairs[i].text;
		char *bytes = box_arena_bytes(arena, raw.len + 2);
		char *wanted = box_arena_bytes(arena, good.len + 2);
		bytes[0] = wanted[0] = '<';
		memcpy(bytes + 1, raw.bytes, raw.len);
		memcpy(wanted + 1, good.bytes, good.len);
		bytes[raw.len + 1] = wanted[good.len + 1] = '>';
		struct box_str text = text_of(arena, (struct box_str){bytes, raw.len + 2}, 0, MORE);
		ASSERT_BYTES(text.bytes, text.len, wanted, good.len + 2);
		text = text_of(arena, (struct box_str){bytes, raw.len + 1}, 0, MORE);
		ASSERT_BYTES(text.bytes, text.len, wanted, good.len + 1);
		ASSERT(box_utf8_valid(text.bytes, text.len));
	}
	box_arena_free(arena);
}

/* Any two bytes: what comes out is always UTF-8. */
TEST(repair_gives_utf8)
{
	for (unsigned pair = 0; pair < 65536; pair++) {
		struct box_arena *arena = box_arena_new();
		char bytes[] = {'<', (char)(pair >> 8), (char)pair, (char)0xbf, '>'};
		struct box_str text = box_output_text(arena, (struct box_str){bytes, 5}, 0, MORE);
		ASSERT(box_utf8_valid(text.bytes, text.len));
		ASSERT(text.len >= 3 && text.bytes[0] == '<' && text.bytes[text.len - 1] == '>');
		box_arena_free(arena);
	}
}

TEST(strip)
{
	for (size_t i = 0; i < COUNT(spaces); i++) {
		char text[64];
		const char *s = spaces[i];
		(void)snprintf(text, sizeof(text), "%s%sa%sb%s%s", s, s, s, s, s);
		char expected[64];
		(void)snprintf(expected, sizeof(expected), "a%sb", s);
		expect(box_str(text), 0, MORE, expected);
		(void)snprintf(text, sizeof(text), "%s%s", s, s);
		expect(box_str(text), 0, MORE, "");
	}
	static const char *const kept[] = {"\xe2\x80\x8b", "\xe1\xa0\x8e", "\xef\xbb\xbf",
		"\xe2\x81\xa0", "\x7f", "\x1b", "\xc2\x84", "\xc2\x86", "\xe3\x80\x81", "\xc3\xa0"};
	for (size_t i = 0; i < COUNT(kept); i++) {
		expect(box_str(kept[i]), 0, MORE, kept[i]);
	}
	expect(box_str(""), 0, MORE, "");
	expect(box_str(" \n a \n\n"), 0, MORE, "a");
	expect(box_str("\xff \n"), 0, MORE, FFFD);
	struct box_arena *arena = box_arena_new();
	struct box_str nul = text_of(arena, (struct box_str){" \0 ", 3}, 0, MORE);
	ASSERT_BYTES(nul.bytes, nul.len, "\0", 1);
	box_arena_free(arena);
}

#define CLIPPED(kept, lost) "\n... [raw output clipped at " kept " bytes, " lost " bytes discarded]"

TEST(clip)
{
	expect(box_str("12345"), 0, 5, "12345");
	expect(box_str("123456"), 0, 5, "12345" CLIPPED("5", "1"));
	expect(box_str("12345"), 7, 5, "12345" CLIPPED("5", "7"));
	expect(box_str("123456"), 7, 5, "12345" CLIPPED("5", "8"));
	expect(box_str("123"), 51424, 1048576, "123" CLIPPED("3", "51424"));
	/* The clip line counts stripped bytes as shown, and follows the text directly. */
	expect(box_str("ab  \n  "), 1, MORE, "ab" CLIPPED("7", "1"));
	expect(box_str("  \n  ab"), 0, 5, CLIPPED("5", "2"));
	/* Cut inside a character. */
	expect(box_str("ab\xe4\xbd\xa0"), 0, 4, "ab" FFFD CLIPPED("4", "1"));
	expect(box_str("ab\xe4\xbd\xa0"), 0, 2, "ab" CLIPPED("2", "3"));
	expect(box_str("x"), UINT64_MAX - 1, 1, "x" CLIPPED("1", "18446744073709551614"));
}

TEST(limit_zero)
{
	expect(box_str(""), 0, 0, "");
	expect(box_str("abc"), 0, 0, CLIPPED("0", "3"));
	expect(box_str("abc"), 4, 0, CLIPPED("0", "7"));
}

/* A command that printed nothing has no bytes at all. */
TEST(no_bytes)
{
	struct box_arena *arena = box_arena_new();
	struct box_str none = {NULL, 0};
	ASSERT_INT(box_output_text(arena, none, 0, MORE).len, 0);
	ASSERT_INT(box_output_text(arena, none, 0, 0).len, 0);
	struct box_str text = box_output_text(arena, none, 9, MORE);
	ASSERT_BYTES(text.bytes, text.len, CLIPPED("0", "9"), strlen(CLIPPED("0", "9")));
	box_arena_free(arena);
}
