/* Parses a message from the runtime, and holds the one answer that a blocking call waits for. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

#define BOX_STREAM_WINDOW 8    /* (wire) streamed answers that may be unacknowledged */
#define BOX_STREAM_ACK_EVERY 4 /* (wire) */

struct box_answer {
	int64_t seq_id;
	const struct box_value *data; /* a map; NULL with err */
	const struct box_err *err;    /* the caller's struct, filled; NULL on success */
	bool end;                     /* chunk_status says that the stream has ended */
	int64_t index;                /* stream_index, 0 if there is none */
};

/* Why a relay was refused, from the body of the HTTP answer. */
void box_answer_refusal(struct box_str body, struct box_err *err);

/* 0, or -EBADMSG if it is not an answer. An error from the runtime is put in *err, and answer->err points to
 * it. */
int box_answer_parse(
	const struct box_value *message, struct box_answer *ret_answer, struct box_err *err);

/* For a call that blocks until it is answered. */
struct box_answer_wait {
	struct box_arena *arena; /* of the data */
	struct box_err *err;     /* filled with the reason; may be NULL */
	bool done;
	int result; /* 0 or -errno, once it is done */
	struct box_value data;
};

/* Stores the answer; a box_client_answered whose `arg` is the struct. */
void box_answer_wait_take(
	void *arg, const struct box_value *data, const struct box_err *err, bool last);
