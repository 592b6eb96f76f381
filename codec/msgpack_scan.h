/* Finds where a msgpack value ends, and whether it is safe to decode.
 *
 * msgpack-c allocates memory for what a header declares. So every byte goes through this walk first: it
 * can be fed piece by piece (stdio has no length prefix), uses a fixed-size stack, allocates nothing,
 * and refuses depth, counts and sizes above the limits before anything is decoded.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct box_msgpack_scan {
	uint64_t used;   /* bytes walked so far */
	uint64_t skip;   /* bytes of a string, bin or number that are still missing */
	uint32_t values; /* values begun so far, map keys not counted */
	uint32_t depth;
	struct {
		uint32_t left; /* values still missing at this level, including keys */
		uint8_t is_map;
	} level[BOX_MESSAGE_DEPTH_MAX + 1];
	uint8_t header[5]; /* a header split by the end of a piece */
	uint8_t header_len;
};

void box_msgpack_scan_start(struct box_msgpack_scan *scan);

/* Continues the walk. *ret_used is how many bytes of this piece belong to the value. 1: the value is
 * complete; 0: more is needed; else -EBADMSG, -E2BIG or -EMSGSIZE (the value would exceed
 * BOX_MESSAGE_BYTES_MAX) with a reason. Map keys must be strings; ext types are refused. */
int box_msgpack_scan_feed(struct box_msgpack_scan *scan, const char *bytes, size_t len,
	size_t *ret_used, const char **ret_why);
