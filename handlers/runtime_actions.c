/* What concerns the runtime as a whole: ping, health, init, status, shutdown, and the two actions
 * that steer others. */
#include <errno.h>

#include "handlers/actions.h"
#include "handlers/dispatch.h"
#include "handlers/request.h"
#include "runtime/runtime.h"

static void reply_empty(struct box_request *request)
{
	struct box_value empty = box_map_value();
	box_request_reply(request, &empty);
}

void box_action_ping(struct box_request *request)
{
	reply_empty(request);
}

void box_action_health(struct box_request *request)
{
	if (!request->runtime->config->admission.required) {
		box_action_backend_info(request);
		return;
	}
	bool ready;
	struct box_value readiness = box_runtime_readiness(
		request->runtime, request->arena, &ready);
	if (ready) {
		box_request_reply(request, &readiness);
		return;
	}
	struct box_err err;
	(void)box_err_set(
		&err, BOX_ERR_READINESS, EAGAIN, "managed sandbox isolation is not ready");
	box_request_fail(request, &err);
}

void box_action_backend_info(struct box_request *request)
{
	struct box_value info = box_runtime_backend_info(request->runtime, request->arena);
	box_request_reply(request, &info);
}

void box_action_status(struct box_request *request)
{
	struct box_value status = box_runtime_status(
		request->runtime, &request->context, request->arena);
	box_request_reply(request, &status);
}

/* --- box_init --- */

static void reply_initialized(struct box_request *request)
{
	struct box_value answer = box_map_value();
	box_map_add(request->arena, &answer, "initialized", box_bool(true));
	box_request_reply(request, &answer);
}

static void init_done(void *arg, const struct box_err *err)
{
	struct box_request *request = arg;
	if (err) {
		box_request_fail(request, err);
	} else {
		reply_initialized(request);
	}
}

static void init_cancel(struct box_request *request)
{
	box_runtime_init_cancel(request->work);
}

void box_action_init(struct box_request *request)
{
	struct box_err err;
	struct box_init *init = NULL;
	int r = box_runtime_init(request->runtime, request->data, box_peer_is_parent(request->peer),
		init_done, request, &init, &err);
	if (r < 0) {
		box_request_fail(request, &err);
	} else if (r == 0) {
		reply_initialized(request);
	} else {
		request->work = init;
		request->cancel = init_cancel;
	}
}

/* --- box_shutdown --- */

void box_action_shutdown(struct box_request *request)
{
	box_sessions_remove_instance(request->runtime->sessions, request->context.instance);
	reply_empty(request);
}

/* --- cancel and acknowledge --- */

void box_action_cancel(struct box_request *request)
{
	const struct box_value *seq_id = box_map_get(request->data, "seq_id");
	if (!seq_id || seq_id->type != BOX_INT) {
		struct box_err err;
		(void)box_err_set(
			&err, BOX_ERR_VALUE, EINVAL, "Cancellation requires an integer seq_id");
		box_request_fail(request, &err);
		return;
	}
	struct box_value answer = box_map_value();
	box_map_add(request->arena, &answer, "cancelled",
		box_bool(box_peer_cancel(request, seq_id->integer)));
	box_request_reply(request, &answer);
}
