/* The stdio connection: reads fd 0 and writes fd 1 on the event loop.
 *
 * Pipes, sockets and terminals are polled and never block; their flags are restored at the end, because a
 * terminal's flags are shared with the shell. A regular file (a recorded session) cannot be polled and is
 * always ready.
 */
#include "transport/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "codec/stdio_framer.h"
#include "handlers/dispatch.h"
#include "handlers/peer.h"
#include "transport/conn.h"

#define READS_PER_TURN 16
#define WRITE_PARTS 32
#define DRAIN_CHECK_MS 5

struct box_stdio {
	struct box_conn conn;
	struct box_dispatch *dispatch;
	struct box_stdio_framer *framer;
	uv_poll_t in;
	uv_poll_t out;
	uv_idle_t in_file; /* stands in for `in` when fd 0 is a regular file */
	uv_idle_t resume;  /* handles, from the loop, what was read before a pause */
	uv_timer_t drain;
	bool in_is_file;
	bool out_is_file;
	int in_flags; /* of the fds before we changed them */
	int out_flags;
	bool out_armed;
	bool hung_up;  /* the other end of fd 0 is closed, and we are paused */
	bool finished; /* no more is read */
	bool clean;
	uint64_t drain_until_ms;
	box_stdio_ended *ended;
	void *arg;
};

static void on_readable(struct box_stdio *stdio);
static void on_hang_up(struct box_stdio *stdio);
static void write_some(struct box_stdio *stdio);

static struct box_stdio *of_conn(struct box_conn *conn)
{
	return (struct box_stdio *)(void *)conn;
}

static void in_poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_stdio *stdio = poll->data;
	(void)status;
	(void)events;
	if (stdio->conn.paused) {
		on_hang_up(stdio);
	} else {
		on_readable(stdio);
	}
}

static void in_idle_cb(uv_idle_t *idle)
{
	on_readable(idle->data);
}

static void out_poll_cb(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	write_some(poll->data);
}

enum reading {
	READ_ALL,
	READ_HANG_UP, /* only detect that the other end closes */
	READ_NOTHING,
};

static void set_reading(struct box_stdio *stdio, enum reading reading)
{
	if (stdio->in_is_file) {
		(void)(reading == READ_ALL ? uv_idle_start(&stdio->in_file, in_idle_cb)
					   : uv_idle_stop(&stdio->in_file));
	} else if (reading == READ_NOTHING) {
		(void)uv_poll_stop(&stdio->in);
	} else {
		int events = reading == READ_ALL ? UV_READABLE | UV_DISCONNECT : UV_DISCONNECT;
		(void)uv_poll_start(&stdio->in, events, in_poll_cb);
	}
}

/* --- the end --- */

void box_stdio_restore(const struct box_stdio *stdio)
{
	(void)fcntl(STDIN_FILENO, F_SETFL, stdio->in_flags);
	(void)fcntl(STDOUT_FILENO, F_SETFL, stdio->out_flags);
}

static void end(struct box_stdio *stdio, bool clean)
{
	(void)uv_timer_stop(&stdio->drain);
	stdio->conn.closing = true;
	stdio->ended(stdio->arg, clean);
}

static void drain_cb(uv_timer_t *timer)
{
	struct box_stdio *stdio = timer->data;
	bool late = box_clock_ms() >= stdio->drain_until_ms;
	if (!stdio->finished) {
		/* Hung up while paused: it ends when answers are not read either. */
		if (!stdio->hung_up) {
			(void)uv_timer_stop(timer);
		} else if (late) {
			stdio->finished = true;
			end(stdio, true);
		}
		return;
	}
	bool drained = stdio->conn.closing ||
		(box_dispatch_request_count(stdio->dispatch) == 0 && stdio->conn.out_bytes == 0);
	if (drained || late) {
		end(stdio, stdio->clean);
	}
}

static void start_drain(struct box_stdio *stdio)
{
	stdio->drain_until_ms = box_clock_ms() + BOX_EOF_GRACE_MS;
	(void)uv_timer_start(&stdio->drain, drain_cb, 0, DRAIN_CHECK_MS);
}

static void finish(struct box_stdio *stdio, bool clean)
{
	if (stdio->finished) {
		return;
	}
	stdio->finished = true;
	stdio->clean = clean;
	set_reading(stdio, READ_NOTHING);
	start_drain(stdio);
}

/* The other end of fd 0 has closed while we were paused, so what it sent before is not read yet. It may
 * still read its answers: go on as long as it does. */
static void on_hang_up(struct box_stdio *stdio)
{
	set_reading(stdio, READ_NOTHING);
	stdio->hung_up = true;
	start_drain(stdio);
}

size_t box_stdio_queued(const struct box_stdio *stdio)
{
	return stdio->conn.closing ? 0 : stdio->conn.out_bytes;
}

/* --- in --- */

/* Dispatches all complete messages. False when the stream is broken. */
static bool take_messages(struct box_stdio *stdio)
{
	struct box_message message;
	const char *why = NULL;
	while (!stdio->conn.paused) {
		switch (box_stdio_framer_next(stdio->framer, &message, &why)) {
		case BOX_STDIO_FRAMER_MORE:
			return true;
		case BOX_STDIO_FRAMER_MESSAGE:
			box_conn_receive(&stdio->conn, &message);
			break;
		case BOX_STDIO_FRAMER_IGNORED:
			box_conn_log_ignored(&stdio->conn, why);
			break;
		case BOX_STDIO_FRAMER_BROKEN:
			BOX_LOG(BOX_LOG_ERROR, "stdio.broken", box_log_str("why", why));
			return false;
		}
	}
	return true;
}

/* Reads once. 1: go on; 0: nothing more for now; negative: the stream has ended. */
static int read_once(struct box_stdio *stdio)
{
	size_t room;
	char *space = box_stdio_framer_space(stdio->framer, &room);
	ssize_t got = read(STDIN_FILENO, space, room);
	if (got < 0) {
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (got == 0) {
		return -EPIPE;
	}
	box_stdio_framer_filled(stdio->framer, (size_t)got);
	if (!take_messages(stdio)) {
		return -EBADMSG;
	}
	return (size_t)got == room ? 1 : 0;
}

static void on_readable(struct box_stdio *stdio)
{
	for (int turn = 0; turn < READS_PER_TURN && !stdio->conn.paused; turn++) {
		int r = read_once(stdio);
		if (r < 0) {
			finish(stdio, r == -EPIPE);
		}
		if (r <= 0) {
			return;
		}
	}
}

/* What was read before the pause is still in the framer. */
static void resume_cb(uv_idle_t *idle)
{
	struct box_stdio *stdio = idle->data;
	(void)uv_idle_stop(idle);
	if (stdio->finished || stdio->conn.paused) {
		return;
	}
	if (!take_messages(stdio)) {
		finish(stdio, false);
	} else if (!stdio->conn.paused) {
		set_reading(stdio, READ_ALL);
	}
}

/* Called while an answer is being sent: no message may be handled before that is done. */
static void pause_reading(struct box_conn *conn, bool paused)
{
	struct box_stdio *stdio = of_conn(conn);
	if (stdio->finished) {
		return;
	}
	if (paused) {
		set_reading(stdio, READ_HANG_UP);
	} else {
		stdio->hung_up = false;
		(void)uv_idle_start(&stdio->resume, resume_cb);
	}
}

/* --- out --- */

static void arm_output(struct box_stdio *stdio, bool armed)
{
	if (armed == stdio->out_armed || stdio->out_is_file) {
		return;
	}
	stdio->out_armed = armed;
	(void)(armed ? uv_poll_start(&stdio->out, UV_WRITABLE, out_poll_cb)
		     : uv_poll_stop(&stdio->out));
}

/* Writes several answers with one call. Returns the number of bytes written, or -errno. */
static ssize_t write_once(struct box_stdio *stdio)
{
	struct iovec parts[WRITE_PARTS];
	int count = 0;
	struct box_list *queue = &stdio->conn.out;
	for (struct box_list *at = queue->next; at != queue && count < WRITE_PARTS; at = at->next) {
		struct box_conn_answer *out = BOX_CONTAINER_OF(at, struct box_conn_answer, links);
		parts[count].iov_base = out->bytes.bytes + out->sent;
		parts[count++].iov_len = out->bytes.len - out->sent;
	}
	ssize_t wrote = writev(STDOUT_FILENO, parts, count);
	return wrote < 0 ? -errno : wrote;
}

static void write_some(struct box_stdio *stdio)
{
	while (box_conn_first_answer(&stdio->conn) && !stdio->conn.closing) {
		ssize_t wrote = write_once(stdio);
		if (wrote == -EAGAIN || wrote == -EINTR) {
			arm_output(stdio, true);
			return;
		}
		if (wrote < 0) {
			/* The parent has closed its end. */
			stdio->conn.closing = true;
			finish(stdio, true);
			break;
		}
		if (stdio->hung_up) {
			stdio->drain_until_ms = box_clock_ms() + BOX_EOF_GRACE_MS;
		}
		while (wrote > 0) {
			struct box_conn_answer *out = box_conn_first_answer(&stdio->conn);
			size_t left = out->bytes.len - out->sent;
			size_t taken = (size_t)wrote < left ? (size_t)wrote : left;
			box_conn_sent(&stdio->conn, taken);
			wrote -= (ssize_t)taken;
		}
	}
	arm_output(stdio, false);
}

static void want_write(struct box_conn *conn)
{
	struct box_stdio *stdio = of_conn(conn);
	if (!stdio->out_armed) {
		write_some(stdio);
	}
}

static void give_up(struct box_conn *conn)
{
	finish(of_conn(conn), false);
}

static const struct box_conn_ops conn_ops = {
	.want_write = want_write,
	.pause_reading = pause_reading,
	.give_up = give_up,
};

/* --- the beginning --- */

/* Makes the fd non-blocking and ready to be polled, or reports that it is a regular file. */
static int prepare_fd(uv_loop_t *loop, uv_poll_t *poll, int fd, int *ret_flags, bool *ret_is_file)
{
	*ret_flags = fcntl(fd, F_GETFL);
	if (*ret_flags < 0) {
		return -errno;
	}
	int r = uv_poll_init(loop, poll, fd);
	*ret_is_file = r == UV_EPERM;
	return r == UV_EPERM ? 0 : r;
}

int box_stdio_open(uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime,
	box_stdio_ended *ended, void *arg, struct box_stdio **ret_stdio)
{
	struct box_stdio *stdio = box_alloc(sizeof(*stdio));
	int r = prepare_fd(loop, &stdio->in, STDIN_FILENO, &stdio->in_flags, &stdio->in_is_file);
	if (r == 0) {
		r = prepare_fd(
			loop, &stdio->out, STDOUT_FILENO, &stdio->out_flags, &stdio->out_is_file);
	}
	if (r < 0) {
		return r; /* the process ends: handles of the loop cannot be freed here */
	}
	(void)uv_idle_init(loop, &stdio->in_file);
	(void)uv_idle_init(loop, &stdio->resume);
	(void)uv_timer_init(loop, &stdio->drain);
	stdio->in.data = stdio;
	stdio->out.data = stdio;
	stdio->in_file.data = stdio;
	stdio->resume.data = stdio;
	stdio->drain.data = stdio;
	stdio->dispatch = dispatch;
	stdio->framer = box_stdio_framer_new();
	stdio->ended = ended;
	stdio->arg = arg;
	static const struct box_peer_identity parent = {.parent = true};
	box_conn_open(&stdio->conn, &conn_ops, dispatch, runtime, &parent, BOX_TRANSPORT_STDIO);
	stdio->conn.json_lines = true;
	set_reading(stdio, READ_ALL);
	*ret_stdio = stdio;
	return 0;
}
