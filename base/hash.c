/* The adapter to libmd's SHA-256: the only file that includes its header. */
#include "base/hash.h"

#include <sha256.h>
#include <stdint.h>

void box_hash_sha256(const void *bytes, size_t len, unsigned char out[BOX_HASH_SHA256_BYTES])
{
	struct box_str whole = {bytes, len};
	box_hash_sha256_parts(&whole, 1, out);
}

void box_hash_sha256_parts(
	const struct box_str *parts, size_t count, unsigned char out[BOX_HASH_SHA256_BYTES])
{
	_Static_assert(BOX_HASH_SHA256_BYTES == SHA256_DIGEST_LENGTH, "size of a SHA-256 digest");
	SHA256_CTX context;
	SHA256_Init(&context);
	for (size_t i = 0; i < count; i++) {
		/* An empty part may be NULL, which memcpy does not allow. */
		if (parts[i].len > 0) {
			SHA256_Update(&context, (const uint8_t *)parts[i].bytes, parts[i].len);
		}
	}
	SHA256_Final(out, &context);
}

void box_hash_hex(const void *bytes, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = bytes;
	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[from[i] >> 4];
		out[2 * i + 1] = digits[from[i] & 0x0f];
	}
	out[2 * len] = '\0';
}
