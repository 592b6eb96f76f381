/* Which frames of a client are invalid, wherever the bytes are split. */
#include "base/macros.h"
#include "tests/unit/lib/test.h"
#include "transport/ws_frames.h"

#define MASK "\0\0\0\0"
#define CODE "a close code that may not be sent"
#define REASON "the reason of a close frame is not UTF-8"

static const struct {
	const char *bytes;
	size_t len;
	size_t good; /* valid bytes before the fault */
	const char *why;
	int code;
} rows[] = {
#define FAULT(text, good, why, code)                    \
	{                                               \
		text, sizeof(text) - 1, good, why, code \
	}
#define ROW(text, good, why) FAULT(text, good, why, 1002)
	ROW("\x81\x82" MASK "ab", 8, NULL),
	ROW("\x01\x81" MASK "a\x80\x81" MASK "b", 14, NULL),
	ROW("\x01\x81" MASK "a\x89\x80" MASK "\x80\x80" MASK, 19, NULL),
	ROW("\x82\xfe\x00\x02" MASK "ab\x8a\x80" MASK, 16, NULL),
	ROW("\x82\xff\x00\x00\x00\x00\x00\x00\x00\x01" MASK "a\x81\x00", 15,
		"a frame from the client is not masked"),
	ROW("\x81\x02"
	    "ab",
		0, "a frame from the client is not masked"),
	ROW("\x88\x00", 0, "a frame from the client is not masked"),
	ROW("\x81\x80" MASK "\x89\x00", 6, "a frame from the client is not masked"),
	ROW("\xc1\x80" MASK, 0, "reserved bits of a frame are set"),
	ROW("\x91\x80" MASK, 0, "reserved bits of a frame are set"),
	ROW("\x83\x80" MASK, 0, "an unknown kind of frame"),
	ROW("\x8b\x80" MASK, 0, "an unknown kind of frame"),
	ROW("\x09\x80" MASK, 0, "a fragmented control frame"),
	ROW("\x89\xfe\x00\x7e" MASK, 0, "a control frame is too long"),
	ROW("\x80\x80" MASK, 0, "a continuation frame without a message"),
	ROW("\x01\x80" MASK "\x81\x80" MASK, 6, "a new message inside a fragmented one"),
	ROW("\x88\x80" MASK, 6, NULL),
	ROW("\x88\x82" MASK "\x03\xe8", 8, NULL),
	ROW("\x88\x82" MASK "\x03\xf6", 8, NULL),
	ROW("\x88\x82" MASK "\x0b\xb8", 8, NULL),
	ROW("\x88\x85\x01\x02\x03\x04\x12\x85\xc1\xa0\x60\x81\x80" MASK, 17, NULL),
	ROW("\x88\x81" MASK "\x03", 0, "a close frame with half a close code"),
	ROW("\x81\x80" MASK "\x88\x81" MASK "\x03", 6, "a close frame with half a close code"),
	ROW("\x88\x82" MASK "\x00\x00", 0, CODE),
	ROW("\x88\x82" MASK "\x03\xe7", 0, CODE),
	ROW("\x88\x82" MASK "\x03\xec", 0, CODE),
	ROW("\x88\x82" MASK "\x03\xed", 0, CODE),
	ROW("\x88\x82" MASK "\x03\xee", 0, CODE),
	ROW("\x88\x82" MASK "\x03\xf7", 0, CODE),
	ROW("\x88\x82" MASK "\x0b\xb7", 0, CODE),
	ROW("\x81\x80" MASK "\x88\x82" MASK "\x13\x88", 6, CODE),
	FAULT("\x88\x83" MASK "\x03\xe8\xff", 0, REASON, 1007),
	FAULT("\x88\x84" MASK "\x03\xe8\xe2\x82", 0, REASON, 1007),
	FAULT("\x88\x85\x01\x02\x03\x04\x02\xea\x42\xfb\x62", 0, REASON, 1007),
};

TEST(whole_and_byte_by_byte)
{
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_ws_frames whole = {0};
		struct box_ws_frames cut = {0};
		const unsigned char *bytes = (const unsigned char *)rows[i].bytes;
		const char *why = NULL;
		int code = 0;
		size_t good = box_ws_frames_scan(&whole, bytes, rows[i].len, &why, &code);
		ASSERT_INT(good, rows[i].good);
		ASSERT_INT(why ? code : 1002, rows[i].code);
		ASSERT_STR(why ? why : "", rows[i].why ? rows[i].why : "");
		why = NULL;
		for (size_t at = 0; at < rows[i].len && !why; at++) {
			(void)box_ws_frames_scan(&cut, bytes + at, 1, &why, &code);
		}
		ASSERT_STR(why ? why : "", rows[i].why ? rows[i].why : "");
	}
}
