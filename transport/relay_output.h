/* Cuts the output of a managed process into messages: a line each, or pieces of text as they come. Pure:
 * bytes with offsets go in, messages with the offset of their end come out. For ws_relay.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/value.h"

enum box_relay_output_kind {
	BOX_RELAY_OUTPUT_LINES, /* one message for each line, without its newline; none for empty lines */
	BOX_RELAY_OUTPUT_TEXT, /* as it comes, never cut inside a character */
	BOX_RELAY_OUTPUT_BYTES, /* as it comes, after a byte 1 and the offset (eight bytes, big-endian) */
};

/* A message, and in the same run of bytes those that follow it: output that a process writes in small
 * pieces costs little more than its bytes. */
struct box_relay_output_chunk {
	struct box_list links;
	struct box_buf run;  /* the bytes as they were written */
	uint64_t run_offset; /* of its first byte */
	size_t run_next;     /* where the next message begins */
	struct box_buf text; /* of the message, if it had to be repaired */
	char *bytes;         /* the message; NULL unless it is the first in the queue */
	size_t len;
	size_t sent;
	uint64_t end; /* the offset of its end */
};

struct box_relay_output {
	enum box_relay_output_kind kind;
	bool skip;           /* output is skipped up to the end of the current line */
	struct box_buf rest; /* an incomplete line or character */
	uint64_t rest_end;   /* the offset of its end */
	size_t measured;     /* this many bytes of the rest are measured */
	size_t text_size;    /* and this long when repaired */
	struct box_list ready;
	size_t ready_bytes;
	size_t longest_len; /* of the longest message dropped so far, the first if several */
	uint64_t longest_end;
};

void box_relay_output_init(struct box_relay_output *output, enum box_relay_output_kind kind);
void box_relay_output_free(struct box_relay_output *output);

/* Adds output. -EMSGSIZE: the current line, repaired, is longer than a message may be. It is skipped from
 * now on, and nothing from rest_end on was taken. */
int box_relay_output_add(struct box_relay_output *output, uint64_t offset, struct box_str bytes);
/* The end of what was added last will never come: the incomplete rest is dropped. */
void box_relay_output_drop_rest(struct box_relay_output *output);
/* There will be no more output: the incomplete rest becomes a message too. */
void box_relay_output_end(struct box_relay_output *output);

/* The first message, or NULL; and its removal from the queue. */
struct box_relay_output_chunk *box_relay_output_first(const struct box_relay_output *output);
void box_relay_output_drop_first(struct box_relay_output *output);

/* The end of the longest message of which the client has seen at least one byte; 0 if there is none. A
 * client that refuses a message for its length refuses that one: it accepted the shorter ones. */
uint64_t box_relay_output_longest_end(const struct box_relay_output *output);
