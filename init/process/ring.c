/* The byte at offset o is at o modulo the capacity. Memory comes from mmap: box-init has no heap that
 * could be held by one long-lived piece. */
#include "init/process/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macros.h"

#define CAPACITY_MIN BOX_RING_PAST_BYTES

static size_t held(const struct box_ring *ring)
{
	return (size_t)(ring->end - ring->start);
}

static size_t place_of(const struct box_ring *ring, uint64_t offset)
{
	return (size_t)(offset & (ring->capacity - 1));
}

void box_ring_close(struct box_ring *ring)
{
	if (ring->bytes) {
		(void)munmap(ring->bytes, ring->capacity);
		ring->bytes = NULL;
		ring->capacity = 0;
	}
	ring->past = ring->end;
}

/* What is in memory from `offset` on. */
static size_t copy(const struct box_ring *ring, uint64_t offset, char *to, size_t max)
{
	size_t size = (size_t)(ring->end - offset) < max ? (size_t)(ring->end - offset) : max;
	size_t place = place_of(ring, offset);
	size_t first = ring->capacity - place < size ? ring->capacity - place : size;
	memcpy(to, ring->bytes + place, first);
	memcpy(to + first, ring->bytes, size - first);
	return size;
}

/* Moves to memory of another size, with as much as fits. */
static int move(struct box_ring *ring, size_t capacity)
{
	void *bytes = mmap(
		NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED) {
		return -errno;
	}
	/* Who works on files for us is a copy of us, and would hold what we let go. */
	(void)madvise(bytes, capacity, MADV_DONTFORK);
	struct box_ring moved = *ring;
	moved.bytes = bytes;
	moved.capacity = capacity;
	if (moved.end - moved.past > capacity) {
		moved.past = moved.end - capacity;
	}
	for (uint64_t at = moved.past; at < ring->end;) {
		size_t place = place_of(&moved, at);
		at += copy(ring, at, moved.bytes + place, capacity - place);
	}
	box_ring_close(ring);
	*ring = moved;
	return 0;
}

/* Room for `size` bytes in all; what is held moves along. */
static int reserve(struct box_ring *ring, size_t size)
{
	size_t capacity = ring->capacity ? ring->capacity : CAPACITY_MIN;
	while (capacity < size) {
		capacity *= 2;
	}
	return capacity == ring->capacity ? 0 : move(ring, capacity);
}

ssize_t box_ring_read(struct box_ring *ring, int fd, size_t hold)
{
	size_t used = held(ring);
	if (used >= hold) {
		return -ENOBUFS;
	}
	/* Twice what is there: a slow reader costs little, a fast writer not many turns. */
	size_t want = used < CAPACITY_MIN / 2 ? CAPACITY_MIN : 2 * used;
	want = BOX_MIN(want, hold);
	int r = reserve(ring, want);
	if (r < 0) {
		return r;
	}
	size_t room = want - used;
	size_t place = place_of(ring, ring->end);
	size_t first = ring->capacity - place < room ? ring->capacity - place : room;
	struct iovec parts[] = {{ring->bytes + place, first}, {ring->bytes, room - first}};
	ssize_t got;
	do {
		got = readv(fd, parts, 2);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	ring->end += (uint64_t)got;
	if (ring->end - ring->past > ring->capacity) {
		ring->past = ring->end - ring->capacity;
	}
	return got;
}

/* The offset behind the next line end from `offset` on, or `end` when there is none. */
static uint64_t next_line(const struct box_ring *ring, uint64_t offset)
{
	while (offset < ring->end) {
		size_t place = place_of(ring, offset);
		uint64_t left = ring->end - offset;
		size_t size = ring->capacity - place < left ? ring->capacity - place : (size_t)left;
		const char *found = memchr(ring->bytes + place, '\n', size);
		if (found) {
			return offset + (uint64_t)(found - (ring->bytes + place)) + 1;
		}
		offset += size;
	}
	return ring->end;
}

void box_ring_drop(struct box_ring *ring, size_t keep)
{
	if (held(ring) <= keep) {
		return;
	}
	uint64_t cut = ring->end - keep;
	/* The byte before may end a line, and then the next begins right here. */
	uint64_t line = next_line(ring, cut - 1);
	ring->start = line < ring->end ? line : cut;
	ring->past = ring->start;
}

ssize_t box_ring_discard(struct box_ring *ring, int fd)
{
	char bytes[4096];
	ssize_t got;
	do {
		got = read(fd, bytes, sizeof(bytes));
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	ring->end += (uint64_t)got;
	ring->start = ring->past = ring->end;
	return got;
}

size_t box_ring_copy(const struct box_ring *ring, uint64_t offset, char *to, size_t max)
{
	if (offset < ring->start || offset >= ring->end) {
		return 0;
	}
	return copy(ring, offset, to, max);
}

size_t box_ring_peek(
	const struct box_ring *ring, uint64_t offset, char *to, size_t max, uint64_t *ret_offset)
{
	offset = BOX_MAX(offset, ring->past);
	offset = BOX_MIN(offset, ring->end);
	*ret_offset = offset;
	return offset < ring->end ? copy(ring, offset, to, max) : 0;
}

void box_ring_free_upto(struct box_ring *ring, uint64_t offset)
{
	if (offset > ring->end) {
		offset = ring->end;
	}
	if (offset > ring->start) {
		ring->start = offset;
	}
}

bool box_ring_is_idle(const struct box_ring *ring)
{
	return ring->start == ring->end && ring->capacity > CAPACITY_MIN;
}

void box_ring_shrink(struct box_ring *ring)
{
	if (box_ring_is_idle(ring) && move(ring, CAPACITY_MIN) < 0) {
		box_ring_close(ring);
	}
}
