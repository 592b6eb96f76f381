/* A command in a box whose stdin comes from one function of ours and whose stdout goes to another. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/value.h"
#include "client/box.h"

#define BOX_TRANSFER_STDERR_MAX 1024

struct box_transfer {
	struct box_client *client;
	const struct box_value *spec;
	/* The next bytes of its input, 0 at the end; negative with err: it is given up. NULL: none. With
	 * `input_fd` it is called only when that can be read. */
	ssize_t (*give)(void *arg, char *to, size_t max, struct box_err *err);
	int input_fd; /* or -1 */
	/* What it writes; 0, or negative with err: it is given up. NULL: nothing is wanted. */
	int (*take)(void *arg, struct box_str bytes, struct box_err *err);
	/* Whether what was taken last is not dealt with yet; then `output_fd` is waited for and
	 * `flush` called, which says whether it goes on: who says no knows why. NULL: it always
	 * is. */
	bool (*pending)(void *arg);
	bool (*flush)(void *arg);
	int output_fd;
	void *arg;
	/* How it goes on, now and then; may be NULL. */
	void (*progress)(void *arg);
	void *progress_arg;
	bool given_up;                      /* by flush */
	char said[BOX_TRANSFER_STDERR_MAX]; /* the end of what it wrote to stderr, as one line */
	struct box_exec_result result;
};

/* Until it ends: 0, with transfer->result. -EINTR: a signal came; -ECANCELED: it was given up. Else
 * negative with err. The command does not run any more in any case. */
int box_transfer_run(struct box_transfer *transfer, struct box_err *err);
