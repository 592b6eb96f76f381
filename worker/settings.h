/* What boxd handed over at the start, checked: the token, the instance, and the configuration texts
 * with the place of each mistake. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "runtime/keeper/packet.h"

struct box_runtime;

struct box_settings {
	unsigned flags; /* enum box_keeper_start_flag */
	unsigned restarts;
	const char *token;    /* NULL: none */
	const char *instance; /* NULL: not given */
	const char *config_path;
	const char *working_folder;
	int config_fd; /* -1: none */
	int variable_fd;
	int state_fd;
};

/* Takes the packet's fds; strings point into the packet. 0, or -EINVAL with the name of the
 * variable in front of the reason. */
int box_settings_read(
	struct box_packet *start, struct box_settings *ret_settings, struct box_err *err);

/* Reads and applies --config; closes the fd. The error names file and line. */
int box_settings_apply_file(
	struct box_runtime *runtime, const char *path, int fd, struct box_err *err);

/* Reads and applies LANGBOT_BOX_CONFIG; closes the fd. What is no JSON is warned of and left
 * out. */
int box_settings_apply_variable(struct box_runtime *runtime, int fd, struct box_err *err);
