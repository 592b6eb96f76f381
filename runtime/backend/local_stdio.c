/* The bytes of runs: their stdin, and the pipes of live commands.
 *
 * Input goes into a pipe, or to box-init piece by piece, with a limited amount in flight, and the sender learns when
 * the command has taken it. A live command has pipes whose other ends box-rpc has, so its bytes do not pass box-init.
 * box-rpc makes the pipes itself, because the flags of an end are shared by everyone who has it: an end from inside a
 * box could be made to block box-rpc. Bytes are sent in packets for a microVM, to which fds cannot be sent, for a
 * command with a terminal, and when too many files are open.
 */
#include "runtime/backend/local_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_run.h"

#define INPUT_UNDER_WAY_BYTES_MAX (BOX_INIT_INPUT_MAX / 2)
#define INPUT_PIECE_BYTES_MAX ((size_t)BOX_INIT_BYTES_MAX)
#define READ_BYTES_MAX (255 * BOX_KIB)       /* with their envelope, one WebSocket frame */
#define PIPE_BYTES ((ssize_t)(64 * BOX_KIB)) /* the size of a new pipe */
#define WIDE_BYTES (1024 * 1024)
/* The largest pipe that a command can ask for, so all that it can have left in one. */
#define DRAIN_BYTES ((size_t)1024 * 1024)

struct end {
	uv_poll_t
		poll; /* closed together with its fd: later it would poll another file of that number */
	struct box_local_stdio_pipes *pipes;
	int fd; /* -1: at its end, or given away */
	bool watched;
	bool widened;
	size_t read_bytes; /* after the end of the command */
};

struct box_local_stdio_pipes {
	struct box_local_run *run;
	struct end ends[3];  /* by the number of the command's fd */
	unsigned count;      /* of them */
	unsigned references; /* the run's, and one for each handle that is not closed yet */
	bool exited;         /* the command has ended: only what it left is read */
};

static void feed_pipe(struct box_local_run *run);

static struct end *stdin_of(const struct box_local_run *run)
{
	return &run->pipes->ends[STDIN_FILENO];
}

static bool is_stderr(const struct end *end)
{
	return end == &end->pipes->ends[STDERR_FILENO];
}

static void watch_end(struct end *end, int events, uv_poll_cb cb)
{
	if (end->fd >= 0 && !end->watched) {
		end->watched = uv_poll_start(&end->poll, events, cb) == 0;
	}
}

static void unwatch_end(struct end *end)
{
	if (end->watched) {
		end->watched = false;
		(void)uv_poll_stop(&end->poll);
	}
}

static void drop_reference(struct box_local_stdio_pipes *pipes)
{
	if (--pipes->references == 0) {
		free(pipes);
	}
}

static void end_closed(uv_handle_t *handle)
{
	drop_reference(((struct end *)handle->data)->pipes);
}

/* Returns its fd, which is not watched any more; -1 if it has none. */
static int release(struct end *end)
{
	if (end->fd >= 0) {
		end->watched = false;
		uv_close((uv_handle_t *)&end->poll, end_closed);
	}
	return TAKE_FD(end->fd);
}

static void close_end(struct end *end)
{
	int fd = release(end);
	box_close_p(&fd);
}

/* The pipe was full: with a larger one, a fast writer blocks less often. A user who has many pipes does not get a
 * larger one, and continues as before. */
static void widen(struct end *end)
{
	if (!end->widened) {
		end->widened = true;
		(void)fcntl(end->fd, F_SETPIPE_SZ, WIDE_BYTES);
	}
}

/* --- output of pipes --- */

enum result {
	MORE,  /* something was read, there may be more */
	EMPTY, /* nothing is there now, or the end was reached */
	STUCK, /* there is no credit for what may be there */
};

/* The callback may cancel the command, or give credit. */
static enum result read_once(struct end *end)
{
	static char buffer[READ_BYTES_MAX];
	struct box_local_run *run = end->pipes->run;
	if (end->fd < 0) {
		return EMPTY;
	}
	if (run->output.credit == 0) {
		return STUCK;
	}
	size_t max = (size_t)BOX_MIN(run->output.credit, sizeof(buffer));
	ssize_t got;
	do {
		got = read(end->fd, buffer, max);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN) {
		return EMPTY;
	}
	if (got <= 0) {
		close_end(end);
		return EMPTY;
	}
	if (got >= PIPE_BYTES) {
		widen(end);
	}
	end->read_bytes += end->pipes->exited ? (size_t)got : 0;
	box_local_run_take_output(run, is_stderr(end), buffer, (size_t)got);
	return MORE;
}

static bool has_bytes(const struct end *end)
{
	struct pollfd fd = {.fd = end->fd, .events = POLLIN};
	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN);
}

/* Reads what the command left, as far as there is credit. False: there is more. */
static bool drain(struct end *end)
{
	enum result result = MORE;
	while (result == MORE && end->read_bytes < DRAIN_BYTES && !end->pipes->run->cancelled) {
		result = read_once(end);
	}
	return result != STUCK || !has_bytes(end);
}

bool box_local_stdio_drain_pipes(struct box_local_run *run)
{
	run->pipes->exited = true;
	return drain(&run->pipes->ends[STDOUT_FILENO]) && drain(&run->pipes->ends[STDERR_FILENO]);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	struct end *end = poll->data;
	struct box_local_run *run = end->pipes->run;
	(void)status;
	(void)events;
	if (run->exited) {
		box_local_run_conclude(run);
		return;
	}
	(void)read_once(end);
	box_local_stdio_update_reading(run);
}

void box_local_stdio_update_reading(struct box_local_run *run)
{
	for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
		if (run->output.credit > 0 && !run->cancelled) {
			watch_end(&run->pipes->ends[i], UV_READABLE, readable);
		} else {
			unwatch_end(&run->pipes->ends[i]);
		}
	}
}

/* --- input of pipes --- */

/* Also called when nobody reads the pipe any more: then all input counts as taken. */
static void writable(uv_poll_t *poll, int status, int events)
{
	struct end *end = poll->data;
	(void)status;
	(void)events;
	unwatch_end(end);
	feed_pipe(end->pipes->run);
}

static void want_write(struct box_local_run *run)
{
	watch_end(stdin_of(run), UV_WRITABLE, writable);
}

static size_t write_pipe(struct box_local_run *run, struct box_str bytes)
{
	struct end *end = stdin_of(run);
	ssize_t written;
	do {
		written = write(end->fd, bytes.bytes, bytes.len);
	} while (written < 0 && errno == EINTR);
	if (written < 0 && errno != EAGAIN) {
		return bytes.len;
	}
	size_t taken = written < 0 ? 0 : (size_t)written;
	if (taken < bytes.len) {
		widen(end);
	}
	return taken;
}

static void close_stdin(struct box_local_run *run)
{
	close_end(stdin_of(run));
}

/* --- making and closing pipes --- */

void box_local_stdio_close_pipes(struct box_local_run *run)
{
	struct box_local_stdio_pipes *pipes = run->pipes;
	if (!pipes) {
		return;
	}
	run->pipes = NULL;
	for (unsigned i = 0; i < pipes->count; i++) {
		int fd = release(&pipes->ends[i]);
		if (fd >= 0 && i != STDIN_FILENO && (run->output.has_reported || run->cancelled)) {
			box_local_control_send(
				run->box, BOX_INIT_DRAIN, run->id, NULL, 0, NULL, 0, TAKE_FD(fd));
		}
		box_close_p(&fd);
	}
	drop_reference(pipes);
}

/* Our end is the read end of an output, and the write end of the input. */
static int make_pipe(int which, int *ret_ours, int *ret_theirs)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	*ret_ours = ends[which == STDIN_FILENO ? 1 : 0];
	*ret_theirs = ends[which == STDIN_FILENO ? 0 : 1];
	/* Its owner is not mapped in the box, and programs open /dev/stdout. */
	return fchmod(*ret_ours, 0666) < 0 ? -errno : 0;
}

/* Takes the fd, unless it fails. */
static int add_end(struct box_local_stdio_pipes *pipes, int *fd)
{
	struct end *end = &pipes->ends[pipes->count];
	if (box_local_fd_is_beyond(*fd, BOX_LOCAL_PIPE_QUARTERS)) {
		return -EMFILE;
	}
	int r = uv_poll_init(pipes->run->box->local->loop, &end->poll, *fd);
	if (r < 0) {
		return r;
	}
	end->pipes = pipes;
	end->fd = TAKE_FD(*fd);
	end->poll.data = end;
	pipes->count++;
	pipes->references++;
	return 0;
}

bool box_local_stdio_open_pipes(struct box_local_run *run, int ret_fds[3])
{
	int ours[3] = {-1, -1, -1};
	int theirs[3] = {-1, -1, -1};
	int r = 0;
	if (!run->output.live || run->box->is_microvm) {
		return false;
	}
	run->pipes = box_alloc(sizeof(*run->pipes));
	run->pipes->run = run;
	run->pipes->references = 1;
	for (int i = 0; i < 3 && r == 0; i++) {
		r = make_pipe(i, &ours[i], &theirs[i]);
		if (r == 0) {
			r = add_end(run->pipes, &ours[i]);
		}
	}
	if (r == 0) {
		memcpy(ret_fds, theirs, sizeof(theirs));
		return true;
	}
	for (int i = 0; i < 3; i++) {
		box_close_p(&ours[i]);
		box_close_p(&theirs[i]);
	}
	box_local_stdio_close_pipes(run);
	return false;
}

/* --- stdin --- */

struct input {
	struct box_list links;
	struct box_str left; /* not sent yet; the caller's, until `taken` */
	bool eof;
	uint64_t ends_at;              /* it is taken once this many bytes are */
	box_backend_input_done *taken; /* NULL: nobody is notified, and the bytes are a copy: */
	char *own;
	void *arg;
};

static struct input *input_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct input, links);
}

static void finish_input(struct input *input, const struct box_err *err)
{
	struct input last = *input;
	box_list_drop(&input->links);
	free(input);
	if (last.taken) {
		last.taken(last.arg, err);
	}
	free(last.own);
}

static void send_pieces(struct box_local_run *run, struct input *input)
{
	while (input->left.len > 0 &&
		run->input.sent - run->input.taken < INPUT_UNDER_WAY_BYTES_MAX) {
		size_t piece = BOX_MIN(input->left.len, INPUT_PIECE_BYTES_MAX);
		box_local_control_send(
			run->box, BOX_INIT_INPUT, run->id, input->left.bytes, piece, NULL, 0, -1);
		run->input.sent += piece;
		input->left.bytes += piece;
		input->left.len -= piece;
	}
	if (input->left.len == 0 && input->eof && !run->input.ended) {
		box_local_stdio_end_input(run);
	}
}

void box_local_stdio_end_input(struct box_local_run *run)
{
	run->input.ended = true;
	if (run->pipes) {
		close_stdin(run);
	} else {
		box_local_control_send(run->box, BOX_INIT_INPUT, run->id, NULL, 0, NULL, 0, -1);
	}
}

static void feed_pipe(struct box_local_run *run)
{
	while (!box_list_empty(&run->input.waiting)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		struct input *first = input_at(run->input.waiting.next);
		size_t written = write_pipe(run, first->left);
		first->left.bytes += written;
		first->left.len -= written;
		if (first->left.len > 0) {
			want_write(run);
			return;
		}
		if (first->eof) {
			box_local_stdio_end_input(run);
		}
		finish_input(first, NULL);
	}
}

void box_local_stdio_send_input(struct box_local_run *run)
{
	if (!run->sent) {
		return;
	}
	if (run->pipes) {
		want_write(run);
		return;
	}
	for (struct box_list *at = run->input.waiting.next; at != &run->input.waiting;
		at = at->next) {
		struct input *input = input_at(at);
		send_pieces(run, input);
		if (input->left.len > 0) {
			return;
		}
	}
}

void box_local_stdio_input_taken(struct box_local_run *run, uint64_t bytes)
{
	/* box-init may lie: it cannot have taken more than it got, nor less than before. */
	if (bytes < run->input.taken || bytes > run->input.sent) {
		box_local_lost(run->box, "it took more input than was sent");
		return;
	}
	run->input.taken = bytes;
	box_local_stdio_send_input(run);
	while (!box_list_empty(&run->input.waiting)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		struct input *first = input_at(run->input.waiting.next);
		if (first->left.len > 0 || first->ends_at > run->input.taken) {
			return;
		}
		finish_input(first, NULL);
	}
}

static uint64_t end_of_inputs(const struct box_local_run *run)
{
	uint64_t end = run->input.sent;
	for (const struct box_list *at = run->input.waiting.next; at != &run->input.waiting;
		at = at->next) {
		const struct input *input = (const struct input *)(const void *)((const char *)at -
			offsetof(struct input, links));
		end += input->left.len;
	}
	return end;
}

void box_local_stdio_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg)
{
	struct box_local_run *run = box_local_run_of(op);
	struct input *input = box_alloc(sizeof(*input));
	input->left = bytes;
	input->eof = eof;
	input->ends_at = end_of_inputs(run) + bytes.len;
	input->taken = taken;
	input->arg = arg;
	box_list_push(&run->input.waiting, &input->links);
	box_local_stdio_send_input(run);
	/* An end without bytes counts as taken once it is sent, and nobody is notified. */
	if (!taken && input->left.len == 0 && input->ends_at <= run->input.taken &&
		run->input.waiting.next == &input->links && run->sent && !run->pipes) {
		finish_input(input, NULL);
	}
}

void box_local_stdio_forget_input(struct box_backend_op *op, void *arg)
{
	struct box_local_run *run = box_local_run_of(op);
	for (struct box_list *at = run->input.waiting.next; at != &run->input.waiting;
		at = at->next) {
		struct input *input = input_at(at);
		if (input->taken && input->arg == arg) {
			input->own = box_alloc(input->left.len + 1);
			memcpy(input->own, input->left.bytes, input->left.len);
			input->left.bytes = input->own;
			input->taken = NULL;
			return;
		}
	}
}

void box_local_stdio_drop_input(struct box_local_run *run)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the command has ended");
	while (!box_list_empty(&run->input.waiting)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		finish_input(input_at(run->input.waiting.next), &err);
	}
}
