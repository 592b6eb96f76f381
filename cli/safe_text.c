/* Which characters control a terminal, and how many columns the others take. */
#include "cli/safe_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

#define DOTS 3
#define NAMESPACE_DIGITS 24

struct range {
	uint32_t first, last;
};

/* Control characters, and those that change the direction of a line. */
static const struct range control[] = {
	{0x00, 0x1f},
	{0x7f, 0x9f},
	{0x200e, 0x200f},
	{0x2028, 0x202e},
	{0x2066, 0x2069},
};
/* East Asian characters and emoji, roughly: cutting a line a column early does no harm. */
static const struct range wide[] = {
	{0x1100, 0x115f},
	{0x2e80, 0xa4cf},
	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},
	{0xfe30, 0xfe6f},
	{0xff00, 0xff60},
	{0xffe0, 0xffe6},
	{0x1f300, 0x1faff},
	{0x20000, 0x3fffd},
};
/* Combining marks and variation selectors. */
static const struct range narrow[] = {
	{0x300, 0x36f},
	{0x200b, 0x200d},
	{0xfe00, 0xfe0f},
};

#define IN(table, c) is_in(table, BOX_COUNT_OF(table), c)

static bool is_in(const struct range *table, size_t count, uint32_t c)
{
	for (size_t i = 0; i < count; i++) {
		if (c >= table[i].first && c <= table[i].last) {
			return true;
		}
	}
	return false;
}

/* The first character and its length; 0, a control character, for invalid UTF-8. */
static uint32_t first(struct box_str rest, size_t *ret_len)
{
	const unsigned char *at = (const unsigned char *)rest.bytes;
	size_t len = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	*ret_len = 1;
	if (len == 1) {
		return at[0];
	}
	if (len > rest.len || !box_utf8_valid(rest.bytes, len)) {
		return 0;
	}
	uint32_t c = at[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		c = c << 6 | (at[i] & 0x3f);
	}
	*ret_len = len;
	return c;
}

static size_t width_of(uint32_t c)
{
	return IN(narrow, c) ? 0 : IN(wide, c) ? 2 : 1;
}

static bool is_blank(uint32_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* One more character of a line; `in_blank` when it ends with white space already. */
static size_t append(struct box_buf *out, uint32_t c, struct box_str bytes, bool in_blank)
{
	bool blank = is_blank(c);
	if (blank || IN(control, c)) {
		(void)(blank && in_blank ? 0 : box_buf_append(out, blank ? " " : "?", 1));
		return !(blank && in_blank);
	}
	(void)box_buf_append(out, bytes.bytes, bytes.len);
	return width_of(c);
}

size_t box_safe_text_line(struct box_buf *out, struct box_str text, size_t columns)
{
	size_t start = out->len;
	size_t cut_len = start; /* the longest that leaves room for the dots */
	size_t cut_used = 0;
	size_t used = 0;
	bool in_blank = true; /* none at the start */
	while (text.len > 0) {
		size_t len;
		uint32_t c = first(text, &len);
		used += append(out, c, (struct box_str){text.bytes, len}, in_blank);
		in_blank = is_blank(c);
		text = (struct box_str){text.bytes + len, text.len - len};
		if (used > columns) {
			size_t dots = BOX_MIN(columns, DOTS);
			out->len = cut_len;
			(void)box_buf_append(out, "...", dots);
			return cut_used + dots;
		}
		if (columns >= DOTS && used <= columns - DOTS) {
			cut_len = out->len;
			cut_used = used;
		}
	}
	if (in_blank && out->len > start) {
		out->len--;
		used--;
	}
	return used;
}

void box_safe_text_lines(struct box_buf *out, struct box_str text)
{
	while (text.len > 0) {
		size_t len;
		uint32_t c = first(text, &len);
		bool line_end = c == '\r' && text.len > 1 && text.bytes[1] == '\n';
		bool printable = c == '\n' || c == '\t' || !IN(control, c);
		if (!line_end) {
			(void)box_buf_append(
				out, printable ? text.bytes : "?", printable ? len : 1);
		}
		text = (struct box_str){text.bytes + len, text.len - len};
	}
}

/* The length of "ws-", 24 hex digits, "-g", a number and "-" at the start of a text, or 0. */
static size_t namespace_length(const char *text)
{
	static const char digits[] = "0123456789";
	size_t len = strlen("ws-");
	if (strncmp(text, "ws-", len) != 0 ||
		strspn(text + len, "0123456789abcdef") != NAMESPACE_DIGITS) {
		return 0;
	}
	len += NAMESPACE_DIGITS;
	if (strncmp(text + len, "-g", 2) != 0) {
		return 0;
	}
	len += 2;
	size_t number = strspn(text + len, digits);
	return number > 0 && text[len + number] == '-' ? len + number + 1 : 0;
}

void box_safe_text_own_names(char *text)
{
	char *to = text;
	bool in_word = false;
	while (*text) {
		size_t len = in_word ? 0 : namespace_length(text);
		text += len;
		in_word = len > 0 || (*text != ' ' && *text != '"' && *text != '\'');
		if (*text) {
			*to++ = *text++;
		}
	}
	*to = '\0';
}
