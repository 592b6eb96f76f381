/* Merges a map over the present configuration and checks the whole into a struct.
 *
 * Only known members (config_members.c) are stored, so that the map does not grow with every map that a
 * client sends. Paths are in config_paths.c, the admission section in admission_policy.c.
 */
#include "runtime/config/config.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "runtime/config/admission_policy.h"
#include "runtime/config/config_members.h"
#include "runtime/config/config_paths.h"
#include "runtime/spec/fields.h"

#define SESSION_TTL_SEC_DEFAULT 300
#define SESSION_TTL_SEC_MAX INT32_MAX

/* -- limits ----------------------------------------------------------------------------------- */

static const struct limit {
	const char *name;
	size_t offset;
	int64_t min;
	int64_t max;
	int64_t default_value;
	bool operators; /* a client's map does not set it */
} limit_rows[] = {
#define LIMIT(name, min, max, default_value, operators) \
	{#name, offsetof(struct box_limits, name), min, max, default_value, operators},
	BOX_CONFIG_LIMITS(LIMIT)
#undef LIMIT
};

static int64_t *limit_of(struct box_limits *limits, const struct limit *row)
{
	return (int64_t *)(void *)((char *)limits + row->offset);
}

/* null, false, 0, "" and [] count as no section, as in the reference. */
static bool is_falsy(const struct box_value *value)
{
	switch (value->type) {
	case BOX_NULL:
		return true;
	case BOX_BOOL:
		return !value->boolean;
	case BOX_INT:
		return value->integer == 0;
	case BOX_REAL:
		return value->real == 0;
	case BOX_STR:
	case BOX_BIN:
		return value->str.len == 0;
	default:
		return value->count == 0;
	}
}

/* A section must be a map if it is set at all; *ret_section is NULL if it is not set. */
static int find_section(const struct box_value *map, const char *name,
	const struct box_value **ret_section, struct box_err *err)
{
	const struct box_value *section = box_map_get(map, name);
	if (section && is_falsy(section)) {
		section = NULL;
	}
	if (section && section->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "box.%s must be an object", name);
	}
	*ret_section = section;
	return 0;
}

/* Limits that the section does not name keep their value in `limits`. */
static int read_limits(const struct box_value *map, enum box_config_origin origin,
	struct box_limits *limits, struct box_err *err)
{
	const struct box_value *section = NULL;
	int result = find_section(map, "limits", &section, err);
	if (result < 0 || !section) {
		return result;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(limit_rows); i++) {
		const struct limit *row = &limit_rows[i];
		const struct box_value *value = box_map_get(section, row->name);
		if (!value || (row->operators && origin != BOX_CONFIG_OPERATOR)) {
			continue;
		}
		if (value->type != BOX_INT) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.limits.%s must be an integer", row->name);
		}
		if (value->integer < row->min || value->integer > row->max) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.limits.%s must be between %lld and %lld", row->name,
				(long long)row->min, (long long)row->max);
		}
		*limit_of(limits, row) = value->integer;
	}
	return 0;
}

/* -- single values ---------------------------------------------------------------------------- */

static const struct box_value *find_set(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type != BOX_NULL ? value : NULL;
}

static int read_backend(struct box_config *config, struct box_err *err)
{
	const struct box_value *value = find_set(&config->map, "backend");
	config->backend = "";
	if (!value) {
		return 0;
	}
	if (value->type != BOX_STR || box_str_has_nul(value->str)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "box.backend must be a string");
	}
	struct box_str name = box_str_strip(value->str);
	config->backend = box_arena_strndup(config->arena, name.bytes, name.len);
	return 0;
}

static int read_session_ttl(struct box_config *config, struct box_err *err)
{
	const struct box_value *value = find_set(&config->map, "session_ttl_sec");
	int64_t seconds = SESSION_TTL_SEC_DEFAULT;
	if (value && (value->type == BOX_BOOL || box_fields_to_int(value, &seconds))) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.session_ttl_sec must be an integer");
	}
	if (seconds < 0 || seconds > SESSION_TTL_SEC_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.session_ttl_sec must be between 0 and %d", SESSION_TTL_SEC_MAX);
	}
	config->session_ttl_sec = seconds;
	return 0;
}

static int read_switch(
	struct box_config *config, const char *name, bool *ret_on, struct box_err *err)
{
	const struct box_value *value = find_set(&config->map, name);
	*ret_on = false;
	if (value && box_fields_to_bool(value, ret_on)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "box.%s must be a boolean", name);
	}
	return 0;
}

/* Settings that only the operator's own file can enable. */
static int read_switches(struct box_config *config, struct box_err *err)
{
	int result = read_switch(config, "require_context", &config->require_context, err);
	if (result == 0) {
		result = read_switch(config, "unauthenticated", &config->unauthenticated, err);
	}
	if (result == 0) {
		result = read_switch(config, "metrics_open", &config->metrics_open, err);
	}
	return result;
}

/* Compared byte by byte with what browsers send, so a malformed origin, which would never match, is an error. */
static bool is_origin(struct box_str text)
{
	const char *end = text.bytes + text.len;
	const char *colon = memmem(text.bytes, text.len, "://", 3);
	const char *host = colon ? colon + 3 : end;
	return box_str_eq(text, "null") ||
		(colon > text.bytes && host < end && !memchr(host, '/', (size_t)(end - host)) &&
			!memchr(text.bytes, '*', text.len));
}

static int read_allowed_origins(struct box_config *config, struct box_err *err)
{
	const struct box_value *value = find_set(&config->map, "allowed_origins");
	struct box_value items = box_list_value();
	config->allowed_origins = NULL;
	if (!value) {
		return 0;
	}
	int result = box_config_paths_read_list(
		config->arena, "box.allowed_origins", value, &items, err);
	if (result < 0 || items.count == 0) {
		return result;
	}
	const char **origins = box_arena_alloc(
		config->arena, (items.count + 1UL) * sizeof(*origins));
	for (uint32_t i = 0; i < items.count; i++) {
		if (!is_origin(items.items[i].str)) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.allowed_origins: %s is not an origin: scheme://host or "
				"scheme://host:port, each written out, or null",
				box_fields_echo(config->arena, items.items[i].str));
		}
		origins[i] = box_arena_strndup(
			config->arena, items.items[i].str.bytes, items.items[i].str.len);
	}
	config->allowed_origins = origins;
	return 0;
}

/* -- the whole configuration ------------------------------------------------------------------ */

/* The name of a top-level member as in the table; NULL if a map of that origin has no such member. */
static const char *known_name(struct box_str name, enum box_config_origin origin)
{
	const struct box_config_member *member = box_config_members_find("", name);
	bool others = member && (member->flags & BOX_CONFIG_MEMBER_OPERATOR) &&
		origin != BOX_CONFIG_OPERATOR;
	return member && !others ? member->path : NULL;
}

bool box_config_allows(struct box_str name, enum box_config_origin origin)
{
	return known_name(name, origin) != NULL;
}

/* The approximate memory of a tree: its texts and a few bytes for each value. */
static size_t weight(const struct box_value *value)
{
	size_t sum = 4;
	if (value->type == BOX_STR || value->type == BOX_BIN) {
		sum += value->str.len;
	} else if (value->type == BOX_LIST) {
		for (uint32_t i = 0; i < value->count; i++) {
			sum += weight(&value->items[i]);
		}
	} else if (value->type == BOX_MAP) {
		for (uint32_t i = 0; i < value->count; i++) {
			sum += value->pairs[i].key.len + weight(&value->pairs[i].value);
		}
	}
	return sum;
}

static void merge_known(
	struct box_config *config, const struct box_value *map, enum box_config_origin origin)
{
	for (uint32_t i = 0; i < map->count; i++) {
		const char *name = known_name(map->pairs[i].key, origin);
		if (name) {
			box_map_set(config->arena, &config->map, box_str(name),
				box_value_copy(config->arena, &map->pairs[i].value));
		}
	}
}

static struct box_config *config_new(void)
{
	struct box_arena *arena = box_arena_new();
	struct box_config *config = box_arena_alloc(arena, sizeof(*config));
	config->arena = arena;
	config->map = box_map_value();
	return config;
}

struct box_config *box_config_default(void)
{
	struct box_config *config = config_new();
	config->backend = "";
	config->session_ttl_sec = SESSION_TTL_SEC_DEFAULT;
	config->admission = box_admission_policy_default();
	for (size_t i = 0; i < BOX_COUNT_OF(limit_rows); i++) {
		*limit_of(&config->limits, &limit_rows[i]) = limit_rows[i].default_value;
	}
	return config;
}

void box_config_free(struct box_config *config)
{
	if (config) {
		box_arena_free(config->arena);
	}
}

static int check_whole(struct box_config *config, const struct box_config *present,
	const struct box_config_paths *paths, struct box_err *err)
{
	const struct box_value *local = NULL;
	int result = read_limits(&config->map, paths->origin, &config->limits, err);
	if (result == 0) {
		result = read_backend(config, err);
	}
	if (result == 0) {
		result = read_session_ttl(config, err);
	}
	if (result == 0) {
		result = read_switches(config, err);
	}
	if (result == 0) {
		result = read_allowed_origins(config, err);
	}
	if (result == 0) {
		result = find_section(&config->map, "local", &local, err);
	}
	if (result == 0) {
		result = box_config_paths_read(config, present, local, paths, err);
	}
	if (result < 0) {
		return result;
	}
	struct box_admission_policy policy = present->admission;
	policy.error = NULL;
	config->admission = box_admission_policy_read(
		config->arena, box_map_get(&config->map, "admission"), &policy);
	return 0;
}

int box_config_merge(const struct box_config *present, const struct box_value *map,
	enum box_config_origin origin, const char *working_folder, struct box_config **ret_config,
	struct box_err *err)
{
	if (map->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "box config must be an object");
	}
	if (weight(map) > BOX_CONFIG_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box config is larger than %lu bytes", BOX_CONFIG_BYTES_MAX);
	}
	_cleanup_(box_config_free_p) struct box_config *config = config_new();
	config->limits = present->limits;
	merge_known(config, &present->map, BOX_CONFIG_OPERATOR);
	merge_known(config, map, origin);
	const struct box_config_paths paths = {
		.origin = origin,
		.working_folder = working_folder,
		.local_is_new = box_map_get(map, "local") != NULL,
	};
	int result = check_whole(config, present, &paths, err);
	if (result < 0) {
		return result;
	}
	*ret_config = TAKE_PTR(config);
	return 0;
}
