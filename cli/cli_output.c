/* Writes to stdout and stderr, which are left blocking because other processes may share them. */
#include "cli/cli_output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/cli_signals.h"
#include "cli/cli_terminal.h"

#define PIPE_PIECE 4096 /* a writable pipe takes this much without blocking */
#define FILE_PIECE (1 * BOX_MIB)
#define TERMINAL_PIECE (64 * BOX_KIB) /* a nonblocking one takes what it can */

void box_cli_output_open(struct box_cli_output *output, int fd)
{
	struct stat status;
	int terminal = box_cli_terminal_reopen(fd);
	bool file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	*output = (struct box_cli_output){
		.fd = terminal >= 0 ? terminal : fd,
		.name = fd == STDOUT_FILENO ? "stdout" : "stderr",
		.bytes = box_buf(BOX_OUT_BYTES_MAX),
		.piece = terminal >= 0 ? TERMINAL_PIECE
			: file         ? FILE_PIECE
				       : PIPE_PIECE,
	};
}

void box_cli_output_close(struct box_cli_output *output)
{
	if (output->fd > STDERR_FILENO) {
		(void)close(output->fd);
	}
	box_buf_free(&output->bytes);
}

void box_cli_output_add(struct box_cli_output *output, struct box_str bytes)
{
	/* The window of a stream keeps it far below its limit. */
	if (!output->broken) {
		(void)box_buf_append(&output->bytes, bytes.bytes, bytes.len);
	}
}

bool box_cli_output_pending(const struct box_cli_output *output)
{
	return output->bytes.len > output->written;
}

void box_cli_output_write(struct box_cli_output *output)
{
	size_t left = output->bytes.len - output->written;
	ssize_t written = write(
		output->fd, output->bytes.bytes + output->written, BOX_MIN(left, output->piece));
	if (written < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	output->broken = written < 0 ? errno : 0;
	output->written += written < 0 ? left : (size_t)written;
	if (!box_cli_output_pending(output)) {
		output->bytes.len = output->written = 0;
	}
}

void box_cli_output_drain(struct box_cli_output *output)
{
	while (box_cli_output_pending(output) && !box_cli_signals_which()) {
		struct pollfd polls[] = {{.fd = output->fd, .events = POLLOUT},
			{.fd = box_cli_signals_fd(), .events = POLLIN}};
		if (poll(polls, 2, -1) > 0 && polls[0].revents) {
			box_cli_output_write(output);
		}
	}
}

int box_cli_output_lost(const struct box_cli_output *output)
{
	struct box_err err;
	if (output->broken == EPIPE) {
		return BOX_CLI_EXIT_SIGNAL + SIGPIPE;
	}
	(void)box_err_set(&err, BOX_ERR_OS, output->broken, "%s: %s", output->name,
		box_err_strerror(output->broken));
	return box_cli_fail(&err);
}
