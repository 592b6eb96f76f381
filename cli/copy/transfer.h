/* Runs a command in a box whose stdin comes from a function and whose stdout goes to another. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/value.h"
#include "client/box.h"

#define BOX_TRANSFER_STDERR_MAX 1024

struct box_transfer {
	struct box_client *client;
	const struct box_value *spec;
	/* The next bytes of its input, 0 at the end; negative, with err, cancels. NULL: no input. With
	 * `input_fd` it is called only when that is readable. */
	ssize_t (*give)(void *arg, char *to, size_t max, struct box_err *err);
	int input_fd; /* or -1 */
	/* Takes its output; 0, or negative, with err, to cancel. NULL: ignored. */
	int (*take)(void *arg, struct box_str bytes, struct box_err *err);
	/* Whether output that was taken is not written yet; then `output_fd` is polled and `flush` called,
	 * which gives false to cancel. NULL: never. */
	bool (*pending)(void *arg);
	bool (*flush)(void *arg);
	int output_fd;
	void *arg;
	/* Called from time to time to show the progress; may be NULL. */
	void (*progress)(void *arg);
	void *progress_arg;
	bool given_up;                      /* by flush */
	char said[BOX_TRANSFER_STDERR_MAX]; /* the end of its stderr */
	struct box_exec_result result;
};

/* Runs it to the end: 0, with transfer->result. -EINTR: a signal came; -ECANCELED: it was cancelled. Else
 * negative, with err. In any case the command has ended. */
int box_transfer_run(struct box_transfer *transfer, struct box_err *err);
