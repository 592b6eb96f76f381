/* Builds the spec of a run in the order in which its parts take precedence: session id, profile, folders,
 * skills, quota. */
#include "client/service/service_spec.h"

#include <errno.h>

#include "base/arena.h"
#include "client/service/mount_rules.h"
#include "client/service/session_template.h"
#include "client/service/truncate.h"
#include "client/skill_mounts.h"
#include "runtime/spec/fields.h"

struct build {
	struct box_arena *arena;
	const struct box_service_config *config;
	const struct box_line *line;
	const struct box_service_run *run;
	struct box_service_spec made;
};

static const struct box_value *find_set(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type != BOX_NULL ? value : NULL;
}

static struct box_str text_of(const struct box_value *map, const char *name)
{
	const struct box_value *value = map ? box_map_get(map, name) : NULL;
	return value && value->type == BOX_STR ? value->str : (struct box_str){"", 0};
}

static int name_session(struct build *build, struct box_err *err)
{
	struct box_service_spec *made = &build->made;
	const struct box_session_template_rules rules = {
		.forced = build->config->forced_session_template,
		.given = text_of(&made->spec, "session_id"),
		.wanted = build->run->session_template,
		.configured = build->config->session_template,
	};
	int r = box_session_template_make_id(
		build->arena, &rules, build->run->query, &made->session_id, err);
	if (r < 0) {
		return r;
	}
	if (rules.forced && box_str_strip(rules.given).len > 0 &&
		!box_str_eq(rules.given, made->session_id)) {
		box_list_add(build->arena, &made->notes,
			box_cstr(box_arena_printf(build->arena,
				"session_id %s is ignored: the operator's template gives %s",
				box_fields_echo(build->arena, rules.given), made->session_id)));
	}
	box_map_set(build->arena, &made->spec, box_str("session_id"), box_cstr(made->session_id));
	return 0;
}

/* Checks folders here if both sides see the same ones; otherwise only the runtime checks them. */
static int choose_folders(struct build *build, struct box_err *err)
{
	struct box_value *spec = &build->made.spec;
	const struct box_value *asked = find_set(spec, "host_path");
	bool none = !asked || (asked->type == BOX_STR && box_str_strip(asked->str).len == 0);
	if (none && build->config->default_workspace) {
		box_map_set(build->arena, spec, box_str("host_path"),
			box_cstr(build->config->default_workspace));
	}
	if (!build->line || !box_line_shares_filesystem(build->line)) {
		return 0;
	}
	return box_mount_rules_check_spec(build->arena, spec, build->config->mount_roots, err);
}

/* Adds the skills of the query after the caller's own mounts, and notes those that are left out. They are
 * the platform's, so the caller's mount rules do not apply to them. */
static void add_skills(struct build *build)
{
	struct box_arena *arena = build->arena;
	struct box_service_spec *made = &build->made;
	const struct box_value *present = box_map_get(&made->spec, "extra_mounts");
	struct box_value mounts;
	struct box_value warnings;
	if (!build->run->skills || !build->line || (present && present->type != BOX_LIST)) {
		return;
	}
	struct box_value skills = box_value_copy(arena, build->run->skills);
	struct box_value all = present ? *present : box_list_value();
	box_skill_mounts_for_line(build->line, arena, &skills, &mounts, &warnings);
	for (uint32_t i = 0; i < mounts.count; i++) {
		box_list_add(arena, &all, mounts.items[i]);
	}
	for (uint32_t i = 0; i < warnings.count; i++) {
		box_list_add(arena, &made->notes, warnings.items[i]);
	}
	if (mounts.count > 0) {
		box_map_set(arena, &made->spec, box_str("extra_mounts"), all);
	}
}

/* Which folder is measured, and its limits. */
static void set_quota(struct build *build)
{
	struct box_service_spec *made = &build->made;
	const struct box_value *folder = find_set(&made->spec, "host_path");
	const struct box_value *asked = find_set(&made->spec, "workspace_quota_mb");
	int64_t megabytes = 0;
	if (build->run->create_only || !folder || folder->type != BOX_STR ||
		box_str_has_nul(folder->str) || !asked || box_fields_to_int(asked, &megabytes) ||
		megabytes <= 0 || megabytes > INT32_MAX) {
		return;
	}
	const char *path = box_arena_strndup(build->arena, folder->str.bytes, folder->str.len);
	made->folder = box_mount_rules_real(build->arena, path);
	made->quota = (struct box_quota_walk_limits){
		.bytes_max = (uint64_t)megabytes * BOX_MIB,
		.entries_max = build->config->entries_max,
	};
}

int box_service_spec_build(const struct box_service_config *config, const struct box_line *line,
	const struct box_service_run *run, struct box_arena *arena,
	struct box_service_spec *ret_spec, struct box_err *err)
{
	struct box_value nothing = box_map_value();
	const struct box_value *spec = run->spec ? run->spec : &nothing;
	struct build build = {.arena = arena, .config = config, .line = line, .run = run};
	const struct box_profile *profile = run->profile
		? box_profile_find(&config->profiles, run->profile, err)
		: config->profile;
	if (!profile) {
		return -EINVAL;
	}
	if (spec->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "a box spec must be a map");
	}
	build.made.spec = box_value_copy(arena, spec);
	build.made.notes = box_list_value();
	int r = name_session(&build, err);
	if (r < 0) {
		return r;
	}
	box_profile_apply(arena, profile, &config->defaults, &build.made.spec, &build.made.notes);
	r = choose_folders(&build, err);
	if (r < 0) {
		return r;
	}
	add_skills(&build);
	set_quota(&build);
	*ret_spec = build.made;
	return 0;
}

/* --- answers --- */

static void add_output(struct box_arena *arena, size_t chars_max, const struct box_value *answer,
	const char *name, const char *flag, struct box_value *result)
{
	struct box_str cut = text_of(answer, name);
	bool truncated = box_truncate(arena, cut, chars_max, &cut);
	box_map_set(arena, result, box_str(name), box_text(cut));
	box_map_set(arena, result, box_str(flag), box_bool(truncated));
}

struct box_value box_service_spec_result(struct box_arena *arena, const struct box_value *notes,
	bool is_exec, size_t chars_max, const struct box_value *answer)
{
	struct box_value result = box_map_value();
	for (uint32_t i = 0; i < answer->count; i++) {
		struct box_str key = answer->pairs[i].key;
		if (!is_exec || (!box_str_eq(key, "stdout") && !box_str_eq(key, "stderr"))) {
			box_map_add_str(arena, &result, key, answer->pairs[i].value);
		}
	}
	if (is_exec) {
		const struct box_value *code = box_map_get(answer, "exit_code");
		bool ok = box_str_eq(text_of(answer, "status"), "completed") && code &&
			code->type == BOX_INT && code->integer == 0;
		add_output(arena, chars_max, answer, "stdout", "stdout_truncated", &result);
		add_output(arena, chars_max, answer, "stderr", "stderr_truncated", &result);
		box_map_set(arena, &result, box_str("ok"), box_bool(ok));
		box_map_set(arena, &result, box_str("backend"),
			box_text(text_of(answer, "backend_name")));
	}
	box_map_set(arena, &result, box_str("notes"), *notes);
	return result;
}
