/* The part of the protocol between box-rpc and box-init that concerns managed processes; see init.h
 * for the rest.
 *
 * Box-init keeps a managed process independently of any connection: START_PROCESS or
 * START_PROCESS_IN starts it under an id that the caller chose, and only FORGET_PROCESS removes it.
 * RESET does not affect it, so a restarted box-rpc finds it unchanged. A process's own mounts are
 * sent before it starts, each as a MOUNT with the process's id and the bit BOX_INIT_MOUNT_OF_PROCESS;
 * ids of commands never have that bit.
 *
 * Output is a stream of bytes in which each byte has an offset. Box-init holds output until it is
 * freed, up to a limit at which the process blocks. FOLLOW_OUTPUT frees output, says up to which
 * offset box-init may send, and optionally at which offset to start again. Output that was sent but
 * not freed can be sent again, so no output is lost when its reader dies. Input has offsets too, so
 * input that is sent twice is written once.
 *
 * A process with a log never blocks: box-init holds the last log_bytes of its output, in whole lines,
 * regardless of what was freed or read. OUTPUT_SKIPPED reports what a slow reader missed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

#define BOX_INIT_PROCESSES_MAX 1024U          /* in one box, including ended ones */
#define BOX_INIT_OUTPUT_HELD_MIN (64U * 1024) /* of output that is not freed */
#define BOX_INIT_OUTPUT_HELD_MAX (17U * 1024 * 1024)
#define BOX_INIT_STDERR_TAIL_MAX (16U * 1024) /* 4,000 characters of up to 4 bytes */
#define BOX_INIT_PEEKS_MAX 16U                /* waiting for one process */
#define BOX_INIT_MOUNT_OF_PROCESS 0x80000000U

enum box_init_process_kind {
	/* to box-init */
	BOX_INIT_START_PROCESS = 32, /* bytes: struct box_init_start_process and its strings */
	BOX_INIT_FOLLOW_OUTPUT,      /* bytes: struct box_init_follow_output */
	BOX_INIT_WRITE_STDIN,    /* bytes: a uint64_t offset, then input; no input: end of stdin */
	BOX_INIT_STOP_PROCESS,   /* bytes: a uint32_t, milliseconds between SIGTERM and SIGKILL */
	BOX_INIT_FORGET_PROCESS, /* removes it; kills it first if it is running */
	BOX_INIT_QUERY_PROCESS,  /* answered by PROCESS_STATE */
	BOX_INIT_START_PROCESS_IN, /* as START_PROCESS; one fd: cgroup.procs of the cgroup to enter */
	BOX_INIT_PEEK, /* bytes: struct box_init_peek; answered by PEEK_ANSWER, possibly later */
	BOX_INIT_PROCESS_REQUESTS_END_,

	/* from box-init */
	/* bytes: struct box_init_process_state, then the end of stderr. Also sent unrequested, when
	 * the process or its output has ended */
	BOX_INIT_PROCESS_STATE = 96,
	BOX_INIT_PROCESS_OUTPUT, /* bytes: a uint64_t offset, then output */
	BOX_INIT_STDIN_TAKEN, /* bytes: a uint64_t, how much input was written to stdin or discarded */
	BOX_INIT_PEEK_ANSWER, /* bytes: struct box_init_peek_answer, then output */
	BOX_INIT_OUTPUT_SKIPPED, /* bytes: struct box_init_output_skipped; PROCESS_OUTPUT goes on after the gap.
				  * The send limit moves by the size of the gap */
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

/* Followed by env_count strings NAME=VALUE, the workdir, the program and its arguments, each with its
 * NUL. A program without a slash is searched for in the PATH of that environment. */
struct box_init_start_process {
	uint16_t env_count;
	uint16_t mount_count; /* MOUNTs sent before for this process */
	uint32_t env_size;
	uint32_t workdir_size;
	uint32_t command_size;
	uint32_t log_bytes; /* size of its log; 0: no log, the process blocks at the limit */
};

#define BOX_INIT_FROM_CURRENT UINT64_MAX

struct box_init_follow_output {
	uint64_t freed; /* output before this offset is no longer needed */
	uint64_t from;  /* send again from here, or BOX_INIT_FROM_CURRENT */
	uint64_t until; /* output before this offset may be sent */
	uint64_t hold;  /* how many bytes may be held */
};

enum box_init_peek_stream {
	BOX_INIT_PEEK_STDOUT,
	BOX_INIT_PEEK_STDERR,
};

/* Reads output that is still in memory, freed or not, without freeing it and without affecting
 * FOLLOW_OUTPUT. A peek replaces a waiting peek with the same token; when too many wait, the oldest is
 * forgotten. */
struct box_init_peek {
	uint64_t token; /* chosen by the caller, returned in the answer */
	uint64_t offset;
	uint32_t max_bytes;
	uint16_t stream;
	uint16_t wait; /* not 0: answer once there is output after the offset, or at its end */
};

#define BOX_INIT_PEEK_BYTES_MAX (BOX_INIT_BYTES_MAX - (uint32_t)sizeof(struct box_init_peek_answer))

struct box_init_peek_answer {
	uint64_t token;
	uint64_t offset; /* of the first byte; later than requested if that is no longer held */
	uint64_t end;    /* of everything written so far */
	uint32_t ended;  /* 1: nothing more will be written */
	uint32_t reserved;
};

struct box_init_output_skipped {
	uint64_t from; /* the offset that would have been next */
	uint64_t to;   /* the offset that is next instead; greater */
};

enum box_init_process_phase {
	BOX_INIT_PROCESS_RUNNING,
	BOX_INIT_PROCESS_ENDED,
	BOX_INIT_PROCESS_UNKNOWN, /* no process has this id */
};

struct box_init_process_state {
	uint32_t phase;
	uint32_t end;  /* if ENDED: enum box_init_end, never TIMEOUT */
	uint32_t step; /* if it did not start: where it failed */
	int32_t value;
	int32_t pid;        /* inside the box; 0 if it is not running */
	uint32_t out_ended; /* 1: the output ends at out_end */
	uint64_t freed;
	uint64_t out_end;  /* offset of the end of the output so far */
	uint64_t in_have;  /* how much input box-init has received */
	uint64_t in_taken; /* how much of it was written to stdin or discarded */
	uint64_t in_ended; /* 1: the end of input was received */
	uint64_t blocked;  /* 1: the limit is reached and box-init does not read more output */
};

/* As box_init_check_answer and _request, for these kinds only. */
bool box_init_process_answer_is_valid(uint32_t kind, const char *bytes, size_t size);
bool box_init_process_request_is_valid(uint32_t kind, const char *bytes, size_t size);
