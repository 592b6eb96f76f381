/* Buffered output to stdout or stderr, for a poll loop that must not block on it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/value.h"

struct box_cli_output {
	int fd; /* for a terminal: reopened, nonblocking */
	const char *name;
	struct box_buf bytes;
	size_t written;
	size_t piece;
	int broken; /* the errno of a failed write: what is added later is dropped */
};

/* `fd` is stdout or stderr. */
void box_cli_output_open(struct box_cli_output *output, int fd);
void box_cli_output_close(struct box_cli_output *output);

/* The caller should not add more until it is written. */
void box_cli_output_add(struct box_cli_output *output, struct box_str bytes);
bool box_cli_output_pending(const struct box_cli_output *output);
/* Writes once; the fd must be writable. */
void box_cli_output_write(struct box_cli_output *output);
/* Writes everything, unless a write fails or a signal comes (cli_signals.h). */
void box_cli_output_drain(struct box_cli_output *output);

/* The exit code when `broken` is set: as of SIGPIPE when the reader is gone; other errors are printed. */
int box_cli_output_lost(const struct box_cli_output *output);
