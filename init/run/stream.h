/* Pipes out of commands: what is read goes to the control socket as far as there is credit, what is
 * beyond the limit goes nowhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/event_loop.h"

struct box_stream {
	int fd; /* -1: at its end */
	bool watched;
	bool widened;
	uint32_t kind; /* of its packets */
	struct box_watch watch;
	uint64_t left; /* of its limit */
	uint64_t dropped;
	uint32_t drain_left; /* bytes to read yet after the end of the command */
};

/* Of an fd that is there, and is closed on failure too. */
int box_stream_adopt(struct box_stream *stream, uint64_t limit, struct box_watch watch, int fd);
/* Makes a pipe; its other end, which blocks, is the caller's. */
int box_stream_open(struct box_stream *stream, uint64_t limit, struct box_watch watch, int *ret_fd);
/* From now on what is read goes nowhere and needs no credit. */
void box_stream_discard(struct box_stream *stream);

/* After an event: reads, and watches or not according to what came of it. */
void box_stream_pump(struct box_stream *stream, uint32_t id, uint64_t *credit);
/* After the end of the command: reads what it left. False: call again when it is not stuck any
 * more, which no event of its own tells. */
bool box_stream_drain(struct box_stream *stream, uint32_t id, uint64_t *credit);

void box_stream_unwatch(struct box_stream *stream);
void box_stream_close(struct box_stream *stream);

/* Others may still write to the pipe of a command that has ended: it is read to nowhere. */
void box_stream_orphan(struct box_stream *stream);
/* The same for one that somebody else has read so far: nonblocking, and ours now. */
void box_stream_adopt_orphan(int fd);
void box_stream_pump_orphan(struct box_watch watch);
