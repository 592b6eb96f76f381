/* The stdout and stderr of commands: what is read is sent over the control socket as far as there is
 * credit; output beyond the limit is read and dropped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/event_loop.h"

struct box_stream {
	int fd;        /* -1: at its end */
	bool watched;  /* fd is in the event loop */
	bool widened;  /* the pipe was enlarged, or that failed */
	uint32_t kind; /* of its packets: BOX_INIT_STDOUT or BOX_INIT_STDERR */
	struct box_watch watch;
	uint64_t left;       /* how many more bytes may be sent before the limit */
	uint64_t dropped;    /* how many bytes beyond the limit were read */
	uint32_t drain_left; /* after the end of the command: how many more bytes are read */
};

/* For an existing fd. Takes it, also on failure. */
int box_stream_adopt(struct box_stream *stream, uint64_t limit, struct box_watch watch, int fd);
/* Makes a pipe. Its other end, which blocks, is the caller's. */
int box_stream_open(struct box_stream *stream, uint64_t limit, struct box_watch watch, int *ret_fd);
/* From now on output is read and dropped, without credit. */
void box_stream_discard(struct box_stream *stream);

/* Handles an event: reads, and stops watching the pipe without credit. */
void box_stream_pump(struct box_stream *stream, uint32_t id, uint64_t *credit);
/* After the end of the command: reads what is left in the pipe. False: it lacks credit, or nothing can
 * be sent; call again when that has changed, because no event reports it. */
bool box_stream_drain(struct box_stream *stream, uint32_t id, uint64_t *credit);

void box_stream_unwatch(struct box_stream *stream);
void box_stream_close(struct box_stream *stream);

/* Other processes may still write to the pipe of a command that has ended: it is read and dropped. */
void box_stream_orphan(struct box_stream *stream);
/* The same for a pipe that box-rpc has read so far. Takes the fd, which must not block. */
void box_stream_adopt_orphan(int fd);
void box_stream_pump_orphan(struct box_watch watch);
