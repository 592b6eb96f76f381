/* A self-pipe for signals. */
#include "cli/cli_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/macros.h"
#include "cli/cli.h"

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t signal_got;

/* The second signal exits at once. */
static void on_signal(int number)
{
	int saved = errno;
	if (signal_got) {
		_exit(BOX_CLI_EXIT_SIGNAL + number);
	}
	signal_got = number;
	(void)!write(wake_pipe[1], "", 1);
	errno = saved;
}

int box_cli_signals_catch(void)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
	if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(caught); i++) {
		struct sigaction before;
		struct sigaction action = {.sa_handler = on_signal};
		/* A signal that was ignored before us (nohup) stays ignored. */
		if (sigaction(caught[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
			(void)sigaction(caught[i], &action, NULL);
		}
	}
	return wake_pipe[0];
}

int box_cli_signals_fd(void)
{
	return wake_pipe[0];
}

int box_cli_signals_which(void)
{
	return signal_got;
}

int box_cli_signals_exit_code(int otherwise)
{
	return signal_got ? BOX_CLI_EXIT_SIGNAL + signal_got : otherwise;
}
