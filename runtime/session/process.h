/* Managed processes: programs that run in a session on their own, found by their id in it.
 *
 * Owns their table, their limits and their readers. One reader at a time is attached to a process, the next ones
 * wait; output that nobody has confirmed is given to the next reader. An operation that has to wait for the end
 * of a process (a replacement, a stop) is a struct box_process_op whose `done` is called once, later, unless it was
 * cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/backend/backend_process.h"
#include "runtime/session/session.h"
#include "runtime/spec/spec.h"

struct box_arena;
struct box_process;
struct box_process_op;
struct box_process_reader;

/* With a process or an error; for a stop with neither. */
typedef void box_process_done(
	void *arg, const struct box_process *process, const struct box_err *err);

/* Starts one in a session that lives; one of the same id is stopped first. 0: *ret_process is there.
 * 1: `done` will be called; the spec must live until then. Negative: err. */
int box_process_start(struct box_session *session, const struct box_process_spec *spec,
	box_process_done *done, void *arg, struct box_process **ret_process,
	struct box_process_op **ret_op, struct box_err *err);

/* The process, or NULL with BOX_ERR_PROCESS_NOT_FOUND. */
struct box_process *box_process_find(
	struct box_session *session, const char *process_id, struct box_err *err);

/* It is not found by its id any more. 0: it is gone; 1: `done` will be called when it has ended. */
int box_process_stop(struct box_process *process, box_process_done *done, void *arg,
	struct box_process_op **ret_op);

/* Forgets a start; a stop goes on unattended. */
void box_process_op_cancel(struct box_process_op *op);

/* --- what can be seen --- */

/* Process info as the wire has it. */
struct box_value box_process_info(const struct box_process *process, struct box_arena *arena);
/* Adds managed_processes and managed_process to a session's info, where there are any. */
void box_process_add_session_info(
	const struct box_session *session, struct box_arena *arena, struct box_value *info);
bool box_process_runs(const struct box_process *process);
int box_process_exit_code(const struct box_process *process);

struct box_process_counts {
	size_t running;
	size_t completed;
};
/* Whether the boxes have reported the state of all processes of a predecessor. */
bool box_process_all_known(const struct box_sessions *sessions);
/* Of all sessions, or of those of a context's workspace. */
struct box_process_counts box_process_count(
	const struct box_sessions *sessions, const struct box_context *context);
/* Of those of one workspace, by its namespace. */
struct box_process_counts box_process_count_workspace(
	const struct box_sessions *sessions, const char *workspace);

/* --- peeks --- */

struct box_process_peek;

/* What was seen, good during the call; or an error when the process is gone. */
typedef void box_process_peeked(void *arg, const struct box_process *process,
	const struct box_backend_process_peeked *peeked, const struct box_err *err);

/* Gives output that is still there, whether the process has a reader or not, and takes nothing away. With
 * `wanted.wait` the answer may have no bytes after wait_ms. The token is chosen here. `done` is called once, later,
 * unless it was cancelled. 0, or BOX_ERR_CAPACITY. */
int box_process_peek(struct box_process *process, const struct box_backend_process_peek *wanted,
	uint64_t wait_ms, box_process_peeked *done, void *arg, struct box_process_peek **ret_peek,
	struct box_err *err);
void box_process_peek_cancel(struct box_process_peek *peek);

/* --- readers --- */

struct box_process_reader_events {
	/* It is its turn now: output begins at `offset`, the input so far ends at `input`. */
	void (*attached)(void *arg, uint64_t offset, uint64_t input);
	void (*output)(void *arg, uint64_t offset, struct box_str bytes);
	/* Input up to here was taken by the process. */
	void (*fed)(void *arg, uint64_t taken);
	/* It has ended and all its output was given, or it is gone (NULL when it was before). Nothing
	 * comes after this; the reader must still be detached. */
	void (*ended)(void *arg, const struct box_process *process);
};

#define BOX_PROCESS_FROM_UNCONFIRMED UINT64_MAX

/* The reader is not in line yet: no event comes before box_process_read. */
struct box_process_reader *box_process_attach(
	struct box_process *process, const struct box_process_reader_events *events, void *arg);
/* Puts it in line behind the readers that are there. `from`: where to begin, as far as that output still exists, or
 * BOX_PROCESS_FROM_UNCONFIRMED: at the first byte that nobody has confirmed. */
void box_process_read(struct box_process_reader *reader, uint64_t from);
void box_process_detach(struct box_process_reader *reader);

/* Frees output before `confirmed`; lets output come up to `until`; `hold` bytes may be held for it. Only from the
 * reader that is attached. False: the box was not told, since nothing waits for that;
 * box_process_send_confirmed tells it, and is to be called soon. */
bool box_process_confirm(
	struct box_process_reader *reader, uint64_t confirmed, uint64_t until, uint64_t hold);
void box_process_send_confirmed(struct box_process_reader *reader);

/* More input, which the process gets even if the reader goes; none: the end of it, once or again.
 * -EPIPE after that; -ESRCH when the process is over; -ENOBUFS when more than
 * BOX_PROCESS_INPUT_BYTES_MAX would wait, -EAGAIN when it would be too much for all together. */
int box_process_write_input(struct box_process_reader *reader, struct box_str bytes);
/* The same, but it goes to the process with box_process_flush_input: many lines in one piece. */
int box_process_queue_input(struct box_process_reader *reader, struct box_str bytes);
void box_process_flush_input(struct box_process_reader *reader);
/* So much input waits that its sender should pause. */
bool box_process_input_full(const struct box_process_reader *reader);
/* Where the next input goes: behind all that came so far. */
uint64_t box_process_input_end(const struct box_process_reader *reader);
/* Behind all output that is known of: nobody can have more. */
uint64_t box_process_output_end(const struct box_process_reader *reader);

/* Whether the rest of a line that is too long is still to be skipped, for readers of lines. */
bool box_process_skips_line(const struct box_process_reader *reader);
void box_process_skip_line(struct box_process_reader *reader, bool skip);
