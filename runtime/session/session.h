/* Sessions: named boxes that are made when they are first used, then reused, and removed.
 *
 * Owns the table of sessions and the order of operations on each: making and removing wait for each other,
 * commands run side by side. Knows backends only by their interface, and nothing about clients: an operation is a
 * struct box_session_op with a `done` that is called once, later, unless the operation was cancelled.
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
	const char *backend_name;    /* what it answers to */
	const char *backend_missing; /* why there is none, for the error */
	int64_t max_sessions;
	int64_t session_ttl_sec; /* 0: never idle-removed */
	int64_t max_output_bytes;
	int64_t max_processes; /* managed ones that run */
	int64_t max_completed; /* that have ended */
	int64_t retention_sec; /* and for how long they stay listed */
	struct box_ceilings ceilings;
	/* A change that a successor must know, for box_sessions_replay; may be NULL. */
	void (*changed)(void *arg, const struct box_value *change);
	void *changed_arg;
};

struct box_sessions *box_sessions_new(const struct box_session_rules *rules);
/* Every session must be gone. */
void box_sessions_free(struct box_sessions *sessions);

/* Called once with either a session or an error. */
typedef void box_session_open_done(
	void *arg, struct box_session *session, const struct box_err *err);
typedef void box_session_exec_done(void *arg, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err);
typedef void box_session_remove_done(void *arg);

/* Finds or makes the session of a spec, which must live until the end of the operation. 0: there it
 * is, in *ret_session. 1: `done` will be called, *ret_op can be cancelled until then. Negative: err
 * says why and nothing was begun. */
int box_sessions_open(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec, box_session_open_done *done,
	void *arg, struct box_session **ret_session, struct box_session_op **ret_op,
	struct box_err *err);

/* Runs spec->cmd in its session, which is made if necessary. An op, or NULL with err set. When a command runs into
 * its timeout, its session is removed before `done` is called, unless `live` says otherwise. `live` (NULL: none)
 * must live as long as the op; its events get `arg`. */
struct box_session_op *box_sessions_exec(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, const struct box_spec *spec,
	const struct box_backend_stream *live, box_session_exec_done *done, void *arg,
	struct box_err *err);

/* Of a live command that has started: see struct box_backend_ops. */
void box_session_op_credit(struct box_session_op *op, uint64_t bytes);
/* An input that waits to be taken: good until `taken` is called, even when the op is gone. */
struct box_session_input {
	const struct box_backend_ops *backend;
	struct box_backend_op *running;
};
struct box_session_input box_session_op_input(struct box_session_op *op, struct box_str bytes,
	bool eof, box_backend_input_done *taken, void *arg);
void box_session_forget_input(const struct box_session_input *input, void *arg);
void box_session_op_resize(struct box_session_op *op, uint16_t rows, uint16_t columns);
void box_session_op_signal(struct box_session_op *op, int number);

/* Work on files of a session that exists: BOX_ERR_SESSION_NOT_FOUND otherwise, since no session is made for it. A
 * session that is being made, or removed, is waited for. */
struct box_session_file {
	/* Fills in what to ask, now that there is a session; it must live as long as the op. 0, or negative
	 * with err. */
	int (*prepare)(void *arg, const struct box_spec *session_spec,
		struct box_backend_file_request *ret_ask, struct box_err *err);
	const struct box_file_events *events; /* of a watch; they get `arg` */
	bool watches;
	struct box_backend_file_request ask;
};
typedef void box_session_file_done(
	void *arg, const struct box_file_outcome *outcome, const struct box_err *err);
/* An op, or NULL with err set. `file` must live as long as the op. */
struct box_session_op *box_sessions_file(struct box_sessions *sessions, const char *physical_id,
	const struct box_context *context, struct box_session_file *file,
	box_session_file_done *done, void *arg, struct box_err *err);

/* Removes a session with all that runs in it. 0: it is gone already; 1: `done` will be called, when
 * nothing is left of its box, even if it was being removed already; negative: BOX_ERR_SESSION_NOT_FOUND. */
int box_sessions_remove(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err);

/* The same, but its name and spec stay, with the status "stopped": nothing runs in it any more until
 * it is removed. 0: it was stopped already. */
int box_sessions_stop(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err);

/* Ends an operation without its `done`: a command is killed, a session made for nobody else
 * is removed, a removal goes on unattended. */
void box_session_op_cancel(struct box_session_op *op);

/* Removes every session of the workspace older than the context's generation. */
void box_sessions_retire(struct box_sessions *sessions, const struct box_context *context);

/* Removes those of one instance. */
void box_sessions_remove_instance(struct box_sessions *sessions, struct box_str instance);
/* Removes all; box_sessions_count tells when they are gone. */
void box_sessions_remove_all(struct box_sessions *sessions);

/* Removes sessions that have been idle for too long, and stops those whose own time is over. To be called about
 * once a second. */
void box_sessions_tick(struct box_sessions *sessions, uint64_t now_ms);

/* Every session as a change; and the other way round, in a successor: what does not fit is ignored.
 * After the last one, and when the backend knows what boxes there are, box_sessions_adopt brings
 * both together: a session whose box is no more is forgotten. */
void box_sessions_dump(const struct box_sessions *sessions,
	void (*emit)(void *arg, const struct box_value *change), void *arg);
void box_sessions_replay(struct box_sessions *sessions, const struct box_value *change);
void box_sessions_adopt(struct box_sessions *sessions);

/* The session, or NULL with BOX_ERR_SESSION_NOT_FOUND: also for one that is being removed, which is in
 * no list either. */
struct box_session *box_sessions_find(
	struct box_sessions *sessions, const char *physical_id, struct box_err *err);

/* All there are, those being made, removed or stopped too. */
size_t box_sessions_count(const struct box_sessions *sessions);
/* Those that have a box, will have one, or whose box is ending. */
size_t box_sessions_count_boxes(const struct box_sessions *sessions);
/* Of these, without those that are being removed: as counts and lists show them, and as max_sessions counts them.
 * When there is no room for a new one because of boxes that are ending, it waits for the end of one of them. */
size_t box_sessions_count_shown(const struct box_sessions *sessions);
/* Of those shown, those of the context's workspace, at any generation. */
size_t box_sessions_count_workspace(
	const struct box_sessions *sessions, const struct box_context *context);

/* The memory that boxes may take by their limits: of all workspaces, and of the one with this namespace; of those
 * shown, or also of those that are being removed. */
struct box_ceilings_usage box_sessions_usage(
	const struct box_sessions *sessions, const char *workspace, bool leaving_too);

/* And those of exactly this placement. */
size_t box_sessions_count_placed(
	const struct box_sessions *sessions, const struct box_context *context);

/* Session info as the wire has it. */
struct box_value box_session_info(const struct box_session *session, struct box_arena *arena);
/* A list of the info of every session of exactly this placement, oldest first. */
struct box_value box_sessions_list(const struct box_sessions *sessions,
	const struct box_context *context, struct box_arena *arena);

/* Those of all workspaces, oldest first, each with its context: for the operator. */
struct box_value box_sessions_list_all(
	const struct box_sessions *sessions, struct box_arena *arena);

/* The boxes of the sessions of exactly this placement, by the numbers that boxd gave them, in an
 * array of the arena; those that have none at boxd, or none yet, are only counted. Returns how many
 * there are in the array. */
struct box_session_box {
	uint64_t number;
	bool managed; /* it has managed processes, and a workspace of its own */
};
size_t box_sessions_boxes(const struct box_sessions *sessions, const struct box_context *context,
	struct box_arena *arena, const struct box_session_box **ret_boxes,
	size_t *ret_session_count);

const char *box_session_logical_id(const struct box_session *session);
const char *box_session_backend_name(const struct box_session *session);
