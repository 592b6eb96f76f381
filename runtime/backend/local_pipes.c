/* The pipes of a live command that box-rpc has itself. Its bytes pass box-init by: a process less on
 * their way. They are made here, because the mode of an end is shared by all who have it: one that
 * came out of a box could be made to block us.
 *
 * Who cannot be given fds (a microVM), has a terminal, or comes when there are too many open files
 * gets its bytes by packets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "runtime/backend/local_internal.h"

#define PIECE_BYTES (255 * BOX_KIB)          /* with what is around it one frame of a WebSocket */
#define PIPE_BYTES ((ssize_t)(64 * BOX_KIB)) /* that a pipe holds when it is made */
#define WIDE_BYTES (1024 * 1024)
/* The largest pipe that a command can ask for, so all that it can have left in one. */
#define DRAIN_BYTES ((size_t)1024 * 1024)

struct end {
	uv_poll_t poll; /* goes with its fd: on its own it would take the next one of that number */
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
	bool over;           /* the command has ended: only what it left is read */
};

static struct end *stdin_of(const struct box_local_run *run)
{
	return &run->pipes->ends[STDIN_FILENO];
}

static bool is_stderr(const struct end *end)
{
	return end == &end->pipes->ends[STDERR_FILENO];
}

static void watch(struct end *end, int events, uv_poll_cb cb)
{
	if (end->fd >= 0 && !end->watched) {
		end->watched = uv_poll_start(&end->poll, events, cb) == 0;
	}
}

static void unwatch(struct end *end)
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

/* Its fd, which nobody watches any more; -1 when it has none. */
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

/* It was full: whoever writes so much waits less for us with more room. A user who has many pipes is
 * not given it, and goes on as before. */
static void widen(struct end *end)
{
	if (!end->widened) {
		end->widened = true;
		(void)fcntl(end->fd, F_SETPIPE_SZ, WIDE_BYTES);
	}
}

/* --- output --- */

enum result {
	MORE,  /* something was read, there may be more */
	EMPTY, /* nothing is there right now, or ever */
	STUCK, /* there is no credit for what may be there */
};

/* Whoever is told may cancel the command, or give credit. */
static enum result read_once(struct end *end)
{
	static char buffer[PIECE_BYTES];
	struct box_local_run *run = end->pipes->run;
	if (end->fd < 0) {
		return EMPTY;
	}
	if (run->credit == 0) {
		return STUCK;
	}
	size_t most = run->credit < sizeof(buffer) ? (size_t)run->credit : sizeof(buffer);
	ssize_t got;
	do {
		got = read(end->fd, buffer, most);
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
	end->read_bytes += end->pipes->over ? (size_t)got : 0;
	box_local_exec_take_output(run, is_stderr(end), buffer, (size_t)got);
	return MORE;
}

static bool has_bytes(const struct end *end)
{
	struct pollfd fd = {.fd = end->fd, .events = POLLIN};
	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN);
}

/* What the command left behind, as far as there is credit. False: there is more. */
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
	run->pipes->over = true;
	return drain(&run->pipes->ends[STDOUT_FILENO]) && drain(&run->pipes->ends[STDERR_FILENO]);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	struct end *end = poll->data;
	struct box_local_run *run = end->pipes->run;
	(void)status;
	(void)events;
	if (run->exited) {
		box_local_exec_conclude(run);
		return;
	}
	(void)read_once(end);
	box_local_stdio_update_reading(run);
}

void box_local_stdio_update_reading(struct box_local_run *run)
{
	for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
		if (run->credit > 0 && !run->cancelled) {
			watch(&run->pipes->ends[i], UV_READABLE, readable);
		} else {
			unwatch(&run->pipes->ends[i]);
		}
	}
}

/* --- input --- */

/* Also when nobody reads it any more: then what comes is void, one after the other. */
static void writable(uv_poll_t *poll, int status, int events)
{
	struct end *end = poll->data;
	(void)status;
	(void)events;
	unwatch(end);
	box_local_stdio_feed_pipe(end->pipes->run);
}

void box_local_stdio_want_write(struct box_local_run *run)
{
	watch(stdin_of(run), UV_WRITABLE, writable);
}

size_t box_local_stdio_write_pipe(struct box_local_run *run, struct box_str bytes)
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

void box_local_stdio_close_stdin(struct box_local_run *run)
{
	close_end(stdin_of(run));
}

/* --- beginning and end --- */

void box_local_stdio_close_pipes(struct box_local_run *run)
{
	struct box_local_stdio_pipes *pipes = run->pipes;
	if (!pipes) {
		return;
	}
	run->pipes = NULL;
	for (unsigned i = 0; i < pipes->count; i++) {
		int fd = release(&pipes->ends[i]);
		if (fd >= 0 && i != STDIN_FILENO && (run->told_started || run->cancelled)) {
			box_local_control_send(
				run->box, BOX_INIT_DRAIN, run->id, NULL, 0, NULL, 0, TAKE_FD(fd));
		}
		box_close_p(&fd);
	}
	drop_reference(pipes);
}

/* Ours is the end that is read of an output, and the one that is written of the input. */
static int make_pipe(int which, int *ret_ours, int *ret_theirs)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	*ret_ours = ends[which == STDIN_FILENO ? 1 : 0];
	*ret_theirs = ends[which == STDIN_FILENO ? 0 : 1];
	/* It belongs to nobody whom the box knows, and programs open /dev/stdout. */
	return fchmod(*ret_ours, 0666) < 0 ? -errno : 0;
}

static int add_end(struct box_local_stdio_pipes *pipes, int fd)
{
	struct end *end = &pipes->ends[pipes->count];
	*end = (struct end){.pipes = pipes, .fd = fd};
	int r = uv_poll_init(pipes->run->box->native->loop, &end->poll, fd);
	end->poll.data = end;
	pipes->count += r == 0;
	pipes->references += r == 0;
	return r;
}

bool box_local_stdio_open_pipes(struct box_local_run *run, int ret_fds[3])
{
	int ours[3] = {-1, -1, -1};
	int theirs[3] = {-1, -1, -1};
	int r = 0;
	if (!run->live || run->size.rows > 0 || run->box->is_machine) {
		return false;
	}
	run->pipes = box_alloc(sizeof(*run->pipes));
	run->pipes->run = run;
	run->pipes->references = 1;
	for (int i = 0; i < 3 && r == 0; i++) {
		r = make_pipe(i, &ours[i], &theirs[i]);
		r = r == 0 && box_local_fd_is_beyond(ours[i], BOX_LOCAL_PIPE_QUARTERS) ? -EMFILE
										       : r;
		r = r < 0 ? r : add_end(run->pipes, ours[i]);
		ours[i] = r < 0 ? ours[i] : -1;
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
