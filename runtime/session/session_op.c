/* Operations on sessions: opening one, commands, file operations, waiting for the end of one.
 *
 * Each session has one list of operations: those that wait for it (while it is being made or removed) and those
 * running in its box. Only session.c changes the state of the session itself. An operation ends with its callback,
 * or is cancelled without one.
 */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/table.h"
#include "runtime/session/session_internal.h"

static struct box_session_op *op_new(struct box_sessions *sessions, enum box_session_op_kind kind,
	const char *physical_id, const struct box_context *context, const struct box_spec *spec,
	void *arg)
{
	struct box_arena *arena = box_arena_new();
	struct box_session_op *op = box_arena_alloc(arena, sizeof(*op));
	box_list_init(&op->links);
	op->arena = arena;
	op->sessions = sessions;
	op->kind = kind;
	op->physical_id = box_arena_strndup(arena, physical_id, strlen(physical_id));
	op->context = context;
	op->spec = spec;
	op->arg = arg;
	return op;
}

static void op_free(struct box_session_op *op)
{
	box_list_drop(&op->links);
	box_arena_free(op->arena);
}

/* Reports to the caller and frees the op. `outcome` is a command's; `file_outcome` a file operation's. */
static void finish(struct box_session_op *op, struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_file_outcome *file_outcome,
	const struct box_err *err)
{
	struct box_session_op last = *op;
	op_free(op);
	switch (last.kind) {
	case BOX_SESSION_OP_OPEN:
		last.opened(last.arg, session, err);
		break;
	case BOX_SESSION_OP_EXEC:
		last.ran(last.arg, session, outcome, err);
		break;
	case BOX_SESSION_OP_FILE:
		last.filed(last.arg, file_outcome, err);
		break;
	case BOX_SESSION_OP_REMOVE:
		last.removed(last.arg); /* a removal has no error */
		break;
	}
}

void box_session_op_finish(
	struct box_session_op *op, struct box_session *session, const struct box_err *err)
{
	finish(op, session, NULL, NULL, err);
}

/* --- commands --- */

static void exec_done(
	void *arg, const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct box_session_op *op = arg;
	struct box_session *session = op->session;
	bool removes = outcome && outcome->reason == BOX_BACKEND_END_TIMEOUT &&
		!(op->live && op->live->keep_on_timeout);
	struct box_err named;
	if (err && err->code == BOX_ERR_BOX && err->errnum == EPIPE) {
		(void)box_err_set(&named, BOX_ERR_BOX, EPIPE, "session %s: %s", session->logical_id,
			err->text);
		err = &named;
	}
	op->running = NULL;
	session->running--;
	box_session_mark_used(session);
	if (removes) {
		/* Detached from the session, which is removed first: the callback must not find it. */
		box_list_drop(&op->links);
		op->session = NULL;
		box_session_remove(session);
	}
	finish(op, err ? NULL : session, outcome, NULL, err);
}

static void live_started(void *arg)
{
	struct box_session_op *op = arg;
	op->live->events->started(op->arg);
}

static void live_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct box_session_op *op = arg;
	op->live->events->output(op->arg, is_stderr, bytes);
}

static const struct box_backend_stream_events stream_events = {
	.started = live_started,
	.output = live_output,
};

static void exec_begin(struct box_session_op *op)
{
	struct box_session *session = op->session;
	box_session_mark_used(session);
	session->running++;
	if (op->live) {
		op->own_live = *op->live;
		op->own_live.events = &stream_events;
	}
	op->running = session->backend->exec(session->box, op->spec,
		op->sessions->rules->max_output_bytes, op->live ? &op->own_live : NULL, exec_done,
		op);
}

/* For a live command, called only between its `started` and its `done`. */

void box_session_op_credit(struct box_session_op *op, uint64_t bytes)
{
	op->session->backend->credit(op->running, bytes);
}

struct box_session_input box_session_op_input(struct box_session_op *op, struct box_str bytes,
	bool eof, box_backend_input_done *taken, void *arg)
{
	struct box_session_input input = {op->session->backend, op->running};
	input.backend->input(input.running, bytes, eof, taken, arg);
	return input;
}

void box_session_forget_input(const struct box_session_input *input, void *arg)
{
	input->backend->forget_input(input->running, arg);
}

void box_session_op_resize(struct box_session_op *op, uint16_t rows, uint16_t columns)
{
	op->session->backend->resize(op->running, rows, columns);
}

void box_session_op_signal(struct box_session_op *op, int number)
{
	op->session->backend->signal(op->running, number);
}

/* --- file operations --- */

/* Counts the op in its session, which is LIVE, and lets the caller fill in the request. */
static int file_enter(struct box_session_op *op, struct box_err *err)
{
	struct box_session *session = op->session;
	struct box_session_file *file = op->file;
	if (!session->backend->file) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"the backend has no file operations");
	}
	if (session->files >= BOX_FILE_OPS_MAX ||
		(file->watches && session->watches >= BOX_FILE_OP_WATCHES_MAX)) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many file operations at once in one session (%d, of these %d watches)",
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

static void file_leave(struct box_session_op *op)
{
	if (op->counted) {
		op->counted = false;
		op->session->files--;
		op->session->watches -= op->file->watches;
	}
}

static void file_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_session_op *op = arg;
	struct box_session *session = op->session;
	op->running = NULL;
	session->running--;
	box_session_mark_used(session);
	file_leave(op);
	finish(op, NULL, NULL, outcome, err);
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

static const struct box_file_events file_events = {.started = file_started, .event = file_event};

static void file_run(struct box_session_op *op)
{
	struct box_session *session = op->session;
	box_session_mark_used(session);
	session->running++;
	op->running = session->backend->file(
		session->box, &op->file->ask, &file_events, file_done, op);
}

static void file_begin(struct box_session_op *op)
{
	struct box_err err;
	if (file_enter(op, &err) < 0) {
		box_session_op_finish(op, NULL, &err);
		return;
	}
	file_run(op);
}

/* --- joining a session --- */

void box_session_op_begin(struct box_session_op *op)
{
	switch (op->kind) {
	case BOX_SESSION_OP_OPEN:
		box_session_mark_used(op->session);
		box_session_op_finish(op, op->session, NULL);
		break;
	case BOX_SESSION_OP_EXEC:
		exec_begin(op);
		break;
	case BOX_SESSION_OP_FILE:
		box_session_mark_used(op->session);
		file_begin(op);
		break;
	case BOX_SESSION_OP_REMOVE:
		break; /* it only waits */
	}
}

static int check_conflict(
	const struct box_session_op *op, const struct box_session *session, struct box_err *err)
{
	const char *value = NULL;
	const char *field = box_spec_conflict(op->arena, &session->spec, op->spec, &value);
	if (!field) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_SESSION_CONFLICT, EEXIST,
		"Box session %s already exists with %s=%s", session->physical_id, field, value);
}

/* Adds the op to its session. 0: the session is LIVE, and the op is in its list but not started; 1: it waits; negative:
 * it is in no list. */
static int join(struct box_session_op *op, struct box_err *err)
{
	struct box_session *session = box_table_get(&op->sessions->by_id, box_str(op->physical_id));
	bool uses = op->kind == BOX_SESSION_OP_FILE; /* uses an existing session, makes none */
	if (!session) {
		int r = uses ? box_session_refuse_missing(op->physical_id, err)
			     : box_session_make(op, err);
		return r < 0 ? r : 1;
	}
	if (session->state == BOX_SESSION_STOPPED) {
		(void)box_session_refuse_stopped(session, err);
		return -ESHUTDOWN;
	}
	if (session->state != BOX_SESSION_REMOVING && !uses) {
		int r = check_conflict(op, session, err);
		if (r < 0) {
			return r;
		}
	}
	op->session = session;
	box_list_push(&session->ops, &op->links);
	return session->state == BOX_SESSION_LIVE ? 0 : 1;
}

void box_session_op_rejoin(struct box_session_op *op)
{
	struct box_err err;
	int r = join(op, &err);
	if (r < 0) {
		box_session_op_finish(op, NULL, &err);
	} else if (r == 0) {
		box_session_op_begin(op);
	}
}

void box_session_ops_detach(struct box_session *session, struct box_list *list)
{
	struct box_list *item;
	box_list_init(list);
	while ((item = box_list_pop(&session->ops))) {
		BOX_CONTAINER_OF(item, struct box_session_op, links)->session = NULL;
		box_list_push(list, item);
	}
}

void box_session_ops_end(struct box_session *session, struct box_list *ended)
{
	struct box_list all;
	struct box_list *item;
	box_list_init(ended);
	box_list_init(&all);
	box_list_splice(&all, &session->ops);
	while ((item = box_list_pop(&all))) {
		struct box_session_op *op = BOX_CONTAINER_OF(item, struct box_session_op, links);
		if (op->kind == BOX_SESSION_OP_REMOVE) {
			box_list_push(&session->ops, item);
			continue;
		}
		if (op->running) {
			session->backend->cancel(op->running);
			op->running = NULL;
			session->running--;
		}
		file_leave(op);
		op->session = NULL;
		box_list_push(ended, item);
	}
}

/* --- for callers --- */

int box_sessions_open(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec, box_session_open_done *done,
	void *arg, struct box_session **ret_session, struct box_session_op **ret_op,
	struct box_err *err)
{
	struct box_session_op *op = op_new(
		sessions, BOX_SESSION_OP_OPEN, physical_id, context, spec, arg);
	op->opened = done;
	int r = join(op, err);
	if (r == 0) {
		*ret_session = op->session;
		box_session_mark_used(op->session);
	}
	if (r <= 0) {
		op_free(op);
	} else {
		*ret_op = op;
	}
	return r;
}

struct box_session_op *box_sessions_exec(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec,
	const struct box_backend_stream *live, box_session_exec_done *done, void *arg,
	struct box_err *err)
{
	struct box_session_op *op = op_new(
		sessions, BOX_SESSION_OP_EXEC, physical_id, context, spec, arg);
	op->ran = done;
	op->live = live;
	int r = join(op, err);
	if (r < 0) {
		op_free(op);
		return NULL;
	}
	if (r == 0) {
		box_session_op_begin(op);
	}
	return op;
}

struct box_session_op *box_sessions_file(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, struct box_session_file *file,
	box_session_file_done *done, void *arg, struct box_err *err)
{
	struct box_session_op *op = op_new(
		sessions, BOX_SESSION_OP_FILE, physical_id, context, NULL, arg);
	op->filed = done;
	op->file = file;
	int r = join(op, err);
	if (r == 0) {
		r = file_enter(op, err);
	}
	if (r < 0) {
		op_free(op);
		return NULL;
	}
	if (op->counted) {
		file_run(op);
	}
	return op;
}

struct box_session_op *box_session_op_wait_gone(
	struct box_session *session, box_session_remove_done *done, void *arg)
{
	struct box_session_op *op = op_new(
		session->sessions, BOX_SESSION_OP_REMOVE, session->physical_id, NULL, NULL, arg);
	op->removed = done;
	op->session = session;
	box_list_push(&session->ops, &op->links);
	return op;
}

void box_session_op_cancel(struct box_session_op *op)
{
	struct box_session *session = op->session;
	if (op->running) {
		session->backend->cancel(op->running);
		session->running--;
		box_session_mark_used(session);
	}
	file_leave(op);
	op_free(op);
	if (session && session->state == BOX_SESSION_MAKING && box_list_empty(&session->ops)) {
		box_session_remove(session);
	}
}
