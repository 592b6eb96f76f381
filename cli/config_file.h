/* The configuration for `box status` and `box profiles`. */
#pragma once

#include "cli/cli.h"

/* The map of --config, else of LANGBOT_BOX_CONFIG, else an empty map. */
int box_config_file_read(const struct cli *cli, struct box_value *ret_map, struct box_err *err);
