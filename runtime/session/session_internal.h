/* What a session is made of: shared by session.c, which changes it, session_expiry.c (many at once),
 * session_file.c (work on files), session_stream.c (live commands), session_stop.c (names without a
 * box), session_info.c (what can be seen) and session_record.c (what is kept for a successor).
 * Besides them process_internal.h includes this, and nobody else. */
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

struct box_session {
	struct box_sessions *sessions;
	struct box_list links; /* all sessions, oldest first */
	struct box_list ops;
	enum box_session_state state;
	struct box_arena *arena;
	const char *physical_id;
	const char *logical_id;
	char workspace[BOX_NAMESPACE_SIZE];
	struct box_context owner; /* the names that `workspace` is made of */
	int64_t generation;
	struct box_spec spec;
	const struct box_backend_ops *backend;
	const char *backend_name;
	struct box_backend_op *making;
	struct box_backend_box *box;
	bool stopping;    /* REMOVING: it is to be STOPPED after, and not gone */
	uint64_t mark;    /* in the record: the box can be found again by it; 0: not recorded */
	unsigned running; /* commands and work on files under way */
	unsigned files;   /* of these, work on files */
	unsigned watches; /* of these */
	struct box_list processes; /* managed ones */
	unsigned kept;             /* of these, that run */
	int64_t created_utc_us;
	int64_t used_utc_us;
	uint64_t used_ms;
	uint64_t born_ms; /* max_duration_sec counts from here, in a successor too */
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
	const struct box_backend_stream *live; /* BOX_SESSION_OP_EXEC: NULL for gathered output */
	struct box_backend_stream own_live;    /* the same with our own events */
	struct box_session_file *file;
	bool counted;                   /* BOX_SESSION_OP_FILE: in session->files */
	struct box_backend_op *running; /* BOX_SESSION_OP_EXEC, BOX_SESSION_OP_FILE, once begun */
	box_session_open_done *opened;
	box_session_exec_done *ran;
	box_session_file_done *filed;
	box_session_remove_done *removed;
	void *arg;
};

/* For the backend: passes what a live command tells on to the op's own asker. */
extern const struct box_backend_stream_events box_session_stream_events;

/* --- session.c --- */

struct box_session_op *box_session_op_new(struct box_sessions *sessions,
	enum box_session_op_kind kind, const char *physical_id, const struct box_context *context,
	const struct box_spec *spec, void *arg);
void box_session_op_free(struct box_session_op *op);
/* REMOVING, and nothing will be left of it: nobody sees it any more, but who asks for its id, or for
 * the room it takes, waits for its end. */
static inline bool box_session_is_leaving(const struct box_session *session)
{
	return session->state == BOX_SESSION_REMOVING && !session->stopping;
}
/* One that is done when the session, or its box, is gone. */
struct box_session_op *box_session_op_wait_gone(
	struct box_session *session, box_session_remove_done *done, void *arg);
/* Brings the op to its session. 0: the session is LIVE, the op is in its list and not begun;
 * 1: it waits; negative: it is not in any list. */
int box_session_join(struct box_session_op *op, struct box_err *err);
/* The session is LIVE: does what the op came for. */
void box_session_op_begin(struct box_session_op *op);
void box_session_mark_used(struct box_session *session);
void box_session_remove(struct box_session *session);
/* A predecessor's that was REMOVING: it is so again, without a box until box_session_end_box. */
void box_session_resume_removal(struct box_session *session, bool stopping);
/* REMOVING: ends the box; without one, or after its end, the session is gone, or STOPPED. */
void box_session_end_box(struct box_session *session);

/* --- session_file.c --- */

/* Not from inside this is it done. */
void box_session_file_begin(struct box_session_op *op);
/* The op leaves its session; of another kind: nothing. */
void box_session_file_leave(struct box_session_op *op);

/* --- session_stop.c --- */

/* Ends the box, and what is left is STOPPED. */
void box_session_stop(struct box_session *session);
/* Its box is gone, or was never found: the session is STOPPED from now on. */
void box_session_set_stopped(struct box_session *session);
/* BOX_ERR_SESSION_CONFLICT. */
int box_session_refuse_stopped(const struct box_session *session, struct box_err *err);
/* Why it must stop now: a word for the log, or NULL. */
const char *box_session_stop_reason(const struct box_session *session, uint64_t now_ms);

/* --- session_info.c --- */

/* BOX_ERR_SESSION_NOT_FOUND. */
int box_session_refuse_missing(const char *physical_id, struct box_err *err);

/* Out of all lists and gone. */
void box_session_forget(struct box_session *session);
/* A box is there: the session lives, and is recorded. */
void box_session_set_live(struct box_session *session, struct box_backend_box *box);
void box_session_record(struct box_session *session);
void box_session_record_end(struct box_session *session);
void box_session_record_stop(struct box_session *session);
/* It is REMOVING from now on. */
void box_session_record_removal(struct box_session *session);

struct box_sessions {
	const struct box_session_rules *rules;
	struct box_table by_id;
	struct box_list all;
	size_t stopped;           /* of them */
	size_t leaving;           /* of them: box_session_is_leaving */
	uint32_t processes_begun; /* managed ones, ever: their numbers */
	size_t input_bytes;       /* that wait for them, above what each has for itself */
};
