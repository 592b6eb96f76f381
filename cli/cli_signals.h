/* Signals that end us, as an fd for poll(2): for attach, logs and cp. */
#pragma once

/* Catches SIGINT, SIGTERM and SIGHUP from now on, unless they are ignored. The fd is readable when one has come;
 * the second one exits at once. The fd, or a negative errno. */
int box_cli_signals_catch(void);

/* The same fd; -1 before that. */
int box_cli_signals_fd(void);

/* The signal that has come, or 0. */
int box_cli_signals_which(void);
/* The exit code for that signal; `otherwise` when none has come. */
int box_cli_signals_exit_code(int otherwise);
