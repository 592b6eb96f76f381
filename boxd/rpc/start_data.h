/* What boxd carries to box-rpc without reading it: variables of the environment and the text of
 * --config, as bytes in START or in memory files.
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
	int accepted;                /* memfd: the last --config text that box-rpc took, or -1 */
	int offered;                 /* memfd: one that it was given to reload, or -1 */
	int variable;                /* memfd of LANGBOT_BOX_CONFIG, or -1 */
	int first; /* memfd: the --config text of the start, when another was taken since, or -1 */
	char token_path[BOX_PATH_MAX];         /* of the token file; empty: there is none */
	struct box_boxd_tokens offered_tokens; /* that box-rpc was given at the last SIGHUP */
	int roots;                             /* memfd of all --mount-root, or -1 */
};

/* Room for it that children of ours find empty: the token is in it. NULL with errno. */
struct box_start_data *box_start_data_new(void);

/* Takes the environment and the text of --config; the token is wiped from the environment. Negative
 * with the text of the error when the file cannot be read or something is too long. */
int box_start_data_load(
	const struct box_options *options, struct box_start_data *ret_carried, struct box_err *err);

#define BOX_START_DATA_FDS_MAX 5

/* Sets the flags of `start` for the fds that go with it, and lists those in their order: file,
 * variable, state, first, roots. Those that are -1 are left out. Returns how many there are. */
size_t box_start_data_fill(
	struct box_start_data *start_data, int state_fd, int ret_fds[BOX_START_DATA_FDS_MAX]);

/* The text of --config as it is now, for RELOAD; the fd stays ours. What box-rpc refuses is not
 * given to a successor: a mistake in a file cannot end a runtime that is serving. */
int box_start_data_reread_config(
	struct box_start_data *start_data, int *ret_fd, struct box_err *err);

/* box-rpc took what it was offered. */
void box_start_data_config_accepted(struct box_start_data *start_data);

/* The same for the token file: into offered_tokens, and from there into START. */
int box_start_data_reread_tokens(struct box_start_data *start_data, struct box_err *err);
void box_start_data_tokens_accepted(struct box_start_data *start_data);
