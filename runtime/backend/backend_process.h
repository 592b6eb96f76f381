/* Managed processes: what a backend can do with them. They run in a box whether a client is connected or not.
 *
 * Each has a number, chosen by the caller and unique in its box. Output has offsets; the backend holds it until it is
 * freed, and can deliver it again from any offset that is not freed. Nothing here blocks: the state of a process
 * arrives in its events, never from inside a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/backend/backend.h"
#include "runtime/spec/spec.h"

struct box_backend_process_state {
	bool known;   /* false: the box has no such process */
	bool running; /* otherwise it has ended, with: */
	enum box_backend_end_reason reason;
	int exit_code; /* 128 + n for a signal, 127 for one that never started */
	int signal;
	const char *failure; /* why it never started, or NULL */
	bool out_ended;      /* there is no output after out_end */
	uint64_t freed;
	uint64_t out_end;
	uint64_t in_have;    /* input received by the box */
	uint64_t in_taken;   /* input taken by the process */
	bool in_ended;       /* the end of the input was sent */
	bool blocked;        /* it is not read until something is freed */
	struct box_str tail; /* the end of its stderr; valid during the call */
};

/* A peek: returns output that still exists, frees nothing, and does not affect the reader. */
struct box_backend_process_peek {
	/* Chosen by the caller; a second peek with the same token replaces the first. */
	uint64_t token;
	bool is_stderr;
	uint64_t offset;
	uint32_t max; /* bytes; BOX_PROCESS_PEEK_BYTES_MAX at most */
	bool wait;    /* until there is output after the offset, or its end */
};

struct box_backend_process_peeked {
	uint64_t token;
	uint64_t offset; /* later than requested if that output is no longer held */
	uint64_t end;    /* of all output so far */
	bool ended;      /* and there will be no more */
	struct box_str bytes;
};

struct box_backend_process_events {
	/* Its state: after it was started or adopted, and when the state has changed. */
	void (*state)(void *arg, const struct box_backend_process_state *state);
	/* Output that continues the previous piece; valid during the call. */
	void (*output)(void *arg, uint64_t offset, struct box_str bytes);
	/* With a log: output up to here was dropped before it could be delivered. */
	void (*skipped)(void *arg, uint64_t offset);
	/* How much of its input the process has taken. */
	void (*fed)(void *arg, uint64_t taken);
	/* The answer to a peek. The box is untrusted: check tokens and sizes. */
	void (*peeked)(void *arg, const struct box_backend_process_peeked *peeked);
};

#define BOX_BACKEND_PROCESS_CONTINUE UINT64_MAX

/* Which output may be delivered: everything not freed, from `from` on (BOX_BACKEND_PROCESS_CONTINUE: where it is) up
 * to `until`; and how much may be held. */
struct box_backend_process_follow {
	uint64_t freed;
	uint64_t from;
	uint64_t until;
	uint64_t hold;
};

/* What the previous box-rpc recorded about a process that it started. */
struct box_backend_process_record {
	int64_t memory_mb;  /* its own memory limit, or 0 */
	uint64_t oom_kills; /* count of its box when it started */
	bool ended;         /* and how, is known */
	bool has_log;
};

struct box_backend_process_ops {
	/* How many processes of the box the OOM killer has killed. */
	uint64_t (*oom_kills)(const struct box_backend_box *box);
	/* Whether a process of this spec can be started in this box at all: called before another process is stopped
	 * for it. */
	int (*check)(const struct box_backend_box *box, const struct box_process_spec *spec,
		struct box_err *err);
	/* Starts one, with a memory limit of its own if memory_mb is not 0; `spec` is the caller's and need not
	 * outlive the call. */
	int (*start)(struct box_backend_box *box, uint32_t number,
		const struct box_process_spec *spec,
		const struct box_backend_process_events *events, void *arg, struct box_err *err);
	/* A process that the previous box-rpc started: its state follows. */
	void (*adopt)(struct box_backend_box *box, uint32_t number,
		const struct box_backend_process_record *past,
		const struct box_backend_process_events *events, void *arg);
	void (*follow)(struct box_backend_box *box, uint32_t number,
		const struct box_backend_process_follow *follow);
	/* Input from `offset` on; without bytes: its end. The box takes at most 1 MiB that the process has not
	 * taken yet. */
	void (*feed)(struct box_backend_box *box, uint32_t number, uint64_t offset,
		struct box_str bytes);
	/* Answered once by `peeked`, unless the process is forgotten or there are too many peeks. */
	void (*peek)(struct box_backend_box *box, uint32_t number,
		const struct box_backend_process_peek *peek);
	/* Closes its input, sends SIGTERM, and SIGKILL after the grace. */
	void (*stop)(struct box_backend_box *box, uint32_t number, uint32_t grace_ms);
	/* Forgets it, and ends it if it runs. No more events follow. */
	void (*forget)(struct box_backend_box *box, uint32_t number);
};
