/* The configuration that commands of the service look at. */
#pragma once

#include "cli/cli.h"

/* The map of --config, else of LANGBOT_BOX_CONFIG, else an empty one. */
int box_config_file_read(const struct cli *cli, struct box_value *ret_map, struct box_err *err);
