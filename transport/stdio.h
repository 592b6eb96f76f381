/* The stdio connection of `boxd -s`: fds 0 and 1, which box-rpc inherits and whose other end is the process that
 * started boxd. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct box_dispatch;
struct box_runtime;
struct box_stdio;

/* The connection has ended, and the answers were read or their time is over. `clean`: at end of file, not
 * because the stream was broken. Called once. */
typedef void box_stdio_ended(void *arg, bool clean);

/* To be called before box-rpc is confined, because it examines the fds. Nothing is read before the loop
 * runs. 0, or negative errno. The fds stay open until the process ends. */
int box_stdio_open(uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime,
	box_stdio_ended *ended, void *arg, struct box_stdio **ret_stdio);

/* Bytes of answers that wait to be written. */
size_t box_stdio_queued(const struct box_stdio *stdio);

/* Restores the flags of the fds, which a terminal shares with the shell. To be called last. */
void box_stdio_restore(const struct box_stdio *stdio);
