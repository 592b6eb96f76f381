/* Managed processes: programs that run in a session in the background, found by their id.
 *
 * Owns their table, their limits and their readers. One reader at a time is attached to a process, the others wait in
 * line; output that was not confirmed is given to the next reader. An operation that has to wait for the end of a
 * process (a replacement, a stop) is a struct box_process_op whose `done` is called once, later, unless it was
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

/* Called with a process or an error; for a stop with neither. */
typedef void box_process_done(
	void *arg, const struct box_process *process, const struct box_err *err);

/* Starts one in a live session; one with the same id is stopped first. 0: *ret_process is set. 1: `done` will be
 * called; the spec must live until then. Negative: err. */
int box_process_start(struct box_session *session, const struct box_process_spec *spec,
	box_process_done *done, void *arg, struct box_process **ret_process,
	struct box_process_op **ret_op, struct box_err *err);

/* The process, or NULL with BOX_ERR_PROCESS_NOT_FOUND. */
struct box_process *box_process_find(
	struct box_session *session, const char *process_id, struct box_err *err);

/* Stops it; it cannot be found by its id any more. 0: it is gone; 1: `done` will be called once it has ended. */
int box_process_stop(struct box_process *process, box_process_done *done, void *arg,
	struct box_process_op **ret_op);

/* Drops the operation: a start is cancelled, a stop continues without a callback. */
void box_process_op_cancel(struct box_process_op *op);

/* --- information --- */

/* Process info in its wire form. */
struct box_value box_process_info(const struct box_process *process, struct box_arena *arena);
/* Adds managed_processes and managed_process to a session's info, if there are any. */
void box_process_add_session_info(
	const struct box_session *session, struct box_arena *arena, struct box_value *info);
bool box_process_runs(const struct box_process *process);
int box_process_exit_code(const struct box_process *process);

struct box_process_counts {
	size_t running;
	size_t completed;
};
/* Whether the boxes have reported the state of all processes of the previous box-rpc. */
bool box_process_all_known(const struct box_sessions *sessions);
/* The number in all sessions, or in those of a context's workspace. */
struct box_process_counts box_process_count(
	const struct box_sessions *sessions, const struct box_context *context);
/* The number in the sessions of one workspace, by its namespace. */
struct box_process_counts box_process_count_workspace(
	const struct box_sessions *sessions, const char *workspace);

/* --- peeks --- */

struct box_process_peek;

/* The output, valid during the call; or an error if the process is gone. */
typedef void box_process_peeked(void *arg, const struct box_process *process,
	const struct box_backend_process_peeked *peeked, const struct box_err *err);

/* Returns output that still exists, whether the process has a reader or not, and takes nothing away. With
 * `wanted.wait` the answer may be empty after wait_ms. The token is chosen here. `done` is called once, later, unless
 * it was cancelled. 0, or BOX_ERR_CAPACITY. */
int box_process_peek(struct box_process *process, const struct box_backend_process_peek *wanted,
	uint64_t wait_ms, box_process_peeked *done, void *arg, struct box_process_peek **ret_peek,
	struct box_err *err);
void box_process_peek_cancel(struct box_process_peek *peek);

/* --- readers --- */

struct box_process_reader_events {
	/* It is attached now: output begins at `offset`, the input so far ends at `input`. */
	void (*attached)(void *arg, uint64_t offset, uint64_t input);
	void (*output)(void *arg, uint64_t offset, struct box_str bytes);
	/* Input up to here was taken by the process. */
	void (*fed)(void *arg, uint64_t taken);
	/* It has ended and all its output was given, or it is gone (NULL when it was before). Nothing
	 * comes after this; the reader must still be detached. */
	void (*ended)(void *arg, const struct box_process *process);
};

#define BOX_PROCESS_FROM_UNCONFIRMED UINT64_MAX

/* Makes a reader that is not in line yet: no event comes before box_process_read. */
struct box_process_reader *box_process_attach(
	struct box_process *process, const struct box_process_reader_events *events, void *arg);
/* Puts it in line after the existing readers. `from`: where to begin, as far as that output still exists, or
 * BOX_PROCESS_FROM_UNCONFIRMED: at the first unconfirmed byte. */
void box_process_read(struct box_process_reader *reader, uint64_t from);
void box_process_detach(struct box_process_reader *reader);

/* Frees output before `confirmed`; lets output arrive up to `until`; up to `hold` bytes may be held for it. Only for
 * the attached reader. False: the box was not told yet, since nothing waits for that; call
 * box_process_send_confirmed soon to tell it. */
bool box_process_confirm(
	struct box_process_reader *reader, uint64_t confirmed, uint64_t until, uint64_t hold);
void box_process_send_confirmed(struct box_process_reader *reader);

/* More input, which the process gets even if the reader detaches; no bytes: its end, which may be repeated. -EPIPE
 * after that; -ESRCH if the process is over; -ENOBUFS if more than BOX_PROCESS_INPUT_BYTES_MAX would wait, -EAGAIN if
 * it would be too much for all processes together. */
int box_process_write_input(struct box_process_reader *reader, struct box_str bytes);
/* The same, but it is sent with box_process_flush_input: many lines in one piece. */
int box_process_queue_input(struct box_process_reader *reader, struct box_str bytes);
void box_process_flush_input(struct box_process_reader *reader);
/* Whether so much input waits that its sender should pause. */
bool box_process_input_full(const struct box_process_reader *reader);
/* The offset of the next input: after everything received so far. */
uint64_t box_process_input_end(const struct box_process_reader *reader);
/* The end of all known output: no reader can have more. */
uint64_t box_process_output_end(const struct box_process_reader *reader);

/* Whether the rest of a line that is too long is still to be skipped, for readers of lines. */
bool box_process_skips_line(const struct box_process_reader *reader);
void box_process_skip_line(struct box_process_reader *reader, bool skip);
