/* The structs of sessions and their operations, for the files of this folder: session.c (life cycle),
 * session_op.c (operations), session_expiry.c (changes of many), session_record.c (the state for the next
 * box-rpc), session_info.c (what clients see), and process*.c (the managed processes in a session). */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "runtime/session/session.h"

enum box_session_state {
	BOX_SESSION_MAKING,
	BOX_SESSION_LIVE,
	BOX_SESSION_REMOVING,
	BOX_SESSION_STOPPED, /* its box is gone, its name and spec stay */
};

struct box_sessions {
	const struct box_session_rules *rules;
	struct box_table by_id;
	struct box_list all;
	size_t stopped;           /* of them */
	size_t leaving;           /* of them: box_session_is_leaving */
	uint32_t processes_begun; /* managed ones, ever: their numbers */
	size_t input_bytes;       /* waiting input of processes, above each one's own share */
};

struct box_session {
	struct box_sessions *sessions;
	struct box_list links; /* all sessions, oldest first */
	struct box_list ops;
	enum box_session_state state;
	struct box_arena *arena;
	const char *physical_id;
	const char *logical_id;
	char workspace[BOX_NAMESPACE_SIZE];
	struct box_context owner; /* the names from which `workspace` is made */
	int64_t generation;
	struct box_spec spec;
	const struct box_backend_ops *backend;
	const char *backend_name;
	struct box_backend_op *making;
	struct box_backend_box *box;
	bool stopping; /* REMOVING: it becomes STOPPED afterwards, not gone */
	/* Its number in the record, by which the box can be found again; 0: not recorded. */
	uint64_t mark;
	unsigned running;          /* running commands and file operations */
	unsigned files;            /* of these, file operations */
	unsigned watches;          /* of these, watches */
	struct box_list processes; /* managed ones */
	unsigned processes_running;
	int64_t created_utc_us;
	int64_t used_utc_us;
	uint64_t used_ms;
	uint64_t born_ms; /* max_duration_sec counts from here, even in the next box-rpc */
};

enum box_session_op_kind {
	BOX_SESSION_OP_OPEN,
	BOX_SESSION_OP_EXEC,
	BOX_SESSION_OP_FILE,
	BOX_SESSION_OP_REMOVE,
};

struct box_session_op {
	struct box_list links; /* in session->ops */
	struct box_sessions *sessions;
	struct box_session *session;
	enum box_session_op_kind kind;
	struct box_arena *arena;
	const char *physical_id;
	const struct box_context *context;
	const struct box_spec *spec;
	const struct box_backend_stream *live; /* BOX_SESSION_OP_EXEC: NULL for collected output */
	struct box_backend_stream own_live;    /* the same with our own events */
	struct box_session_file *file;
	bool counted;                   /* BOX_SESSION_OP_FILE: in session->files */
	struct box_backend_op *running; /* BOX_SESSION_OP_EXEC, BOX_SESSION_OP_FILE, once started */
	box_session_open_done *opened;
	box_session_exec_done *ran;
	box_session_file_done *filed;
	box_session_remove_done *removed;
	void *arg;
};

static inline const struct box_session *box_session_at(const struct box_list *at)
{
	return (const struct box_session *)(const void *)((const char *)at -
		offsetof(struct box_session, links));
}

/* --- session.c --- */

/* REMOVING, and its name will not stay: it is not visible any more, but requests for its id, or for its memory, wait
 * for its end. */
static inline bool box_session_is_leaving(const struct box_session *session)
{
	return session->state == BOX_SESSION_REMOVING && !session->stopping;
}
void box_session_mark_used(struct box_session *session);
/* Makes the session that the op requests, which then waits for it. */
int box_session_make(struct box_session_op *op, struct box_err *err);
/* Its box exists: the session is LIVE, and is recorded. */
void box_session_set_live(struct box_session *session, struct box_backend_box *box);
void box_session_remove(struct box_session *session);
/* Ends the box, and leaves the session STOPPED. */
void box_session_stop(struct box_session *session);
/* Its box is gone, or was never found: the session is STOPPED. */
void box_session_set_stopped(struct box_session *session);
/* A session of the previous box-rpc that was REMOVING: it is so again, without a box until box_session_end_box. */
void box_session_resume_removal(struct box_session *session, bool stopping);
/* REMOVING: ends the box; without one, or after its end, the session is gone, or STOPPED. */
void box_session_end_box(struct box_session *session);
/* Removes it from all lists, records that, and frees it. */
void box_session_forget(struct box_session *session);
/* Sets BOX_ERR_SESSION_NOT_FOUND. */
int box_session_refuse_missing(const char *physical_id, struct box_err *err);
/* Sets BOX_ERR_SESSION_CONFLICT. */
int box_session_refuse_stopped(const struct box_session *session, struct box_err *err);

/* --- session_op.c --- */

/* An op that is done when the session, or its box, is gone. */
struct box_session_op *box_session_op_wait_gone(
	struct box_session *session, box_session_remove_done *done, void *arg);
/* The session is LIVE: performs the op. */
void box_session_op_begin(struct box_session_op *op);
/* The session that it waited for is gone: starts over, and possibly makes the session again. */
void box_session_op_rejoin(struct box_session_op *op);
/* Ends an op that is not running: with its session, an error, or (for a removal) neither. */
void box_session_op_finish(
	struct box_session_op *op, struct box_session *session, const struct box_err *err);
/* Moves the operations of a session to a list of their own, without a session: a callback may cancel other
 * operations, and must not find a session that is gone. */
void box_session_ops_detach(struct box_session *session, struct box_list *list);
/* The same for all but removals; commands and work on files are cancelled. */
void box_session_ops_end(struct box_session *session, struct box_list *ended);

/* --- session_record.c --- */

/* Records that it is LIVE; that only its name is left; that it is REMOVING; that it is gone. */
void box_session_record(struct box_session *session);
void box_session_record_stop(struct box_session *session);
void box_session_record_removal(struct box_session *session);
void box_session_record_end(struct box_session *session);
