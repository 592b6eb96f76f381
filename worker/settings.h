/* What boxd handed over at the start, checked: the token, the instance, and the configuration texts
 * with the place of each mistake. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/value.h"
#include "protocol/packet.h"

#define BOX_SETTINGS_CONFIG_VARIABLE "LANGBOT_BOX_CONFIG"

struct box_arena;
struct box_runtime;
struct box_value;
struct box_config_report;

/* What clients must show: one of them. */
struct box_settings_tokens {
	size_t count; /* 0: none is asked for */
	char texts[BOX_TOKENS_MAX][BOX_TOKEN_MAX + 1];
};

/* Reads the text of a token file: a token a line, one or two of them. 0, or -EINVAL and nothing
 * changed. */
int box_settings_read_tokens(
	struct box_str text, struct box_settings_tokens *ret_tokens, struct box_err *err);

struct box_settings {
	unsigned flags; /* enum box_boxd_start_flag */
	unsigned restarts;
	struct box_settings_tokens tokens;
	const char *instance; /* NULL: not given */
	const char *config_path;
	const char *working_folder;
	const char **mount_roots; /* of the command line, absolute and NULL-terminated, or NULL */
	int config_fd;            /* -1: none */
	int variable_fd;
	int state_fd;
	int first_fd; /* the --config that boxd was started with, when it is not the present one */
};

/* Takes the packet's fds; strings point into the packet. 0, or -EINVAL with the name of the
 * variable in front of the reason. */
int box_settings_read(
	struct box_packet *start, struct box_settings *ret_settings, struct box_err *err);

/* Reads --config, judges it and applies it when it has no error; closes the fd. 0, or -EINVAL with
 * remarks that name file and line. With `look` it is --check-config: paths and the backend's name are
 * judged too. */
int box_settings_apply_file(struct box_runtime *runtime, const char *path, int fd, bool look,
	struct box_config_report *verdict);

/* The same with LANGBOT_BOX_CONFIG, which is LangBot's `box` section: what is no JSON is warned of and
 * left out (with `look` it is an error), and of unknown members only those are errors that resemble one
 * of ours. */
int box_settings_apply_variable(
	struct box_runtime *runtime, int fd, bool look, struct box_config_report *verdict);

/* The map of a file that was good when boxd was started with it; closes the fd. */
int box_settings_read_first(struct box_arena *arena, int fd, struct box_value *ret_map);
