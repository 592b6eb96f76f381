/* Cuts SKILL.md into front matter and instructions and puts it together again. */
#include "skills/text/front_matter.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "skills/text/pytext.h"

#define FENCE "---"
#define WORK_BYTES 64 /* take about as long to read as a value */

static bool is_fence(struct box_str line)
{
	return box_str_eq(box_pytext_strip(line), FENCE);
}

/* The YAML between the fences and what comes after; false when there is no front matter. */
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

int box_front_matter_text(struct box_arena *arena, const struct box_yaml *value, const char *field,
	struct box_str fallback, struct box_str *ret_text, struct box_err *err)
{
	if (!value || !value->is_true) {
		*ret_text = box_pytext_strip(fallback);
		return 0;
	}
	if (value->type == BOX_YAML_TEXT) {
		*ret_text = box_pytext_strip(value->text);
		return 0;
	}
	struct box_buf out = box_buf(BOX_SKILL_META_TEXT_MAX);
	int r = box_yaml_str(&out, value);
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

static bool is_written(const struct box_yaml *value)
{
	return value && value->type != BOX_YAML_NULL &&
		(value->type != BOX_YAML_TEXT || box_pytext_strip(value->text).len > 0);
}

int box_front_matter_write(struct box_buf *out, const struct box_front_matter_fields *fields,
	struct box_str instructions)
{
	const struct {
		const char *key;
		const struct box_yaml *value;
	} rows[] = {
		{"name", fields->name},
		{"display_name", fields->display_name},
		{"description", fields->description},
	};
	struct box_buf yaml = box_buf(out->limit);
	int r = 0;
	for (size_t i = 0; i < 3 && r == 0; i++) {
		if (is_written(rows[i].value)) {
			r = box_yaml_dump_pair(&yaml, rows[i].key, rows[i].value);
		}
	}
	if (r == 0 && yaml.len > 0) {
		/* The reference strips what it has dumped. */
		struct box_str whole = box_pytext_strip((struct box_str){yaml.bytes, yaml.len});
		r = box_buf_append_str(out, FENCE "\n");
		r = r < 0 ? r : box_buf_append(out, whole.bytes, whole.len);
		r = r < 0 ? r : box_buf_append_str(out, "\n" FENCE "\n\n");
	}
	r = r < 0 ? r : box_buf_append(out, instructions.bytes, instructions.len);
	box_buf_free(&yaml);
	return r;
}
