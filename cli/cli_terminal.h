/* Our terminal and signals, for a command that runs in a box: raw mode, which is restored however we end, the
 * size, and signals as an fd for poll(2). */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/box.h"

/* --- signals --- */

/* What has come since the last call. */
struct box_cli_terminal_signals {
	bool interrupted; /* the first SIGINT, which is for the command */
	bool resized;     /* the terminal may have another size */
	int ended_by;     /* SIGTERM, SIGHUP or the second SIGINT; stays set */
};

/* Catches them from now on, except those that are ignored. After ended_by another one ends the process at once.
 * *ret_fd is readable when box_cli_terminal_take_signals has something to give. 0 or -errno. */
int box_cli_terminal_catch_signals(int *ret_fd);

/* While the terminal is raw it also handles SIGTSTP and SIGCONT. */
struct box_cli_terminal_signals box_cli_terminal_take_signals(void);

/* --- the terminal at stdin --- */

/* Sets raw mode, until box_cli_terminal_restore or the end of the process by any signal but SIGKILL. Must be
 * called after box_cli_terminal_catch_signals. */
int box_cli_terminal_raw(struct box_err *err);
/* Restores the modes. Does nothing when it is not raw, or when we are in the background. */
void box_cli_terminal_restore(void);

/* Of the terminal at stdin, else at stdout; 24 by 80 where it is not known. */
struct box_exec_terminal box_cli_terminal_size(void);

/* A nonblocking fd of the same terminal, or -1 where `fd` is not a terminal or cannot be reopened. The flags of
 * `fd` itself are shared with other processes. */
int box_cli_terminal_reopen(int fd);
