/* What a managed process wrote, cut into messages: a line each, or pieces of text as they come. Pure:
 * bytes with offsets go in, messages with the offset behind them come out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/value.h"

enum box_relay_output_kind {
	BOX_RELAY_OUTPUT_LINES, /* one message a line, without its end; empty lines are none */
	BOX_RELAY_OUTPUT_TEXT,  /* as it comes, never inside of a character */
	BOX_RELAY_OUTPUT_BYTES, /* as it comes, behind a byte 1 and the offset in eight, high ones first */
};

/* A message, and behind it in the same run of bytes those that follow: what a process writes in small
 * pieces costs little more than its bytes. */
struct box_relay_output_chunk {
	struct box_list links;
	struct box_buf run;  /* as it was written */
	uint64_t run_offset; /* of its first byte */
	size_t run_next;     /* where the following message begins */
	struct box_buf text; /* of the message, where it had to be repaired */
	char *bytes;         /* the message; NULL while it is not the first */
	size_t len;
	size_t sent;
	uint64_t end; /* the offset behind it */
};

struct box_relay_output {
	enum box_relay_output_kind kind;
	bool skip;           /* up to the end of the present line */
	struct box_buf rest; /* of a line or a character that is not whole */
	uint64_t rest_end;   /* the offset behind it */
	size_t measured;     /* so much of the rest */
	size_t text_size;    /* is so long as text */
	struct box_list ready;
	size_t ready_bytes;
	size_t longest_len; /* of the longest message that is done with, the first of such */
	uint64_t longest_end;
};

void box_relay_output_init(struct box_relay_output *output, enum box_relay_output_kind kind);
void box_relay_output_free(struct box_relay_output *output);

/* More output. -EMSGSIZE: the present line is longer, as text, than a message may be. It is being
 * skipped from now on, and nothing was taken from rest_end on. */
int box_relay_output_add(struct box_relay_output *output, uint64_t offset, struct box_str bytes);
/* Of what was added last the end will never come: what is no message yet is none. */
void box_relay_output_drop_rest(struct box_relay_output *output);
/* There will be no more: what is left is a message too. */
void box_relay_output_end(struct box_relay_output *output);

/* The first message, or NULL; and away with it. */
struct box_relay_output_chunk *box_relay_output_first(const struct box_relay_output *output);
void box_relay_output_drop_first(struct box_relay_output *output);

/* Whoever refuses a message for its length refuses the longest that it has seen a byte of: what was
 * as long before was taken. The offset behind that one; 0: there is none. */
uint64_t box_relay_output_longest_end(const struct box_relay_output *output);
