/* The interface that every backend implements: it makes boxes and runs commands in them. Called by sessions.
 *
 * Sessions, limits and names are decided above it. Nothing here blocks: each operation takes a `done` that is called
 * exactly once, never from inside the call that started it; after an exec was cancelled it is not called at all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/spec/spec.h"

struct box_backend;
struct box_backend_file_request;
struct box_file_events;
struct box_file_outcome;
struct box_backend_process_ops;
struct box_backend_box; /* one running box */
struct box_backend_op;  /* one operation under way */

enum box_backend_end_reason {
	BOX_BACKEND_END_EXIT,
	BOX_BACKEND_END_SIGNAL,
	BOX_BACKEND_END_MEMORY,
	BOX_BACKEND_END_TIMEOUT,
};

/* How a command ended. The output belongs to the backend and is valid during `done` only. */
struct box_backend_exec_outcome {
	enum box_backend_end_reason reason;
	int exit_code; /* meaningless for BOX_BACKEND_END_TIMEOUT */
	int signal;
	struct box_str out; /* raw bytes, clipped at max_output_bytes */
	struct box_str err;
	uint64_t out_discarded; /* bytes clipped */
	uint64_t err_discarded;
	uint64_t duration_ms;
	uint64_t room_bytes; /* free space in a workspace with a quota, at the end; 0: unknown */
	uint64_t used_bytes;
	bool full;
};

/* `err` is NULL on success, `box` and `outcome` are NULL on failure. */
typedef void box_backend_make_done(
	void *arg, struct box_backend_box *box, const struct box_err *err);
typedef void box_backend_exec_done(
	void *arg, const struct box_backend_exec_outcome *outcome, const struct box_err *err);
typedef void box_backend_file_done(
	void *arg, const struct box_file_outcome *outcome, const struct box_err *err);
typedef void box_backend_destroy_done(void *arg);
typedef void box_backend_lost(void *arg, const char *why);

typedef void box_backend_input_done(void *arg, const struct box_err *err);

/* Events of a live command before its `done`, which then has no output. */
struct box_backend_stream_events {
	void (*started)(void *arg);
	/* Bytes as they arrive, valid during the call, and never more than the credit allows. */
	void (*output)(void *arg, bool is_stderr, struct box_str bytes);
};

struct box_backend_stream {
	const struct box_backend_stream_events *events;
	uint16_t rows; /* the size of its terminal; 0: pipes */
	uint16_t columns;
	bool has_stdin;       /* otherwise stdin is empty */
	bool keep_on_timeout; /* the session; the backend does not look at it */
	/* At its timeout it gets SIGTERM, and SIGKILL after this time; 0: SIGKILL at once. */
	uint32_t grace_ms;
	uint64_t credit; /* bytes of output that may arrive before box_backend_ops.credit */
};

struct box_backend_ops {
	const char *name;

	/* Whether boxes can be made here now; cheap, starts no process. */
	bool (*available)(struct box_backend *backend);
	/* Why not, for people; NULL when they can. May be NULL itself: a backend that has this function is asked
	 * for every box, and refuses in its own words what it cannot make. */
	const char *(*missing)(struct box_backend *backend);

	struct box_backend_op *(*make)(struct box_backend *backend, const char *physical_id,
		const struct box_spec *spec, box_backend_make_done *done, void *arg);
	/* With `live`, output is passed on as it arrives, with `arg`, and is not limited. */
	struct box_backend_op *(*exec)(struct box_backend_box *box, const struct box_spec *spec,
		int64_t max_output_bytes, const struct box_backend_stream *live,
		box_backend_exec_done *done, void *arg);

	/* Of a live command: more output may come; bytes for its stdin, in order: `taken` is called when the
	 * command has taken them (with err when it cannot), `eof` closes stdin after them; a signal for its process
	 * group. Without bytes `taken` is NULL. */
	void (*credit)(struct box_backend_op *op, uint64_t bytes);
	void (*input)(struct box_backend_op *op, struct box_str bytes, bool eof,
		box_backend_input_done *taken, void *arg);
	/* The caller of this input is gone: the bytes go in all the same, and `taken` is not called. `op` is
	 * valid for this until `taken` was called for its last input, also when it was cancelled. */
	void (*forget_input)(struct box_backend_op *op, void *arg);
	void (*signal)(struct box_backend_op *op, int number);
	/* For a command with a terminal. */
	void (*resize)(struct box_backend_op *op, uint16_t rows, uint16_t columns);

	/* Work on files, see backend_file.h; `ask` lives until `done`. Events of a watch come with `arg`, as far as
	 * there is credit. */
	struct box_backend_op *(*file)(struct box_backend_box *box,
		const struct box_backend_file_request *ask, const struct box_file_events *events,
		box_backend_file_done *done, void *arg);

	/* Managed processes; NULL: this backend has none. */
	const struct box_backend_process_ops *processes;

	/* `lost` is called once if the box ends by itself; it must still be destroyed. */
	void (*watch)(struct box_backend_box *box, box_backend_lost *lost, void *arg);

	/* The number by which the next box-rpc finds the box again; 0: it cannot. */
	uint64_t (*mark)(const struct box_backend_box *box);
	/* Its address on the host's loopback (IPv4, network order), or 0; NULL: there are none. */
	uint32_t (*host_address)(const struct box_backend_box *box);
	/* A box of the previous box-rpc, or NULL if it no longer exists. */
	struct box_backend_box *(*adopt)(struct box_backend *backend, uint64_t mark);

	/* Ends a make, an exec or work on files. A command is killed. A make still has its `done` called, with an
	 * error, when nothing is left of its box. */
	void (*cancel)(struct box_backend_op *op);

	/* Ends the box and everything in it. `done` may be NULL. Cannot fail. */
	void (*destroy)(struct box_backend_box *box, box_backend_destroy_done *done, void *arg);

	void (*free)(struct box_backend *backend);
};

/* Every backend begins with this. */
struct box_backend {
	const struct box_backend_ops *ops;
};
