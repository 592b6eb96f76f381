/* What goes to one of our own fds: held until it is written, so that nothing waits on it alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/value.h"

struct cli_output {
	int fd;
	struct box_buf bytes;
	size_t written;
	size_t piece;
	bool broken; /* nobody reads it any more: what is added is dropped */
};

void box_cli_output_open(struct cli_output *output, int fd);
void box_cli_output_close(struct cli_output *output);

/* Who adds waits with more until it is written. */
void box_cli_output_add(struct cli_output *output, struct box_str bytes);
bool box_cli_output_pending(const struct cli_output *output);
/* Writes once; poll(2) has said that it is ready. */
void box_cli_output_write(struct cli_output *output);
