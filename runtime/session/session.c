/* The life of a session: MAKING -> LIVE -> REMOVING -> gone, or -> STOPPED.
 *
 * Owns the table of sessions and each change of state. Operations (session_op.c) wait while their session
 * is being made; while it is being removed they wait for its end and then start over. A session that was
 * stopped keeps its name and spec without a box until it is removed, or forgotten because it is old or
 * because too many are kept. State changes first, callbacks last: a `done` may call functions of this file.
 */
#include "runtime/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "runtime/session/process_internal.h"
#include "runtime/session/session_internal.h"

static void gone(void *arg);

struct box_sessions *box_sessions_new(const struct box_session_rules *rules)
{
	struct box_sessions *sessions = box_alloc(sizeof(*sessions));
	sessions->rules = rules;
	box_list_init(&sessions->all);
	return sessions;
}

void box_sessions_free(struct box_sessions *sessions)
{
	if (!sessions) {
		return;
	}
	box_table_free(&sessions->by_id);
	free(sessions);
}

void box_session_mark_used(struct box_session *session)
{
	session->used_utc_us = box_clock_utc_us();
	session->used_ms = box_clock_ms();
}

int box_session_refuse_missing(const char *physical_id, struct box_err *err)
{
	return box_err_set(
		err, BOX_ERR_SESSION_NOT_FOUND, ENOENT, "session %s not found", physical_id);
}

int box_session_refuse_stopped(const struct box_session *session, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_SESSION_CONFLICT, ESHUTDOWN,
		"Box session %s is stopped: remove it to make a new one", session->physical_id);
}

/* --- making --- */

void box_session_forget(struct box_session *session)
{
	session->sessions->stopped -= session->state == BOX_SESSION_STOPPED;
	session->sessions->leaving -= box_session_is_leaving(session);
	box_process_end_all(session);
	/* Removed from the lists first, because the whole record may be rewritten with all listed sessions. */
	box_table_remove(&session->sessions->by_id, box_str(session->physical_id));
	box_list_drop(&session->links);
	box_session_record_end(session);
	box_arena_free(session->arena);
}

/* The box ended by itself: its session is removed, and the next use makes a new one. */
static void lost(void *arg, const char *why)
{
	struct box_session *session = arg;
	BOX_LOG(BOX_LOG_WARNING, "session.lost", box_log_str("session", session->physical_id),
		box_log_str("why", why));
	box_session_remove(session);
}

void box_session_set_live(struct box_session *session, struct box_backend_box *box)
{
	session->box = box;
	session->state = BOX_SESSION_LIVE;
	box_session_mark_used(session);
	session->backend->watch(box, lost, session);
	box_session_record(session);
	box_process_adopt_all(session);
}

static void made(void *arg, struct box_backend_box *box, const struct box_err *err)
{
	struct box_session *session = arg;
	struct box_list waiting;
	struct box_list *item;
	session->making = NULL;
	if (session->state == BOX_SESSION_REMOVING) {
		gone(session); /* cancelled, and its box is gone */
		return;
	}
	box_session_ops_detach(session, &waiting);
	if (err) {
		box_session_forget(session);
		while ((item = box_list_pop(&waiting))) {
			box_session_op_finish(
				BOX_CONTAINER_OF(item, struct box_session_op, links), NULL, err);
		}
		return;
	}
	box_session_set_live(session, box);
	while ((item = box_list_pop(&waiting))) {
		struct box_session_op *op = BOX_CONTAINER_OF(item, struct box_session_op, links);
		op->session = session;
		box_list_push(&session->ops, &op->links);
		/* An earlier callback may have removed the session: then this op waits for the next
		 * one. */
		if (session->state == BOX_SESSION_LIVE) {
			box_session_op_begin(op);
		}
	}
}

static struct box_session *session_new(struct box_session_op *op)
{
	struct box_sessions *sessions = op->sessions;
	char prefix[BOX_PHYSICAL_ID_SIZE];
	struct box_arena *arena = box_arena_new();
	struct box_session *session = box_arena_alloc(arena, sizeof(*session));
	session->sessions = sessions;
	session->arena = arena;
	session->physical_id = box_arena_strndup(arena, op->physical_id, strlen(op->physical_id));
	session->logical_id = session->physical_id + box_tenant_prefix(op->context, prefix);
	box_tenant_namespace(op->context, session->workspace);
	session->generation = op->context->generation;
	session->owner = box_tenant_copy_context(arena, op->context);
	session->spec = box_spec_copy_session(arena, op->spec);
	session->backend = sessions->rules->backend->ops;
	session->backend_name = box_arena_strndup(
		arena, sessions->rules->backend_name, strlen(sessions->rules->backend_name));
	session->created_utc_us = box_clock_utc_us();
	box_list_init(&session->ops);
	box_list_init(&session->processes);
	box_session_mark_used(session);
	session->born_ms = session->used_ms;
	box_table_put(&sessions->by_id, box_str(session->physical_id), session);
	box_list_push(&sessions->all, &session->links);
	return session;
}

/* Whether one more box fits beside those that have not ended yet. */
static bool has_room(const struct box_sessions *sessions, const char *workspace, int64_t memory_mb)
{
	struct box_ceilings_usage use = box_sessions_usage(sessions, workspace, true);
	return (int64_t)box_sessions_count_boxes(sessions) < sessions->rules->max_sessions &&
		box_ceilings_check_box(&sessions->rules->ceilings, &use, memory_mb, NULL) == 0;
}

/* There is room only after a leaving session has gone: the op waits for that one, as if it had requested the same id.
 * Its client may already have been told that it is removed. */
static void wait_for_room(struct box_session_op *op)
{
	struct box_list *at = op->sessions->all.next;
	while (!box_session_is_leaving(BOX_CONTAINER_OF(at, struct box_session, links))) {
		at = at->next;
	}
	op->session = BOX_CONTAINER_OF(at, struct box_session, links);
	box_list_push(&op->session->ops, &op->links);
}

/* Makes the session that the op requests, and lets the op wait for it. */
int box_session_make(struct box_session_op *op, struct box_err *err)
{
	struct box_sessions *sessions = op->sessions;
	const struct box_session_rules *rules = sessions->rules;
	const struct box_backend_ops *ops = rules->backend ? rules->backend->ops : NULL;
	/* A backend that can report what is missing gets the request: what was missing may be there now. */
	if (!ops || (!ops->missing && !ops->available(rules->backend))) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s",
			rules->backend ? "the backend cannot make boxes now"
				       : rules->backend_missing);
	}
	if ((int64_t)box_sessions_count_shown(sessions) >= rules->max_sessions) {
		return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
			"Box session capacity reached (%lld)", (long long)rules->max_sessions);
	}
	char workspace[BOX_NAMESPACE_SIZE];
	box_tenant_namespace(op->context, workspace);
	struct box_ceilings_usage use = box_sessions_usage(sessions, workspace, false);
	int r = box_ceilings_check_box(&rules->ceilings, &use, op->spec->memory_mb, err);
	if (r < 0) {
		return r;
	}
	if (sessions->leaving > 0 && !has_room(sessions, workspace, op->spec->memory_mb)) {
		wait_for_room(op);
		return 0;
	}
	struct box_session *session = session_new(op);
	op->session = session;
	box_list_push(&session->ops, &op->links);
	session->making = session->backend->make(
		rules->backend, session->physical_id, op->spec, made, session);
	return 0;
}

/* --- removing --- */

static void forget_oldest(struct box_sessions *sessions)
{
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		if (session->state == BOX_SESSION_STOPPED) {
			box_session_forget(session);
			return;
		}
	}
}

void box_session_set_stopped(struct box_session *session)
{
	struct box_sessions *sessions = session->sessions;
	if (sessions->stopped >= BOX_SESSIONS_STOPPED_MAX) {
		forget_oldest(sessions);
	}
	session->state = BOX_SESSION_STOPPED;
	session->stopping = false;
	session->box = NULL;
	sessions->stopped++;
	box_session_mark_used(session);
	box_session_record_stop(session);
}

static void gone(void *arg)
{
	struct box_session *session = arg;
	struct box_list waiting;
	struct box_list *item;
	box_session_ops_detach(session, &waiting);
	if (session->stopping) {
		box_session_set_stopped(session);
	} else {
		box_session_forget(session);
	}
	while ((item = box_list_pop(&waiting))) {
		struct box_session_op *op = BOX_CONTAINER_OF(item, struct box_session_op, links);
		if (op->kind != BOX_SESSION_OP_REMOVE) {
			box_session_op_rejoin(op);
			continue;
		}
		struct box_session *again = box_table_get(
			&op->sessions->by_id, box_str(op->physical_id));
		if (!again || again->state == BOX_SESSION_STOPPED) {
			box_session_op_finish(op, NULL, NULL);
			continue;
		}
		/* An operation that waited before this removal has made a new session. */
		op->session = again;
		box_list_push(&again->ops, &op->links);
		box_session_remove(again);
	}
}

static void set_removing(struct box_session *session)
{
	session->state = BOX_SESSION_REMOVING;
	session->sessions->leaving += box_session_is_leaving(session);
}

void box_session_end_box(struct box_session *session)
{
	if (session->making) {
		/* It counts until `made` is called, when its box is gone. */
		session->backend->cancel(session->making);
	} else if (session->box) {
		session->backend->destroy(session->box, gone, session);
	} else {
		gone(session); /* from the previous box-rpc, not adopted yet */
	}
}

void box_session_resume_removal(struct box_session *session, bool stopping)
{
	session->sessions->leaving -= box_session_is_leaving(session);
	session->stopping = stopping;
	set_removing(session);
}

void box_session_remove(struct box_session *session)
{
	if (box_session_is_leaving(session)) {
		return;
	}
	if (session->state == BOX_SESSION_REMOVING) {
		/* It was being stopped, and is now to be removed. */
		box_session_resume_removal(session, false);
		box_session_record_removal(session);
		return;
	}
	if (session->state == BOX_SESSION_STOPPED) {
		box_session_forget(session);
		return;
	}
	struct box_list ended;
	struct box_list *item;
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_SESSION_NOT_FOUND, ECANCELED,
		"session %s was removed while it was in use", session->physical_id);
	box_session_ops_end(session, &ended);
	set_removing(session);
	/* Before any callback, so that the next box-rpc does not restore it. */
	box_session_record_removal(session);
	box_process_end_all(session);
	box_session_end_box(session);
	while ((item = box_list_pop(&ended))) {
		box_session_op_finish(
			BOX_CONTAINER_OF(item, struct box_session_op, links), NULL, &err);
	}
}

int box_sessions_remove(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err)
{
	struct box_session *session = box_table_get(&sessions->by_id, box_str(physical_id));
	if (!session) {
		return box_session_refuse_missing(physical_id, err);
	}
	if (session->state == BOX_SESSION_STOPPED ||
		(session->state == BOX_SESSION_MAKING && !session->making)) {
		box_session_remove(session);
		return 0;
	}
	*ret_op = box_session_op_wait_gone(session, done, arg);
	box_session_remove(session);
	return 1;
}

/* --- stopping: the box ends, the name stays --- */

void box_session_stop(struct box_session *session)
{
	if (session->state == BOX_SESSION_STOPPED || session->state == BOX_SESSION_REMOVING) {
		return;
	}
	session->stopping = true;
	box_session_remove(session);
}

int box_sessions_stop(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err)
{
	struct box_session *session = box_sessions_find(sessions, physical_id, err);
	if (!session) {
		return -ENOENT;
	}
	if (session->state == BOX_SESSION_STOPPED) {
		return 0;
	}
	if (session->state == BOX_SESSION_MAKING && !session->making) {
		box_session_stop(session);
		return 0;
	}
	*ret_op = box_session_op_wait_gone(session, done, arg);
	box_session_stop(session);
	return 1;
}
