/* A command with our stdin, stdout and stderr.
 *
 * Nothing here waits on one of them alone: a reader of our output that sleeps must not keep the
 * connection from answering pings. Output is held until it is written, and only then more is asked
 * for, so what is held is bounded by the window of the stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/cli.h"

#define INPUT_BYTES (64 * BOX_KIB)
#define PIPE_PIECE 4096 /* a pipe that is ready takes this much without waiting */
#define FILE_PIECE (1 * BOX_MIB)

enum {
	AT_SIGNAL,
	AT_CLIENT,
	AT_IN,
	AT_OUT,
	AT_ERR,
	FDS,
};

struct output {
	struct box_buf bytes;
	size_t written;
	size_t piece;
};

struct stream {
	struct box_client *client;
	const struct box_value *spec;
	struct box_exec *exec;
	struct output outputs[2];
	bool input_open;
	bool ended;
	bool failed; /* and err says why */
	struct box_err err;
	struct box_exec_result result;
	int ended_by; /* a signal that we got, or SIGPIPE when nobody reads our output */
};

/* --- signals --- */

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t signal_got;

/* The second one does not wait for anything. */
static void on_signal(int number)
{
	int saved = errno;
	if (signal_got) {
		_exit(CLI_EXIT_SIGNAL + number);
	}
	signal_got = number;
	(void)!write(wake_pipe[1], "", 1);
	errno = saved;
}

static int catch_signals(void)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
	if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		struct sigaction before;
		struct sigaction action = {.sa_handler = on_signal};
		/* Who was told to ignore one (nohup) goes on ignoring it. */
		if (sigaction(caught[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
			(void)sigaction(caught[i], &action, NULL);
		}
	}
	return 0;
}

/* --- what the command does --- */

static void got_output(void *arg, int fd, struct box_str bytes)
{
	struct stream *stream = arg;
	/* The window of the stream keeps this far from its limit. */
	(void)box_buf_append(&stream->outputs[fd - 1].bytes, bytes.bytes, bytes.len);
}

static void has_ended(void *arg, const struct box_exec_result *result, const struct box_err *err)
{
	struct stream *stream = arg;
	stream->ended = true;
	stream->failed = err != NULL;
	if (err) {
		stream->err = *err;
	} else {
		stream->result = *result;
	}
}

/* Only when all output is written, so that what we say is the last. */
static int tell_end(struct stream *stream)
{
	const struct box_exec_result *result = &stream->result;
	if (stream->failed) {
		return box_cli_fail(&stream->err);
	}
	if (result->timed_out) {
		(void)box_err_set(&stream->err, BOX_ERR_NONE, ETIMEDOUT, "the command timed out");
		(void)box_cli_fail(&stream->err);
		return CLI_EXIT_TIMEOUT;
	}
	if (result->exit_code < 0) {
		(void)box_err_set(
			&stream->err, BOX_ERR_BOX, EPROTO, "the runtime told no exit code");
		return box_cli_fail(&stream->err);
	}
	if (strcmp(result->reason, "memory") == 0) {
		(void)box_err_set(
			&stream->err, BOX_ERR_NONE, ENOMEM, "the command ran out of memory");
		(void)box_cli_fail(&stream->err);
	}
	return result->exit_code;
}

static const struct box_exec_events events = {got_output, has_ended};

/* --- our own fds --- */

static bool pending(const struct output *output)
{
	return output->bytes.len > output->written;
}

static void write_some(struct stream *stream, int fd)
{
	struct output *output = &stream->outputs[fd - 1];
	size_t left = output->bytes.len - output->written;
	ssize_t written = write(fd, output->bytes.bytes + output->written,
		left < output->piece ? left : output->piece);
	if (written < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	if (written < 0) {
		stream->ended_by = stream->ended_by ? stream->ended_by : SIGPIPE;
		written = (ssize_t)left;
	}
	output->written += (size_t)written;
	if (!pending(output)) {
		output->bytes.len = output->written = 0;
	}
}

static void read_input(struct stream *stream)
{
	char bytes[INPUT_BYTES];
	struct box_err err;
	ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	size_t len = got > 0 ? (size_t)got : 0;
	/* An error of ours is the end of the command's input. */
	stream->input_open = len > 0;
	if (box_exec_input(stream->exec, bytes, len, len == 0, &err) < 0) {
		stream->input_open = false;
	}
}

/* Nothing ever comes from it: the command gets one of its own. */
static bool input_is_null(void)
{
	struct stat status;
	return fstat(STDIN_FILENO, &status) == 0 && S_ISCHR(status.st_mode) &&
		status.st_rdev == makedev(1, 3);
}

/* --- the loop --- */

static bool holds_output(const struct stream *stream)
{
	return pending(&stream->outputs[0]) || pending(&stream->outputs[1]);
}

static void turn(struct stream *stream)
{
	bool wants = stream->input_open && box_exec_wants_input(stream->exec);
	struct pollfd polls[FDS] = {
		[AT_SIGNAL] = {.fd = wake_pipe[0], .events = POLLIN},
		[AT_CLIENT] = {.fd = box_client_fd(stream->client),
			.events = box_client_events(stream->client)},
		[AT_IN] = {.fd = wants ? STDIN_FILENO : -1, .events = POLLIN},
		[AT_OUT] = {.fd = pending(&stream->outputs[0]) ? STDOUT_FILENO : -1,
			.events = POLLOUT},
		[AT_ERR] = {.fd = pending(&stream->outputs[1]) ? STDERR_FILENO : -1,
			.events = POLLOUT},
	};
	if (poll(polls, FDS, -1) < 0) {
		return;
	}
	if (polls[AT_IN].revents) {
		read_input(stream);
	}
	if (polls[AT_OUT].revents) {
		write_some(stream, STDOUT_FILENO);
	}
	if (polls[AT_ERR].revents) {
		write_some(stream, STDERR_FILENO);
	}
	if (!holds_output(stream)) {
		box_exec_taken(stream->exec);
	}
	/* What ends the connection ends the command too, and that is told to has_ended. */
	(void)box_client_step(stream->client, NULL);
}

/* Until the end of the command or of us. */
static int follow(struct stream *stream)
{
	struct box_err err;
	if (box_exec_start(stream->client, stream->spec, stream->input_open, NULL, &events, stream,
		    &stream->exec, &err) < 0) {
		return box_cli_fail(&err);
	}
	while (!stream->ended_by && (!stream->ended || holds_output(stream))) {
		turn(stream);
		stream->ended_by = signal_got ? signal_got : stream->ended_by;
	}
	/* Ends the command if it still runs. */
	box_exec_free(stream->exec);
	if (stream->ended_by) {
		return CLI_EXIT_SIGNAL + stream->ended_by;
	}
	return tell_end(stream);
}

static void open_output(struct output *output, int fd)
{
	struct stat status;
	bool file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	output->piece = file ? FILE_PIECE : PIPE_PIECE;
	output->bytes = box_buf(BOX_OUT_BYTES_MAX);
}

int box_cli_stream(struct box_client *client, const struct box_value *spec)
{
	struct stream stream = {.client = client, .spec = spec};
	struct box_err err;
	int r = catch_signals();
	if (r < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, -r, "pipe: %s", strerror(-r));
		return box_cli_fail(&err);
	}
	open_output(&stream.outputs[0], STDOUT_FILENO);
	open_output(&stream.outputs[1], STDERR_FILENO);
	stream.input_open = !input_is_null();
	int code = follow(&stream);
	box_buf_free(&stream.outputs[0].bytes);
	box_buf_free(&stream.outputs[1].bytes);
	return code;
}
