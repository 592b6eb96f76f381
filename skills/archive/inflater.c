/* Inflates whole entries in memory: libdeflate has no streaming, and is fast without it. */
#include "skills/archive/inflater.h"

#include <errno.h>
#include <libdeflate.h>

struct box_inflater *box_inflater_new(void)
{
	return (struct box_inflater *)libdeflate_alloc_decompressor();
}

void box_inflater_free(struct box_inflater *inflater)
{
	libdeflate_free_decompressor((struct libdeflate_decompressor *)inflater);
}

int box_inflater_inflate(struct box_inflater *inflater, const uint8_t *packed, size_t packed_size,
	uint8_t *out, size_t size)
{
	size_t taken = 0;
	size_t given = 0;
	enum libdeflate_result result = libdeflate_deflate_decompress_ex(
		(struct libdeflate_decompressor *)inflater, packed, packed_size, out, size, &taken,
		&given);
	if (result == LIBDEFLATE_INSUFFICIENT_SPACE ||
		(result == LIBDEFLATE_SUCCESS && given != size)) {
		return -EMSGSIZE;
	}
	return result != LIBDEFLATE_SUCCESS || taken != packed_size ? -EBADMSG : 0;
}

uint32_t box_inflater_crc(const uint8_t *bytes, size_t len)
{
	return libdeflate_crc32(0, bytes, len);
}
