/* Runs a command with our stdin, stdout and stderr, for run and exec.
 *
 * One poll loop waits for all of them: a slow reader of our output must not keep the connection from
 * answering pings. Output is buffered until it is written, and only then more is requested, so the buffer is
 * limited by the window of the stream. */
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

#include "base/err.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_terminal.h"

#define INPUT_BYTES (1 * BOX_MIB)

enum {
	AT_SIGNAL,
	AT_CLIENT,
	AT_IN,
	AT_OUT,
	AT_ERR,
	FDS,
};

struct stream {
	struct box_client *client;
	const struct box_value *spec;
	const char *kept;    /* the name of a box that survives a timeout; or NULL */
	int64_t timeout_sec; /* 0: none */
	struct box_exec *exec;
	struct box_cli_output outputs[2];
	int signal_fd;
	bool terminal;   /* the command has one */
	bool raw_wanted; /* our terminal becomes raw as soon as the command has started */
	bool was_raw;
	bool input_open;
	bool ended;
	bool failed; /* with err */
	struct box_err err;
	struct box_exec_result result;
	int ended_by; /* the signal that ends us, or 0 */
};

/* --- events of the command --- */

static void got_output(void *arg, int fd, struct box_str bytes)
{
	struct stream *stream = arg;
	box_cli_output_add(&stream->outputs[fd - 1], bytes);
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

/* A program that had the terminal may have left the cursor in the middle of a line. */
static void say(const struct stream *stream)
{
	if (stream->was_raw) {
		(void)fputc('\n', stderr);
	}
	(void)box_cli_fail(&stream->err);
}

/* Says whether the box, with its files and processes, is still there. */
static void print_timeout(struct stream *stream)
{
	char after[32] = "";
	if (stream->timeout_sec > 0) {
		(void)snprintf(
			after, sizeof(after), " after %lld s", (long long)stream->timeout_sec);
	}
	(void)box_err_set(&stream->err, BOX_ERR_NONE, ETIMEDOUT,
		"the command timed out%s%s%.200s%s", after, stream->kept ? "; the box " : "",
		stream->kept ? stream->kept : "", stream->kept ? " is kept" : "");
	say(stream);
}

/* Called when all output is written, so that our message is the last. */
static int print_end(struct stream *stream)
{
	const struct box_exec_result *result = &stream->result;
	if (stream->failed) {
		say(stream);
		return BOX_CLI_EXIT_FAILED;
	}
	if (result->timed_out) {
		print_timeout(stream);
		return BOX_CLI_EXIT_TIMEOUT;
	}
	if (result->exit_code < 0) {
		(void)box_err_set(&stream->err, BOX_ERR_BOX, EPROTO,
			"the runtime did not report an exit code");
		say(stream);
		return BOX_CLI_EXIT_FAILED;
	}
	if (strcmp(result->reason, "memory") == 0) {
		(void)box_err_set(
			&stream->err, BOX_ERR_NONE, ENOMEM, "the command ran out of memory");
		say(stream);
	}
	return result->exit_code;
}

static const struct box_exec_events events = {got_output, has_ended};

/* --- our own fds --- */

static void read_input(struct stream *stream)
{
	char bytes[INPUT_BYTES];
	struct box_err err;
	ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	size_t len = got > 0 ? (size_t)got : 0;
	/* A read error ends the command's input too. */
	stream->input_open = len > 0;
	if (box_exec_input(stream->exec, bytes, len, len == 0, &err) < 0) {
		stream->input_open = false;
	}
}

/* With /dev/null the command gets no input. */
static bool input_is_null(void)
{
	struct stat status;
	return fstat(STDIN_FILENO, &status) == 0 && S_ISCHR(status.st_mode) &&
		status.st_rdev == makedev(1, 3);
}

/* --- the loop --- */

static bool holds_output(const struct stream *stream)
{
	return box_cli_output_pending(&stream->outputs[0]) ||
		box_cli_output_pending(&stream->outputs[1]);
}

/* The output that cannot be written any more, or NULL. */
static const struct box_cli_output *lost(const struct stream *stream)
{
	return stream->outputs[0].broken    ? &stream->outputs[0]
		: stream->outputs[1].broken ? &stream->outputs[1]
					    : NULL;
}

static void handle_signals(struct stream *stream)
{
	struct box_cli_terminal_signals happened = box_cli_terminal_take_signals();
	if (happened.resized && stream->terminal) {
		(void)box_exec_resize(stream->exec, box_cli_terminal_size(), NULL);
	}
	/* A command that has not started cannot get the signal: it is cancelled. */
	if (happened.interrupted && box_exec_signal(stream->exec, SIGINT, NULL) < 0) {
		happened.ended_by = SIGINT;
	}
	if (happened.ended_by) {
		stream->ended_by = happened.ended_by;
	}
}

/* Fails the command when the terminal cannot be made raw. */
static void enter_raw(struct stream *stream)
{
	stream->raw_wanted = false;
	stream->was_raw = true;
	if (box_cli_terminal_raw(&stream->err) < 0) {
		stream->ended = stream->failed = true;
	}
}

static void turn(struct stream *stream)
{
	struct box_cli_output *out = &stream->outputs[0];
	struct box_cli_output *err = &stream->outputs[1];
	bool wants = stream->input_open && box_exec_wants_input(stream->exec);
	struct pollfd polls[FDS] = {
		[AT_SIGNAL] = {.fd = stream->signal_fd, .events = POLLIN},
		[AT_CLIENT] = {.fd = box_client_fd(stream->client),
			.events = box_client_events(stream->client)},
		[AT_IN] = {.fd = wants ? STDIN_FILENO : -1, .events = POLLIN},
		[AT_OUT] = {.fd = box_cli_output_pending(out) ? out->fd : -1, .events = POLLOUT},
		[AT_ERR] = {.fd = box_cli_output_pending(err) ? err->fd : -1, .events = POLLOUT},
	};
	if (poll(polls, FDS, -1) < 0) {
		return;
	}
	if (polls[AT_SIGNAL].revents) {
		/* We may have been stopped meanwhile, and others have read from the terminal: poll again. */
		handle_signals(stream);
		return;
	}
	if (polls[AT_IN].revents) {
		read_input(stream);
	}
	if (polls[AT_OUT].revents) {
		box_cli_output_write(out);
	}
	if (polls[AT_ERR].revents) {
		box_cli_output_write(err);
	}
	if (!holds_output(stream)) {
		box_exec_taken(stream->exec);
	}
	/* A lost connection ends the command too, and has_ended is called. */
	(void)box_client_step(stream->client, NULL);
	/* Not before the command has started: until then Ctrl-C is for us. */
	if (stream->raw_wanted && (box_exec_wants_input(stream->exec) || holds_output(stream))) {
		enter_raw(stream);
	}
}

/* Runs until the command ends or a signal ends us. */
static int follow(struct stream *stream)
{
	struct box_err err;
	struct box_exec_terminal size = box_cli_terminal_size();
	if (box_exec_start(stream->client, stream->spec, stream->input_open,
		    stream->terminal ? &size : NULL, &events, stream, &stream->exec, &err) < 0) {
		return box_cli_fail(&err);
	}
	while (!stream->ended_by && !lost(stream) && (!stream->ended || holds_output(stream))) {
		turn(stream);
	}
	box_cli_terminal_restore();
	/* Ends the command if it still runs. */
	box_exec_free(stream->exec);
	if (stream->ended_by) {
		return BOX_CLI_EXIT_SIGNAL + stream->ended_by;
	}
	if (lost(stream)) {
		return box_cli_output_lost(lost(stream));
	}
	return print_end(stream);
}

int box_cli_stream(const struct cli *cli, struct box_client *client, const struct box_value *spec,
	const char *kept)
{
	const struct box_cli_options *options = &cli->options;
	struct stream stream = {.client = client,
		.spec = spec,
		.kept = kept,
		.timeout_sec = options->timeout_sec,
		.terminal = options->tty};
	struct box_err err;
	int r = box_cli_terminal_catch_signals(&stream.signal_fd);
	if (r < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, -r, "pipe: %s", box_err_strerror(-r));
		return box_cli_fail(&err);
	}
	box_cli_output_open(&stream.outputs[0], STDOUT_FILENO);
	box_cli_output_open(&stream.outputs[1], STDERR_FILENO);
	/* With -t alone the command has no input: our terminal would be read until its end. */
	stream.input_open = options->tty ? options->interactive : !input_is_null();
	stream.raw_wanted = options->tty && options->interactive;
	int code = follow(&stream);
	box_cli_output_close(&stream.outputs[0]);
	box_cli_output_close(&stream.outputs[1]);
	return code;
}
