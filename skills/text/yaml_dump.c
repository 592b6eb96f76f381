/* Writes one scalar of a block map the way PyYAML does: plain where that reads back as the same text,
 * else in single quotes, else in double ones, and folded at a space when the line is past 80.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "skills/text/pytext.h"
#include "skills/text/yaml.h"

#define WIDTH 80
#define INDENT 2 /* of the lines that follow the first */

enum style {
	STYLE_PLAIN,
	STYLE_SINGLE,
	STYLE_DOUBLE,
};

struct writer {
	struct box_buf *out;
	size_t column;
	int result; /* of the first append that failed */
};

static bool is_break(uint32_t c)
{
	return c == '\n' || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static bool is_blank(uint32_t c)
{
	return c == '\0' || c == ' ' || c == '\t' || c == '\r' || is_break(c);
}

static bool is_in(uint32_t c, const char *set)
{
	return c < 0x80 && c != '\0' && strchr(set, (int)c);
}

/* Can stand outside of double quotes. */
static bool is_presentable(uint32_t c)
{
	return c == '\n' || (c >= 0x20 && c <= 0x7e) || c == 0x85 || (c >= 0xa0 && c <= 0xd7ff) ||
		(c >= 0xe000 && c <= 0xfffd && c != 0xfeff) || (c >= 0x10000 && c < 0x10ffff);
}

/* Can stand in double quotes as it is. */
static bool is_unescaped(uint32_t c)
{
	return c != '"' && c != '\\' && c != 0x85 && c != 0x2028 && c != 0x2029 && c != 0xfeff &&
		((c >= 0x20 && c <= 0x7e) || (c >= 0xa0 && c <= 0xd7ff) ||
			(c >= 0xe000 && c <= 0xfffd));
}

/* -- which style ------------------------------------------------------------------------------ */

/* Would this character, here, mean something in a plain scalar? */
static bool is_indicator(uint32_t c, bool first, bool after_blank, bool before_blank)
{
	if (first) {
		return is_in(c, "#,[]{}&*!|>'\"%@`") || (is_in(c, "?:-") && before_blank);
	}
	return (c == ':' && before_blank) || (c == '#' && after_blank);
}

static enum style choose_style(struct box_str text)
{
	if (box_yaml_type_of(text) != BOX_YAML_TEXT) {
		return STYLE_SINGLE;
	}
	bool plain = text.len < 3 ||
		(memcmp(text.bytes, "---", 3) != 0 && memcmp(text.bytes, "...", 3) != 0);
	bool first = true;
	bool after_blank = true;
	uint32_t before = 0;
	for (struct box_str rest = text; rest.len > 0; first = false) {
		uint32_t c = box_pytext_next(&rest);
		struct box_str peek = rest;
		bool last = rest.len == 0;
		bool before_blank = last || is_blank(box_pytext_next(&peek));
		bool after_break = !first && is_break(before);
		if (!is_presentable(c) || (is_break(c) && !first && before == ' ') ||
			(c == ' ' && after_break)) {
			return STYLE_DOUBLE;
		}
		if (is_indicator(c, first, after_blank, before_blank) || is_break(c) ||
			(c == ' ' && (first || last))) {
			plain = false;
		}
		after_blank = is_blank(c);
		before = c;
	}
	return plain ? STYLE_PLAIN : STYLE_SINGLE;
}

/* -- writing ---------------------------------------------------------------------------------- */

static void put(struct writer *writer, const char *bytes, size_t len)
{
	if (writer->result == 0) {
		writer->result = box_buf_append(writer->out, bytes, len);
	}
	writer->column += box_pytext_length((struct box_str){bytes, len});
}

static void put_break(struct writer *writer, const char *bytes, size_t len)
{
	put(writer, bytes, len);
	writer->column = 0;
}

static void put_indent(struct writer *writer)
{
	if (writer->column > 0) {
		put_break(writer, "\n", 1);
	}
	put(writer, "  ", INDENT);
}

/* What follows of one kind: spaces, breaks, or neither (a quote stands alone). It is taken off. */
static struct box_str take_run(struct box_str *rest)
{
	struct box_str run = {rest->bytes, 0};
	struct box_str peek = *rest;
	uint32_t kind = box_pytext_next(&peek);
	bool alone = kind == '\'';
	*rest = peek;
	while (rest->len > 0 && !alone) {
		uint32_t c = box_pytext_next(&peek);
		bool same = kind == ' '  ? c == ' '
			: is_break(kind) ? is_break(c)
					 : c != ' ' && c != '\'' && !is_break(c);
		if (!same) {
			break;
		}
		*rest = peek;
	}
	run.len = (size_t)(rest->bytes - run.bytes);
	return run;
}

static void put_breaks(struct writer *writer, struct box_str run)
{
	/* Folding eats one. */
	if (run.bytes[0] == '\n') {
		put_break(writer, "\n", 1);
	}
	while (run.len > 0) {
		const char *start = run.bytes;
		(void)box_pytext_next(&run);
		put_break(writer, start, (size_t)(run.bytes - start));
	}
	put_indent(writer);
}

static void put_runs(struct writer *writer, struct box_str text, bool quoted)
{
	struct box_str rest = text;
	while (rest.len > 0) {
		bool first = rest.bytes == text.bytes;
		struct box_str run = take_run(&rest);
		struct box_str peek = run;
		uint32_t kind = box_pytext_next(&peek);
		if (kind == ' ' && run.len == 1 && writer->column > WIDTH && !first &&
			rest.len > 0) {
			put_indent(writer);
		} else if (is_break(kind)) {
			put_breaks(writer, run);
		} else if (kind == '\'' && quoted) {
			put(writer, "''", 2);
		} else {
			put(writer, run.bytes, run.len);
		}
	}
}

static void put_escape(struct writer *writer, uint32_t c)
{
	static const struct {
		uint32_t c;
		char letter;
	} rows[] = {{'\0', '0'}, {0x07, 'a'}, {0x08, 'b'}, {0x09, 't'}, {0x0a, 'n'}, {0x0b, 'v'},
		{0x0c, 'f'}, {0x0d, 'r'}, {0x1b, 'e'}, {'"', '"'}, {'\\', '\\'}, {0x85, 'N'},
		{0xa0, '_'}, {0x2028, 'L'}, {0x2029, 'P'}};
	char text[16];
	struct box_buf escape = box_buf(sizeof(text));
	int r = 0;
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (rows[i].c == c) {
			put(writer, (char[]){'\\', rows[i].letter}, 2);
			return;
		}
	}
	r = box_buf_printf(&escape, c > 0xffff ? "\\U%08X" : c > 0xff ? "\\u%04X" : "\\x%02X", c);
	if (r == 0) {
		put(writer, escape.bytes, escape.len);
	}
	box_buf_free(&escape);
}

/* A line may end before a space and after an escape; the backslashes keep the fold from adding any
 * space and the space from being eaten. */
static void put_fold(struct writer *writer, bool space_follows)
{
	put(writer, "\\", 1);
	put_indent(writer);
	if (space_follows) {
		put(writer, "\\", 1);
	}
}

static void put_double(struct writer *writer, struct box_str text)
{
	struct box_str rest = text;
	const char *start = text.bytes; /* what is not written yet */
	while (rest.len > 0) {
		const char *here = rest.bytes;
		uint32_t c = box_pytext_next(&rest);
		bool escaped = !is_unescaped(c);
		if (escaped) {
			put(writer, start, (size_t)(here - start));
			put_escape(writer, c);
			start = rest.bytes;
		}
		bool inner = here > text.bytes && rest.len > 0;
		bool may_fold = inner && (c == ' ' || start >= here);
		size_t waiting = start < here
			? box_pytext_length((struct box_str){start, (size_t)(here - start)})
			: 0;
		/* A character that was escaped is behind us and counts no longer as waiting. */
		size_t column = writer->column + waiting - (start > here ? 1 : 0);
		if (may_fold && column > WIDTH) {
			if (start < here) {
				put(writer, start, (size_t)(here - start));
				start = here;
			}
			put_fold(writer, *start == ' ');
		}
	}
	put(writer, start, (size_t)(rest.bytes - start));
}

static int dump_text(struct writer *writer, struct box_str text)
{
	enum style style = choose_style(text);
	put(writer, " ", 1);
	if (style == STYLE_PLAIN) {
		put_runs(writer, text, false);
	} else if (style == STYLE_SINGLE) {
		put(writer, "'", 1);
		put_runs(writer, text, true);
		put(writer, "'", 1);
	} else {
		put(writer, "\"", 1);
		put_double(writer, text);
		put(writer, "\"", 1);
	}
	return writer->result;
}

/* repr() of a float, with the point that YAML 1.1 demands. */
static int dump_real(struct writer *writer, struct box_str text)
{
	const char *exponent = memchr(text.bytes, 'e', text.len);
	if (box_str_eq(text, "nan") || box_str_eq(text, "inf")) {
		put(writer, " .", 2);
	} else if (box_str_eq(text, "-inf")) {
		put(writer, " -.inf", 6);
		return writer->result;
	} else {
		put(writer, " ", 1);
	}
	if (exponent && !memchr(text.bytes, '.', text.len)) {
		size_t before = (size_t)(exponent - text.bytes);
		put(writer, text.bytes, before);
		put(writer, ".0", 2);
		put(writer, exponent, text.len - before);
	} else {
		put(writer, text.bytes, text.len);
	}
	return writer->result;
}

int box_yaml_dump_pair(struct box_buf *out, const char *key, const struct box_yaml *scalar)
{
	struct writer writer = {.out = out};
	put(&writer, key, strlen(key));
	put(&writer, ":", 1);
	switch (scalar->type) {
	case BOX_YAML_TEXT:
		(void)dump_text(&writer, scalar->text);
		break;
	case BOX_YAML_REAL:
		(void)dump_real(&writer, scalar->text);
		break;
	case BOX_YAML_BOOL:
		put(&writer, scalar->is_true ? " true" : " false", scalar->is_true ? 5 : 6);
		break;
	case BOX_YAML_INT:
		put(&writer, " ", 1);
		put(&writer, scalar->text.bytes, scalar->text.len);
		break;
	default:
		put(&writer, " null", 5);
		break;
	}
	put_break(&writer, "\n", 1);
	return writer.result;
}
