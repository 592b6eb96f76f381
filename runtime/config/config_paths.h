/* The paths of the configuration, and the lists in it. For config.c only. */
#pragma once

#include "runtime/config/config.h"

struct box_config_paths {
	enum box_config_origin origin;
	const char *working_folder;
	bool local_is_new; /* the map that is merged now has a `local` section */
};

/* Fills the path members of `config` from its `local` section (NULL: none). */
int box_config_paths_read(struct box_config *config, const struct box_config *present,
	const struct box_value *local, const struct box_config_paths *paths, struct box_err *err);

/* A list of strings, or one string with commas, as a list of stripped, non-empty strings. `name`
 * is how an error names it. */
int box_config_paths_read_list(struct box_arena *arena, const char *name,
	const struct box_value *value, struct box_value *ret_list, struct box_err *err);
