/* A header is judged as soon as its first two bytes are there; its length is only followed, since what
 * is too large is judged where messages are put together. */
#include "transport/ws_frames.h"

#include <string.h>

#define FINAL 0x80
#define RESERVED 0x70
#define OPCODE 0x0f
#define CONTROL 0x08
#define MASKED 0x80
#define LENGTH 0x7f
#define LENGTH_16 126
#define LENGTH_64 127
#define MASK_BYTES 4
#define CONTROL_BYTES_MAX 125
#define CONTINUATION 0
#define BINARY 2
#define PONG 10

static size_t header_size(const struct box_ws_frames *frames)
{
	unsigned length = frames->header[1] & LENGTH;
	return 2 + (length == LENGTH_64 ? 8 : length == LENGTH_16 ? 2 : 0) + MASK_BYTES;
}

static const char *judge(const struct box_ws_frames *frames)
{
	unsigned first = frames->header[0];
	unsigned length = frames->header[1] & LENGTH;
	unsigned opcode = first & OPCODE;
	if (!(frames->header[1] & MASKED)) {
		return "a frame of the client is not masked";
	}
	if (first & RESERVED) {
		return "reserved bits of a frame are set";
	}
	if (opcode & CONTROL) {
		if (opcode > PONG) {
			return "an unknown kind of frame";
		}
		return !(first & FINAL)              ? "a control frame in fragments"
			: length > CONTROL_BYTES_MAX ? "a control frame is too long"
						     : NULL;
	}
	if (opcode > BINARY) {
		return "an unknown kind of frame";
	}
	if (opcode == CONTINUATION) {
		return frames->in_message ? NULL : "a fragment of no message";
	}
	return frames->in_message ? "a message inside a message" : NULL;
}

static void begin_payload(struct box_ws_frames *frames)
{
	unsigned first = frames->header[0];
	unsigned length = frames->header[1] & LENGTH;
	size_t wide = length == LENGTH_64 ? 8 : length == LENGTH_16 ? 2 : 0;
	frames->left = wide ? 0 : length;
	for (size_t i = 0; i < wide; i++) {
		frames->left = frames->left << 8 | frames->header[2 + i];
	}
	if (!(first & CONTROL)) {
		frames->in_message = !(first & FINAL);
	}
	frames->in_payload = true;
}

size_t box_ws_frames_scan(
	struct box_ws_frames *frames, const unsigned char *bytes, size_t len, const char **ret_why)
{
	size_t at = 0;
	size_t good = 0; /* up to the beginning of the present frame */
	while (at < len) {
		if (frames->in_payload) {
			size_t piece = len - at < frames->left ? len - at : (size_t)frames->left;
			frames->left -= piece;
			at += piece;
			good = at;
		} else {
			frames->header[frames->header_len++] = bytes[at++];
			if (frames->header_len == 2) {
				*ret_why = judge(frames);
				if (*ret_why) {
					return good;
				}
			}
			if (frames->header_len > 2 && frames->header_len == header_size(frames)) {
				begin_payload(frames);
			}
		}
		if (frames->in_payload && frames->left == 0) {
			frames->in_payload = false;
			frames->header_len = 0;
			good = at;
		}
	}
	return len;
}
