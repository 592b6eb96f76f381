/* What a message from the runtime says. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

#define BOX_STREAM_WINDOW 8    /* (wire) streamed answers that were not acknowledged */
#define BOX_STREAM_ACK_EVERY 4 /* (wire) */

struct box_answer {
	int64_t seq_id;
	const struct box_value *data; /* a map; NULL with err */
	const struct box_err *err;    /* the caller's struct, filled; NULL on success */
	bool end;                     /* chunk_status says that the stream is over */
	int64_t index;                /* stream_index, 0 when there is none */
};

/* Why a relay was refused, from the body of the HTTP answer. Changes the body. */
void box_answer_refusal(struct box_str body, struct box_err *err);

/* 0, or -EBADMSG when it is no answer. What the runtime answered as an error is in *err, which
 * answer->err then points to. */
int box_answer_parse(
	const struct box_value *message, struct box_answer *ret_answer, struct box_err *err);
