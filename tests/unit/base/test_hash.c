/* SHA-256 against published test vectors, in one call and in parts. */
#include "base/hash.h"
#include "tests/unit/lib/test.h"

static void assert_hash(const unsigned char hash[BOX_HASH_SHA256_BYTES], const char *expected)
{
	char text[2 * BOX_HASH_SHA256_BYTES + 1];
	box_hash_hex(hash, BOX_HASH_SHA256_BYTES, text);
	ASSERT_STR(text, expected);
}

TEST(vectors)
{
	static const struct {
		const char *text;
		const char *hash;
	} rows[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
			"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
			"cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	unsigned char hash[BOX_HASH_SHA256_BYTES];
	for (size_t i = 0; i < COUNT(rows); i++) {
		box_hash_sha256(rows[i].text, strlen(rows[i].text), hash);
		assert_hash(hash, rows[i].hash);
	}
}

TEST(a_million_times_a)
{
	static char text[1000000];
	unsigned char hash[BOX_HASH_SHA256_BYTES];
	memset(text, 'a', sizeof(text));
	box_hash_sha256(text, sizeof(text), hash);
	assert_hash(hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(parts_equal_the_whole)
{
	char text[200];
	for (size_t i = 0; i < sizeof(text); i++) {
		text[i] = (char)(i * 7);
	}
	unsigned char whole[BOX_HASH_SHA256_BYTES];
	unsigned char pieces[BOX_HASH_SHA256_BYTES];
	box_hash_sha256(text, sizeof(text), whole);
	for (size_t first = 0; first <= sizeof(text); first++) {
		size_t second = (sizeof(text) - first) / 2;
		const struct box_str parts[] = {
			{text, first},
			{NULL, 0},
			{text + first, second},
			{text + first + second, sizeof(text) - first - second},
		};
		box_hash_sha256_parts(parts, 4, pieces);
		ASSERT_BYTES(pieces, sizeof(pieces), whole, sizeof(whole));
	}
}

TEST(parts_with_a_nul_between)
{
	/* The format of a namespace: two names with a NUL in between. */
	const struct box_str parts[] = {{"a", 1}, {"\0", 1}, {"b", 1}};
	unsigned char pieces[BOX_HASH_SHA256_BYTES];
	unsigned char whole[BOX_HASH_SHA256_BYTES];
	box_hash_sha256_parts(parts, 3, pieces);
	box_hash_sha256("a\0b", 3, whole);
	ASSERT_BYTES(pieces, sizeof(pieces), whole, sizeof(whole));
	box_hash_sha256("ab", 2, whole);
	ASSERT(memcmp(pieces, whole, sizeof(whole)) != 0);
}

TEST(no_parts)
{
	unsigned char hash[BOX_HASH_SHA256_BYTES];
	box_hash_sha256_parts(NULL, 0, hash);
	assert_hash(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(hex)
{
	char text[11];
	memset(text, 'x', sizeof(text));
	box_hash_hex("\x00\x0f\xf0\xa5\xff", 5, text);
	ASSERT_STR(text, "000ff0a5ff");
	box_hash_hex("", 0, text);
	ASSERT_STR(text, "");
}
