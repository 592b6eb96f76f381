/* Owns our ends of commands' stdout and stderr. Without credit they are not read, so that the command
 * blocks and nothing has to be buffered. Beyond the limit they are read and dropped, so that the command
 * does not block. */
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
#define DROPS_PER_TURN 16 /* reads of one pipe in one turn of the event loop */
/* The largest pipe that a command can ask for: it cannot leave more in one. */
#define DRAIN_MAX (1024U * 1024)
#define PIPE_BYTES (64U * 1024) /* default capacity of a pipe */
#define WIDE_BYTES (512 * 1024)

enum result {
	MORE,  /* something was read, there may be more */
	EMPTY, /* nothing can be read now */
	END,   /* no process has its other end open */
	STUCK, /* no credit, or an answer waits to be sent */
};

struct orphan {
	int fd; /* 0: none */
	uint32_t generation;
};

static struct orphan orphans[ORPHANS_MAX];
static uint32_t orphan_count; /* of all time */

int box_stream_adopt(struct box_stream *stream, uint64_t limit, struct box_watch watch, int fd)
{
	int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0) {
		r = box_event_loop_watch(fd, EPOLLIN, watch);
	}
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
		(void)close(stream->fd); /* which unregisters it too: there is no copy of this fd */
		stream->fd = -1;
		stream->watched = false;
	}
}

/* Reads into the buffer for answers, which is free while no answer waits. */
static ssize_t read_to_buffer(int fd, size_t max)
{
	ssize_t got;
	do {
		got = read(fd, box_control_buffer(), max);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* Reads and drops. Our stdout is /dev/null, and splice moves pages there without copying them. A seccomp
 * filter may refuse splice, and it does not work for a terminal. */
static ssize_t read_and_drop(int fd)
{
	static bool no_splice;
	ssize_t got = -1;
	bool use_read = no_splice;
	if (!no_splice) {
		got = splice(fd, NULL, STDOUT_FILENO, NULL, DRAIN_MAX, SPLICE_F_NONBLOCK);
		use_read = got < 0 && errno != EAGAIN && errno != EINTR;
		no_splice = use_read && errno != EINVAL;
	}
	return use_read ? read_to_buffer(fd, BOX_INIT_BYTES_MAX) : got;
}

/* Enlarges a pipe that was full: a command that writes so much blocks less then. */
static void widen(struct box_stream *stream)
{
	stream->widened = true;
	/* May fail for a user with many pipes. */
	(void)fcntl(stream->fd, F_SETPIPE_SZ, WIDE_BYTES);
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return BOX_MIN(a, b);
}

/* Reads once, and reduces the credit by what was sent. */
static enum result read_once(struct box_stream *stream, uint32_t id, uint64_t *credit)
{
	if (stream->fd < 0) {
		return END;
	}
	if (box_control_blocked() || (stream->left > 0 && *credit == 0)) {
		return STUCK;
	}
	bool drop = stream->left == 0;
	uint64_t max = min_of(min_of(stream->left, *credit), BOX_INIT_BYTES_MAX);
	ssize_t got = drop ? read_and_drop(stream->fd) : read_to_buffer(stream->fd, (size_t)max);
	if (got < 0 && errno != EIO) {
		return EMPTY;
	}
	if (got < 0) {
		/* A terminal that no process has open. There is another fd of it, for input, so
		 * closing this one would not unregister it. */
		box_stream_unwatch(stream);
	}
	if (got <= 0) {
		box_stream_close(stream);
		return END;
	}
	uint64_t size = (uint64_t)got;
	stream->drain_left -= (uint32_t)min_of(size, stream->drain_left);
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
	/* While an answer waits, the event loop ignores pipes, watched or not. */
	set_watched(stream, stream->left == 0 || *credit > 0);
}

/* Without credit it only matters whether there is anything to read. */
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

/* A free entry, else that of the oldest orphan. */
static struct orphan *find_entry(void)
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

static void add_orphan(int fd, bool watched)
{
	struct orphan *orphan = find_entry();
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
		add_orphan(stream->fd, stream->watched);
		stream->fd = -1;
	}
}

void box_stream_adopt_orphan(int fd)
{
	if (fd >= 0) {
		add_orphan(fd, false);
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
		got = read_and_drop(orphan->fd);
	}
	if (got == 0) {
		(void)close(orphan->fd);
		orphan->fd = 0;
	}
}
