/* Untrusted SKILL.md files: reading ends, fields have text or are refused, and what is written
 * again reads as the same fields. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "skills/store/names.h"
#include "skills/text/conform.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"
#include "tests/fuzz/common.h"

static const char *const fields[] = {"name", "display_name", "description"};

/* Writes the texts and reads the same back, stripped as clients see them. */
static void check_again(struct box_arena *arena, const struct box_str *texts, struct box_err *err)
{
	struct box_front_matter again;
	struct box_buf out = box_buf(16 * BOX_MIB);
	const struct box_front_matter_fields written = {texts[0], texts[1], texts[2]};
	MUST(box_front_matter_write(&out, &written, box_str("body")) == 0);
	if (out.len < BOX_SKILL_META_BYTES_MAX) {
		char *copy = box_arena_strndup(arena, out.bytes, out.len);
		MUST(box_utf8_valid(copy, out.len));
		MUST(box_front_matter_read(arena, (struct box_str){copy, out.len}, &again, err) ==
			0);
		for (size_t i = 0; i < 3; i++) {
			struct box_str text;
			MUST(box_front_matter_text(arena, box_yaml_get(&again.meta, fields[i]),
				     fields[i], box_str(""), &text, err) == 0);
			MUST(box_str_same(text, box_pytext_strip(texts[i])));
		}
		MUST(box_str_eq(again.instructions, "body"));
	}
	box_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct box_err err;
	struct box_front_matter front;
	if (size > BOX_SKILL_TEXT_BYTES_MAX || !box_utf8_valid((const char *)data, size)) {
		return 0;
	}
	struct box_arena *arena = box_arena_new();
	struct box_str text = {box_arena_strndup(arena, (const char *)data, size), size};
	if (box_front_matter_read(arena, text, &front, &err) == 0) {
		struct box_str texts[3] = {box_str(""), box_str(""), box_str("")};
		struct box_str name;
		MUST(front.instructions.bytes >= text.bytes &&
			front.instructions.bytes + front.instructions.len == text.bytes + text.len);
		(void)box_conform_check(arena, &front, "folder");
		for (size_t i = 0; i < 3; i++) {
			(void)box_front_matter_text(arena, box_yaml_get(&front.meta, fields[i]),
				fields[i], box_str("x"), &texts[i], &err);
			MUST(box_utf8_valid(texts[i].bytes, texts[i].len));
		}
		if (box_names_check(texts[0], &name, &err) == 0) {
			MUST(box_names_is_folder(name));
		}
		check_again(arena, texts, &err);
	} else {
		MUST(err.text[0] != '\0');
	}
	/* Any text can be a description. */
	struct box_str whole[3] = {box_str("name"), box_str(""), text};
	check_again(arena, whole, &err);
	box_arena_free(arena);
	return 0;
}
