/* What boxd carries to box-rpc without reading it: variables of the environment and the text of
 * --config, as bytes in START or in memory files.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "runtime/keeper/options.h"
#include "runtime/keeper/proto.h"

/* What goes into every START. Big: let it be static. */
struct box_carried {
	struct box_keeper_start start; /* complete but for the flags of fds and `restarts` */
	const char *config_path;       /* NULL without --config */
	int file_copy;                 /* memfd of a --config that was a pipe, or -1 */
	int variable;                  /* memfd of LANGBOT_BOX_CONFIG, or -1 */
};

/* Takes the environment and tries the --config file; the token is wiped from the environment.
 * Negative with the text of the error when the file cannot be used or something is too long. */
int box_carry_take(
	const struct box_options *options, struct box_carried *ret_carried, struct box_err *err);

#define BOX_START_FDS_MAX 3

/* Sets the flags of `start` for the fds that go with it, and lists those in their order: file,
 * variable, state. Those that are -1 are left out. Returns how many there are. */
size_t box_carry_fill_start(
	struct box_carried *carried, int config_fd, int state_fd, int ret_fds[BOX_START_FDS_MAX]);

/* A new fd at the start of the --config text, for START and RELOAD; -ENOENT without --config. */
int box_carry_open_config(const struct box_carried *carried, int *ret_fd, struct box_err *err);
