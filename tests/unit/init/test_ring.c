/* The ring buffer with a process's output: offsets, bounds, growing while it is wrapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/process/ring.h"
#include "tests/unit/lib/test.h"

#define KIB 1024U
#define MIB (1024U * 1024)

static int ends[2];
static uint64_t written;

static void start(void)
{
	ASSERT_INT(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	ASSERT(fcntl(ends[1], F_SETPIPE_SZ, (int)MIB) > 0);
	written = 0;
}

/* The expected byte at an offset. */
static char byte_at(uint64_t offset)
{
	return (char)(offset * 31 + (offset >> 8) * 7 + (offset >> 16));
}

static void put(size_t size)
{
	char *bytes = malloc(size + 1);
	ASSERT(bytes);
	for (size_t i = 0; i < size; i++) {
		bytes[i] = byte_at(written + i);
	}
	ASSERT_INT(write(ends[1], bytes, size), size);
	written += size;
	free(bytes);
}

static void check(const struct box_ring *ring)
{
	size_t held = (size_t)(ring->end - ring->start);
	char *bytes = malloc(held + 1);
	ASSERT(bytes);
	for (uint64_t from = ring->start; from <= ring->end; from += 1 + held / 3) {
		size_t size = (size_t)(ring->end - from);
		ASSERT_INT(box_ring_copy(ring, from, bytes, held + 1), size);
		for (size_t i = 0; i < size; i++) {
			if (bytes[i] != byte_at(from + i)) {
				TEST_FAIL("another byte at %" PRIu64, from + i);
			}
		}
	}
	free(bytes);
}

/* Reads everything in the pipe. */
static void fill(struct box_ring *ring, size_t hold)
{
	ssize_t got;
	while ((got = box_ring_read(ring, ends[0], hold)) > 0) {
	}
	ASSERT_INT(got, ring->end - ring->start >= hold ? -ENOBUFS : -EAGAIN);
}

TEST(empty)
{
	struct box_ring ring = {0};
	char byte;
	start();
	ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), -EAGAIN);
	ASSERT_INT(box_ring_copy(&ring, 0, &byte, 1), 0);
	box_ring_free_upto(&ring, 0);
	box_ring_free_upto(&ring, UINT64_MAX);
	ASSERT_INT(ring.start, 0);
	ASSERT_INT(close(ends[1]), 0);
	ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), 0);
	box_ring_close(&ring);
	box_ring_close(&ring);
	ASSERT(ring.bytes == NULL);
}

TEST(copies_of_parts)
{
	struct box_ring ring = {0};
	char bytes[16] = "";
	start();
	put(10);
	ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), 10);
	ASSERT_INT(box_ring_copy(&ring, 3, bytes, 4), 4);
	for (uint64_t i = 0; i < 4; i++) {
		ASSERT_INT(bytes[i], byte_at(3 + i));
	}
	ASSERT_INT(box_ring_copy(&ring, 9, bytes, 16), 1);
	ASSERT_INT(box_ring_copy(&ring, 10, bytes, 16), 0);
	ASSERT_INT(box_ring_copy(&ring, UINT64_MAX, bytes, 16), 0);
	box_ring_free_upto(&ring, 4);
	ASSERT_INT(box_ring_copy(&ring, 3, bytes, 16), 0);
	ASSERT_INT(box_ring_copy(&ring, 4, bytes, 16), 6);
	/* Offsets never go back, and no more is freed than there is. */
	box_ring_free_upto(&ring, 2);
	ASSERT_INT(ring.start, 4);
	box_ring_free_upto(&ring, 999);
	ASSERT_INT(ring.start, 10);
	ASSERT_INT(ring.end, 10);
	box_ring_close(&ring);
}

/* As `check`, for text. */
static void check_text(const struct box_ring *ring, uint64_t start, const char *text)
{
	char bytes[256];
	uint64_t offset;
	ASSERT_INT(ring->start, start);
	ASSERT_INT(box_ring_copy(ring, start, bytes, sizeof(bytes)), strlen(text));
	ASSERT_BYTES(bytes, strlen(text), text, strlen(text));
	/* A peek returns whole lines, too. */
	ASSERT_INT(box_ring_peek(ring, 0, bytes, sizeof(bytes), &offset), strlen(text));
	ASSERT_INT(offset, start);
}

TEST(the_oldest_lines_go)
{
	static const struct {
		size_t keep;
		uint64_t start;
		const char *rest;
	} table[] = {
		{100, 0, "one\ntwo\nthree\nfour"},
		{18, 0, "one\ntwo\nthree\nfour"},
		{17, 4, "two\nthree\nfour"},
		{14, 4, "two\nthree\nfour"},
		{13, 8, "three\nfour"},
		{9, 14, "four"},
		{4, 14, "four"},
		{3, 15, "our"}, /* no line begins in it */
		{0, 18, ""},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(table); i++) {
		struct box_ring ring = {0};
		start();
		ASSERT_INT(write(ends[1], "one\ntwo\nthree\nfour", 18), 18);
		ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), 18);
		box_ring_drop(&ring, table[i].keep);
		check_text(&ring, table[i].start, table[i].rest);
		box_ring_close(&ring);
	}
}

/* Many rounds, with lines that wrap around the end of the memory. */
TEST(a_log_of_many_lines)
{
	struct box_ring ring = {0};
	char bytes[64 * KIB + 1];
	long next = 0;
	start();
	for (int turn = 0; turn < 60; turn++) {
		size_t size = 0;
		while (size < 9000) {
			size += (size_t)snprintf(bytes + size, 32, "line %ld\n", next++);
		}
		ASSERT_INT(write(ends[1], bytes, size), size);
		box_ring_drop(&ring, 32 * KIB);
		ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), size);
		size_t held = box_ring_copy(&ring, ring.start, bytes, sizeof(bytes) - 1);
		bytes[held] = '\0';
		ASSERT(held <= 42 * KIB && memcmp(bytes, "line ", 5) == 0);
		ASSERT(turn < 10 || held > 31 * KIB);
		char last[32];
		int len = snprintf(last, sizeof(last), "line %ld\n", next - 1);
		ASSERT_STR(bytes + held - len, last);
	}
	box_ring_close(&ring);
}

TEST(what_is_wasted_is_counted)
{
	struct box_ring ring = {0};
	start();
	put(10);
	ASSERT_INT(box_ring_discard(&ring, ends[0]), 10);
	ASSERT_INT(ring.end, 10);
	ASSERT_INT(ring.start, 10);
	ASSERT_INT(box_ring_discard(&ring, ends[0]), -EAGAIN);
	put(5);
	ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB), 5);
	check(&ring);
	box_ring_close(&ring);
}

TEST(no_more_than_may_be_held)
{
	static const size_t holds[] = {64 * KIB, 64 * KIB + 1, 100 * KIB, 1000 * KIB - 1};
	for (size_t i = 0; i < COUNT(holds); i++) {
		struct box_ring ring = {0};
		start();
		put(1000 * KIB);
		fill(&ring, holds[i]);
		ASSERT_INT(ring.end, holds[i]);
		check(&ring);
		/* One byte of room is one byte read. */
		box_ring_free_upto(&ring, 1);
		ASSERT_INT(box_ring_read(&ring, ends[0], holds[i]), 1);
		ASSERT_INT(box_ring_read(&ring, ends[0], holds[i]), -ENOBUFS);
		check(&ring);
		/* The limit may be lower than the contents: nothing is dropped. */
		ASSERT_INT(box_ring_read(&ring, ends[0], 64 * KIB - 1), -ENOBUFS);
		ASSERT_INT(ring.end - ring.start, holds[i]);
		box_ring_close(&ring);
		(void)close(ends[0]);
		(void)close(ends[1]);
	}
}

/* Freed and filled in odd sizes: it wraps, and grows while it is wrapped. */
TEST(around_and_around)
{
	struct box_ring ring = {0};
	start();
	for (unsigned turn = 0; turn < 400; turn++) {
		size_t hold = (64 + 37 * (turn % 23)) * KIB;
		put(1 + (turn * 7919) % (60 * KIB));
		fill(&ring, hold);
		check(&ring);
		uint64_t held = ring.end - ring.start;
		box_ring_free_upto(&ring, ring.start + (turn % 5 == 0 ? held : held / 3));
		if (turn % 3 == 0) {
			box_ring_shrink(&ring);
		}
		/* The pipe must not fill up. */
		while (written - ring.end > 500 * KIB) {
			box_ring_free_upto(&ring, ring.end);
			(void)box_ring_read(&ring, ends[0], MIB);
			check(&ring);
		}
	}
	ASSERT(ring.end > 4 * MIB);
	box_ring_close(&ring);
}

TEST(memory_follows_what_is_held)
{
	struct box_ring ring = {0};
	start();
	put(10);
	fill(&ring, MIB);
	ASSERT_INT(ring.capacity, 64 * KIB);
	put(900 * KIB);
	fill(&ring, MIB);
	ASSERT(ring.capacity >= 900 * KIB && ring.capacity <= 2 * MIB);
	size_t large = ring.capacity;
	box_ring_free_upto(&ring, ring.end - 1);
	check(&ring);
	ASSERT(!box_ring_is_idle(&ring));
	box_ring_shrink(&ring);
	ASSERT_INT(ring.capacity, large);
	box_ring_free_upto(&ring, ring.end);
	ASSERT_INT(ring.capacity, large);
	ASSERT(box_ring_is_idle(&ring));
	box_ring_shrink(&ring);
	ASSERT_INT(ring.capacity, 64 * KIB);
	ASSERT(!box_ring_is_idle(&ring));
	put(3);
	fill(&ring, MIB);
	ASSERT_INT(ring.capacity, 64 * KIB);
	ASSERT_INT(ring.start, 900 * KIB + 10);
	check(&ring);
	box_ring_close(&ring);
}

/* Freed bytes can be read as long as their memory is not needed. */
TEST(looks_behind_what_was_freed)
{
	struct box_ring ring = {0};
	char bytes[16];
	uint64_t offset;
	start();
	ASSERT_INT(box_ring_peek(&ring, 5, bytes, 16, &offset), 0);
	ASSERT_INT(offset, 0);
	put(100);
	fill(&ring, MIB);
	box_ring_free_upto(&ring, 100);
	ASSERT_INT(box_ring_peek(&ring, 0, bytes, 4, &offset), 4);
	ASSERT_INT(offset, 0);
	ASSERT_INT(bytes[3], byte_at(3));
	/* After growing and shrinking exactly the last 64 KiB are left. */
	put(900 * KIB);
	fill(&ring, MIB);
	box_ring_free_upto(&ring, ring.end);
	box_ring_shrink(&ring);
	ASSERT_INT(ring.capacity, 64 * KIB);
	ASSERT_INT(box_ring_peek(&ring, 0, bytes, 16, &offset), 16);
	ASSERT_INT(offset, ring.end - 64 * KIB);
	for (uint64_t i = 0; i < 16; i++) {
		ASSERT_INT(bytes[i], byte_at(offset + i));
	}
	/* Each new byte replaces an old one. */
	put(1);
	fill(&ring, MIB);
	ASSERT_INT(box_ring_peek(&ring, 0, bytes, 1, &offset), 1);
	ASSERT_INT(offset, ring.end - 64 * KIB);
	ASSERT_INT(bytes[0], byte_at(offset));
	ASSERT_INT(box_ring_peek(&ring, UINT64_MAX, bytes, 1, &offset), 0);
	ASSERT_INT(offset, ring.end);
	box_ring_close(&ring);
	ASSERT_INT(box_ring_peek(&ring, 0, bytes, 1, &offset), 0);
}
