/* The output of a managed process: a stream of bytes with offsets, of which the last ones are held. Memory
 * grows with what is held and can be released when nothing is. Freed bytes can still be peeked at until
 * their memory is reused: at least the last BOX_RING_PAST_BYTES. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_RING_PAST_BYTES (64U * 1024)

struct box_ring {
	char *bytes;     /* NULL: no memory yet */
	size_t capacity; /* a power of two */
	uint64_t past;   /* bytes before this offset are overwritten */
	uint64_t start;  /* bytes before this offset are freed */
	uint64_t end;    /* the end of the stream so far */
};

/* Reads once from a pipe that does not block, until `held_max` bytes are held. The number of bytes; 0 at
 * the end; -EAGAIN if there are none; -ENOBUFS if held_max is reached; else -errno. */
ssize_t box_ring_read(struct box_ring *ring, int fd, size_t held_max);

/* Copies held bytes from `offset` on. Returns their number. */
size_t box_ring_copy(const struct box_ring *ring, uint64_t offset, char *to, size_t max);

/* The same for bytes in memory, freed or not. *ret_offset is where the copy begins: later than `offset` if
 * that is overwritten. */
size_t box_ring_peek(
	const struct box_ring *ring, uint64_t offset, char *to, size_t max, uint64_t *ret_offset);

/* Frees the bytes before `offset`, which may be any number. */
void box_ring_free_upto(struct box_ring *ring, uint64_t offset);

/* Drops the oldest lines, so that at most `keep` bytes are held; if there is no line end, part of a
 * line. */
void box_ring_drop(struct box_ring *ring, size_t keep);
/* As box_ring_read without memory: the bytes are counted but not held. */
ssize_t box_ring_discard(struct box_ring *ring, int fd);

/* Whether nothing is held but there is more memory than the minimum. box_ring_shrink releases it: not
 * after every read, because allocating it again costs time. */
bool box_ring_is_idle(const struct box_ring *ring);
void box_ring_shrink(struct box_ring *ring);

void box_ring_close(struct box_ring *ring);
