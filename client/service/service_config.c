/* Reads the service's part of the configuration. Paths and limits are read by the runtime's own reader, so
 * that they mean the same on both sides. */
#include "client/service/service_config.h"

#include <errno.h>
#include <strings.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "client/service/session_template.h"
#include "runtime/config/config.h"
#include "runtime/spec/fields.h"

/* Values may have come from a form or an environment variable. */
static bool is_on(const struct box_value *value)
{
	static const char *const off[] = {"false", "0", "no", "off", ""};
	if (!value) {
		return true;
	}
	switch (value->type) {
	case BOX_BOOL:
		return value->boolean;
	case BOX_INT:
		return value->integer != 0;
	case BOX_STR: {
		struct box_str text = box_str_strip(value->str);
		for (size_t i = 0; i < BOX_COUNT_OF(off); i++) {
			if (text.len == strlen(off[i]) &&
				strncasecmp(text.bytes, off[i], text.len) == 0) {
				return false;
			}
		}
		return true;
	}
	default:
		return true;
	}
}

/* A text without white space at its ends; NULL if there is none. */
static int read_text(struct box_arena *arena, const struct box_value *section, const char *within,
	const char *name, const char **ret_text, struct box_err *err)
{
	const struct box_value *value = section ? box_map_get(section, name) : NULL;
	*ret_text = NULL;
	if (!value || value->type == BOX_NULL) {
		return 0;
	}
	if (value->type != BOX_STR || box_str_has_nul(value->str)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "box.%s.%s must be a string",
			within, name);
	}
	struct box_str text = box_str_strip(value->str);
	if (text.len > 0) {
		*ret_text = box_arena_strndup(arena, text.bytes, text.len);
	}
	return 0;
}

/* 1 and a whole number in the range, 0 if there is none. */
static int read_count(const struct box_value *section, const char *within, const char *name,
	int64_t least, int64_t most, int64_t *ret_count, struct box_err *err)
{
	const struct box_value *value = section ? box_map_get(section, name) : NULL;
	int64_t count;
	if (!value || value->type == BOX_NULL || (value->type == BOX_STR && value->str.len == 0)) {
		return 0;
	}
	if (value->type == BOX_BOOL || box_fields_to_int(value, &count) || count < least ||
		count > most) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"box.%s.%s must be an integer between %lld and %lld", within, name,
			(long long)least, (long long)most);
	}
	*ret_count = count;
	return 1;
}

static int read_template(struct box_arena *arena, const struct box_value *local, const char *name,
	const char **ret_template, struct box_err *err)
{
	struct box_err why;
	int r = read_text(arena, local, "local", name, ret_template, err);
	if (r == 0 && *ret_template && box_session_template_check(*ret_template, &why) < 0) {
		r = box_err_set(err, why.code, EINVAL, "box.local.%s: %s", name, why.text);
	}
	return r;
}

/* LangBot's own member, beside its `box` section, which takes precedence over ours. */
static int read_forced(struct box_arena *arena, const struct box_value *system,
	struct box_service_config *config, struct box_err *err)
{
	static const char name[] = "force_box_session_id_template";
	const struct box_value *limitation = system && system->type == BOX_MAP
		? box_map_get(system, "limitation")
		: NULL;
	const struct box_value *value = limitation && limitation->type == BOX_MAP
		? box_map_get(limitation, name)
		: NULL;
	struct box_err why;
	if (!value || value->type == BOX_NULL) {
		return 0;
	}
	if (value->type != BOX_STR || box_str_has_nul(value->str)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"system.limitation.%s must be a string", name);
	}
	struct box_str text = box_str_strip(value->str);
	if (text.len == 0) {
		return 0;
	}
	const char *template = box_arena_strndup(arena, text.bytes, text.len);
	if (box_session_template_check(template, &why) < 0) {
		return box_err_set(
			err, why.code, EINVAL, "system.limitation.%s: %s", name, why.text);
	}
	config->forced_session_template = template;
	return 0;
}

/* The `box` section: from LangBot's whole configuration, or the map itself. */
static struct box_value section_of(struct box_arena *arena, const struct box_value *map)
{
	const struct box_value *section = box_map_get(map, "box");
	struct box_value own = box_map_value();
	if (section && section->type == BOX_MAP) {
		map = section;
	}
	for (uint32_t i = 0; i < map->count; i++) {
		if (!box_str_eq(map->pairs[i].key, "system")) {
			box_map_add_str(arena, &own, map->pairs[i].key, map->pairs[i].value);
		}
	}
	return own;
}

static int read_specs(struct box_arena *arena, const struct box_value *local,
	struct box_service_config *config, struct box_err *err)
{
	const char *name = NULL;
	const char *image = NULL;
	int64_t quota = 0;
	int r = box_profile_read_all(
		arena, local ? box_map_get(local, "profiles") : NULL, &config->profiles, err);
	if (r == 0) {
		r = read_text(arena, local, "local", "profile", &name, err);
	}
	if (r == 0) {
		config->profile = box_profile_find(&config->profiles, name, err);
		r = config->profile ? 0 : -EINVAL;
	}
	if (r == 0) {
		r = read_text(arena, local, "local", "image", &image, err);
	}
	if (r < 0) {
		return r;
	}
	config->defaults = box_map_value();
	if (image) {
		box_map_add(arena, &config->defaults, "image", box_cstr(image));
	}
	r = read_count(local, "local", "workspace_quota_mb", 0, INT32_MAX, &quota, err);
	if (r == 1) {
		box_map_add(arena, &config->defaults, "workspace_quota_mb", box_int(quota));
	}
	return r < 0 ? r : 0;
}

static int read_rest(struct box_arena *arena, const struct box_value *map,
	const struct box_value *local, struct box_service_config *config, struct box_err *err)
{
	const struct box_value *limits = box_map_get(map, "limits");
	int64_t entries = BOX_WORKSPACE_ENTRIES_DEFAULT;
	int64_t chars = BOX_SERVICE_OUTPUT_CHARS;
	int r = read_count(limits, "limits", "max_workspace_entries", 1, INT64_MAX, &entries, err);
	if (r >= 0) {
		r = read_count(local, "local", "output_chars", 0, BOX_SERVICE_OUTPUT_CHARS_MAX,
			&chars, err);
	}
	if (r >= 0) {
		r = read_template(arena, local, "session_template", &config->session_template, err);
	}
	if (r >= 0) {
		r = read_template(arena, local, "forced_session_template",
			&config->forced_session_template, err);
	}
	if (r >= 0) {
		r = read_text(arena, box_map_get(map, "runtime"), "runtime", "endpoint",
			&config->endpoint, err);
	}
	config->entries_max = (uint64_t)(entries < BOX_WORKSPACE_ENTRIES_MAX
			? entries
			: BOX_WORKSPACE_ENTRIES_MAX);
	config->output_chars = (size_t)chars;
	return r < 0 ? r : 0;
}

static const char *keep(struct box_arena *arena, const char *path)
{
	return path ? box_arena_strndup(arena, path, strlen(path)) : NULL;
}

static int read_paths(struct box_arena *arena, const struct box_value *map,
	const char *working_folder, struct box_service_config *config, struct box_err *err)
{
	_cleanup_(box_config_free_p) struct box_config *base = box_config_default();
	_cleanup_(box_config_free_p) struct box_config *read = NULL;
	int r = box_config_merge(base, map, BOX_CONFIG_OPERATOR, working_folder, &read, err);
	if (r < 0) {
		return r;
	}
	config->host_root = keep(arena, read->host_root);
	config->default_workspace = keep(arena, read->default_workspace);
	for (size_t i = 0; read->allowed_mount_roots[i]; i++) {
		config->mount_roots[i] = keep(arena, read->allowed_mount_roots[i]);
	}
	return 0;
}

int box_service_config_read(struct box_arena *arena, const struct box_value *map,
	const char *working_folder, struct box_service_config *ret_config, struct box_err *err)
{
	struct box_service_config config = {.init = box_map_value()};
	struct box_value nothing = box_map_value();
	map = map && map->type != BOX_NULL ? map : &nothing;
	const struct box_value *system = NULL;
	struct box_value section = *map;
	if (map->type == BOX_MAP) {
		system = box_map_get(map, "system");
		section = section_of(arena, map);
		map = &section;
	}
	int r = read_paths(arena, map, working_folder, &config, err);
	const struct box_value *local = r == 0 ? box_map_get(map, "local") : NULL;
	if (r == 0) {
		r = read_specs(arena, local, &config, err);
	}
	if (r == 0) {
		r = read_rest(arena, map, local, &config, err);
	}
	if (r == 0) {
		r = read_forced(arena, system, &config, err);
	}
	if (r < 0) {
		return r;
	}
	config.enabled = is_on(box_map_get(map, "enabled"));
	for (uint32_t i = 0; i < map->count; i++) {
		if (!box_str_eq(map->pairs[i].key, "runtime")) {
			box_map_add_str(arena, &config.init, map->pairs[i].key,
				box_value_copy(arena, &map->pairs[i].value));
		}
	}
	*ret_config = config;
	return 0;
}
