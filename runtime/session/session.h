/* Sessions: named boxes that are made when they are first used, then reused, and removed.
 *
 * Owns the table of sessions and the order of operations on each: making and removing wait for each other,
 * commands run side by side. It uses backends through their interface, and knows nothing about clients: an operation
 * is a struct box_session_op with a `done` that is called once, later, unless the operation was cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backend_file.h"
#include "runtime/config/ceilings.h"
#include "runtime/spec/spec.h"
#include "runtime/tenant.h"

struct box_arena;
struct box_session;
struct box_session_op;
struct box_sessions;

/* The rules for sessions; the caller owns them and may change them at any time. */
struct box_session_rules {
	struct box_backend *backend; /* NULL while there is none */
	const char *backend_name;    /* its name for clients */
	const char *backend_missing; /* why there is none, for the error */
	int64_t max_sessions;
	int64_t session_ttl_sec; /* 0: never removed for being idle */
	int64_t max_output_bytes;
	int64_t max_processes; /* running managed processes */
	int64_t max_completed; /* ended ones that stay listed */
	int64_t retention_sec; /* and for how long */
	struct box_ceilings ceilings;
	/* A change that the next box-rpc must know, for box_sessions_replay; may be NULL. */
	void (*changed)(void *arg, const struct box_value *change);
	void *changed_arg;
};

struct box_sessions *box_sessions_new(const struct box_session_rules *rules);
/* Frees the table. Every session must be gone. */
void box_sessions_free(struct box_sessions *sessions);

/* Called once with either a session or an error. */
typedef void box_session_open_done(
	void *arg, struct box_session *session, const struct box_err *err);
typedef void box_session_exec_done(void *arg, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err);
typedef void box_session_remove_done(void *arg);

/* Finds or makes the session of a spec, which must live until the end of the operation. 0: *ret_session is set.
 * 1: `done` will be called, and *ret_op can be cancelled until then. Negative: err has the reason, and nothing was
 * started. */
int box_sessions_open(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec, box_session_open_done *done,
	void *arg, struct box_session **ret_session, struct box_session_op **ret_op,
	struct box_err *err);

/* Runs spec->cmd in its session, which is made if necessary. An op, or NULL with err set. If a command exceeds its
 * timeout, its session is removed before `done` is called, unless `live` says otherwise. `live` (NULL: none)
 * must live as long as the op; its events get `arg`. */
struct box_session_op *box_sessions_exec(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec,
	const struct box_backend_stream *live, box_session_exec_done *done, void *arg,
	struct box_err *err);

/* For a live command that has started: see struct box_backend_ops. */
void box_session_op_credit(struct box_session_op *op, uint64_t bytes);
/* Input that waits to be taken: valid until `taken` is called, even after the op is gone. */
struct box_session_input {
	const struct box_backend_ops *backend;
	struct box_backend_op *running;
};
struct box_session_input box_session_op_input(struct box_session_op *op, struct box_str bytes,
	bool eof, box_backend_input_done *taken, void *arg);
void box_session_forget_input(const struct box_session_input *input, void *arg);
void box_session_op_resize(struct box_session_op *op, uint16_t rows, uint16_t columns);
void box_session_op_signal(struct box_session_op *op, int number);

/* A file operation in an existing session: BOX_ERR_SESSION_NOT_FOUND otherwise, since no session is made for it. It
 * waits for a session that is being made or removed. */
struct box_session_file {
	/* Fills in the request, now that there is a session; it must live as long as the op. 0, or negative
	 * with err. */
	int (*prepare)(void *arg, const struct box_spec *session_spec,
		struct box_backend_file_request *ret_ask, struct box_err *err);
	const struct box_file_events *events; /* for a watch; they get `arg` */
	bool watches;
	struct box_backend_file_request ask;
};
typedef void box_session_file_done(
	void *arg, const struct box_file_outcome *outcome, const struct box_err *err);
/* An op, or NULL with err set. `file` must live as long as the op. */
struct box_session_op *box_sessions_file(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, struct box_session_file *file,
	box_session_file_done *done, void *arg, struct box_err *err);

/* Removes a session with everything that runs in it. 0: it is gone already; 1: `done` will be called once its box is
 * gone, even if it was being removed already; negative: BOX_ERR_SESSION_NOT_FOUND. */
int box_sessions_remove(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err);

/* The same, but its name and spec stay, with the status "stopped": nothing runs in it until it is removed. 0: it was
 * stopped already. */
int box_sessions_stop(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err);

/* Drops an operation without calling `done`: a command is killed, a session made only for this operation is removed,
 * a removal continues. */
void box_session_op_cancel(struct box_session_op *op);

/* Removes every session of the workspace older than the context's generation. */
void box_sessions_retire(struct box_sessions *sessions, const struct box_context *context);

/* Removes the sessions of one instance. */
void box_sessions_remove_instance(struct box_sessions *sessions, struct box_str instance);
/* Removes all sessions; box_sessions_count shows when they are gone. */
void box_sessions_remove_all(struct box_sessions *sessions);

/* Removes sessions that have been idle for too long, and stops those that exceeded their duration. To be called about
 * once a second. */
void box_sessions_tick(struct box_sessions *sessions, uint64_t now_ms);

/* Writes every session as a change; and the reverse, in the next box-rpc: a change that does not fit is ignored. After
 * the last one, once the backend knows which boxes exist, box_sessions_adopt matches both: a session whose box no
 * longer exists is forgotten. */
void box_sessions_dump(const struct box_sessions *sessions,
	void (*emit)(void *arg, const struct box_value *change), void *arg);
void box_sessions_replay(struct box_sessions *sessions, const struct box_value *change);
void box_sessions_adopt(struct box_sessions *sessions);

/* The session, or NULL with BOX_ERR_SESSION_NOT_FOUND: also for one that is being removed, which is not listed
 * either. */
struct box_session *box_sessions_find(
	struct box_sessions *sessions, const char *physical_id, struct box_err *err);

/* The number of all sessions, including those being made, removed or stopped. */
size_t box_sessions_count(const struct box_sessions *sessions);
/* The number of sessions that have a box, will have one, or whose box is ending. */
size_t box_sessions_count_boxes(const struct box_sessions *sessions);
/* The same without those that are being removed: the number that counts and lists show, and that max_sessions limits.
 * If a new session lacks room because boxes are ending, it waits for the end of one of them. */
size_t box_sessions_count_shown(const struct box_sessions *sessions);
/* Of those shown, the number in the context's workspace, at any generation. */
size_t box_sessions_count_workspace(
	const struct box_sessions *sessions, const struct box_context *context);

/* The memory promised to boxes by their limits, in all workspaces and in the one with this namespace; for the sessions
 * shown, or including those that are being removed. */
struct box_ceilings_usage box_sessions_usage(
	const struct box_sessions *sessions, const char *workspace, bool leaving_too);

/* The number of exactly this placement. */
size_t box_sessions_count_placed(
	const struct box_sessions *sessions, const struct box_context *context);

/* Session info in its wire form. */
struct box_value box_session_info(const struct box_session *session, struct box_arena *arena);
/* A list of the info of every session of exactly this placement, oldest first. */
struct box_value box_sessions_list(const struct box_sessions *sessions,
	const struct box_context *context, struct box_arena *arena);

/* The info of all workspaces' sessions, oldest first, each with its context: for the operator. */
struct box_value box_sessions_list_all(
	const struct box_sessions *sessions, struct box_arena *arena);

/* The boxes of the sessions of exactly this placement, by boxd's numbers, in an array of the arena; sessions whose box
 * is not boxd's, or does not exist yet, are only counted. Returns the size of the array. */
struct box_session_box {
	uint64_t number;
	bool managed; /* it has managed processes, and a workspace of its own */
};
size_t box_sessions_boxes(const struct box_sessions *sessions, const struct box_context *context,
	struct box_arena *arena, const struct box_session_box **ret_boxes,
	size_t *ret_session_count);

const char *box_session_logical_id(const struct box_session *session);
const char *box_session_backend_name(const struct box_session *session);
