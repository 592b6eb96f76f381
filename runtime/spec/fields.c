/* Reads the members of a map by table, and says what is wrong in the reference's words.
 *
 * Which forms count as a number or a boolean is in field_forms.c. Clients look for names of errors anywhere in a
 * message, so texts of a client are repeated by box_fields_echo only.
 */
#include "runtime/spec/fields.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"

#define ECHO_BYTES_MAX 100
#define ERROR_NAME_END "Error:"

const char *box_fields_echo(struct box_arena *arena, struct box_str bytes)
{
	bool cut = bytes.len > ECHO_BYTES_MAX;
	size_t len = cut ? box_utf8_floor(bytes.bytes, ECHO_BYTES_MAX) : bytes.len;
	char *text = box_arena_bytes(arena, len + sizeof("..."));
	if (len > 0) {
		memcpy(text, bytes.bytes, len);
	}
	memcpy(text + len, cut ? "..." : "", cut ? sizeof("...") : 1);
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
			text[i] = '?';
		}
	}
	/* Clients look for "SomeError:" anywhere in a message to find out what happened. */
	const size_t name_end = strlen(ERROR_NAME_END);
	for (char *at = text; (at = strstr(at, ERROR_NAME_END)) != NULL; at += name_end) {
		at[name_end - 1] = '?';
	}
	return text;
}

int box_fields_refuse(const struct box_fields *fields, const char *field, const char *text)
{
	bool named = fields->within[0] != '\0' || field[0] != '\0';
	return box_err_set(fields->err, BOX_ERR_VALIDATION, EINVAL,
		"1 validation error for %s\n%s%s%s  %s", fields->model, fields->within, field,
		named ? "\n" : "", text);
}

static int refuse_value(const struct box_fields *fields, const char *field, const char *text)
{
	return box_fields_refuse(
		fields, field, box_arena_printf(fields->arena, "Value error, %s", text));
}

static int read_text(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	struct box_str text = {NULL, 0};
	const char *why = box_fields_to_str(value, &text);
	if (why) {
		return box_fields_refuse(fields, row->name, why);
	}
	if (text.len == 0 && (row->flags & BOX_FIELD_EMPTY_UNSET)) {
		return 0;
	}
	if (row->flags & BOX_FIELD_STRIP) {
		text = box_str_strip(text);
	}
	bool absolute = text.len > 0 && text.bytes[0] == '/';
	if (((row->flags & BOX_FIELD_FILLED) && text.len == 0) ||
		((row->flags & BOX_FIELD_ABSOLUTE) && !absolute)) {
		return refuse_value(fields, row->name, row->broken);
	}
	if (box_str_has_nul(text)) {
		return refuse_value(fields, row->name,
			box_arena_printf(fields->arena, "%s must not contain NUL", row->name));
	}
	if (row->max > 0 && text.len > (size_t)row->max) {
		return refuse_value(fields, row->name,
			box_arena_printf(fields->arena, "%s must be at most %lld bytes long",
				row->name, (long long)row->max));
	}
	if (row->kind == BOX_FIELD_BYTES) {
		*(struct box_str *)member = text;
		return 0;
	}
	const char *copy = box_arena_strndup(fields->arena, text.bytes, text.len);
	const char *broken = row->check ? row->check(copy) : NULL;
	if (broken) {
		return refuse_value(fields, row->name, broken);
	}
	*(const char **)member = copy;
	return 0;
}

static int read_int(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	int64_t integer = 0;
	if (row->flags & BOX_FIELD_STRICT) {
		if (value->type != BOX_INT) {
			return refuse_value(fields, row->name, "must be an integer");
		}
		integer = value->integer;
	} else {
		const char *why = box_fields_to_int(value, &integer);
		if (why) {
			return box_fields_refuse(fields, row->name, why);
		}
	}
	if (row->broken && (integer < row->min || (row->max > 0 && integer > row->max))) {
		return refuse_value(fields, row->name, row->broken);
	}
	*(int64_t *)member = integer;
	return 0;
}

static int read_real(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	if ((row->flags & BOX_FIELD_STRICT) && value->type != BOX_INT && value->type != BOX_REAL) {
		return refuse_value(fields, row->name,
			box_arena_printf(fields->arena, "%s must be a number", row->name));
	}
	double real = 0;
	const char *why = box_fields_to_real(value, &real);
	if (why) {
		return box_fields_refuse(fields, row->name, why);
	}
	if (real <= 0) {
		return refuse_value(fields, row->name, row->broken);
	}
	*(double *)member = real;
	return 0;
}

static int read_bool(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	bool boolean = false;
	const char *why = box_fields_to_bool(value, &boolean);
	if (why) {
		return box_fields_refuse(fields, row->name, why);
	}
	*(bool *)member = boolean;
	return 0;
}

static int read_word(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	struct box_str word = {NULL, 0};
	if (!box_fields_to_str(value, &word)) {
		for (int i = 0; row->words[i]; i++) {
			if (box_str_eq(word, row->words[i])) {
				*(int *)member = i;
				return 0;
			}
		}
	}
	return box_fields_refuse(fields, row->name,
		box_arena_printf(fields->arena, "Input should be %s", row->expected));
}

static int read_row(const struct box_fields *fields, const struct box_field *row,
	const struct box_value *value, void *member)
{
	switch (row->kind) {
	case BOX_FIELD_TEXT:
	case BOX_FIELD_BYTES:
		return read_text(fields, row, value, member);
	case BOX_FIELD_INT:
		return read_int(fields, row, value, member);
	case BOX_FIELD_REAL:
		return read_real(fields, row, value, member);
	case BOX_FIELD_BOOL:
		return read_bool(fields, row, value, member);
	case BOX_FIELD_WORD:
		return read_word(fields, row, value, member);
	case BOX_FIELD_OTHER:
		break;
	}
	return row->other(fields, value, member);
}

int box_fields_read(const struct box_fields *fields, const struct box_field *rows, size_t count,
	const struct box_value *map, void *target)
{
	if (map->type != BOX_MAP) {
		return box_fields_refuse(fields, "",
			box_arena_printf(fields->arena,
				"Input should be a valid dictionary or instance of %s",
				fields->model));
	}
	for (const struct box_field *row = rows; row < rows + count; row++) {
		const struct box_value *value = box_map_get(map, row->name);
		if (!value) {
			if (row->flags & BOX_FIELD_REQUIRED) {
				return box_fields_refuse(fields, row->name, "Field required");
			}
			continue;
		}
		if (value->type == BOX_NULL && (row->flags & BOX_FIELD_NULLABLE)) {
			continue;
		}
		int result = read_row(fields, row, value, (char *)target + row->offset);
		if (result < 0) {
			return result;
		}
	}
	return 0;
}

static bool has_row(const struct box_field *rows, size_t count, struct box_str name)
{
	for (size_t i = 0; i < count; i++) {
		if (box_str_eq(name, rows[i].name)) {
			return true;
		}
	}
	return false;
}

int box_fields_refuse_unknown(const struct box_fields *fields, const struct box_field *rows,
	size_t count, const struct box_value *map)
{
	for (uint32_t i = 0; i < map->count; i++) {
		if (!has_row(rows, count, map->pairs[i].key)) {
			return box_fields_refuse(fields,
				box_fields_echo(fields->arena, map->pairs[i].key),
				"Extra inputs are not permitted");
		}
	}
	return 0;
}
