/* The terminal and the signals of whoever called us, for a command that runs elsewhere: raw mode
 * that is taken back on every way out, sizes, and signals as something to poll for. A process has
 * one of each. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/box.h"

/* --- signals --- */

/* What has come since it was last asked for. */
struct box_cli_terminal_signals {
	bool interrupted; /* the first SIGINT: it is meant for the command */
	bool resized;     /* the terminal may have another size */
	int ended_by;     /* SIGTERM, SIGHUP, or the second SIGINT; from then on always */
};

/* Catches them from now on; who was told to ignore one goes on ignoring it. After ended_by one more
 * ends the process at once. *ret_fd can be read when there is something to ask for. 0 or -errno. */
int box_cli_terminal_catch_signals(int *ret_fd);

/* While the terminal is raw it also carries out SIGTSTP and SIGCONT. */
struct box_cli_terminal_signals box_cli_terminal_take_signals(void);

/* --- the terminal at stdin --- */

/* Every byte that is typed is read as it is, until box_cli_terminal_restore or the end of the
 * process by any signal but SIGKILL. After box_cli_terminal_catch_signals. */
int box_cli_terminal_raw(struct box_err *err);
/* As it was. Does nothing when it is not raw, or when others have it in the foreground. */
void box_cli_terminal_restore(void);

/* Of stdin, else of stdout; 24 by 80 where there is none or it does not know. */
struct box_exec_terminal box_cli_terminal_size(void);

/* An fd of the same terminal that does not block, or -1 where `fd` is none or cannot be opened
 * again. The terminal itself is shared with others, who may rely on its flags. */
int box_cli_terminal_reopen(int fd);
