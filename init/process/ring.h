/* A run of bytes with offsets, of which the last ones are held: for the output of managed processes.
 * Its memory grows with what is held, and most of it can go when nothing is. What was freed can be
 * looked at until its place is needed: at least the last BOX_RING_PAST_BYTES. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_RING_PAST_BYTES (64U * 1024)

struct box_ring {
	char *bytes;     /* NULL until something is held */
	size_t capacity; /* a power of two */
	uint64_t past;   /* forgotten up to here */
	uint64_t start;  /* freed up to here */
	uint64_t end;    /* held up to here */
};

/* Reads once from a pipe that does not block, at most up to `hold` held bytes. How many came; 0 at
 * the end; -EAGAIN when there are none; -ENOBUFS when there is no room; else -errno. */
ssize_t box_ring_read(struct box_ring *ring, int fd, size_t hold);

/* Copies what is held from `offset` on; how many bytes that were. */
size_t box_ring_copy(const struct box_ring *ring, uint64_t offset, char *to, size_t max);

/* The same for what is there, freed or not, or else what follows; *ret_offset is where that begins. */
size_t box_ring_peek(
	const struct box_ring *ring, uint64_t offset, char *to, size_t max, uint64_t *ret_offset);

/* Frees what is before `offset`, which may be anything. */
void box_ring_free_upto(struct box_ring *ring, uint64_t offset);

/* Forgets the oldest lines, so that no more than `keep` bytes are held; where no line ends in time, part
 * of one. */
void box_ring_drop(struct box_ring *ring, size_t keep);
/* As box_ring_read, for when there is no memory: what comes is counted and not held. */
ssize_t box_ring_discard(struct box_ring *ring, int fd);

/* Whether nothing is held, in more memory than that needs; and that memory goes. Whoever fills the
 * ring and empties it in turns does better to keep it for a while. */
bool box_ring_is_idle(const struct box_ring *ring);
void box_ring_shrink(struct box_ring *ring);

void box_ring_close(struct box_ring *ring);
