/* Owns the signal handlers and the modes of the terminal, of which a process has one each. A handler only sets a
 * flag and wakes the loop; but a signal that ends the process restores the terminal in its handler, because
 * nothing runs after that. Handlers call only functions of signal-safety(7). */
#include "cli/cli_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "cli/cli.h"

#define ROWS_DEFAULT 24
#define COLS_DEFAULT 80

enum {
	NOT_YET,
	NEW,
	TOLD
};

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t interrupted = NOT_YET;
static volatile sig_atomic_t ending; /* by this signal */
static volatile sig_atomic_t resized;
static volatile sig_atomic_t stop_wanted;
static volatile sig_atomic_t continued;

static struct termios saved;
static volatile sig_atomic_t is_raw; /* `saved` has the modes from before */
static bool raw_wanted;

/* --- the modes --- */

/* In the background the modes must not be changed: others use the terminal. */
static bool in_foreground(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);
	return front < 0 || front == getpgrp();
}

static void restore_modes(void)
{
	if (is_raw && in_foreground()) {
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	}
	is_raw = false;
}

/* In the background the kernel stops us here (SIGTTOU) until we are in the foreground. */
static int make_raw(void)
{
	struct termios modes = saved;
	cfmakeraw(&modes);
	is_raw = true;
	int r;
	do {
		r = tcsetattr(STDIN_FILENO, TCSANOW, &modes);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

/* --- signals --- */

static void wake(void)
{
	int kept = errno;
	(void)!write(wake_pipe[1], "", 1);
	errno = kept;
}

static void on_end(int number)
{
	if (ending) {
		restore_modes();
		_exit(BOX_CLI_EXIT_SIGNAL + number);
	}
	if (number == SIGINT && interrupted == NOT_YET) {
		interrupted = NEW;
	} else {
		ending = number;
	}
	wake();
}

static void on_terminal_event(int number)
{
	if (number == SIGWINCH) {
		resized = true;
	} else if (number == SIGTSTP) {
		stop_wanted = true;
	} else {
		continued = true;
	}
	wake();
}

/* Signals that end the process: the terminal is restored, then the earlier action runs. */
static const int fatal[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGUSR1, SIGSEGV,
	SIGUSR2, SIGALRM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR, SIGSYS};
static struct sigaction before[BOX_COUNT_OF(fatal)];

static void on_fatal(int number)
{
	restore_modes();
	for (size_t i = 0; i < BOX_COUNT_OF(fatal); i++) {
		if (fatal[i] == number) {
			(void)sigaction(number, &before[i], NULL);
		}
	}
	(void)raise(number);
}

static void take(int number, void (*handler)(int), struct sigaction *ret_before)
{
	struct sigaction was;
	struct sigaction action = {.sa_handler = handler};
	if (sigaction(number, NULL, &was) == 0 && was.sa_handler != SIG_IGN) {
		(void)sigaction(number, &action, ret_before);
	}
}

int box_cli_terminal_catch_signals(int *ret_fd)
{
	if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	take(SIGINT, on_end, NULL);
	take(SIGTERM, on_end, NULL);
	take(SIGHUP, on_end, NULL);
	take(SIGWINCH, on_terminal_event, NULL);
	*ret_fd = wake_pipe[0];
	return 0;
}

/* Stops on Ctrl-Z with the terminal restored for the shell. */
static void stop_here(void)
{
	struct sigaction ours;
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	stop_wanted = false;
	restore_modes();
	(void)sigaction(SIGTSTP, &by_default, &ours);
	(void)raise(SIGTSTP);
	(void)sigaction(SIGTSTP, &ours, NULL);
	continued = true;
}

struct box_cli_terminal_signals box_cli_terminal_take_signals(void)
{
	char bytes[64];
	while (read(wake_pipe[0], bytes, sizeof(bytes)) > 0) {
	}
	if (stop_wanted && !ending) {
		stop_here();
	}
	if (continued) {
		/* While we were stopped others had the terminal. */
		continued = false;
		resized = true;
		if (raw_wanted && !ending) {
			(void)make_raw();
		}
	}
	struct box_cli_terminal_signals happened = {
		.interrupted = interrupted == NEW,
		.resized = resized,
		.ended_by = ending,
	};
	interrupted = happened.interrupted ? TOLD : interrupted;
	resized = false;
	return happened;
}

/* --- the terminal --- */

int box_cli_terminal_raw(struct box_err *err)
{
	if (tcgetattr(STDIN_FILENO, &saved) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "stdin: %s", box_err_strerror(errno));
	}
	for (size_t i = 0; i < BOX_COUNT_OF(fatal); i++) {
		take(fatal[i], on_fatal, &before[i]);
	}
	take(SIGTSTP, on_terminal_event, NULL);
	take(SIGCONT, on_terminal_event, NULL);
	raw_wanted = true;
	int r = make_raw();
	if (r < 0) {
		box_cli_terminal_restore();
		return box_err_set(err, BOX_ERR_OS, -r, "stdin: %s", box_err_strerror(-r));
	}
	return 0;
}

void box_cli_terminal_restore(void)
{
	raw_wanted = false;
	restore_modes();
}

struct box_exec_terminal box_cli_terminal_size(void)
{
	struct winsize size = {0};
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0) {
		(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	}
	/* The size of a serial line is 0. */
	return (struct box_exec_terminal){
		.rows = size.ws_row ? size.ws_row : ROWS_DEFAULT,
		.cols = size.ws_col ? size.ws_col : COLS_DEFAULT,
	};
}

int box_cli_terminal_reopen(int fd)
{
	char path[32];
	if (!isatty(fd)) {
		return -1;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}
