/* Inflates the entries of a ZIP. The adapter of libdeflate. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_inflater;

/* NULL if there is no memory. Only one thread may use it at a time. */
struct box_inflater *box_inflater_new(void);
void box_inflater_free(struct box_inflater *inflater);

/* Inflates into `out`, which has `size` bytes, and never writes more. -EMSGSIZE if the content has another
 * size; -EBADMSG if it is broken, or ends before the packed bytes do. */
int box_inflater_inflate(struct box_inflater *inflater, const uint8_t *packed, size_t packed_size,
	uint8_t *out, size_t size);

uint32_t box_inflater_crc(const uint8_t *bytes, size_t len);
