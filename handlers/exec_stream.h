/* A live command, as its own request and those about it see it: shared by exec_stream.c (its output) and
 * exec_stream_input.c (what comes later: input, signals, the size of its terminal). */
#pragma once

#include "base/list.h"
#include "handlers/request.h"
#include "handlers/spec_request.h"
#include "runtime/runtime.h"

struct box_exec_stream_state {
	struct box_spec_request asked;
	struct box_request *request;
	struct box_backend_stream live;
	char exec_id[32];
	bool started;
	bool has_stdin;
	bool input_ended;
	struct box_list pieces;
	size_t piece_count;
	bool flushing;
	bool over; /* the command has ended, with: */
	struct box_backend_exec_outcome outcome;
};

/* 0, or BOX_ERR_VALIDATION for a terminal that cannot be. */
int box_exec_stream_check_size(int64_t rows, int64_t columns, struct box_err *err);
