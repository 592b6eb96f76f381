/* Checks of a client's frames that RFC 6455 requires and libwebsockets does not make, or answers by hanging
 * up: above all masking and the content of close frames. Pure: bytes in, the number to pass on out. For ws.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOX_WS_CONTROL_BYTES_MAX 125

struct box_ws_frames {
	unsigned char header[14];
	size_t header_len;
	uint64_t left;   /* of the payload of the current frame */
	bool in_payload; /* its header is complete */
	bool in_message; /* a fragmented message is not complete yet */
	unsigned char
		control[BOX_WS_CONTROL_BYTES_MAX]; /* the payload of a close frame, unmasked */
	size_t control_len;
	uint64_t passed; /* bytes of messages that the reader has not consumed yet */
};

/* Follows the stream. Returns how many of the bytes belong to valid frames: `len`, or fewer with the
 * reason in *ret_why and the code to close the connection with in *ret_code. */
size_t box_ws_frames_scan(struct box_ws_frames *frames, const unsigned char *bytes, size_t len,
	const char **ret_why, int *ret_code);
