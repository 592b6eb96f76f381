/* The stdio connection: fds 0 and 1 of a child of the platform. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct box_dispatch;
struct box_runtime;
struct box_stdio;

/* The connection has ended and answers have drained, or had their time: `clean` at end of file,
 * false when the stream was broken. Called once. */
typedef void box_stdio_ended(void *arg, bool clean);

/* 0, or negative errno. The fds stay open until the process ends. */
int box_stdio_open(uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime,
	box_stdio_ended *ended, void *arg, struct box_stdio **ret_stdio);

/* Stops reading and calls `ended` when what is queued has drained. */
void box_stdio_finish(struct box_stdio *stdio);
