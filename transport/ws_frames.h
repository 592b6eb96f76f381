/* What RFC 6455 asks of a client's frames and libwebsockets does not look at, or answers by hanging up:
 * above all that they are masked, and what a close frame holds. Pure: bytes in, how many of them may be passed on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOX_WS_CONTROL_BYTES_MAX 125

struct box_ws_frames {
	unsigned char header[14];
	size_t header_len;
	uint64_t left;   /* of the payload of the present frame */
	bool in_payload; /* its header is whole */
	bool in_message; /* a message goes on */
	unsigned char
		control[BOX_WS_CONTROL_BYTES_MAX]; /* the payload of a close frame, unmasked */
	size_t control_len;
	uint64_t passed; /* bytes of messages that were not taken off yet by whoever reads them */
};

/* Follows the stream. Returns how many bytes are of good frames: `len`, or fewer with the reason in
 * *ret_why, for which the connection is to be closed with *ret_code. */
size_t box_ws_frames_scan(struct box_ws_frames *frames, const unsigned char *bytes, size_t len,
	const char **ret_why, int *ret_code);
