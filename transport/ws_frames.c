/* A header is checked as soon as its first two bytes have arrived. Its length is only tracked, since ws.c
 * refuses what is too large when it assembles messages. A close frame is checked when it is complete. */
#include "transport/ws_frames.h"

#include <string.h>

#include "base/utf8.h"
#include "transport/ws.h"

#define FINAL 0x80
#define RESERVED 0x70
#define OPCODE 0x0f
#define CONTROL 0x08
#define MASKED 0x80
#define LENGTH 0x7f
#define LENGTH_16 126
#define LENGTH_64 127
#define MASK_BYTES 4
#define CONTINUATION 0
#define BINARY 2
#define CLOSE 8
#define PONG 10

static size_t header_size(const struct box_ws_frames *frames)
{
	unsigned length = frames->header[1] & LENGTH;
	return 2 + (length == LENGTH_64 ? 8 : length == LENGTH_16 ? 2 : 0) + MASK_BYTES;
}

static const char *check_header(const struct box_ws_frames *frames)
{
	unsigned first = frames->header[0];
	unsigned length = frames->header[1] & LENGTH;
	unsigned opcode = first & OPCODE;
	if (!(frames->header[1] & MASKED)) {
		return "a frame from the client is not masked";
	}
	if (first & RESERVED) {
		return "reserved bits of a frame are set";
	}
	if (opcode & CONTROL) {
		if (opcode > PONG) {
			return "an unknown kind of frame";
		}
		return !(first & FINAL)                     ? "a fragmented control frame"
			: length > BOX_WS_CONTROL_BYTES_MAX ? "a control frame is too long"
			: opcode == CLOSE && length == 1    ? "a close frame with half a close code"
							    : NULL;
	}
	if (opcode > BINARY) {
		return "an unknown kind of frame";
	}
	if (opcode == CONTINUATION) {
		return frames->in_message ? NULL : "a continuation frame without a message";
	}
	return frames->in_message ? "a new message inside a fragmented one" : NULL;
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
	frames->control_len = 0;
}

static bool is_close(const struct box_ws_frames *frames)
{
	return (frames->header[0] & OPCODE) == CLOSE;
}

/* The codes of RFC 6455 and its registry, and those for libraries and applications. 1005, 1006 and 1015
 * must never appear in a frame. */
static bool may_be_sent(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
		(code >= 3000 && code <= 4999);
}

static const char *check_close(const struct box_ws_frames *frames, int *ret_code)
{
	const unsigned char *payload = frames->control;
	if (frames->control_len == 0) {
		return NULL;
	}
	if (!may_be_sent((unsigned)payload[0] << 8 | payload[1])) {
		*ret_code = BOX_WS_PROTOCOL;
		return "a close code that may not be sent";
	}
	*ret_code = BOX_WS_BAD_TEXT;
	return box_utf8_valid((const char *)payload + 2, frames->control_len - 2)
		? NULL
		: "the reason of a close frame is not UTF-8";
}

static void take_payload(struct box_ws_frames *frames, const unsigned char *bytes, size_t len)
{
	const unsigned char *mask = frames->header + frames->header_len - MASK_BYTES;
	if (!(frames->header[0] & CONTROL)) {
		frames->passed += len;
	}
	for (size_t i = 0; is_close(frames) && i < len; i++) {
		size_t at = frames->control_len++;
		frames->control[at] = bytes[i] ^ mask[at % MASK_BYTES];
	}
	frames->left -= len;
}

/* Takes one byte of a header. NULL, or what is wrong with it. */
static const char *take_header_byte(struct box_ws_frames *frames, unsigned char byte)
{
	frames->header[frames->header_len++] = byte;
	if (frames->header_len == 2) {
		return check_header(frames);
	}
	if (frames->header_len > 2 && frames->header_len == header_size(frames)) {
		begin_payload(frames);
	}
	return NULL;
}

size_t box_ws_frames_scan(struct box_ws_frames *frames, const unsigned char *bytes, size_t len,
	const char **ret_why, int *ret_code)
{
	size_t at = 0;
	size_t good = 0; /* up to the start of the current frame */
	while (at < len) {
		if (frames->in_payload) {
			size_t piece = len - at < frames->left ? len - at : (size_t)frames->left;
			take_payload(frames, bytes + at, piece);
			at += piece;
			good = is_close(frames) ? good : at;
		} else {
			*ret_why = take_header_byte(frames, bytes[at++]);
			if (*ret_why) {
				*ret_code = BOX_WS_PROTOCOL;
				return good;
			}
		}
		if (frames->in_payload && frames->left == 0) {
			*ret_why = is_close(frames) ? check_close(frames, ret_code) : NULL;
			if (*ret_why) {
				return good;
			}
			frames->in_payload = false;
			frames->header_len = 0;
			good = at;
		}
	}
	return len;
}
