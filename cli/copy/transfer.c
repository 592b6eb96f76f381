/* The poll loop of a transfer. Input is read when the command can take it; output is taken as it comes. */
#include "cli/copy/transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "cli/cli_signals.h"

#define PIECE_BYTES (256 * BOX_KIB)
#define PROGRESS_MS 200

enum {
	AT_SIGNAL,
	AT_CLIENT,
	AT_IN,
	AT_OUT,
	FDS,
};

struct run {
	struct box_transfer *transfer;
	struct box_exec *exec;
	char *piece;
	bool input_open;
	bool ended;
	int failed; /* a negative errno, with err */
	struct box_err err;
};

/* --- events of the command --- */

/* Keeps the end of its stderr. */
static void keep_stderr(struct box_transfer *transfer, struct box_str bytes)
{
	size_t room = sizeof(transfer->said) - 1;
	size_t have = strlen(transfer->said);
	if (bytes.len > room) {
		bytes.bytes += bytes.len - room;
		bytes.len = room;
	}
	size_t keep = have + bytes.len > room ? room - bytes.len : have;
	memmove(transfer->said, transfer->said + have - keep, keep);
	for (size_t i = 0; i < bytes.len; i++) {
		transfer->said[keep + i] = bytes.bytes[i] ? bytes.bytes[i] : ' ';
	}
	transfer->said[keep + bytes.len] = '\0';
}

static void got_output(void *arg, int fd, struct box_str bytes)
{
	struct run *run = arg;
	struct box_transfer *transfer = run->transfer;
	if (fd == 2) {
		keep_stderr(transfer, bytes);
	} else if (transfer->take && run->failed == 0) {
		run->failed = transfer->take(transfer->arg, bytes, &run->err);
	}
}

static void has_ended(void *arg, const struct box_exec_result *result, const struct box_err *err)
{
	struct run *run = arg;
	run->ended = true;
	if (!err) {
		run->transfer->result = *result;
	} else if (run->failed == 0) {
		run->err = *err;
		run->failed = err->errnum > 0 ? -err->errnum : -EIO;
	}
}

static const struct box_exec_events exec_events = {got_output, has_ended};

/* --- the loop --- */

static void give(struct run *run)
{
	struct box_transfer *transfer = run->transfer;
	ssize_t got = transfer->give(transfer->arg, run->piece, PIECE_BYTES, &run->err);
	if (got == -EAGAIN) {
		return;
	}
	if (got < 0) {
		run->failed = (int)got;
		return;
	}
	run->input_open = got > 0;
	if (box_exec_input(run->exec, run->piece, (size_t)got, got == 0, NULL) < 0) {
		run->input_open = false; /* it takes no more */
	}
}

static bool pending(const struct run *run)
{
	const struct box_transfer *transfer = run->transfer;
	return transfer->pending && transfer->pending(transfer->arg);
}

static void turn(struct run *run, int wake_fd)
{
	struct box_transfer *transfer = run->transfer;
	short events = box_client_events(transfer->client);
	bool holds = pending(run);
	/* No input is read while the socket is full. */
	bool wants = run->input_open && !(events & POLLOUT) && box_exec_wants_input(run->exec);
	bool ready = wants && transfer->input_fd < 0;
	struct pollfd polls[FDS] = {
		[AT_SIGNAL] = {.fd = wake_fd, .events = POLLIN},
		[AT_CLIENT] = {.fd = box_client_fd(transfer->client), .events = events},
		[AT_IN] = {.fd = wants ? transfer->input_fd : -1, .events = POLLIN},
		[AT_OUT] = {.fd = holds ? transfer->output_fd : -1, .events = POLLOUT},
	};
	if (poll(polls, FDS, ready ? 0 : transfer->progress ? PROGRESS_MS : -1) < 0) {
		return;
	}
	if (ready || polls[AT_IN].revents) {
		give(run);
	}
	if (polls[AT_OUT].revents) {
		transfer->given_up = !transfer->flush(transfer->arg);
	}
	/* A lost connection ends the command too, and has_ended is called. */
	(void)box_client_step(transfer->client, NULL);
	if (!pending(run)) {
		box_exec_taken(run->exec);
	}
	if (transfer->progress) {
		transfer->progress(transfer->progress_arg);
	}
}

int box_transfer_run(struct box_transfer *transfer, struct box_err *err)
{
	struct run run = {.transfer = transfer, .input_open = transfer->give != NULL};
	int wake_fd = box_cli_signals_fd();
	int r = box_exec_start(transfer->client, transfer->spec, run.input_open, NULL, &exec_events,
		&run, &run.exec, err);
	if (r < 0) {
		return r;
	}
	run.piece = transfer->give ? box_alloc(PIECE_BYTES) : NULL;
	while (!box_cli_signals_which() && !transfer->given_up && run.failed == 0 &&
		(!run.ended || pending(&run))) {
		turn(&run, wake_fd);
	}
	/* Ends the command if it still runs. */
	box_exec_free(run.exec);
	free(run.piece);
	if (run.failed < 0 && err) {
		*err = run.err;
	}
	return box_cli_signals_which() ? -EINTR : transfer->given_up ? -ECANCELED : run.failed;
}
