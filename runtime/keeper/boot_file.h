/* The file that box-init boots from. */
#pragma once

#include "runtime/keeper/ground.h"

/* A sealed memory file, to be read from its beginning. 0 or -errno. */
int box_boot_file_make(const struct box_ground *ground, const struct box_plan *plan, int *ret_fd);
