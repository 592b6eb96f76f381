/* Untrusted text on a terminal: no control sequence passes, and nothing is wider than its column.
 */
#include "cli/safe_text.h"
#include "tests/unit/lib/test.h"

static struct box_buf out;

static const char *line(const char *text, size_t columns, size_t *ret_used)
{
	static char shown[4096];
	out.len = 0;
	out.limit = sizeof(shown) - 1;
	*ret_used = box_safe_text_line(&out, box_str(text), columns);
	memcpy(shown, out.len ? out.bytes : "", out.len);
	shown[out.len] = '\0';
	return shown;
}

TEST(lines)
{
	static const struct {
		const char *text;
		size_t columns;
		const char *shown;
		size_t used;
	} rows[] = {
		{"plain", BOX_SAFE_TEXT_WHOLE, "plain", 5},
		{"", 10, "", 0},
		{"  a \t\n b  ", BOX_SAFE_TEXT_WHOLE, "a b", 3},
		{" \n ", BOX_SAFE_TEXT_WHOLE, "", 0},
		{"\033[31mred\007\177", BOX_SAFE_TEXT_WHOLE, "?[31mred??", 10},
		{"c1 \xc2\x9b"
		 "2J",
			BOX_SAFE_TEXT_WHOLE, "c1 ?2J", 6},
		{"\xe2\x80\xae"
		 "txt\xe2\x80\xa8",
			BOX_SAFE_TEXT_WHOLE, "?txt?", 5},
		{"bad \xff\xc3 end", BOX_SAFE_TEXT_WHOLE, "bad ?? end", 10},
		{"cut\xe6", BOX_SAFE_TEXT_WHOLE, "cut?", 4},
		/* Cuts. */
		{"exactly 10", 10, "exactly 10", 10},
		{"eleven long", 10, "eleven ...", 10},
		{"eleven long", 3, "...", 3},
		{"eleven long", 2, "..", 2},
		{"eleven long", 0, "", 0},
		/* Two columns each; one that would be cut in half is dropped. */
		{"\xe6\x8a\x80\xe8\x83\xbd", 4, "\xe6\x8a\x80\xe8\x83\xbd", 4},
		{"\xe6\x8a\x80\xe8\x83\xbd\xe6\x8a\x80\xe8\x83\xbd", 6, "\xe6\x8a\x80...", 5},
		/* e and an accent on it. */
		{"e\xcc\x81", 1, "e\xcc\x81", 1},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t used;
		ASSERT_STR(line(rows[i].text, rows[i].columns, &used), rows[i].shown);
		ASSERT_INT(used, rows[i].used);
	}
	box_buf_free(&out);
}

#define TENANT "ws-0123456789abcdef01234567"

TEST(names_of_sessions_are_as_they_were_given)
{
	static const struct {
		const char *text;
		const char *shown;
	} rows[] = {
		{"session " TENANT "-g1-work not found", "session work not found"},
		{TENANT "-g12-a", "a"},
		{"'" TENANT "-g1-a' and " TENANT "-g1-b", "'a' and b"},
		{"session " TENANT "-g1-", "session "},
		/* The name itself may contain such text. */
		{"session " TENANT "-g1-" TENANT "-g1-x", "session " TENANT "-g1-x"},
		/* Others. */
		{"/skills/" TENANT "/x", "/skills/" TENANT "/x"},
		{"/a/" TENANT "-g1-x", "/a/" TENANT "-g1-x"},
		{"ws-0123-g1-work", "ws-0123-g1-work"},
		{TENANT "0-g1-work", TENANT "0-g1-work"},
		{TENANT "-g-work", TENANT "-g-work"},
		{TENANT "-g1", TENANT "-g1"},
		{"ws-", "ws-"},
		{"", ""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[200];
		(void)snprintf(text, sizeof(text), "%s", rows[i].text);
		box_safe_text_own_names(text);
		ASSERT_STR(text, rows[i].shown);
	}
}

TEST(every_width_holds)
{
	static const char text[] = "a\xe6\x8a\x80 b\xcc\x81 \xf0\x9f\x98\x80 \033x  yz";
	size_t whole;
	(void)line(text, BOX_SAFE_TEXT_WHOLE, &whole);
	for (size_t columns = 0; columns <= whole; columns++) {
		size_t used;
		(void)line(text, columns, &used);
		ASSERT(used <= columns);
	}
	box_buf_free(&out);
}

TEST(many_lines)
{
	static const char text[] =
		"one\ttwo\r\nthree\rfour\n\033[2J\xc2\x85\xe2\x80\xae|\xe6\x8a\x80\n";
	static const char wanted[] = "one\ttwo\nthree?four\n?[2J??|\xe6\x8a\x80\n";
	out = box_buf(4096);
	box_safe_text_lines(&out, box_str(text));
	ASSERT_BYTES(out.bytes, out.len, wanted, sizeof(wanted) - 1);
	box_buf_free(&out);
}
