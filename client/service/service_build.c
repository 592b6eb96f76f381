/* What is sent for a run, and what of the answer is given back. Apart from looks at folders this is
 * pure. */
#include <errno.h>

#include "base/arena.h"
#include "client/service/mount_rules.h"
#include "client/service/service_job.h"
#include "client/service/session_template.h"
#include "client/service/truncate.h"
#include "client/skill_mounts.h"
#include "runtime/spec/fields.h"

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

static int name_session(const struct box_service *service, const struct box_service_run *run,
	struct box_service_job *job, struct box_err *err)
{
	const struct box_session_template_rules rules = {
		.forced = service->config.forced_session_template,
		.given = text_of(&job->spec, "session_id"),
		.wanted = run->session_template,
		.configured = service->config.session_template,
	};
	int r = box_session_template_make_id(job->arena, &rules, run->query, &job->session_id, err);
	if (r < 0) {
		return r;
	}
	if (rules.forced && box_str_strip(rules.given).len > 0 &&
		!box_str_eq(rules.given, job->session_id)) {
		box_list_add(job->arena, &job->notes,
			box_cstr(box_arena_printf(job->arena,
				"session_id %s is ignored: the operator's template gives %s",
				box_fields_echo(job->arena, rules.given), job->session_id)));
	}
	box_map_set(job->arena, &job->spec, box_str("session_id"), box_cstr(job->session_id));
	return 0;
}

/* Where both sides see the same folders, they are looked at here; else the runtime judges. */
static int place_folders(
	const struct box_service *service, struct box_service_job *job, struct box_err *err)
{
	const struct box_value *asked = find_set(&job->spec, "host_path");
	bool none = !asked || (asked->type == BOX_STR && box_str_strip(asked->str).len == 0);
	if (none && service->config.default_workspace) {
		box_map_set(job->arena, &job->spec, box_str("host_path"),
			box_cstr(service->config.default_workspace));
	}
	return service->line && box_line_shares_filesystem(service->line)
		? box_mount_rules_check_spec(
			  job->arena, &job->spec, service->config.mount_roots, err)
		: 0;
}

/* The skills of the query, behind the caller's own mounts. What is left out is noted. They are the
 * platform's, so the caller's rules are not theirs. */
static void add_skills(const struct box_service *service, const struct box_service_run *run,
	struct box_service_job *job)
{
	const struct box_value *present = box_map_get(&job->spec, "extra_mounts");
	struct box_value mounts;
	struct box_value warnings;
	if (!run->skills || !service->line || (present && present->type != BOX_LIST)) {
		return;
	}
	struct box_value skills = box_value_copy(job->arena, run->skills);
	struct box_value all = present ? *present : box_list_value();
	box_line_skill_mounts(service->line, job->arena, &skills, &mounts, &warnings);
	for (uint32_t i = 0; i < mounts.count; i++) {
		box_list_add(job->arena, &all, mounts.items[i]);
	}
	for (uint32_t i = 0; i < warnings.count; i++) {
		box_list_add(job->arena, &job->notes, warnings.items[i]);
	}
	if (mounts.count > 0) {
		box_map_set(job->arena, &job->spec, box_str("extra_mounts"), all);
	}
}

/* Which folder is measured, and against what. */
static void set_quota(const struct box_service *service, struct box_service_job *job)
{
	const struct box_value *folder = find_set(&job->spec, "host_path");
	const struct box_value *asked = find_set(&job->spec, "workspace_quota_mb");
	int64_t megabytes = 0;
	if (job->create_only || !folder || folder->type != BOX_STR ||
		box_str_has_nul(folder->str) || !asked || box_fields_to_int(asked, &megabytes) ||
		megabytes <= 0 || megabytes > INT32_MAX) {
		return;
	}
	const char *path = box_arena_strndup(job->arena, folder->str.bytes, folder->str.len);
	job->folder = box_mount_rules_real(job->arena, path);
	job->quota = (struct box_quota_walk_limits){
		.bytes_max = (uint64_t)megabytes * BOX_MIB,
		.entries_max = service->config.entries_max,
	};
}

static const struct box_profile *pick_profile(
	const struct box_service *service, const struct box_service_run *run, struct box_err *err)
{
	return run->profile ? box_profile_find(&service->config.profiles, run->profile, err)
			    : service->config.profile;
}

int box_service_build_spec(struct box_service *service, const struct box_service_run *run,
	struct box_service_job *job, struct box_err *err)
{
	struct box_value nothing = box_map_value();
	const struct box_value *spec = run->spec ? run->spec : &nothing;
	const struct box_profile *profile = pick_profile(service, run, err);
	if (!profile) {
		return -EINVAL;
	}
	if (spec->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "a box spec is a map");
	}
	job->spec = box_value_copy(job->arena, spec);
	job->notes = box_list_value();
	int r = name_session(service, run, job, err);
	if (r < 0) {
		return r;
	}
	box_profile_apply(job->arena, profile, &service->config.usual, &job->spec, &job->notes);
	r = place_folders(service, job, err);
	if (r < 0) {
		return r;
	}
	add_skills(service, run, job);
	set_quota(service, job);
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

struct box_value box_service_build_result(const struct box_service *service,
	struct box_service_job *job, const struct box_value *answer)
{
	struct box_value result = box_map_value();
	size_t chars_max = service->config.output_chars;
	for (uint32_t i = 0; i < answer->count; i++) {
		struct box_str key = answer->pairs[i].key;
		if (job->create_only ||
			(!box_str_eq(key, "stdout") && !box_str_eq(key, "stderr"))) {
			box_map_add_str(job->arena, &result, key, answer->pairs[i].value);
		}
	}
	if (!job->create_only) {
		const struct box_value *code = box_map_get(answer, "exit_code");
		bool ok = box_str_eq(text_of(answer, "status"), "completed") && code &&
			code->type == BOX_INT && code->integer == 0;
		add_output(job->arena, chars_max, answer, "stdout", "stdout_truncated", &result);
		add_output(job->arena, chars_max, answer, "stderr", "stderr_truncated", &result);
		box_map_set(job->arena, &result, box_str("ok"), box_bool(ok));
		box_map_set(job->arena, &result, box_str("backend"),
			box_text(text_of(answer, "backend_name")));
	}
	box_map_set(job->arena, &result, box_str("notes"), job->notes);
	return result;
}
