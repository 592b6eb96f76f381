/* The envelope of a request, checked and converted. Pure. For dispatch.c. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/tenant.h"

struct box_arena;

struct box_envelope {
	struct box_str action;
	const struct box_value *data;
	bool has_context;
	struct box_context context;
	bool flow_control; /* stream_flow_control: 1 */
};

enum box_envelope_kind {
	BOX_ENVELOPE_REQUEST,
	BOX_ENVELOPE_IGNORED, /* not a map, an answer, or of an unknown kind: *ret_why is for the log */
};

enum box_envelope_kind box_envelope_classify(const struct box_value *message, const char **ret_why);

/* The seq_id for the answer: as it was sent if it is a number or a short text, otherwise -1. */
struct box_value box_envelope_seq(const struct box_value *message);

/* 0, or -EINVAL with BOX_ERR_ENVELOPE. */
int box_envelope_parse(struct box_arena *arena, const struct box_value *message,
	struct box_envelope *ret_envelope, struct box_err *err);
