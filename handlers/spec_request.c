/* What box_exec, box_exec_stream and box_create_session share: reading a box spec, looking up its skill, and
 * the members of an answer that say how a command ended. */
#include "handlers/spec_request.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "handlers/request.h"
#include "runtime/config/host_path.h"
#include "runtime/runtime.h"
#include "runtime/session/output.h"

int box_spec_request_read(struct box_request *request, const struct box_value *data,
	struct box_spec_request *ret_asked, struct box_err *err)
{
	struct box_spec_request *asked = ret_asked;
	int r = box_spec_parse(request->arena, data, &asked->spec, err);
	if (r < 0) {
		return r;
	}
	r = box_tenant_physical_id(
		&request->context, box_str(asked->spec.session_id), asked->physical_id, err);
	if (r < 0) {
		/* Here, unlike elsewhere, a bad id is an error of the spec. */
		err->code = BOX_ERR_VALIDATION;
		return r;
	}
	box_spec_set_owner(&asked->spec, asked->physical_id);
	const struct box_ceilings *ceilings = &request->runtime->session_rules.ceilings;
	box_ceilings_clamp_timeout(ceilings, data, &asked->spec);
	r = box_ceilings_check_spec(ceilings, &asked->spec, err);
	if (r < 0) {
		return r;
	}
	return box_host_path_check(&asked->spec, request->runtime->config, err);
}

int box_spec_request_read_command(struct box_request *request, const struct box_value *data,
	struct box_spec_request *ret_asked, struct box_err *err)
{
	int r = box_spec_request_read(request, data, ret_asked, err);
	if (r == 0 && ret_asked->spec.cmd.len == 0) {
		r = box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "cmd must not be empty");
	}
	return r;
}

/* --- skill_name --- */

/* Mounts the package under /workspace/.skills, read-only, instead of a mount that the spec has there. */
static void add_skill(struct box_arena *arena, struct box_spec *spec, const char *path)
{
	struct box_mount *mounts = box_arena_alloc(
		arena, (spec->mount_count + 1) * sizeof(*mounts));
	const char *target = box_arena_printf(
		arena, "%s/.skills/%s", BOX_DEFAULT_MOUNT_PATH, spec->skill_name);
	size_t count = 0;
	for (size_t i = 0; i < spec->mount_count; i++) {
		if (strcmp(spec->mounts[i].mount_path, target) != 0) {
			mounts[count++] = spec->mounts[i];
		}
	}
	mounts[count++] = (struct box_mount){
		.host_path = path, .mount_path = target, .mode = BOX_MOUNT_RO, .in_store = true};
	spec->mounts = mounts;
	spec->mount_count = count;
}

/* Why the skill cannot be mounted; under admission the answer does not reveal which skills exist. */
static struct box_err why_no_skill(const struct box_request *request, const struct box_err *err)
{
	struct box_err why;
	if (!err) {
		(void)box_err_set(&why, BOX_ERR_BOX, EPROTO, "the skill store named no package");
	} else if (request->runtime->config->admission.required &&
		err->code == BOX_ERR_VALIDATION) {
		(void)box_err_set(&why, BOX_ERR_ADMISSION, ENOENT,
			"Managed sandbox skill is unavailable in this Workspace");
	} else {
		why = *err;
	}
	return why;
}

static void skill_found(void *arg, const struct box_value *answer, const struct box_err *err)
{
	struct box_spec_request *asked = arg;
	struct box_request *request = asked->request;
	const struct box_value *path = err ? NULL : box_map_get(answer, "path");
	request->cancel = NULL;
	if (!path || path->type != BOX_STR || box_str_has_nul(path->str)) {
		struct box_err why = why_no_skill(request, err);
		box_request_fail(request, &why);
		return;
	}
	add_skill(request->arena, &asked->spec,
		box_arena_strndup(request->arena, path->str.bytes, path->str.len));
	request->work = asked->work;
	asked->go(request, asked);
}

static void skill_cancel(struct box_request *request)
{
	struct box_spec_request *asked = request->work;
	box_skill_store_cancel(request->runtime, &asked->skill);
}

void box_spec_request_find_skill(struct box_request *request, struct box_spec_request *asked,
	void (*go)(struct box_request *request, struct box_spec_request *asked))
{
	if (!asked->spec.skill_name) {
		go(request, asked);
		return;
	}
	struct box_value *data = box_arena_alloc(request->arena, sizeof(*data));
	*data = box_map_value();
	box_map_add(request->arena, data, "name", box_cstr(asked->spec.skill_name));
	asked->request = request;
	asked->go = go;
	asked->work = request->work;
	request->work = asked;
	request->cancel = skill_cancel;
	asked->skill = (struct box_skill_store_request){
		.action = BOX_SKILL_STORE_FIND,
		.data = data,
		.archive = -1,
		.done = skill_found,
		.arg = asked,
	};
	box_skill_store_request(request->runtime, &request->context, &asked->skill);
}

/* --- ends --- */

void box_spec_request_add_status(struct box_arena *arena, struct box_value *map,
	const struct box_backend_exec_outcome *outcome)
{
	bool timed_out = outcome->reason == BOX_BACKEND_END_TIMEOUT;
	box_map_add(arena, map, "status", box_cstr(timed_out ? "timed_out" : "completed"));
	box_map_add(arena, map, "exit_code", timed_out ? box_null() : box_int(outcome->exit_code));
}

void box_spec_request_add_end(struct box_arena *arena, struct box_value *map,
	const struct box_backend_exec_outcome *outcome)
{
	box_map_add(arena, map, "duration_ms", box_int((int64_t)outcome->duration_ms));
	box_map_add(arena, map, "end", box_output_end(arena, outcome->reason, outcome->signal));
}

static struct box_value bytes_value(uint64_t count)
{
	return box_int(count < INT64_MAX ? (int64_t)count : INT64_MAX);
}

void box_spec_request_add_workspace(struct box_arena *arena, struct box_value *map,
	const struct box_spec *spec, const struct box_backend_exec_outcome *outcome)
{
	if (spec->workspace_quota_mb <= 0 || outcome->room_bytes == 0) {
		return;
	}
	struct box_value workspace = box_map_value();
	box_map_add(arena, &workspace, "quota_mb", box_int(spec->workspace_quota_mb));
	box_map_add(arena, &workspace, "size_bytes", bytes_value(outcome->room_bytes));
	box_map_add(arena, &workspace, "used_bytes", bytes_value(outcome->used_bytes));
	box_map_add(arena, &workspace, "full", box_bool(outcome->full));
	box_map_add(arena, map, "workspace", workspace);
}
