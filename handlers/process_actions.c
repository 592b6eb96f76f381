/* Managed processes: start, get, read output without taking it away (peek), stop. A start whose id is taken,
 * and a stop, wait until the old process has ended; a peek waits for the box. */
#include <errno.h>

#include "base/limits.h"
#include "handlers/actions.h"
#include "handlers/request.h"
#include "handlers/spec_request.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"

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
	if (!id) {
		return box_process_find(session, "default", err);
	}
	if (box_str_has_nul(id->str)) {
		(void)box_err_set(err, BOX_ERR_PROCESS_NOT_FOUND, ENOENT,
			"no managed process has a NUL in its process_id");
		return NULL;
	}
	return box_process_find(
		session, box_arena_strndup(request->arena, id->str.bytes, id->str.len), err);
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

void box_action_start_process(struct box_request *request)
{
	struct box_err err;
	struct box_process_spec *spec = box_arena_alloc(request->arena, sizeof(*spec));
	struct box_process *process = NULL;
	struct box_process_op *op = NULL;
	int r = box_spec_parse_process(
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

void box_action_get_process(struct box_request *request)
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

/* --- box_get_process_output --- */

static int64_t number_field(const struct box_request *request, const char *name, int64_t otherwise)
{
	const struct box_value *value = box_request_field(request, name);
	return value ? value->integer : otherwise;
}

static int read_peek(const struct box_request *request, struct box_backend_process_peek *wanted,
	uint64_t *wait_ms, struct box_err *err)
{
	const struct box_value *stream = box_request_field(request, "stream");
	int64_t offset = number_field(request, "offset", 0);
	int64_t length = number_field(request, "length", BOX_PROCESS_PEEK_BYTES_MAX);
	int64_t wait = number_field(request, "wait_ms", 0);
	bool is_stderr = stream && box_str_eq(stream->str, "stderr");
	if (stream && !is_stderr && !box_str_eq(stream->str, "stdout")) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "stream must be stdout or stderr");
	}
	if (offset < 0 || length < 0 || wait < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"offset, length and wait_ms must not be negative");
	}
	*wait_ms = wait < BOX_PROCESS_PEEK_MS_MAX ? (uint64_t)wait : BOX_PROCESS_PEEK_MS_MAX;
	*wanted = (struct box_backend_process_peek){
		.is_stderr = is_stderr,
		.offset = (uint64_t)offset,
		.max = length < (int64_t)BOX_PROCESS_PEEK_BYTES_MAX ? (uint32_t)length
								    : BOX_PROCESS_PEEK_BYTES_MAX,
		.wait = wait > 0,
	};
	return 0;
}

static void peeked_done(void *arg, const struct box_process *process,
	const struct box_backend_process_peeked *peeked, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_value answer = box_map_value();
	if (err) {
		box_request_fail(request, err);
		return;
	}
	bool runs = box_process_runs(process);
	box_map_add(request->arena, &answer, "offset", box_int((int64_t)peeked->offset));
	box_map_add(request->arena, &answer, "end", box_int((int64_t)peeked->end));
	box_map_add(request->arena, &answer, "ended", box_bool(peeked->ended));
	box_map_add(request->arena, &answer, "status", box_cstr(runs ? "running" : "exited"));
	box_request_add_data(request, request->arena, &answer, peeked->bytes);
	box_request_reply(request, &answer);
}

static void cancel_peek(struct box_request *request)
{
	box_process_peek_cancel(request->work);
}

void box_action_process_output(struct box_request *request)
{
	struct box_err err;
	struct box_backend_process_peek wanted;
	uint64_t wait_ms = 0;
	struct box_process_peek *peek;
	struct box_process *process = find_process(request, &err);
	if (!process || read_peek(request, &wanted, &wait_ms, &err) < 0 ||
		box_process_peek(process, &wanted, wait_ms, peeked_done, request, &peek, &err) <
			0) {
		box_request_fail(request, &err);
		return;
	}
	request->work = peek;
	request->cancel = cancel_peek;
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

void box_action_stop_process(struct box_request *request)
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
