/* Files that a client uploads in chunks: each in a memfd, one set for each connection, so that nothing is left behind
 * when it closes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_transfers;

struct box_transfers_chunk {
	struct box_str key;
	int64_t index;
	int64_t amount; /* number of chunks */
	struct box_str bytes;
};

/* `total_bytes` is shared by all sets and bounded by BOX_FILES_TOTAL_BYTES_MAX. */
struct box_transfers *box_transfers_new(uint64_t *total_bytes);
void box_transfers_free(struct box_transfers *files);

/* Takes one chunk: strictly in order from 0, chunk 0 may start over. 0, or BOX_ERR_VALUE. */
int box_transfers_take_chunk(struct box_transfers *files, const struct box_transfers_chunk *chunk,
	int64_t max_file_bytes, struct box_err *err);

/* Takes the complete file of this key, which becomes the caller's. 0, or BOX_ERR_VALUE. */
int box_transfers_take(
	struct box_transfers *files, struct box_str key, int *ret_fd, struct box_err *err);
