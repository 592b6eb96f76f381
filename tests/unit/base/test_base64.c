/* Base64: the examples of the RFC, every malformed form, and round trips of all lengths. */
#include <errno.h>

#include "base/base64.h"
#include "base/buf.h"
#include "tests/unit/lib/test.h"

static const struct {
	const char *plain;
	const char *text;
} examples[] = {
	{"", ""},
	{"f", "Zg=="},
	{"fo", "Zm8="},
	{"foo", "Zm9v"},
	{"foob", "Zm9vYg=="},
	{"fooba", "Zm9vYmE="},
	{"foobar", "Zm9vYmFy"},
	{"\xff\xfe\xfd", "//79"},
	{"\xfb\xef\xbe", "++++"},
};

TEST(examples_both_ways)
{
	for (size_t i = 0; i < COUNT(examples); i++) {
		struct box_buf out = box_buf(64);
		size_t len = strlen(examples[i].plain);
		ASSERT_INT(box_base64_encode(&out, examples[i].plain, len), 0);
		ASSERT_BYTES(out.bytes, out.len, examples[i].text, strlen(examples[i].text));
		char plain[16];
		ASSERT_INT(box_base64_decode(box_str(examples[i].text), plain, sizeof(plain)), len);
		ASSERT_BYTES(plain, len, examples[i].plain, len);
		box_buf_free(&out);
	}
}

TEST(malformed_is_refused)
{
	static const char *const bad[] = {"Z", "Zg", "Zg=", "Zg===", "=",
		"==", "===", "====", "Z===", "Zm9vZg", "Zg==Zm9v", "Zm=v", "Z=9v", "=m9v", "Zm9v\n",
		" Zm9v", "Zm 9", "Zm9\n", "Zm-_",
		"Zm9v====", "Zm9v=", "Zh==", "Zn==", "Zm9=", "Zm+=", "Zm9\x80", "\xc3\xa9zz",
		"Zm9!", "Zm9*", "Zm9@", "Zm9[", "Zm9`", "Zm9{", "Zm9:", "Zm9.", "Zm9,"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		char plain[64];
		ssize_t r = box_base64_decode(box_str(bad[i]), plain, sizeof(plain));
		if (r != -EBADMSG) {
			TEST_FAIL("\"%s\" gives %zd", bad[i], r);
		}
	}
	char plain[8];
	ASSERT_INT(box_base64_decode((struct box_str){"Zm\0v", 4}, plain, 8), -EBADMSG);
}

TEST(room_is_kept)
{
	char plain[4] = {0, 0, 0, 'x'};
	ASSERT_INT(box_base64_decode(box_str("Zm9v"), plain, 2), -EMSGSIZE);
	ASSERT_INT(box_base64_decode(box_str("Zm8="), plain, 1), -EMSGSIZE);
	ASSERT_INT(box_base64_decode(box_str("Zg=="), plain, 0), -EMSGSIZE);
	ASSERT_INT(box_base64_decode(box_str(""), plain, 0), 0);
	ASSERT_INT(box_base64_decode(box_str("Zm9v"), plain, 3), 3);
	ASSERT_BYTES(plain, 4, "foox", 4);
}

TEST(limit_of_the_buffer)
{
	struct box_buf out = box_buf(7);
	ASSERT_INT(box_base64_encode(&out, "foo", 3), 0);
	ASSERT_INT(box_base64_encode(&out, "f", 1), -EMSGSIZE);
	ASSERT_BYTES(out.bytes, out.len, "Zm9v", 4);
	box_buf_free(&out);
}

TEST(all_bytes_and_lengths_there_and_back)
{
	unsigned char bytes[512];
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (unsigned char)(i * 7 + i / 256);
	}
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		struct box_buf out = box_buf(1024);
		unsigned char back[512];
		ASSERT_INT(box_base64_encode(&out, bytes, len), 0);
		ASSERT_INT(out.len, (len + 2) / 3 * 4);
		ASSERT_INT(box_base64_decode((struct box_str){out.bytes, out.len}, back, len), len);
		ASSERT(memcmp(back, bytes, len) == 0);
		box_buf_free(&out);
	}
}

/* Each one-character text of the right length: exactly the 64 of the alphabet are accepted. */
TEST(alphabet_is_exact)
{
	int taken = 0;
	for (int c = 0; c < 256; c++) {
		char text[4] = {'A', 'A', (char)c, 'A'};
		char plain[3];
		ssize_t r = box_base64_decode((struct box_str){text, 4}, plain, sizeof(plain));
		ASSERT(r == 3 || r == -EBADMSG);
		taken += r == 3;
	}
	ASSERT_INT(taken, 64);
}
