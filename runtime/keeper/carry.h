/* What boxd carries to box-rpc without reading it: variables of the environment and the text of
 * --config, as bytes in START or in memory files.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "runtime/keeper/options.h"
#include "runtime/keeper/proto.h"

/* What goes into every START. */
struct box_carried {
	struct box_keeper_start start; /* complete but for the flags of fds and `restarts` */
	const char *config_path;       /* NULL without --config */
	int accepted;                  /* memfd: the last --config text that box-rpc took, or -1 */
	int offered;                   /* memfd: one that it was given to reload, or -1 */
	int variable;                  /* memfd of LANGBOT_BOX_CONFIG, or -1 */
	int first; /* memfd: the --config text of the start, when another was taken since, or -1 */
	char token_path[BOX_PATH_MAX];           /* of the token file; empty: there is none */
	struct box_keeper_tokens offered_tokens; /* that box-rpc was given at the last SIGHUP */
	int roots;                               /* memfd of all --mount-root, or -1 */
};

/* Room for it that children of ours find empty: the token is in it. NULL with errno. */
struct box_carried *box_carry_new(void);

/* Takes the environment and the text of --config; the token is wiped from the environment. Negative
 * with the text of the error when the file cannot be read or something is too long. */
int box_carry_take(
	const struct box_options *options, struct box_carried *ret_carried, struct box_err *err);

#define BOX_START_FDS_MAX 5

/* Sets the flags of `start` for the fds that go with it, and lists those in their order: file,
 * variable, state, first, roots. Those that are -1 are left out. Returns how many there are. */
size_t box_carry_fill_start(
	struct box_carried *carried, int state_fd, int ret_fds[BOX_START_FDS_MAX]);

/* The text of --config as it is now, for RELOAD; the fd stays ours. What box-rpc refuses is not
 * given to a successor: a mistake in a file cannot end a runtime that is serving. */
int box_carry_reread(struct box_carried *carried, int *ret_fd, struct box_err *err);

/* box-rpc took what it was offered. */
void box_carry_taken(struct box_carried *carried);

/* The same for the token file: into offered_tokens, and from there into START. */
int box_carry_reread_tokens(struct box_carried *carried, struct box_err *err);
void box_carry_tokens_taken(struct box_carried *carried);
