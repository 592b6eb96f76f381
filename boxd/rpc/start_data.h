/* What boxd passes on to every box-rpc without parsing it: variables of the environment, tokens, and the
 * text of --config, as bytes in START or in memfds. Filled by main.c, sent by serve.c.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "boxd/options.h"
#include "protocol/boxd.h"

/* What goes into every START. */
struct box_start_data {
	struct box_boxd_start start; /* complete but for the flags of fds and `restarts` */
	const char *config_path;     /* NULL without --config */
	int accepted; /* memfd: the last --config text that box-rpc accepted, or -1 */
	int offered;  /* memfd: the text that box-rpc was given to reload, or -1 */
	int variable; /* memfd of LANGBOT_BOX_CONFIG, or -1 */
	int first;    /* memfd: the first --config text, if another was accepted since; or -1 */
	char token_path[BOX_PATH_MAX];         /* of the token file; "": none */
	struct box_boxd_tokens offered_tokens; /* given to box-rpc at the last reload */
	int roots;                             /* memfd of all --mount-root, or -1 */
};

/* Memory for it that is wiped in forked children, because the token is in it. NULL with errno. */
struct box_start_data *box_start_data_new(void);

/* Takes the environment and the text of --config; the token is wiped from the environment. Negative
 * with the text of the error when the file cannot be read or something is too long. */
int box_start_data_load(const struct box_options *options, struct box_start_data *ret_start_data,
	struct box_err *err);

#define BOX_START_DATA_FDS_MAX 5

/* Sets the flags of `start` for the fds that go with it, and lists those in order: file, variable,
 * state, first, roots, without those that are -1. Returns how many there are. */
size_t box_start_data_fill(
	struct box_start_data *start_data, int state_fd, int ret_fds[BOX_START_DATA_FDS_MAX]);

/* The present text of --config, for RELOAD; we keep the fd. A text that box-rpc refuses is not given to
 * its successor: a mistake in the file must not end a runtime that works. */
int box_start_data_reread_config(
	struct box_start_data *start_data, int *ret_fd, struct box_err *err);

/* box-rpc has accepted the text it was offered. */
void box_start_data_config_accepted(struct box_start_data *start_data);

/* The same for the token file: into offered_tokens, and from there into START. */
int box_start_data_reread_tokens(struct box_start_data *start_data, struct box_err *err);
void box_start_data_tokens_accepted(struct box_start_data *start_data);
