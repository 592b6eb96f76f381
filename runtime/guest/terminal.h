/* A terminal for a command: a pair of the box's own devpts. Only the master is outside the command. */
#pragma once

#include <stdint.h>

struct box_terminal_size {
	uint16_t rows;
	uint16_t columns;
};

/* Makes one that belongs to these ids. The master does not block. 0 or -errno. */
int box_terminal_open(
	struct box_terminal_size size, uint32_t uid, uint32_t gid, int *ret_master, int *ret_slave);

/* The foreground group of the terminal hears of it. */
int box_terminal_resize(int master, struct box_terminal_size size);
