/* Actions about the runtime as a whole: ping, health, init, status, shutdown, storage analysis, admission,
 * and __cancel_action.
 *
 * Admission grants are accepted only while isolation is proved ready, which no backend of this runtime can
 * do yet; so every grant is refused, by the error that says so. */
#include <errno.h>
#include <string.h>

#include "handlers/actions.h"
#include "handlers/peer.h"
#include "handlers/request.h"
#include "runtime/runtime.h"
#include "runtime/storage.h"

#define PROBE_PREFIX ".langbot-box-volume-probe-"
#define PROBE_DIGITS 32

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

/* --- __cancel_action --- */

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

/* --- box_get_storage_analysis --- */

static void storage_done(void *arg, const struct box_storage_report *report)
{
	struct box_request *request = arg;
	struct box_value answer = box_storage_value(report, request->arena);
	box_request_reply(request, &answer);
}

static void storage_cancel(struct box_request *request)
{
	box_storage_cancel(request->work);
}

void box_action_storage_analysis(struct box_request *request)
{
	struct box_storage_report report;
	struct box_storage_analysis *analysis = box_storage_analyse(
		request->runtime, &request->context, storage_done, request, &report);
	if (!analysis) {
		storage_done(request, &report);
		return;
	}
	request->work = analysis;
	request->cancel = storage_cancel;
}

/* --- admission: grants, and the probe of a shared workspace --- */

static void refuse_grant(struct box_request *request)
{
	struct box_err err;
	if (!request->runtime->config->admission.required) {
		(void)box_err_set(&err, BOX_ERR_ADMISSION, EPERM,
			"Sandbox admission enforcement is not enabled");
	} else if (box_runtime_require_ready(request->runtime, &err) == 0) {
		(void)box_err_set(&err, BOX_ERR_ADMISSION, ENOTSUP,
			"this runtime installs no sandbox admission grants");
	}
	box_request_fail(request, &err);
}

void box_action_upsert_grant(struct box_request *request)
{
	refuse_grant(request);
}

void box_action_revoke_grant(struct box_request *request)
{
	refuse_grant(request);
}

static bool probe_name_valid(struct box_str name)
{
	size_t prefix = strlen(PROBE_PREFIX);
	if (name.len != prefix + PROBE_DIGITS || memcmp(name.bytes, PROBE_PREFIX, prefix) != 0) {
		return false;
	}
	for (size_t i = prefix; i < name.len; i++) {
		if (name.bytes[i] == '\0' || !strchr("0123456789abcdef", name.bytes[i])) {
			return false;
		}
	}
	return true;
}

/* Always refused: box-rpc cannot open files of the host, and boxd does not read them for it. */
void box_action_verify_workspace(struct box_request *request)
{
	struct box_err err;
	const struct box_value *name = box_request_field(request, "marker_name");
	bool valid = name && probe_name_valid(box_str_strip(name->str));
	(void)box_err_set(&err, BOX_ERR_READINESS, EACCES, "%s",
		valid ? "Box Runtime cannot read the Core shared Workspace probe"
		      : "Invalid Box shared Workspace probe basename");
	box_request_fail(request, &err);
}
