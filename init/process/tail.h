/* The stderr of a managed process: only its last BOX_INIT_STDERR_TAIL_MAX bytes are kept. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_tail {
	char *bytes;    /* NULL: no memory yet */
	uint64_t total; /* how many bytes were ever written */
};

/* Reads once from a pipe that does not block. The number of bytes; 0 at the end; or -errno. */
ssize_t box_tail_read(struct box_tail *tail, int fd);

/* Copies what is kept, at most BOX_INIT_STDERR_TAIL_MAX bytes. Returns their number. */
size_t box_tail_copy(const struct box_tail *tail, char *to);

/* As box_ring_peek. */
size_t box_tail_peek(
	const struct box_tail *tail, uint64_t offset, char *to, size_t max, uint64_t *ret_offset);

void box_tail_close(struct box_tail *tail);
