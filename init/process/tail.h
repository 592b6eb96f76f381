/* The end of a run of bytes: of the stderr of a managed process. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_tail {
	char *bytes; /* NULL until there are any */
	uint64_t total;
};

/* Reads once from a pipe that does not block. How many bytes came; 0 at its end; or -errno. */
ssize_t box_tail_read(struct box_tail *tail, int fd);

/* Copies what is kept, at most BOX_INIT_STDERR_TAIL_MAX bytes; how many there are. */
size_t box_tail_copy(const struct box_tail *tail, char *to);

/* As box_ring_peek. */
size_t box_tail_peek(
	const struct box_tail *tail, uint64_t offset, char *to, size_t max, uint64_t *ret_offset);

void box_tail_close(struct box_tail *tail);
