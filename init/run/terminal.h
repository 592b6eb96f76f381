/* A terminal for a command: a pair of the box's own devpts. Only the master is outside the command. */
#pragma once

#include <stdint.h>

#include "protocol/init.h"

/* Makes one. The master does not block. 0 or -errno. */
int box_terminal_open(struct box_init_size size, int *ret_master, int *ret_slave);

/* The foreground group of the terminal hears of it. */
int box_terminal_resize(int master, struct box_init_size size);
