/* Splits SKILL.md into front matter and instructions, and writes a new one. Every YAML reader must read the
 * fields that we write as the same text: they are written plain or in double quotes, on one line each. */
#include "skills/text/front_matter.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "skills/text/pytext.h"

#define FENCE "---"
#define WORK_BYTES 64 /* reading this many takes about as long as reading a value */

static bool is_fence(struct box_str line)
{
	return box_str_eq(box_pytext_strip(line), FENCE);
}

/* The YAML between the `---` lines and what comes after; false if there is no front matter. */
static bool split(struct box_str text, struct box_str *ret_yaml, struct box_str *ret_rest)
{
	if (text.len < 3 || memcmp(text.bytes, FENCE, 3) != 0) {
		return false;
	}
	struct box_str rest = text;
	if (!is_fence(box_pytext_line(&rest))) {
		return false;
	}
	const char *start = rest.bytes;
	while (rest.len > 0) {
		struct box_str line = box_pytext_line(&rest);
		if (is_fence(line)) {
			*ret_yaml = (struct box_str){start, (size_t)(line.bytes - start)};
			while (rest.len > 0 && rest.bytes[0] == '\n') {
				rest.bytes++;
				rest.len--;
			}
			*ret_rest = rest;
			return true;
		}
	}
	return false;
}

int box_front_matter_read(struct box_arena *arena, struct box_str text,
	struct box_front_matter *ret_front, struct box_err *err)
{
	struct box_front_matter front = {.meta = {.type = BOX_YAML_MAP}, .instructions = text};
	struct box_str yaml;
	if (split(text, &yaml, &front.instructions)) {
		struct box_yaml root;
		size_t values = 0;
		int r = box_yaml_read(arena, yaml, 2, &root, &values, err);
		front.work = values + yaml.len / WORK_BYTES;
		if (r < 0) {
			*ret_front = front;
			return r;
		}
		front.is_there = true;
		front.is_no_map = root.type != BOX_YAML_MAP && root.type != BOX_YAML_NULL;
		if (root.type == BOX_YAML_MAP) {
			front.meta = root;
		}
	}
	*ret_front = front;
	return 0;
}

static bool is_empty(const struct box_yaml *value)
{
	return !value || value->type == BOX_YAML_NULL ||
		(value->type == BOX_YAML_TEXT ? value->text.len == 0 : value->count == 0);
}

int box_front_matter_text(struct box_arena *arena, const struct box_yaml *value, const char *field,
	struct box_str fallback, struct box_str *ret_text, struct box_err *err)
{
	if (is_empty(value)) {
		*ret_text = box_pytext_strip(fallback);
		return 0;
	}
	if (value->type == BOX_YAML_TEXT) {
		*ret_text = box_pytext_strip(value->text);
		return 0;
	}
	struct box_buf out = box_buf(BOX_SKILL_META_TEXT_MAX);
	int r = box_yaml_append_text(&out, value);
	if (r == 0) {
		struct box_str whole = {box_arena_strndup(arena, out.bytes, out.len), out.len};
		*ret_text = box_pytext_strip(whole);
	} else {
		r = box_err_set(err, BOX_ERR_VALIDATION, EMSGSIZE,
			"Skill front matter, field \"%s\": is longer than %lu bytes as text", field,
			BOX_SKILL_META_TEXT_MAX);
	}
	box_buf_free(&out);
	return r;
}

/* -- writing ---------------------------------------------------------------------------------- */

/* Characters that need no escape in a quoted scalar, and are no line end to any reader. */
static bool is_printable(uint32_t c)
{
	return (c >= 0x20 && c < 0x7f) ||
		(c > 0xa0 && c != 0x2028 && c != 0x2029 && c != 0xfeff && c != 0xfffe &&
			c != 0xffff);
}

/* Words that YAML readers take for null or a boolean. */
static bool is_special_word(struct box_str text)
{
	static const char *const words[] = {
		"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
	for (size_t i = 0; i < BOX_COUNT_OF(words); i++) {
		if (text.len == strlen(words[i]) &&
			strncasecmp(text.bytes, words[i], text.len) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether every reader takes these bytes, without quotes, for this text. Text that begins with a digit or a
 * sign is never considered plain: it might be a number or a date. */
static bool is_plain(struct box_str text)
{
	struct box_str rest = text;
	uint32_t before = box_pytext_next(&rest);
	if (!box_pytext_is_letter_or_digit(before) || (before >= '0' && before <= '9') ||
		is_special_word(text)) {
		return false;
	}
	while (rest.len > 0) {
		uint32_t c = box_pytext_next(&rest);
		if (!is_printable(c) || (before == ':' && c == ' ') ||
			(before == ' ' && c == '#')) {
			return false;
		}
		before = c;
	}
	return before != ':' && before != ' ';
}

static int write_quoted(struct box_buf *out, struct box_str text)
{
	int r = box_buf_append_str(out, "\"");
	while (text.len > 0 && r == 0) {
		const char *start = text.bytes;
		uint32_t c = box_pytext_next(&text);
		if (c == '"' || c == '\\') {
			r = box_buf_printf(out, "\\%c", (char)c);
		} else if (is_printable(c)) {
			r = box_buf_append(out, start, (size_t)(text.bytes - start));
		} else if (c == '\n' || c == '\t') {
			r = box_buf_append_str(out, c == '\n' ? "\\n" : "\\t");
		} else {
			r = box_buf_printf(out, c > 0xffff ? "\\U%08X" : "\\u%04X", c);
		}
	}
	if (r < 0) {
		return r;
	}
	return box_buf_append_str(out, "\"");
}

/* One line, so that no part of a text can be taken for the `---` that ends the front matter. */
static int write_field(struct box_buf *out, const char *key, struct box_str text)
{
	int r = box_buf_printf(out, "%s: ", key);
	if (r < 0) {
		return r;
	}
	r = is_plain(text) ? box_buf_append(out, text.bytes, text.len) : write_quoted(out, text);
	if (r < 0) {
		return r;
	}
	return box_buf_append_str(out, "\n");
}

int box_front_matter_write(struct box_buf *out, const struct box_front_matter_fields *fields,
	struct box_str instructions)
{
	const struct {
		const char *key;
		struct box_str text;
	} rows[] = {
		{"name", box_pytext_strip(fields->name)},
		{"display_name", box_pytext_strip(fields->display_name)},
		{"description", box_pytext_strip(fields->description)},
	};
	const char *fence = FENCE "\n";
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (rows[i].text.len == 0) {
			continue;
		}
		int r = box_buf_append_str(out, fence);
		if (r < 0) {
			return r;
		}
		r = write_field(out, rows[i].key, rows[i].text);
		if (r < 0) {
			return r;
		}
		fence = "";
	}
	if (!*fence) {
		int r = box_buf_append_str(out, FENCE "\n\n");
		if (r < 0) {
			return r;
		}
	}
	return box_buf_append(out, instructions.bytes, instructions.len);
}
