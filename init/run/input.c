/* Owns our ends of the stdin of commands and managed processes. Input that the pipe does not take waits
 * in a buffer, which is allocated when it is first needed and limited by the protocol. */
#include "init/run/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/init.h"

#define WIDE_BYTES (512 * 1024)

void box_input_init(struct box_input *input)
{
	*input = (struct box_input){.fd = -1};
}

void box_input_adopt(struct box_input *input, struct box_watch watch, int fd)
{
	*input = (struct box_input){.fd = fd, .watch = watch};
}

int box_input_open(struct box_input *input, struct box_watch watch, int *ret_fd)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0) {
		int r = -errno;
		(void)close(ends[0]);
		(void)close(ends[1]);
		return r;
	}
	box_input_adopt(input, watch, ends[1]);
	*ret_fd = ends[0];
	return 0;
}

static void free_buffer(struct box_input *input)
{
	if (input->buffer) {
		(void)munmap(input->buffer, BOX_INIT_INPUT_MAX);
		input->buffer = NULL;
	}
	input->start = 0;
	input->end = 0;
}

/* Of a terminal there is another fd, for its output, so that closing this one would not unregister it. */
static void close_fd(struct box_input *input)
{
	if (input->watched) {
		box_event_loop_unwatch(input->fd);
		input->watched = false;
	}
	if (input->fd >= 0) {
		(void)close(input->fd);
		input->fd = -1;
	}
}

void box_input_close(struct box_input *input)
{
	close_fd(input);
	/* Discarded input counts as taken: the sender need not wait for it. */
	input->taken += input->end - input->start;
	free_buffer(input);
}

/* Enlarges the pipe once; with that much input a larger pipe needs fewer turns. True if it has more
 * space now. */
static bool widen(struct box_input *input)
{
	bool first = !input->widened;
	input->widened = true;
	return first && fcntl(input->fd, F_SETPIPE_SZ, WIDE_BYTES) > 0;
}

/* How many bytes the pipe took. When nobody has its other end open, it is closed and all are discarded. */
static uint32_t write_some(struct box_input *input, const char *bytes, uint32_t size)
{
	uint32_t done = 0;
	do {
		ssize_t written = write(input->fd, bytes + done, size - done);
		if (written < 0 && errno != EAGAIN && errno != EINTR) {
			close_fd(input);
			return size;
		}
		done += written > 0 ? (uint32_t)written : 0;
	} while (done < size && widen(input));
	return done;
}

static int keep(struct box_input *input, const char *bytes, uint32_t size)
{
	if (!input->buffer) {
		void *buffer = mmap(NULL, BOX_INIT_INPUT_MAX, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (buffer == MAP_FAILED) {
			return -ENOBUFS;
		}
		(void)madvise(buffer, BOX_INIT_INPUT_MAX,
			MADV_DONTFORK); /* not for file jobs, see ring.c */
		input->buffer = buffer;
	}
	uint32_t held = input->end - input->start;
	if (size > BOX_INIT_INPUT_MAX - held) {
		return -ENOBUFS;
	}
	if (size > BOX_INIT_INPUT_MAX - input->end) {
		memmove(input->buffer, input->buffer + input->start, held);
		input->start = 0;
		input->end = held;
	}
	memcpy(input->buffer + input->end, bytes, size);
	input->end += size;
	if (!input->watched) {
		input->watched = box_event_loop_watch(input->fd, EPOLLOUT, input->watch) == 0;
	}
	return 0;
}

int box_input_put(struct box_input *input, const char *bytes, uint32_t size)
{
	if (input->fd < 0) {
		input->taken += size;
		return 0;
	}
	if (size == 0) {
		input->ended = true;
	}
	if (input->ended) {
		/* Bytes after the end of input are discarded. */
		input->taken += size;
		if (input->start == input->end) {
			box_input_close(input);
		}
		return 0;
	}
	uint32_t now = input->start < input->end ? 0 : write_some(input, bytes, size);
	input->taken += now;
	return now == size ? 0 : keep(input, bytes + now, size - now);
}

void box_input_pump(struct box_input *input)
{
	if (input->fd < 0 || input->start == input->end) {
		return;
	}
	uint32_t now = write_some(input, input->buffer + input->start, input->end - input->start);
	input->taken += now;
	input->start += now;
	if (input->start < input->end) {
		return;
	}
	input->start = 0;
	input->end = 0;
	if (input->watched) {
		box_event_loop_unwatch(input->fd);
		input->watched = false;
	}
	if (input->ended) {
		box_input_close(input);
	}
}
