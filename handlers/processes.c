/* Managed processes. No backend of this runtime runs them yet: starting one says so, and there are
 * none to be found. */
#include <errno.h>

#include "handlers/actions.h"
#include "handlers/request.h"
#include "runtime/runtime.h"
#include "runtime/spec_fields.h"

/* Finds the session of the request, or sets err. */
static struct box_session *find_session(
	struct box_request *request, char physical_id[BOX_PHYSICAL_ID_SIZE], struct box_err *err)
{
	if (box_request_session_id(request, physical_id, err) < 0) {
		return NULL;
	}
	return box_sessions_find(request->runtime->sessions, physical_id, err);
}

void box_handle_start_process(struct box_request *request)
{
	struct box_err err;
	struct box_process_spec spec;
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	int r = box_process_spec_parse(
		request->arena, box_request_field(request, "spec"), &spec, &err);
	if (r == 0 && find_session(request, physical_id, &err)) {
		(void)box_err_set(&err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"the backend of session %s runs no managed processes", physical_id);
	}
	box_request_fail(request, &err);
}

static void fail_not_found(struct box_request *request)
{
	struct box_err err;
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	const struct box_value *process_id = box_request_field(request, "process_id");
	if (find_session(request, physical_id, &err)) {
		(void)box_err_set(&err, BOX_ERR_PROCESS_NOT_FOUND, ENOENT,
			"session %s has no managed process with process_id=%s", physical_id,
			process_id ? box_fields_echo(request->arena, process_id->str) : "default");
	}
	box_request_fail(request, &err);
}

void box_handle_get_process(struct box_request *request)
{
	fail_not_found(request);
}

void box_handle_stop_process(struct box_request *request)
{
	fail_not_found(request);
}
