/* Frames without a copy: written into the send buffer, read in the receive buffer. */
#include <string.h>

#include "base/limits.h"
#include "client/connection/ws_client.h"
#include "tests/unit/lib/test.h"

/* Framing in place gives the same bytes as framing a copy, and is read where it arrives. */
TEST(frames_in_place)
{
	static const size_t lens[] = {0, 1, 7, 125, 126, 127, 4095, 65535, 65536, 300000};
	static const unsigned char mask[BOX_WS_MASK_BYTES] = {0x12, 0xf4, 0x56, 0x9a};
	static char payload[300000];
	for (size_t i = 0; i < sizeof(payload); i++) {
		payload[i] = (char)(i * 31);
	}
	for (size_t i = 0; i < COUNT(lens); i++) {
		struct box_buf one = box_buf(BOX_MIB);
		struct box_buf two = box_buf(BOX_MIB);
		size_t mark;
		ASSERT_INT(box_buf_append(&one, "before", 6), 0);
		ASSERT_INT(box_buf_append(&two, "before", 6), 0);
		ASSERT_INT(box_ws_client_frame(&one, BOX_WS_BINARY, payload, lens[i], mask), 0);
		ASSERT_INT(box_ws_client_frame_begin(&two, &mark), 0);
		ASSERT_INT(box_buf_append(&two, payload, lens[i]), 0);
		box_ws_client_frame_end(&two, mark, BOX_WS_BINARY, mask);
		ASSERT_BYTES(two.bytes, two.len, one.bytes, one.len);
		/* The mask, byte by byte. */
		for (size_t k = 0; k < lens[i]; k++) {
			ASSERT_INT((unsigned char)(one.bytes[one.len - lens[i] + k] ^ mask[k % 4]),
				(unsigned char)payload[k]);
		}
		box_buf_free(&one);
		box_buf_free(&two);
	}
}

TEST(reads_without_a_copy)
{
	struct box_ws_client_reader reader;
	const char *why;
	size_t used;
	size_t room;
	static char payload[70000];
	memset(payload, 'p', sizeof(payload));
	box_ws_client_reader_start(&reader);
	ASSERT(box_ws_client_reader_space(&reader, &room) == NULL);
	ASSERT_INT(box_ws_client_reader_feed(&reader,
			   "\x82\x7f\x00\x00\x00\x00\x00\x01\x11\x70head", 14, &used, &why),
		BOX_WS_MORE);
	size_t have = 4;
	for (char *space; (space = box_ws_client_reader_space(&reader, &room)); have += room) {
		ASSERT(room <= sizeof(payload) - have);
		room = room > 20000 ? 20000 : room;
		memcpy(space, payload, room);
		box_ws_client_reader_filled(&reader, room);
	}
	if (have < sizeof(payload)) {
		ASSERT(!box_ws_client_reader_is_due(&reader));
		ASSERT_INT(box_ws_client_reader_feed(
				   &reader, payload, sizeof(payload) - have, &used, &why),
			BOX_WS_MESSAGE);
	} else {
		ASSERT(box_ws_client_reader_is_due(&reader));
		ASSERT_INT(box_ws_client_reader_feed(&reader, payload, 0, &used, &why),
			BOX_WS_MESSAGE);
	}
	struct box_buf message = box_ws_client_reader_take(&reader);
	ASSERT_INT(message.len, sizeof(payload));
	ASSERT_INT(memcmp(message.bytes, "headpppp", 8), 0);
	box_buf_free(&message);
	box_ws_client_reader_free(&reader);
}
