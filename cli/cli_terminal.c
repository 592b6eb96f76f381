/* Owns the handlers of signals and the modes of the terminal. A handler only notes and wakes; what
 * ends the process gives the terminal back first, in the handler itself, because nothing runs after
 * it. What is called in handlers is on the list of signal-safety(7). */
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
static volatile sig_atomic_t is_raw; /* `saved` is what it was */
static bool raw_wanted;

/* --- the modes --- */

/* Behind the back of those in the foreground its modes are not ours to change. */
static bool in_foreground(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);
	return front < 0 || front == getpgrp();
}

static void put_back(void)
{
	if (is_raw && in_foreground()) {
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	}
	is_raw = false;
}

/* In the background the kernel stops us here until we are in the foreground. */
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
		put_back();
		_exit(BOX_CLI_EXIT_SIGNAL + number);
	}
	if (number == SIGINT && interrupted == NOT_YET) {
		interrupted = NEW;
	} else {
		ending = number;
	}
	wake();
}

static void on_notice(int number)
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

/* What would end us anyway: it does so now, with the action that was there before. */
static const int fatal[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGUSR1, SIGSEGV,
	SIGUSR2, SIGALRM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR, SIGSYS};
static struct sigaction before[BOX_COUNT_OF(fatal)];

static void on_fatal(int number)
{
	put_back();
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
	take(SIGWINCH, on_notice, NULL);
	*ret_fd = wake_pipe[0];
	return 0;
}

/* The shell that sees us stop finds its terminal as it was. */
static void stop_here(void)
{
	struct sigaction ours;
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	stop_wanted = false;
	put_back();
	(void)sigaction(SIGTSTP, &usual, &ours);
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
		/* While we stood still others had the terminal. */
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
	take(SIGTSTP, on_notice, NULL);
	take(SIGCONT, on_notice, NULL);
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
	put_back();
}

struct box_exec_terminal box_cli_terminal_size(void)
{
	struct winsize size = {0};
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0) {
		(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	}
	/* One that was never told, as on a serial line, says 0. */
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
