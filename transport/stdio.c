/* Reads fd 0, writes fd 1, on the loop.
 *
 * Pipes and sockets are polled and never block. A regular file (someone plays a recorded session)
 * cannot be polled and is always ready. A terminal is left in blocking mode, because that mode
 * belongs to the shell too; a write to it may wait for a person, which is what a person expects.
 */
#include "transport/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "handlers/dispatch.h"
#include "transport/conn.h"
#include "transport/stdio_frame.h"

#define READS_PER_TURN 16
#define WRITE_PARTS 32
#define DRAIN_CHECK_MS 5

struct box_stdio {
	struct box_conn conn;
	struct box_dispatch *dispatch;
	struct box_framer *framer;
	uv_poll_t in;
	uv_poll_t out;
	uv_idle_t in_file; /* stands in for `in` when fd 0 is a regular file */
	uv_timer_t drain;
	bool in_is_file;
	bool out_is_file;
	bool out_armed;
	bool finished; /* no more is read */
	bool clean;
	uint64_t drain_until_ms;
	box_stdio_ended *ended;
	void *arg;
};

static void on_readable(struct box_stdio *stdio);
static void write_some(struct box_stdio *stdio);

static struct box_stdio *of_conn(struct box_conn *conn)
{
	return (struct box_stdio *)(void *)conn;
}

static void in_poll_cb(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	on_readable(poll->data);
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

static void set_reading(struct box_stdio *stdio, bool reading)
{
	if (stdio->in_is_file) {
		(void)(reading ? uv_idle_start(&stdio->in_file, in_idle_cb)
			       : uv_idle_stop(&stdio->in_file));
	} else {
		(void)(reading ? uv_poll_start(&stdio->in, UV_READABLE | UV_DISCONNECT, in_poll_cb)
			       : uv_poll_stop(&stdio->in));
	}
}

/* --- the end --- */

static void drain_cb(uv_timer_t *timer)
{
	struct box_stdio *stdio = timer->data;
	bool drained = stdio->conn.closing ||
		(box_dispatch_under_way(stdio->dispatch) == 0 && stdio->conn.out_bytes == 0);
	if (!drained && box_clock_ms() < stdio->drain_until_ms) {
		return;
	}
	(void)uv_timer_stop(timer);
	stdio->ended(stdio->arg, stdio->clean);
}

static void finish(struct box_stdio *stdio, bool clean)
{
	if (stdio->finished) {
		return;
	}
	stdio->finished = true;
	stdio->clean = clean;
	set_reading(stdio, false);
	stdio->drain_until_ms = box_clock_ms() + BOX_EOF_GRACE_MS;
	(void)uv_timer_start(&stdio->drain, drain_cb, 0, DRAIN_CHECK_MS);
}

void box_stdio_finish(struct box_stdio *stdio)
{
	finish(stdio, true);
}

/* --- in --- */

/* Gives out what is whole. False when the stream cannot go on. */
static bool take_messages(struct box_stdio *stdio)
{
	struct box_message message;
	const char *why = NULL;
	while (!stdio->conn.paused) {
		switch (box_framer_next(stdio->framer, &message, &why)) {
		case BOX_FRAMER_MORE:
			return true;
		case BOX_FRAMER_MESSAGE:
			box_conn_receive(&stdio->conn, &message);
			break;
		case BOX_FRAMER_IGNORED:
			box_conn_ignored(&stdio->conn, why);
			break;
		case BOX_FRAMER_BROKEN:
			BOX_LOG(BOX_LOG_ERROR, "stdio.broken", box_kv_str("why", why));
			return false;
		}
	}
	return true;
}

/* Reads once. 1: go on; 0: nothing more for now; negative: the stream has ended. */
static int read_once(struct box_stdio *stdio)
{
	size_t room;
	char *space = box_framer_space(stdio->framer, &room);
	ssize_t got = read(STDIN_FILENO, space, room);
	if (got < 0) {
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (got == 0) {
		return -EPIPE;
	}
	box_framer_filled(stdio->framer, (size_t)got);
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

static void pause_reading(struct box_conn *conn, bool paused)
{
	struct box_stdio *stdio = of_conn(conn);
	if (stdio->finished) {
		return;
	}
	set_reading(stdio, !paused);
	/* What was read before the pause is still in the framer. */
	if (!paused && !take_messages(stdio)) {
		finish(stdio, false);
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

/* Writes several answers with one call. The number of bytes taken, or -errno. */
static ssize_t write_once(struct box_stdio *stdio)
{
	struct iovec parts[WRITE_PARTS];
	int count = 0;
	struct box_list *queue = &stdio->conn.out;
	for (struct box_list *at = queue->next; at != queue && count < WRITE_PARTS; at = at->next) {
		struct box_out *out = BOX_LIST_ITEM(at, struct box_out, links);
		parts[count].iov_base = out->bytes.bytes + out->sent;
		parts[count++].iov_len = out->bytes.len - out->sent;
	}
	ssize_t wrote = writev(STDOUT_FILENO, parts, count);
	return wrote < 0 ? -errno : wrote;
}

static void write_some(struct box_stdio *stdio)
{
	while (box_conn_out(&stdio->conn) && !stdio->conn.closing) {
		ssize_t wrote = write_once(stdio);
		if (wrote == -EAGAIN || wrote == -EINTR) {
			arm_output(stdio, true);
			return;
		}
		if (wrote < 0) {
			/* The parent is gone. */
			stdio->conn.closing = true;
			finish(stdio, true);
			break;
		}
		while (wrote > 0) {
			struct box_out *out = box_conn_out(&stdio->conn);
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

/* Whether the fd is a regular file; makes anything but that and terminals non-blocking. */
static int prepare_fd(int fd, bool *ret_is_file)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	*ret_is_file = S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd));
	if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
		int flags = fcntl(fd, F_GETFL);
		if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
			return -errno;
		}
	}
	return 0;
}

int box_stdio_open(uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime,
	box_stdio_ended *ended, void *arg, struct box_stdio **ret_stdio)
{
	struct box_stdio *stdio = box_alloc(sizeof(*stdio));
	int r = prepare_fd(STDIN_FILENO, &stdio->in_is_file);
	if (r == 0) {
		r = prepare_fd(STDOUT_FILENO, &stdio->out_is_file);
	}
	if (r == 0 && !stdio->in_is_file) {
		r = uv_poll_init(loop, &stdio->in, STDIN_FILENO);
	}
	if (r == 0 && !stdio->out_is_file) {
		r = uv_poll_init(loop, &stdio->out, STDOUT_FILENO);
	}
	if (r < 0) {
		free(stdio);
		return r;
	}
	(void)uv_idle_init(loop, &stdio->in_file);
	(void)uv_timer_init(loop, &stdio->drain);
	stdio->in.data = stdio;
	stdio->out.data = stdio;
	stdio->in_file.data = stdio;
	stdio->drain.data = stdio;
	stdio->dispatch = dispatch;
	stdio->framer = box_framer_new();
	stdio->ended = ended;
	stdio->arg = arg;
	box_conn_open(&stdio->conn, &conn_ops, dispatch, runtime, BOX_TRANSPORT_STDIO);
	stdio->conn.json_lines = true;
	set_reading(stdio, true);
	*ret_stdio = stdio;
	return 0;
}
