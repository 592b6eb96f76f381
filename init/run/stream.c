/* Owns the reading ends of commands' pipes. Reading stops without credit, so that a command blocks
 * instead of us remembering; beyond the limit reading goes on, so that a command ends. */
#include "init/run/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/control.h"
#include "protocol/init.h"

#define ORPHANS_MAX 64
#define DROPS_PER_TURN 16 /* reads of one pipe before others have their turn */
/* The largest pipe that a command can ask for, so all that it can have left in one. */
#define DRAIN_MAX (1024U * 1024)
#define PIPE_BYTES (64U * 1024) /* that a pipe holds when it is made */
#define WIDE_BYTES (512 * 1024)

enum result {
	MORE,  /* something was read, there may be more */
	EMPTY, /* nothing is there right now */
	END,   /* closed by all who could write to it */
	STUCK, /* no credit, or an answer waits to go out */
};

struct orphan {
	int fd; /* 0: none */
	uint32_t generation;
};

static struct orphan orphans[ORPHANS_MAX];
static uint32_t orphan_count; /* ever */

int box_stream_adopt(struct box_stream *stream, uint64_t limit, struct box_watch watch, int fd)
{
	int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	r = r < 0 ? r : box_event_loop_watch(fd, EPOLLIN, watch);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*stream = (struct box_stream){
		.fd = fd,
		.watched = true,
		.kind = watch.kind == BOX_WATCH_STDOUT ? BOX_INIT_STDOUT : BOX_INIT_STDERR,
		.watch = watch,
		.left = limit,
		.drain_left = DRAIN_MAX,
	};
	return 0;
}

int box_stream_open(struct box_stream *stream, uint64_t limit, struct box_watch watch, int *ret_fd)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	int r = box_stream_adopt(stream, limit, watch, ends[0]);
	if (r < 0) {
		(void)close(ends[1]);
		return r;
	}
	*ret_fd = ends[1];
	return 0;
}

void box_stream_close(struct box_stream *stream)
{
	if (stream->fd >= 0) {
		(void)close(
			stream->fd); /* which unregisters it too: there is no other end like it */
		stream->fd = -1;
		stream->watched = false;
	}
}

/* Reads into the room of the link, which nobody uses while nothing waits there. */
static ssize_t read_room(int fd, size_t max)
{
	ssize_t got;
	do {
		got = read(fd, box_control_buffer(), max);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* The same to nowhere: stdout of ours is /dev/null, to which pages of a pipe go without being
 * copied. A filter may not know that call, and a terminal is no pipe. */
static ssize_t read_nowhere(int fd)
{
	static bool no_splice;
	ssize_t got = -1;
	bool here = no_splice;
	if (!no_splice) {
		got = splice(fd, NULL, STDOUT_FILENO, NULL, DRAIN_MAX, SPLICE_F_NONBLOCK);
		here = got < 0 && errno != EAGAIN && errno != EINTR;
		no_splice = here && errno != EINVAL;
	}
	return here ? read_room(fd, BOX_INIT_BYTES_MAX) : got;
}

/* It was full: whoever writes so much waits less for us with more room. */
static void widen(struct box_stream *stream)
{
	stream->widened = true;
	/* A user who has many pipes is not given it, and goes on as before. */
	(void)fcntl(stream->fd, F_SETPIPE_SZ, WIDE_BYTES);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return BOX_MIN(a, b);
}

/* Reads once, and takes what was sent from the credit. */
static enum result read_once(struct box_stream *stream, uint32_t id, uint64_t *credit)
{
	if (stream->fd < 0) {
		return END;
	}
	if (box_control_blocked() || (stream->left > 0 && *credit == 0)) {
		return STUCK;
	}
	bool drop = stream->left == 0;
	uint64_t max = least(least(stream->left, *credit), BOX_INIT_BYTES_MAX);
	ssize_t got = drop ? read_nowhere(stream->fd) : read_room(stream->fd, (size_t)max);
	if (got < 0 && errno != EIO) {
		return EMPTY;
	}
	if (got < 0) {
		/* A terminal that nobody has open any more. Its input is another fd of the same,
		 * so that closing this one would not unregister it. */
		box_stream_unwatch(stream);
	}
	if (got <= 0) {
		box_stream_close(stream);
		return END;
	}
	uint64_t size = (uint64_t)got;
	stream->drain_left -= (uint32_t)least(size, stream->drain_left);
	if (drop) {
		stream->dropped += size;
		return MORE;
	}
	if (size >= PIPE_BYTES && !stream->widened) {
		widen(stream);
	}
	stream->left -= size;
	*credit -= size;
	box_control_send_buffer(stream->kind, id, (size_t)size);
	return MORE;
}

static void set_watched(struct box_stream *stream, bool watched)
{
	if (stream->fd < 0 || stream->watched == watched) {
		return;
	}
	if (watched) {
		watched = box_event_loop_watch(stream->fd, EPOLLIN, stream->watch) == 0;
	} else {
		box_event_loop_unwatch(stream->fd);
	}
	stream->watched = watched;
}

void box_stream_pump(struct box_stream *stream, uint32_t id, uint64_t *credit)
{
	enum result result = MORE;
	for (int i = 0; i < DROPS_PER_TURN && result == MORE; i++) {
		result = read_once(stream, id, credit);
		if (stream->left > 0) {
			break;
		}
	}
	stream->drain_left = DRAIN_MAX;
	/* While an answer waits nobody looks at pipes, watched or not. */
	set_watched(stream, stream->left == 0 || *credit > 0);
}

/* Without credit only the question whether there is anything matters. */
static bool has_bytes(const struct box_stream *stream)
{
	struct pollfd fd = {.fd = stream->fd, .events = POLLIN};
	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN);
}

bool box_stream_drain(struct box_stream *stream, uint32_t id, uint64_t *credit)
{
	for (;;) {
		if (stream->fd < 0 || stream->drain_left == 0) {
			return true;
		}
		switch (read_once(stream, id, credit)) {
		case MORE:
			break;
		case STUCK:
			return !has_bytes(stream);
		case EMPTY:
		case END:
			return true;
		}
	}
}

void box_stream_discard(struct box_stream *stream)
{
	stream->left = 0;
}

void box_stream_unwatch(struct box_stream *stream)
{
	set_watched(stream, false);
}

/* A free one, else that of the oldest. */
static struct orphan *orphan_place(void)
{
	struct orphan *oldest = &orphans[0];
	for (size_t i = 0; i < ORPHANS_MAX; i++) {
		if (orphans[i].fd == 0) {
			return &orphans[i];
		}
		if (orphan_count - orphans[i].generation > orphan_count - oldest->generation) {
			oldest = &orphans[i];
		}
	}
	return oldest;
}

static void adopt(int fd, bool watched)
{
	struct orphan *orphan = orphan_place();
	if (orphan->fd > 0) {
		(void)close(orphan->fd);
	}
	struct box_watch watch = {
		.kind = BOX_WATCH_ORPHAN,
		.index = (uint16_t)(orphan - orphans),
		.generation = orphan_count,
	};
	int r = watched ? box_event_loop_rewatch(fd, EPOLLIN, watch)
			: box_event_loop_watch(fd, EPOLLIN, watch);
	if (r < 0) {
		(void)close(fd);
		fd = 0;
	}
	*orphan = (struct orphan){.fd = fd, .generation = orphan_count++};
}

void box_stream_orphan(struct box_stream *stream)
{
	if (stream->fd >= 0) {
		adopt(stream->fd, stream->watched);
		stream->fd = -1;
	}
}

void box_stream_adopt_orphan(int fd)
{
	if (fd >= 0) {
		adopt(fd, false);
	}
}

void box_stream_pump_orphan(struct box_watch watch)
{
	struct orphan *orphan = &orphans[watch.index];
	if (orphan->fd == 0 || orphan->generation != watch.generation || box_control_blocked()) {
		return;
	}
	ssize_t got = 1;
	for (int i = 0; i < DROPS_PER_TURN && got > 0; i++) {
		got = read_nowhere(orphan->fd);
	}
	if (got == 0) {
		(void)close(orphan->fd);
		orphan->fd = 0;
	}
}
