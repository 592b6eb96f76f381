/* The stdin of a command or managed process: our end of a pipe, or a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/event_loop.h"

struct box_input {
	int fd; /* -1: none, or closed */
	struct box_watch watch;
	char *buffer; /* bytes `start` to `end` wait for space in the pipe; NULL: none yet */
	uint32_t start;
	uint32_t end;
	bool watched;      /* fd is in the event loop, because the buffer is not empty */
	bool widened;      /* the pipe was enlarged, or that failed */
	bool ended;        /* the end of input was received: closed when the buffer is empty */
	uint64_t taken;    /* total bytes written to the pipe or discarded */
	uint64_t reported; /* the value of `taken` last reported to box-rpc */
};

void box_input_init(struct box_input *input);
/* For an existing fd, which must not block. Takes it. */
void box_input_adopt(struct box_input *input, struct box_watch watch, int fd);
/* Makes a pipe. Its other end, which blocks, is the caller's. */
int box_input_open(struct box_input *input, struct box_watch watch, int *ret_fd);
/* Discards what is in the buffer. */
void box_input_close(struct box_input *input);

/* Writes bytes, or keeps them until there is space; no bytes: the end of input. -ENOBUFS if more than
 * BOX_INIT_INPUT_MAX would wait. */
int box_input_put(struct box_input *input, const char *bytes, uint32_t size);
/* The pipe has space again. */
void box_input_pump(struct box_input *input);
