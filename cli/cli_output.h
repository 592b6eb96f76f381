/* What goes to one of our own fds: held until it is written, so that nothing waits on it alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/value.h"

struct box_cli_output {
	int fd; /* of a terminal another one, which does not block */
	const char *name;
	struct box_buf bytes;
	size_t written;
	size_t piece;
	int broken; /* the errno of a write that failed: what is added is dropped */
};

/* Our stdout or stderr. */
void box_cli_output_open(struct box_cli_output *output, int fd);
void box_cli_output_close(struct box_cli_output *output);

/* Who adds waits with more until it is written. */
void box_cli_output_add(struct box_cli_output *output, struct box_str bytes);
bool box_cli_output_pending(const struct box_cli_output *output);
/* Writes once; poll(2) has said that it is ready. */
void box_cli_output_write(struct box_cli_output *output);
/* Writes all that is held, unless it breaks or a signal comes (cli/cli_signals.h). */
void box_cli_output_drain(struct box_cli_output *output);

/* The exit code for one that is broken. A reader that went away is no news to anyone: that is the
 * end by SIGPIPE. Anything else is said. */
int box_cli_output_lost(const struct box_cli_output *output);
