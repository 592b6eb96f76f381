/* Deflated bytes as a ZIP has them. The adapter of libdeflate. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_inflater;

/* NULL without memory. One thread uses it at a time. */
struct box_inflater *box_inflater_new(void);
void box_inflater_free(struct box_inflater *inflater);

/* Inflates into `out`, which has `size` bytes, and never writes more. -EMSGSIZE when that is not the
 * size of it; -EBADMSG when it is broken, or ends before the packed bytes do. */
int box_inflater_inflate(struct box_inflater *inflater, const uint8_t *packed, size_t packed_size,
	uint8_t *out, size_t size);

uint32_t box_inflater_crc(const uint8_t *bytes, size_t len);
