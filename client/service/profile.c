/* Profiles: a table of the members that they share with specs, the built-in profiles, the operator's own,
 * which are read by that table, and how a profile is applied to a spec. */
#include "client/service/profile.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/macros.h"
#include "runtime/spec/fields.h"

enum {
	BOX_PROFILE_IMAGE,
	BOX_PROFILE_NETWORK,
	BOX_PROFILE_TIMEOUT_SEC,
	BOX_PROFILE_HOST_PATH_MODE,
	BOX_PROFILE_CPUS,
	BOX_PROFILE_MEMORY_MB,
	BOX_PROFILE_PIDS_LIMIT,
	BOX_PROFILE_READ_ONLY_ROOTFS,
	BOX_PROFILE_WORKSPACE_QUOTA_MB,
	BOX_PROFILE_FIELDS
};

#define IMAGE "rockchin/langbot-sandbox:latest"
#define BASE_DEFAULT "offline"

enum {
	NETWORK_OFF,
	NETWORK_ON,
};

enum {
	MOUNT_NONE,
	MOUNT_RO,
	MOUNT_RW,
};

static const char *const network_words[] = {"off", "on", NULL};
static const char *const mode_words[] = {"none", "ro", "rw", NULL};

#define AT(member) offsetof(struct box_profile, member)

static const struct box_field spec_fields[BOX_PROFILE_FIELDS] = {
	{.name = "image",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = AT(image),
		.broken = "image must not be empty"},
	{.name = "network",
		.kind = BOX_FIELD_WORD,
		.offset = AT(network),
		.words = network_words,
		.expected = "'off' or 'on'"},
	{.name = "timeout_sec",
		.kind = BOX_FIELD_INT,
		.offset = AT(timeout_sec),
		.min = 1,
		.broken = "timeout_sec must be greater than 0"},
	{.name = "host_path_mode",
		.kind = BOX_FIELD_WORD,
		.offset = AT(host_path_mode),
		.words = mode_words,
		.expected = "'none', 'ro' or 'rw'"},
	{.name = "cpus",
		.kind = BOX_FIELD_REAL,
		.offset = AT(cpus),
		.broken = "cpus must be greater than 0"},
	{.name = "memory_mb",
		.kind = BOX_FIELD_INT,
		.offset = AT(memory_mb),
		.min = 32,
		.broken = "memory_mb must be at least 32"},
	{.name = "pids_limit",
		.kind = BOX_FIELD_INT,
		.offset = AT(pids_limit),
		.min = 1,
		.broken = "pids_limit must be at least 1"},
	{.name = "read_only_rootfs", .kind = BOX_FIELD_BOOL, .offset = AT(read_only_rootfs)},
	{.name = "workspace_quota_mb",
		.kind = BOX_FIELD_INT,
		.offset = AT(workspace_quota_mb),
		.broken = "workspace_quota_mb must be greater than or equal to 0"},
};

#define OFFLINE_READONLY_LOCKED                                         \
	(1U << BOX_PROFILE_NETWORK | 1U << BOX_PROFILE_HOST_PATH_MODE | \
		1U << BOX_PROFILE_READ_ONLY_ROOTFS)

/* clang-format off */
static const struct box_profile built_in[] = {
	/* name, image, timeout and its limit, cpus, memory, pids, quota, network, folder, locked, root */
	{"default", IMAGE, 30, 120, 1, 512, 128, 0, NETWORK_ON, MOUNT_RW, 0, true, true},
	{"network_basic", IMAGE, 30, 120, 1, 512, 128, 0, NETWORK_ON, MOUNT_RW, 0, true, true},
	{"network_extended", IMAGE, 30, 300, 2, 1024, 256, 0, NETWORK_ON, MOUNT_RW, 0, false, true},
	{"offline", IMAGE, 30, 120, 1, 512, 128, 0, NETWORK_OFF, MOUNT_RW, 0, true, true},
	{"offline_readonly", IMAGE, 30, 60, 0.5, 256, 64, 0, NETWORK_OFF, MOUNT_RO,
		OFFLINE_READONLY_LOCKED, true, true},
};
/* clang-format on */

#define BUILT_IN (BOX_COUNT_OF(built_in))

/* --- the operator's own --- */

static int lock(const struct box_fields *fields, struct box_str name, unsigned *locked)
{
	name = box_str_strip(name);
	for (size_t i = 0; i < BOX_PROFILE_FIELDS; i++) {
		if (box_str_eq(name, spec_fields[i].name)) {
			*locked |= 1U << i;
			return 0;
		}
	}
	return name.len == 0
		? 0
		: box_fields_refuse(fields, "locked",
			  box_arena_printf(fields->arena, "there is no member %s to lock",
				  box_fields_echo(fields->arena, name)));
}

/* A list of names, or one text with commas. The base's list applies only if this one is missing. */
static int read_locked(const struct box_fields *fields, const struct box_value *value, void *member)
{
	unsigned locked = 0;
	int r = 0;
	if (value->type == BOX_STR) {
		struct box_str rest = value->str;
		while (r == 0 && rest.len > 0) {
			const char *comma = memchr(rest.bytes, ',', rest.len);
			size_t len = comma ? (size_t)(comma - rest.bytes) : rest.len;
			r = lock(fields, (struct box_str){rest.bytes, len}, &locked);
			len += comma != NULL;
			rest = (struct box_str){rest.bytes + len, rest.len - len};
		}
	} else if (value->type == BOX_LIST) {
		for (uint32_t i = 0; r == 0 && i < value->count; i++) {
			struct box_str name;
			const char *why = box_fields_to_str(&value->items[i], &name);
			r = why ? box_fields_refuse(fields, "locked", why)
				: lock(fields, name, &locked);
		}
	} else {
		r = box_fields_refuse(fields, "locked", "Input should be a list of names");
	}
	if (r == 0) {
		*(unsigned *)member = locked;
	}
	return r;
}

/* What a profile of the operator has in addition to the members of a spec. */
static const struct box_field more_fields[] = {
	{.name = "max_timeout_sec",
		.kind = BOX_FIELD_INT,
		.offset = AT(max_timeout_sec),
		.min = 1,
		.broken = "max_timeout_sec must be greater than 0"},
	{.name = "locked", .kind = BOX_FIELD_OTHER, .offset = AT(locked), .other = read_locked},
};

static const struct box_profile *find_built_in(struct box_str name)
{
	for (size_t i = 0; i < BUILT_IN; i++) {
		if (box_str_eq(name, built_in[i].name)) {
			return &built_in[i];
		}
	}
	return NULL;
}

/* NULL, with the reason in fields->err, if it does not exist. */
static const struct box_profile *find_base(
	const struct box_fields *fields, const struct box_value *map)
{
	const struct box_value *value = box_map_get(map, "base");
	struct box_str name = box_str(BASE_DEFAULT);
	const char *why = value ? box_fields_to_str(value, &name) : NULL;
	const struct box_profile *base = why ? NULL : find_built_in(box_str_strip(name));
	if (!base) {
		(void)box_fields_refuse(fields, "base",
			why ? why
			    : box_arena_printf(fields->arena, "no built-in profile is called %s",
				      box_fields_echo(fields->arena, name)));
	}
	return base;
}

static int refuse_unknown(const struct box_fields *fields, const struct box_value *map)
{
	struct box_field all[BOX_PROFILE_FIELDS + 3];
	memcpy(all, spec_fields, sizeof(spec_fields));
	memcpy(all + BOX_PROFILE_FIELDS, more_fields, sizeof(more_fields));
	all[BOX_PROFILE_FIELDS + 2] = (struct box_field){.name = "base"};
	return box_fields_refuse_unknown(fields, all, BOX_PROFILE_FIELDS + 3, map);
}

/* If the operator sets one of the two times, the base's other time is adapted to it; two that do not fit are
 * an error. */
static int fit_times(
	const struct box_fields *fields, const struct box_value *map, struct box_profile *profile)
{
	bool has_default = box_map_get(map, "timeout_sec") != NULL;
	bool has_max = box_map_get(map, "max_timeout_sec") != NULL;
	if (profile->timeout_sec <= profile->max_timeout_sec) {
		return 0;
	}
	if (has_default && has_max) {
		return box_fields_refuse(fields, "timeout_sec", "is more than max_timeout_sec");
	}
	if (has_default) {
		profile->max_timeout_sec = profile->timeout_sec;
	} else {
		profile->timeout_sec = profile->max_timeout_sec;
	}
	return 0;
}

static int read_own(struct box_arena *arena, struct box_str name, const struct box_value *map,
	struct box_profile *ret_profile, struct box_err *err)
{
	const struct box_fields fields = {
		.arena = arena,
		.model = box_arena_printf(
			arena, "box.local.profiles.%s", box_fields_echo(arena, name)),
		.within = "",
		.err = err,
	};
	if (name.len == 0 || name.len > BOX_PROFILE_NAME_MAX || box_str_has_nul(name)) {
		return box_fields_refuse(&fields, "", "a name has 1 to 64 bytes and no NUL");
	}
	if (map->type != BOX_MAP) {
		return box_fields_refuse(&fields, "", "a profile must be a map");
	}
	const struct box_profile *base = find_base(&fields, map);
	if (!base) {
		return -EINVAL;
	}
	struct box_profile profile = *base;
	profile.built_in = false;
	profile.name = box_arena_strndup(arena, name.bytes, name.len);
	int r = refuse_unknown(&fields, map);
	if (r == 0) {
		r = box_fields_read(&fields, spec_fields, BOX_PROFILE_FIELDS, map, &profile);
	}
	if (r == 0) {
		r = box_fields_read(&fields, more_fields, 2, map, &profile);
	}
	if (r == 0) {
		r = fit_times(&fields, map, &profile);
	}
	if (r == 0) {
		*ret_profile = profile;
	}
	return r;
}

/* --- all of them --- */

static int by_name(const void *a, const void *b)
{
	const struct box_profile *first = a;
	const struct box_profile *second = b;
	return strcmp(first->name, second->name);
}

int box_profile_read_all(struct box_arena *arena, const struct box_value *own,
	struct box_profile_set *ret_profiles, struct box_err *err)
{
	size_t more = own && own->type == BOX_MAP ? own->count : 0;
	if (own && own->type != BOX_MAP && own->type != BOX_NULL) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "box.local.profiles must be an object");
	}
	if (more > BOX_PROFILES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"box.local.profiles must have at most %d entries", BOX_PROFILES_MAX);
	}
	struct box_profile_set profiles = {
		.items = box_arena_alloc(arena, (BUILT_IN + more) * sizeof(*profiles.items))};
	for (size_t i = 0; i < more; i++) {
		int r = read_own(arena, own->pairs[i].key, &own->pairs[i].value,
			&profiles.items[profiles.count++], err);
		if (r < 0) {
			return r;
		}
	}
	for (size_t i = 0; i < BUILT_IN; i++) {
		if (more == 0 || !box_map_get(own, built_in[i].name)) {
			profiles.items[profiles.count++] = built_in[i];
		}
	}
	qsort(profiles.items, profiles.count, sizeof(*profiles.items), by_name);
	*ret_profiles = profiles;
	return 0;
}

const struct box_profile *box_profile_find(
	const struct box_profile_set *profiles, const char *name, struct box_err *err)
{
	struct box_buf names = box_buf(BOX_ERROR_TEXT_MAX);
	name = name && name[0] != '\0' ? name : "default";
	for (size_t i = 0; i < profiles->count; i++) {
		if (strcmp(name, profiles->items[i].name) == 0) {
			box_buf_free(&names);
			return &profiles->items[i];
		}
		(void)box_buf_printf(&names, "%s%s", i > 0 ? ", " : "", profiles->items[i].name);
	}
	(void)box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
		"unknown box profile '%.100s', available profiles: %.*s", name, (int)names.len,
		names.bytes);
	box_buf_free(&names);
	return NULL;
}

/* --- applied to a spec --- */

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

/* A value as text: "off", 60, true. */
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

/* Whether the caller requested the same value, in any form. */
static bool means(
	const struct box_field *row, const struct box_value *requested, struct box_value has)
{
	struct box_str text;
	int64_t integer;
	double real;
	bool boolean;
	switch (row->kind) {
	case BOX_FIELD_INT:
		return !box_fields_to_int(requested, &integer) && integer == has.integer;
	case BOX_FIELD_REAL:
		return !box_fields_to_real(requested, &real) && real == has.real;
	case BOX_FIELD_BOOL:
		return !box_fields_to_bool(requested, &boolean) && boolean == has.boolean;
	default:
		return !box_fields_to_str(requested, &text) && box_str_same(text, has.str);
	}
}

static void note(struct box_arena *arena, struct box_value *notes, const char *text)
{
	box_list_add(arena, notes, box_cstr(text));
}

static void apply_field(struct box_arena *arena, const struct box_profile *profile, unsigned number,
	const struct box_value *defaults, struct box_value *spec, struct box_value *notes)
{
	const struct box_field *row = &spec_fields[number];
	const struct box_value *requested = box_map_get(spec, row->name);
	const struct box_value *other = defaults ? box_map_get(defaults, row->name) : NULL;
	struct box_value own = value_of(profile, row);
	bool locked = profile->locked & 1U << number;
	requested = requested && requested->type != BOX_NULL ? requested : NULL;
	if (locked && requested && !means(row, requested, own)) {
		note(arena, notes,
			box_arena_printf(arena, "%s %s is ignored: profile %s locks it to %s",
				row->name, show(arena, requested), profile->name,
				show(arena, &own)));
	}
	if (locked || !requested) {
		box_map_set(arena, spec, box_str(row->name), !locked && other ? *other : own);
	}
}

static void clamp_timeout(struct box_arena *arena, const struct box_profile *profile,
	struct box_value *spec, struct box_value *notes)
{
	int64_t requested;
	if (box_fields_to_int(box_map_get(spec, "timeout_sec"), &requested)) {
		return; /* the runtime accepts the same forms, and will refuse this one */
	}
	if (requested > profile->max_timeout_sec) {
		note(arena, notes,
			box_arena_printf(arena,
				"timeout_sec %lld is reduced to %lld, the limit of profile %s",
				(long long)requested, (long long)profile->max_timeout_sec,
				profile->name));
		requested = profile->max_timeout_sec;
	}
	box_map_set(arena, spec, box_str("timeout_sec"), box_int(requested));
}

/* Where the workspace is locked to read-only or none, other mounts must not give more than that. */
static void limit_mounts(struct box_arena *arena, const struct box_profile *profile,
	struct box_value *spec, struct box_value *notes)
{
	const struct box_value *mounts = box_map_get(spec, "extra_mounts");
	struct box_value mode = value_of(profile, &spec_fields[BOX_PROFILE_HOST_PATH_MODE]);
	if (!(profile->locked & 1U << BOX_PROFILE_HOST_PATH_MODE) || box_str_eq(mode.str, "rw") ||
		!mounts || mounts->type != BOX_LIST || mounts->count == 0) {
		return;
	}
	struct box_value limited = box_list_value();
	bool changed = false;
	for (uint32_t i = 0; i < mounts->count && !box_str_eq(mode.str, "none"); i++) {
		struct box_value *one = box_list_add(
			arena, &limited, box_value_copy(arena, &mounts->items[i]));
		const struct box_value *requested = box_map_get(one, "mode");
		bool bound = requested && requested->type == BOX_STR &&
			(box_str_eq(requested->str, "ro") || box_str_eq(requested->str, "none"));
		if (one->type == BOX_MAP && !bound) {
			box_map_set(arena, one, box_str("mode"), mode);
			changed = true;
		}
	}
	if (changed || limited.count != mounts->count) {
		note(arena, notes,
			box_arena_printf(arena,
				"extra_mounts are limited to %s: profile %s locks host_path_mode",
				show(arena, &mode), profile->name));
	}
	box_map_set(arena, spec, box_str("extra_mounts"), limited);
}

void box_profile_apply(struct box_arena *arena, const struct box_profile *profile,
	const struct box_value *defaults, struct box_value *spec, struct box_value *notes)
{
	for (unsigned i = 0; i < BOX_PROFILE_FIELDS; i++) {
		apply_field(arena, profile, i, defaults, spec, notes);
	}
	clamp_timeout(arena, profile, spec, notes);
	limit_mounts(arena, profile, spec, notes);
}

struct box_value box_profile_value(struct box_arena *arena, const struct box_profile *profile)
{
	struct box_value map = box_map_value();
	struct box_value locked = box_list_value();
	box_map_add(arena, &map, "name", box_cstr(profile->name));
	for (unsigned i = 0; i < BOX_PROFILE_FIELDS; i++) {
		const struct box_field *row = &spec_fields[i];
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
