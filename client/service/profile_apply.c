/* What a profile makes of a caller's spec, and what it says of itself. */
#include "base/arena.h"
#include "client/service/profile.h"
#include "client/service/profile_fields.h"

static struct box_value value_of(const struct box_profile *profile, const struct box_field *row)
{
	const char *member = (const char *)profile + row->offset;
	switch (row->kind) {
	case BOX_FIELD_TEXT:
		return box_cstr(*(const char *const *)(const void *)member);
	case BOX_FIELD_WORD:
		return box_cstr(row->words[*(const int *)(const void *)member]);
	case BOX_FIELD_INT:
		return box_int(*(const int64_t *)(const void *)member);
	case BOX_FIELD_REAL:
		return box_real(*(const double *)(const void *)member);
	case BOX_FIELD_BOOL:
		return box_bool(*(const bool *)member);
	default:
		return box_null();
	}
}

/* A value for people: "off", 60, true. */
static const char *show(struct box_arena *arena, const struct box_value *value)
{
	switch (value->type) {
	case BOX_STR:
		return box_fields_echo(arena, value->str);
	case BOX_INT:
		return box_arena_printf(arena, "%lld", (long long)value->integer);
	case BOX_REAL:
		return box_arena_printf(arena, "%g", value->real);
	case BOX_BOOL:
		return value->boolean ? "true" : "false";
	default:
		return box_type_name(value->type);
	}
}

/* Whether the caller asked for the same, in whatever form. */
static bool means(const struct box_field *row, const struct box_value *asked, struct box_value has)
{
	struct box_str text;
	int64_t integer;
	double real;
	bool boolean;
	switch (row->kind) {
	case BOX_FIELD_INT:
		return !box_fields_to_int(asked, &integer) && integer == has.integer;
	case BOX_FIELD_REAL:
		return !box_fields_to_real(asked, &real) && real == has.real;
	case BOX_FIELD_BOOL:
		return !box_fields_to_bool(asked, &boolean) && boolean == has.boolean;
	default:
		return !box_fields_to_str(asked, &text) && box_str_same(text, has.str);
	}
}

static void note(struct box_arena *arena, struct box_value *notes, const char *text)
{
	box_list_add(arena, notes, box_cstr(text));
}

static void apply_field(struct box_arena *arena, const struct box_profile *profile, unsigned number,
	const struct box_value *usual, struct box_value *spec, struct box_value *notes)
{
	const struct box_field *row = &box_profile_fields[number];
	const struct box_value *asked = box_map_get(spec, row->name);
	const struct box_value *other = usual ? box_map_get(usual, row->name) : NULL;
	struct box_value own = value_of(profile, row);
	bool locked = profile->locked & 1U << number;
	asked = asked && asked->type != BOX_NULL ? asked : NULL;
	if (locked && asked && !means(row, asked, own)) {
		note(arena, notes,
			box_arena_printf(arena, "%s %s is ignored: profile %s has it fixed to %s",
				row->name, show(arena, asked), profile->name, show(arena, &own)));
	}
	if (locked || !asked) {
		box_map_set(arena, spec, box_str(row->name), !locked && other ? *other : own);
	}
}

static void clamp_timeout(struct box_arena *arena, const struct box_profile *profile,
	struct box_value *spec, struct box_value *notes)
{
	int64_t asked;
	if (box_fields_to_int(box_map_get(spec, "timeout_sec"), &asked)) {
		return; /* the runtime takes the same forms, and refuses this one */
	}
	if (asked > profile->max_timeout_sec) {
		note(arena, notes,
			box_arena_printf(arena,
				"timeout_sec %lld is cut to %lld, the most of profile %s",
				(long long)asked, (long long)profile->max_timeout_sec,
				profile->name));
		asked = profile->max_timeout_sec;
	}
	box_map_set(arena, spec, box_str("timeout_sec"), box_int(asked));
}

/* A folder that must not be written, or not be there at all, is not so by another way either. */
static void hold_mounts(struct box_arena *arena, const struct box_profile *profile,
	struct box_value *spec, struct box_value *notes)
{
	const struct box_value *mounts = box_map_get(spec, "extra_mounts");
	struct box_value mode = value_of(profile, &box_profile_fields[BOX_PROFILE_HOST_PATH_MODE]);
	if (!(profile->locked & 1U << BOX_PROFILE_HOST_PATH_MODE) || box_str_eq(mode.str, "rw") ||
		!mounts || mounts->type != BOX_LIST || mounts->count == 0) {
		return;
	}
	struct box_value held = box_list_value();
	bool changed = false;
	for (uint32_t i = 0; i < mounts->count && !box_str_eq(mode.str, "none"); i++) {
		struct box_value *one = box_list_add(
			arena, &held, box_value_copy(arena, &mounts->items[i]));
		const struct box_value *asked = box_map_get(one, "mode");
		bool bound = asked && asked->type == BOX_STR &&
			(box_str_eq(asked->str, "ro") || box_str_eq(asked->str, "none"));
		if (one->type == BOX_MAP && !bound) {
			box_map_set(arena, one, box_str("mode"), mode);
			changed = true;
		}
	}
	if (changed || held.count != mounts->count) {
		note(arena, notes,
			box_arena_printf(arena,
				"extra_mounts are held to %s: profile %s has host_path_mode fixed",
				show(arena, &mode), profile->name));
	}
	box_map_set(arena, spec, box_str("extra_mounts"), held);
}

void box_profile_apply(struct box_arena *arena, const struct box_profile *profile,
	const struct box_value *usual, struct box_value *spec, struct box_value *notes)
{
	for (unsigned i = 0; i < BOX_PROFILE_FIELDS; i++) {
		apply_field(arena, profile, i, usual, spec, notes);
	}
	clamp_timeout(arena, profile, spec, notes);
	hold_mounts(arena, profile, spec, notes);
}

struct box_value box_profile_value(struct box_arena *arena, const struct box_profile *profile)
{
	struct box_value map = box_map_value();
	struct box_value locked = box_list_value();
	box_map_add(arena, &map, "name", box_cstr(profile->name));
	for (unsigned i = 0; i < BOX_PROFILE_FIELDS; i++) {
		const struct box_field *row = &box_profile_fields[i];
		box_map_add(arena, &map, row->name, value_of(profile, row));
		if (profile->locked & 1U << i) {
			box_list_add(arena, &locked, box_cstr(row->name));
		}
	}
	box_map_add(arena, &map, "max_timeout_sec", box_int(profile->max_timeout_sec));
	box_map_add(arena, &map, "locked", locked);
	box_map_add(arena, &map, "built_in", box_bool(profile->built_in));
	return map;
}
