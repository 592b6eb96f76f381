/* Signals that end us, as an fd for poll(2). */
#pragma once

/* Catches SIGINT, SIGTERM and SIGHUP from now on, unless we were told to ignore them. The fd is
 * readable when one has come; the second one exits at once. Negative errno when there is none. */
int box_cli_signals_catch(void);

/* The same fd again; -1 before that. */
int box_cli_signals_fd(void);

/* Which one has come, or 0. */
int box_cli_signals_which(void);
/* The exit code for it; `otherwise` when none has come. */
int box_cli_signals_exit_code(int otherwise);
