/* Managed processes: start, get, stop. Starting one whose id is taken, and stopping, wait for an
 * end. */
#include <errno.h>

#include "handlers/actions.h"
#include "handlers/request.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "runtime/spec_fields.h"

static struct box_session *find_session(struct box_request *request, struct box_err *err)
{
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	if (box_request_session_id(request, physical_id, err) < 0) {
		return NULL;
	}
	return box_sessions_find(request->runtime->sessions, physical_id, err);
}

static struct box_process *find_process(struct box_request *request, struct box_err *err)
{
	const struct box_value *id = box_request_field(request, "process_id");
	struct box_session *session = find_session(request, err);
	if (!session) {
		return NULL;
	}
	return box_process_find(
		session, id ? box_fields_echo(request->arena, id->str) : "default", err);
}

static void cancel(struct box_request *request)
{
	box_process_op_cancel(request->work);
}

/* --- start --- */

static void started(void *arg, const struct box_process *process, const struct box_err *err)
{
	struct box_request *request = arg;
	if (err) {
		box_request_fail(request, err);
		return;
	}
	struct box_value info = box_process_info(process, request->arena);
	box_request_reply(request, &info);
}

void box_handle_start_process(struct box_request *request)
{
	struct box_err err;
	struct box_process_spec *spec = box_arena_alloc(request->arena, sizeof(*spec));
	struct box_process *process = NULL;
	struct box_process_op *op = NULL;
	int r = box_process_spec_parse(
		request->arena, box_request_field(request, "spec"), spec, &err);
	struct box_session *session = r < 0 ? NULL : find_session(request, &err);
	if (!session) {
		box_request_fail(request, &err);
		return;
	}
	r = box_process_start(session, spec, started, request, &process, &op, &err);
	if (r == 1) {
		request->work = op;
		request->cancel = cancel;
		return;
	}
	started(request, process, r < 0 ? &err : NULL);
}

/* --- get --- */

void box_handle_get_process(struct box_request *request)
{
	struct box_err err;
	const struct box_process *process = find_process(request, &err);
	if (!process) {
		box_request_fail(request, &err);
		return;
	}
	struct box_value info = box_process_info(process, request->arena);
	box_request_reply(request, &info);
}

/* --- stop --- */

static void stopped(void *arg, const struct box_process *process, const struct box_err *err)
{
	struct box_request *request = arg;
	const struct box_value *id = box_request_field(request, "process_id");
	struct box_value answer = box_map_value();
	(void)process;
	(void)err; /* a stop does not fail */
	box_map_add(
		request->arena, &answer, "stopped", id ? box_text(id->str) : box_cstr("default"));
	box_request_reply(request, &answer);
}

void box_handle_stop_process(struct box_request *request)
{
	struct box_err err;
	struct box_process_op *op = NULL;
	struct box_process *process = find_process(request, &err);
	if (!process) {
		box_request_fail(request, &err);
		return;
	}
	if (box_process_stop(process, stopped, request, &op) == 0) {
		stopped(request, NULL, NULL);
		return;
	}
	request->work = op;
	request->cancel = cancel;
}
