/* Specs in, ends of commands out: what exec, its streaming form and create share. */
#include "handlers/asked.h"

#include <errno.h>

#include "base/arena.h"
#include "handlers/request.h"
#include "runtime/host_path.h"
#include "runtime/output.h"
#include "runtime/runtime.h"

int box_asked_read(struct box_request *request, const struct box_value *data,
	struct box_asked *ret_asked, struct box_err *err)
{
	struct box_asked *asked = ret_asked;
	int r = box_spec_parse(request->arena, data, &asked->spec, err);
	if (r < 0) {
		return r;
	}
	r = box_tenant_physical_id(
		&request->context, box_str(asked->spec.session_id), asked->physical_id, err);
	if (r < 0) {
		/* Here, unlike elsewhere, a bad id is a fault of the spec. */
		err->code = BOX_ERR_VALIDATION;
		return r;
	}
	return box_host_paths_check(&asked->spec, request->runtime->config, err);
}

int box_asked_read_command(struct box_request *request, const struct box_value *data,
	struct box_asked *ret_asked, struct box_err *err)
{
	int r = box_asked_read(request, data, ret_asked, err);
	if (r == 0 && ret_asked->spec.cmd.len == 0) {
		r = box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "cmd must not be empty");
	}
	return r;
}

void box_asked_add_status(
	struct box_arena *arena, struct box_value *map, const struct box_exec_outcome *outcome)
{
	bool timed_out = outcome->reason == BOX_END_TIMEOUT;
	box_map_add(arena, map, "status", box_cstr(timed_out ? "timed_out" : "completed"));
	box_map_add(arena, map, "exit_code", timed_out ? box_null() : box_int(outcome->exit_code));
}

void box_asked_add_end(
	struct box_arena *arena, struct box_value *map, const struct box_exec_outcome *outcome)
{
	box_map_add(arena, map, "duration_ms", box_int((int64_t)outcome->duration_ms));
	box_map_add(arena, map, "end", box_output_end(arena, outcome->reason, outcome->signal));
}

static struct box_value bytes_value(uint64_t count)
{
	return box_int(count < INT64_MAX ? (int64_t)count : INT64_MAX);
}

void box_asked_add_workspace(struct box_arena *arena, struct box_value *map,
	const struct box_spec *spec, const struct box_exec_outcome *outcome)
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
