/* The stdio connection: fds 0 and 1 of a child of the platform. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct box_dispatch;
struct box_runtime;
struct box_stdio;

/* The connection has ended and answers have drained, or had their time: `clean` at end of file,
 * false when the stream was broken. Called once. */
typedef void box_stdio_ended(void *arg, bool clean);

/* To be called before the fence: it looks at the fds. Nothing is read before the loop runs. 0, or
 * negative errno. The fds stay open until the process ends. */
int box_stdio_open(uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime,
	box_stdio_ended *ended, void *arg, struct box_stdio **ret_stdio);

/* Bytes of answers that wait to be taken. */
size_t box_stdio_queued(const struct box_stdio *stdio);

/* Puts the mode of the fds back, which a terminal shares with the shell. The last thing to do. */
void box_stdio_restore(const struct box_stdio *stdio);
