/* Checks the rules of the Agent Skills format as its own validator (skills-ref) does. They are stricter than
 * the store's: a package that breaks one works here, but perhaps not elsewhere.
 */
#include "skills/text/conform.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"

struct report {
	struct box_arena *arena;
	struct box_value list;
};

static void warn(struct report *report, struct box_str field, const char *message)
{
	if (report->list.count == BOX_SKILL_WARNINGS_MAX) {
		return;
	}
	if (report->list.count == BOX_SKILL_WARNINGS_MAX - 1) {
		field = box_str("front matter");
		message = "breaks more rules than are listed here";
	}
	struct box_value item = box_map_value();
	(void)box_map_add(report->arena, &item, "field", box_text(field));
	(void)box_map_add(report->arena, &item, "message", box_cstr(message));
	(void)box_list_add(report->arena, &report->list, item);
}

/* Capital letters of the most common scripts; others are accepted. */
static bool is_upper(uint32_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) ||
		(c >= 0x391 && c <= 0x3ab) || (c >= 0x400 && c <= 0x42f);
}

static void check_letters(struct report *report, struct box_str field, struct box_str name)
{
	bool upper = false;
	bool strange = false;
	for (struct box_str rest = name; rest.len > 0;) {
		uint32_t c = box_pytext_next(&rest);
		upper = upper || is_upper(c);
		strange = strange || (c != '-' && !box_pytext_is_letter_or_digit(c));
	}
	if (upper) {
		warn(report, field, "must be lowercase");
	}
	if (name.bytes[0] == '-' || name.bytes[name.len - 1] == '-') {
		warn(report, field, "cannot start or end with a hyphen");
	}
	if (memmem(name.bytes, name.len, "--", 2)) {
		warn(report, field, "cannot contain consecutive hyphens");
	}
	if (strange) {
		warn(report, field, "only letters, digits and hyphens are allowed");
	}
}

/* The text of a required field, or nothing and a warning. The validator accepts every scalar as text. */
static struct box_str required(
	struct report *report, const struct box_front_matter *front, const char *field)
{
	const struct box_yaml *value = box_yaml_get(&front->meta, field);
	struct box_str none = {NULL, 0};
	if (!value) {
		warn(report, box_str(field), "is required");
		return none;
	}
	struct box_str text = value->type == BOX_YAML_TEXT ? box_pytext_strip(value->text) : none;
	if (text.len == 0) {
		warn(report, box_str(field), "must be a non-empty string");
	}
	return text;
}

static void check_name(
	struct report *report, const struct box_front_matter *front, const char *folder)
{
	struct box_str field = box_str("name");
	struct box_str name = required(report, front, "name");
	if (name.len == 0) {
		return;
	}
	if (box_pytext_length(name) > BOX_SKILL_NAME_MAX) {
		warn(report, field, "is longer than 64 characters");
	}
	check_letters(report, field, name);
	if (folder && !box_str_eq(name, folder)) {
		warn(report, field, "must be the name of the package's folder");
	}
}

static void check_known(struct report *report, const struct box_front_matter *front)
{
	static const char *const known[] = {
		"name", "description", "license", "allowed-tools", "metadata", "compatibility"};
	for (size_t i = 0; i < front->meta.count; i++) {
		const struct box_yaml *key = &front->meta.items[2 * i];
		bool is_known = false;
		for (size_t k = 0; k < BOX_COUNT_OF(known); k++) {
			is_known = is_known || box_str_eq(key->text, known[k]);
		}
		if (!is_known) {
			warn(report, key->text, "is not a field of the format");
		}
	}
}

struct box_value box_conform_check(
	struct box_arena *arena, const struct box_front_matter *front, const char *folder)
{
	struct report report = {.arena = arena, .list = box_list_value()};
	if (!front->is_there || front->is_no_map) {
		warn(&report, box_str("front matter"),
			front->is_no_map ? "must be a map" : "is required");
		return report.list;
	}
	check_known(&report, front);
	check_name(&report, front, folder);
	const struct box_yaml *description = box_yaml_get(&front->meta, "description");
	(void)required(&report, front, "description");
	if (description && box_pytext_length(description->text) > BOX_SKILL_DESCRIPTION_MAX) {
		warn(&report, box_str("description"), "is longer than 1024 characters");
	}
	const struct box_yaml *compatibility = box_yaml_get(&front->meta, "compatibility");
	if (compatibility &&
		(compatibility->type == BOX_YAML_LIST || compatibility->type == BOX_YAML_MAP)) {
		warn(&report, box_str("compatibility"), "must be a string");
	} else if (compatibility &&
		box_pytext_length(compatibility->text) > BOX_SKILL_COMPATIBILITY_MAX) {
		warn(&report, box_str("compatibility"), "is longer than 500 characters");
	}
	return report.list;
}
