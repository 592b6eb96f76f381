/* The structs of managed processes and their readers, for process.c, process_reader.c and process_record.c; and the
 * functions for session*.c that concern all processes of a session. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "runtime/backend/backend_process.h"
#include "runtime/session/process.h"
#include "runtime/session/session_internal.h"

struct box_process {
	struct box_list links; /* in session->processes, oldest first */
	struct box_session *session;
	struct box_arena *arena; /* for its texts, and this struct */
	uint32_t number;         /* in its box */
	const char *id;
	const char *command;
	const char **args;
	size_t arg_count;
	const char **env_keys; /* sorted */
	size_t env_count;
	const char *cwd;
	int64_t memory_mb;  /* as requested */
	int64_t log_bytes;  /* 0: it blocks until it is read */
	uint64_t oom_kills; /* count of its box when it started */
	uint64_t left_ms;   /* since when it is leaving: */
	bool leaving;       /* stopped or replaced: not found by its id any more */
	bool late;          /* its end was overdue at the last check */
	bool running;
	bool recorded;
	int64_t started_utc_us;
	int64_t exited_utc_us;
	uint64_t exited_ms;
	enum box_backend_end_reason reason;
	int exit_code;
	int signal;
	char *tail; /* the end of its stderr, as text; may contain NULs */
	size_t tail_len;
	bool known; /* its offsets are valid */
	bool out_ended;
	uint64_t freed;       /* output up to here is freed */
	uint64_t out_end;     /* end of the known output */
	uint64_t given;       /* given to the attached reader up to here */
	bool blocked;         /* it blocks until its output is read: */
	uint64_t unread;      /* how many bytes */
	struct box_buf input; /* received input; from input_at on not sent to the box yet */
	size_t input_at;
	size_t input_counted; /* its share of the input that waits for all processes */
	uint64_t in_sent;     /* sent to the box */
	uint64_t in_taken;    /* taken by the process */
	bool in_ended;
	bool skip_line;
	struct box_list readers;      /* in line: the first is attached */
	struct box_list idle_readers; /* not in line yet */
	struct box_list ops;          /* that wait for its end */
	struct box_list peeks;        /* pending peeks */
	size_t peek_count;
};

struct box_process_op {
	struct box_list links;               /* in process->ops */
	const struct box_process_spec *spec; /* of a start; NULL: a stop */
	struct box_session *session;
	box_process_done *done;
	void *arg;
};

struct box_process_reader {
	struct box_list links;
	struct box_process *process; /* NULL: it is gone */
	bool in_line;
	bool attached;
	struct box_backend_process_follow sent;   /* last sent to the box */
	struct box_backend_process_follow wanted; /* wanted since then, if: */
	bool unsent;
	bool following; /* the backend was told where to begin */
	bool end_sent;
	uint64_t from;
	const struct box_process_reader_events *events;
	void *arg;
};

static inline struct box_process *box_process_at(const struct box_list *at)
{
	return (struct box_process *)(void *)((char *)(uintptr_t)at -
		offsetof(struct box_process, links));
}

/* --- process.c --- */

struct box_process *box_process_new(
	struct box_session *session, uint32_t number, const struct box_process_spec *spec);
void box_process_free(struct box_process *process);
/* Its own memory limit; 0 if it has none, or one that is not below that of its session. */
int64_t box_process_limit_mb(const struct box_process *process);
#define BOX_PROCESS_GRACE_MS 5000 /* (wire) from SIGTERM to SIGKILL */
#define BOX_PROCESS_LATE_MS 5000  /* how long its box may be late with the end after that */
/* For the backend. */
extern const struct box_backend_process_events box_process_events;

/* The session is being removed, or its box is gone: ends all of them. */
void box_process_end_all(struct box_session *session);
/* Whether a stopped process should have ended long ago: then its box cannot be trusted any more. */
bool box_process_any_late(struct box_session *session, uint64_t now_ms);
/* Forgets processes that ended long ago or are too many, and answers peeks whose time is over. */
void box_process_tick_all(struct box_sessions *sessions, uint64_t now_ms);

/* --- process_reader.c --- */

/* Attaches the first reader, if it is not attached yet. */
void box_process_serve_readers(struct box_process *process);
void box_process_deliver_output(struct box_process *process, uint64_t offset, struct box_str bytes);
/* Output up to here was dropped, by its log. */
void box_process_skip_output(struct box_process *process, uint64_t offset);
void box_process_set_input_taken(struct box_process *process, uint64_t taken);
/* Drops input that was not sent. */
void box_process_free_input(struct box_process *process);
/* It is being freed or replaced: every reader gets its end. */
void box_process_dismiss_readers(struct box_process *process);

void box_process_take_peeked(
	struct box_process *process, const struct box_backend_process_peeked *peeked);
/* Answers peeks whose time is over. */
void box_process_tick_peeks(struct box_sessions *sessions, uint64_t now_ms);
/* It is being freed: every peek fails. */
void box_process_end_peeks(struct box_process *process);

/* --- process_record.c --- */

void box_process_record(struct box_process *process);
/* Records that and how it has ended; that it is leaving. */
void box_process_record_exit(const struct box_process *process);
void box_process_record_leaving(const struct box_process *process);
void box_process_record_end(const struct box_process *process);
void box_process_dump_all(const struct box_session *session, struct box_arena *arena,
	void (*emit)(void *arg, const struct box_value *change), void *arg);
void box_process_replay(struct box_sessions *sessions, const struct box_value *change);
/* Its session has its box again: queries the state of each process, and continues stops. */
void box_process_adopt_all(struct box_session *session);
