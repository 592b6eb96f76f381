/* The stdin of a command that has one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/event_loop.h"

struct box_input {
	int fd; /* -1: none, or closed */
	struct box_watch watch;
	char *buffer; /* start to end: what the pipe did not take yet; or NULL */
	uint32_t start;
	uint32_t end;
	bool watched;
	bool widened;
	bool ended; /* no more comes: close when the buffer is empty */
	uint64_t taken;
	uint64_t told; /* of taken, to the other side */
};

void box_input_init(struct box_input *input);
/* Of an fd that is there and does not block. */
void box_input_adopt(struct box_input *input, struct box_watch watch, int fd);
/* Makes a pipe; its other end, which blocks, is the caller's. */
int box_input_open(struct box_input *input, struct box_watch watch, int *ret_fd);
void box_input_close(struct box_input *input);

/* Bytes for it; none: the end. -ENOBUFS when there are too many at once. */
int box_input_put(struct box_input *input, const char *bytes, uint32_t size);
/* When the pipe has room again. */
void box_input_pump(struct box_input *input);
