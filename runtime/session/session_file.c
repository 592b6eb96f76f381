/* Work on files of a session: an operation like a command, of a session that is there. */
#include <errno.h>

#include "base/limits.h"
#include "runtime/session/session_internal.h"

/* Counts it to the session, which is LIVE, and has it say what to ask. */
static int enter(struct box_session_op *op, struct box_err *err)
{
	struct box_session *session = op->session;
	struct box_session_file *file = op->file;
	if (!session->backend->file) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"the backend cannot work on files");
	}
	if (session->files >= BOX_FILE_OPS_MAX ||
		(file->watches && session->watches >= BOX_FILE_OP_WATCHES_MAX)) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too much work on files at once in one session (%d, of these %d watches)",
			BOX_FILE_OPS_MAX, BOX_FILE_OP_WATCHES_MAX);
	}
	int r = file->prepare(op->arg, &session->spec, &file->ask, err);
	if (r < 0) {
		return r;
	}
	file->ask.mounts = session->spec.volumes;
	file->ask.mount_count = session->spec.volume_count;
	op->counted = true;
	session->files++;
	session->watches += file->watches;
	return 0;
}

void box_session_file_leave(struct box_session_op *op)
{
	if (op->counted) {
		op->counted = false;
		op->session->files--;
		op->session->watches -= op->file->watches;
	}
}

static void tell(struct box_session_op *op, const struct box_file_outcome *outcome,
	const struct box_err *err)
{
	struct box_session_op last = *op;
	box_session_op_free(op);
	last.filed(last.arg, outcome, err);
}

static void file_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_session_op *op = arg;
	struct box_session *session = op->session;
	op->running = NULL;
	session->running--;
	box_session_mark_used(session);
	box_session_file_leave(op);
	tell(op, outcome, err);
}

static void file_started(void *arg)
{
	struct box_session_op *op = arg;
	op->file->events->started(op->arg);
}

static void file_event(void *arg, const struct box_file_event *event)
{
	struct box_session_op *op = arg;
	op->file->events->event(op->arg, event);
}

static const struct box_file_events own_events = {.started = file_started, .event = file_event};

static void run(struct box_session_op *op)
{
	struct box_session *session = op->session;
	box_session_mark_used(session);
	session->running++;
	op->running = session->backend->file(
		session->box, &op->file->ask, &own_events, file_done, op);
}

void box_session_file_begin(struct box_session_op *op)
{
	struct box_err err;
	if (enter(op, &err) < 0) {
		tell(op, NULL, &err);
		return;
	}
	run(op);
}

struct box_session_op *box_sessions_file(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, struct box_session_file *file,
	box_session_file_done *done, void *arg, struct box_err *err)
{
	struct box_session_op *op = box_session_op_new(
		sessions, BOX_SESSION_OP_FILE, physical_id, context, NULL, arg);
	op->filed = done;
	op->file = file;
	int r = box_session_join(op, err);
	if (r == 0) {
		r = enter(op, err);
	}
	if (r < 0) {
		box_session_op_free(op);
		return NULL;
	}
	if (op->counted) {
		run(op);
	}
	return op;
}
