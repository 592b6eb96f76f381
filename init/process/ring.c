/* Owns the memory of a ring: the byte at offset o is at index o modulo the capacity. Memory comes from
 * mmap, because in a heap one long-lived block could keep much freed memory in use. Called by mproc.c. */
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

static size_t index_of(const struct box_ring *ring, uint64_t offset)
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

/* Copies what is in memory from `offset` on. */
static size_t copy(const struct box_ring *ring, uint64_t offset, char *to, size_t max)
{
	size_t size = (size_t)(ring->end - offset) < max ? (size_t)(ring->end - offset) : max;
	size_t index = index_of(ring, offset);
	size_t first = ring->capacity - index < size ? ring->capacity - index : size;
	memcpy(to, ring->bytes + index, first);
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
	/* A process forked for a file operation would keep the memory in use after we release it. */
	(void)madvise(bytes, capacity, MADV_DONTFORK);
	struct box_ring moved = *ring;
	moved.bytes = bytes;
	moved.capacity = capacity;
	if (moved.end - moved.past > capacity) {
		moved.past = moved.end - capacity;
	}
	for (uint64_t at = moved.past; at < ring->end;) {
		size_t index = index_of(&moved, at);
		at += copy(ring, at, moved.bytes + index, capacity - index);
	}
	box_ring_close(ring);
	*ring = moved;
	return 0;
}

/* Makes space for `size` bytes in all, including what is held. */
static int reserve(struct box_ring *ring, size_t size)
{
	size_t capacity = ring->capacity ? ring->capacity : CAPACITY_MIN;
	while (capacity < size) {
		capacity *= 2;
	}
	return capacity == ring->capacity ? 0 : move(ring, capacity);
}

ssize_t box_ring_read(struct box_ring *ring, int fd, size_t held_max)
{
	size_t used = held(ring);
	if (used >= held_max) {
		return -ENOBUFS;
	}
	/* Twice what is held: little memory for a slow reader, few turns for a fast writer. */
	size_t want = used < CAPACITY_MIN / 2 ? CAPACITY_MIN : 2 * used;
	want = BOX_MIN(want, held_max);
	int r = reserve(ring, want);
	if (r < 0) {
		return r;
	}
	size_t space = want - used;
	size_t index = index_of(ring, ring->end);
	size_t first = ring->capacity - index < space ? ring->capacity - index : space;
	struct iovec parts[] = {{ring->bytes + index, first}, {ring->bytes, space - first}};
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

/* The offset after the next line end from `offset` on, or `end` if there is none. */
static uint64_t next_line(const struct box_ring *ring, uint64_t offset)
{
	while (offset < ring->end) {
		size_t index = index_of(ring, offset);
		uint64_t left = ring->end - offset;
		size_t size = ring->capacity - index < left ? ring->capacity - index : (size_t)left;
		const char *found = memchr(ring->bytes + index, '\n', size);
		if (found) {
			return offset + (uint64_t)(found - (ring->bytes + index)) + 1;
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
	/* If the byte before ends a line, the next line begins at the cut. */
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
