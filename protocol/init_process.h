/* What box-rpc and box-init say about managed processes, beside init.h.
 *
 * A managed process is kept by box-init whoever asks or does not: it begins with KEEP or KEEP_IN,
 * under a number that the caller chose, and is forgotten by DROP alone. RESET does not touch it, so
 * a new box-rpc finds it as it is. Mounts of its own come before, each as a MOUNT with its number and
 * the bit BOX_INIT_MOUNT_OF_PROCESS; commands never have that bit in their ids.
 *
 * Its output is a run of bytes, each with its offset from the first. Box-init holds what has not been
 * freed, up to a bound at which the process blocks; FOLLOW frees, says how far may be sent, and where
 * to begin again. What was sent but not freed can be sent again: nothing is lost with whoever was
 * reading. Its input has offsets too, so that what is sent twice goes in once.
 *
 * One with a log never blocks: its last bytes are held, whole lines of them, whatever FOLLOW frees and
 * whoever reads. What a reader has missed by that is told by SKIPPED.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

#define BOX_INIT_PROCESSES_MAX 1024U          /* in one box, ended ones included */
#define BOX_INIT_OUTPUT_HELD_MIN (64U * 1024) /* of output that is not freed */
#define BOX_INIT_OUTPUT_HELD_MAX (17U * 1024 * 1024)
#define BOX_INIT_STDERR_TAIL_MAX (16U * 1024) /* of its end: 4,000 characters in any script */
#define BOX_INIT_PEEKS_MAX 16U                /* of one process that wait */
#define BOX_INIT_MOUNT_OF_PROCESS 0x80000000U

enum box_init_process_kind {
	/* to box-init */
	BOX_INIT_START_PROCESS =
		32,              /* bytes: struct box_init_start_process, then all of its strings */
	BOX_INIT_FOLLOW_OUTPUT,  /* bytes: struct box_init_follow_output */
	BOX_INIT_WRITE_STDIN,    /* bytes: a uint64_t offset, then input; none: its end is there */
	BOX_INIT_STOP_PROCESS,   /* bytes: a uint32_t, milliseconds from SIGTERM to SIGKILL */
	BOX_INIT_FORGET_PROCESS, /* forgotten; one that runs is killed first */
	BOX_INIT_QUERY_PROCESS,  /* answered by STATE */
	BOX_INIT_START_PROCESS_IN, /* as KEEP; one fd: the door of a cgroup that it goes into first */
	BOX_INIT_PEEK, /* bytes: struct box_init_peek; answered by PEEKED, now or later */
	BOX_INIT_PROCESS_REQUESTS_END_,

	/* from box-init */
	BOX_INIT_PROCESS_STATE =
		96, /* bytes: struct box_init_process_state, then the end of its stderr; unasked
			       * too, when it has ended and when its output has */
	BOX_INIT_PROCESS_OUTPUT, /* bytes: a uint64_t offset, then output */
	BOX_INIT_STDIN_TAKEN,    /* bytes: a uint64_t, how much of its input it has taken */
	BOX_INIT_PEEK_ANSWER,    /* bytes: struct box_init_peek_answer, then output */
	BOX_INIT_OUTPUT_SKIPPED, /* bytes: struct box_init_output_skipped; the next OUT is behind it. How far may
			       * be sent moves by as much */
	BOX_INIT_PROCESS_ANSWERS_END_,
};

static inline bool box_init_process_is_request(uint32_t kind)
{
	return kind >= BOX_INIT_START_PROCESS && kind < BOX_INIT_PROCESS_REQUESTS_END_;
}

static inline bool box_init_process_is_answer(uint32_t kind)
{
	return kind >= BOX_INIT_PROCESS_STATE && kind < BOX_INIT_PROCESS_ANSWERS_END_;
}

/* env_count strings NAME=VALUE, the workdir, the program and its arguments, each with its NUL. The
 * program is searched for in the PATH of that environment. */
struct box_init_start_process {
	uint16_t env_count;
	uint16_t mount_count; /* MOUNTs that came before for it */
	uint32_t env_size;
	uint32_t workdir_size;
	uint32_t command_size;
	uint32_t log_bytes; /* 0: it blocks when too much is held; else it has a log of this size */
};

#define BOX_INIT_FROM_CURRENT UINT64_MAX

struct box_init_follow_output {
	uint64_t freed; /* nobody will ask for what is before */
	uint64_t from;  /* begin again here, or BOX_INIT_FROM_CURRENT */
	uint64_t until; /* what is before may be sent */
	uint64_t hold;  /* how much may be held */
};

enum box_init_peek_stream {
	BOX_INIT_PEEK_STDOUT,
	BOX_INIT_PEEK_STDERR,
};

/* A look at what is still there, freed or not: it frees nothing, and whoever follows does not notice.
 * One with the token of another that waits takes its place; of too many the oldest is forgotten. */
struct box_init_peek {
	uint64_t token; /* the caller's, comes back */
	uint64_t offset;
	uint32_t most;
	uint16_t stream;
	uint16_t wait; /* not 0: answer when there is something behind the offset, or the end */
};

#define BOX_INIT_PEEK_BYTES_MAX (BOX_INIT_BYTES_MAX - (uint32_t)sizeof(struct box_init_peek_answer))

struct box_init_peek_answer {
	uint64_t token;
	uint64_t offset; /* of the first byte; later than asked where that is forgotten */
	uint64_t end;    /* of all that was written so far */
	uint32_t ended;  /* 1: and nothing more will be */
	uint32_t reserved;
};

struct box_init_output_skipped {
	uint64_t from; /* what would have come next */
	uint64_t to;   /* what comes instead; later */
};

enum box_init_process_phase {
	BOX_INIT_PROCESS_RUNNING,
	BOX_INIT_PROCESS_ENDED,
	BOX_INIT_PROCESS_UNKNOWN, /* there is no such process */
};

struct box_init_process_state {
	uint32_t phase;
	uint32_t end;  /* ENDED: enum box_init_end, never TIMEOUT */
	uint32_t step; /* of one that never started */
	int32_t value;
	int32_t pid;        /* inside; 0 when it has none */
	uint32_t out_ended; /* no more output will come than up to out_end */
	uint64_t freed;
	uint64_t out_end; /* held up to here */
	uint64_t in_have; /* input that has come */
	uint64_t in_taken;
	uint64_t in_ended; /* 1: its end has come too */
	uint64_t blocked;  /* 1: as much as may be is held, and it is not read any further */
};

/* As box_init_check_answer and _request, for these kinds alone. */
bool box_init_process_answer_is_valid(uint32_t kind, const char *bytes, size_t size);
bool box_init_process_request_is_valid(uint32_t kind, const char *bytes, size_t size);
