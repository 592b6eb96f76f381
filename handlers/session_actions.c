/* Commands whose output comes with the answer (box_exec), and sessions: create, get, list, stop, delete. */
#include <errno.h>
#include <string.h>

#include "handlers/actions.h"
#include "handlers/request.h"
#include "handlers/spec_request.h"
#include "runtime/runtime.h"
#include "runtime/session/output.h"
#include "runtime/session/process.h"

/* NULL: the request has failed. */
static struct box_spec_request *new_spec_request(struct box_request *request,
	int (*read)(struct box_request *request, const struct box_value *data,
		struct box_spec_request *ret_spec_request, struct box_err *err))
{
	struct box_err err;
	struct box_spec_request *spec_request = box_arena_alloc(
		request->arena, sizeof(*spec_request));
	if (read(request, request->data, spec_request, &err) < 0) {
		box_request_fail(request, &err);
		return NULL;
	}
	request->work = spec_request;
	return spec_request;
}

static void op_cancel(struct box_request *request)
{
	struct box_spec_request *spec_request = request->work;
	box_session_op_cancel(spec_request->op);
}

/* --- box_exec --- */

static struct box_value result_value(struct box_request *request, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, size_t output_limit)
{
	struct box_arena *arena = request->arena;
	const struct box_spec_request *spec_request = request->work;
	bool timed_out = outcome->reason == BOX_BACKEND_END_TIMEOUT;
	struct box_str out = box_output_text(
		arena, outcome->out, outcome->out_discarded, output_limit);
	struct box_str err = box_output_text(
		arena, outcome->err, outcome->err_discarded, output_limit);
	if (timed_out && err.len == 0) {
		err = box_str(box_arena_printf(arena, "Command timed out after %lld seconds.",
			(long long)spec_request->spec.timeout_sec));
	}
	struct box_value result = box_map_value();
	box_map_add(arena, &result, "session_id", box_cstr(box_session_logical_id(session)));
	box_map_add(arena, &result, "backend_name", box_cstr(box_session_backend_name(session)));
	box_spec_request_add_status(arena, &result, outcome);
	box_map_add(arena, &result, "stdout", box_text(out));
	box_map_add(arena, &result, "stderr", box_text(err));
	box_spec_request_add_end(arena, &result, outcome);
	box_spec_request_add_workspace(arena, &result, &spec_request->spec, outcome);
	return result;
}

/* Text grows when it is encoded, control characters sixfold: output that does not fit in an answer is clipped
 * to half until it fits. */
static void exec_done(void *arg, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	if (err) {
		box_request_fail(request, err);
		return;
	}
	size_t limit = (size_t)request->runtime->config->limits.max_output_bytes;
	struct box_value result = result_value(request, session, outcome, limit);
	while (limit > 0 && box_request_try_reply(request, &result) < 0) {
		limit /= 2;
		result = result_value(request, session, outcome, limit);
	}
	if (limit == 0) {
		box_request_reply(request, &result);
	}
}

static void exec_begin(struct box_request *request, struct box_spec_request *spec_request)
{
	struct box_err err;
	spec_request->op = box_sessions_exec(request->runtime->sessions, spec_request->physical_id,
		&request->context, &spec_request->spec, NULL, exec_done, request, &err);
	if (!spec_request->op) {
		box_request_fail(request, &err);
		return;
	}
	request->cancel = op_cancel;
}

void box_action_exec(struct box_request *request)
{
	struct box_spec_request *spec_request = new_spec_request(
		request, box_spec_request_read_command);
	if (spec_request) {
		box_spec_request_find_skill(request, spec_request, exec_begin);
	}
}

/* --- sessions --- */

static void session_opened(void *arg, struct box_session *session, const struct box_err *err)
{
	struct box_request *request = arg;
	if (err) {
		box_request_fail(request, err);
		return;
	}
	struct box_value info = box_session_info(session, request->arena);
	box_request_reply(request, &info);
}

void box_action_create_session(struct box_request *request)
{
	struct box_err err;
	struct box_session *session = NULL;
	struct box_spec_request *spec_request = new_spec_request(request, box_spec_request_read);
	if (!spec_request) {
		return;
	}
	int r = box_sessions_open(request->runtime->sessions, spec_request->physical_id,
		&request->context, &spec_request->spec, session_opened, request, &session,
		&spec_request->op, &err);
	if (r == 1) {
		request->cancel = op_cancel;
	} else {
		session_opened(request, session, r < 0 ? &err : NULL);
	}
}

void box_action_get_session(struct box_request *request)
{
	struct box_err err;
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	struct box_session *session = NULL;
	if (box_request_session_id(request, physical_id, &err) == 0) {
		session = box_sessions_find(request->runtime->sessions, physical_id, &err);
	}
	if (!session) {
		box_request_fail(request, &err);
		return;
	}
	struct box_value info = box_session_info(session, request->arena);
	box_process_add_session_info(session, request->arena, &info);
	box_request_reply(request, &info);
}

void box_action_get_sessions(struct box_request *request)
{
	const struct box_value *all = box_request_field(request, "all");
	const struct box_sessions *sessions = request->runtime->sessions;
	struct box_value answer = box_map_value();
	bool of_all = all && all->boolean;
	if (of_all && !request->is_operator) {
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_PERMISSION, EPERM,
			"only the operator, over its own socket, sees the boxes of all workspaces");
		box_request_fail(request, &err);
		return;
	}
	box_map_add(request->arena, &answer, "sessions",
		of_all ? box_sessions_list_all(sessions, request->arena)
		       : box_sessions_list(sessions, &request->context, request->arena));
	box_request_reply(request, &answer);
}

/* Answers box_delete_session or box_stop_session; `member` of the answer has the session's id. */
static void ended(struct box_request *request, const char *member)
{
	struct box_value answer = box_map_value();
	box_map_add(request->arena, &answer, member, *box_request_field(request, "session_id"));
	box_request_reply(request, &answer);
}

static void session_removed(void *arg)
{
	ended(arg, "deleted");
}

static void session_stopped(void *arg)
{
	ended(arg, "stopped");
}

typedef int session_end(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err);

static void end_session(
	struct box_request *request, session_end *end, box_session_remove_done *done)
{
	struct box_err err;
	struct box_spec_request *spec_request = box_arena_alloc(
		request->arena, sizeof(*spec_request));
	int r = box_request_session_id(request, spec_request->physical_id, &err);
	if (r == 0) {
		r = end(request->runtime->sessions, spec_request->physical_id, done, request,
			&spec_request->op, &err);
	}
	if (r < 0) {
		box_request_fail(request, &err);
	} else if (r == 0) {
		done(request);
	} else {
		request->work = spec_request;
		request->cancel = op_cancel;
	}
}

void box_action_delete_session(struct box_request *request)
{
	end_session(request, box_sessions_remove, session_removed);
}

void box_action_stop_session(struct box_request *request)
{
	end_session(request, box_sessions_stop, session_stopped);
}
