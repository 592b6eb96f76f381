/* The settings that boxd hands over at the start, checked: tokens, instance, and the configuration texts with
 * the position of each mistake. For main.c and worker.c. */
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

/* The valid tokens. Clients must present one of them. */
struct box_settings_tokens {
	size_t count; /* 0: none is required */
	char texts[BOX_TOKENS_MAX][BOX_TOKEN_MAX + 1];
};

/* Reads the text of a token file: one token per line, one or two of them. 0, or -EINVAL and nothing is
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
	const char **mount_roots; /* from the command line, absolute and NULL-terminated, or NULL */
	int config_fd;            /* -1: none */
	int variable_fd;
	int state_fd;
	int first_fd; /* the --config that boxd was started with, if it is not the current one */
};

/* Takes over the packet's fds; strings point into the packet. 0, or -EINVAL with a reason that begins with
 * the variable's name. */
int box_settings_read(
	struct box_packet *start, struct box_settings *ret_settings, struct box_err *err);

/* Reads and checks --config, and applies it if it has no error; closes the fd. 0, or -EINVAL with remarks that
 * name file and line. `look`: for --check-config, which also checks paths and the backend's name. */
int box_settings_apply_file(struct box_runtime *runtime, const char *path, int fd, bool look,
	struct box_config_report *verdict);

/* The same for LANGBOT_BOX_CONFIG, which is LangBot's `box` section: a text that is not a JSON map is ignored
 * with a warning (with `look` it is an error), and an unknown member is an error only if it resembles one of
 * ours. */
int box_settings_apply_variable(
	struct box_runtime *runtime, int fd, bool look, struct box_config_report *verdict);

/* The map of the file that boxd was started with, which was valid then; closes the fd. */
int box_settings_read_first(struct box_arena *arena, int fd, struct box_value *ret_map);
