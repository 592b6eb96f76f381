/* Manifests of artifacts: their one valid form, its digest as Python's json writes it, and paths.
 */
#include <stdio.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/macros.h"
#include "skills/manifest.h"
#include "tests/unit/lib/json_tree.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define FILE_OF(path, size) \
	"{\"path\":" path ",\"size\":" size ",\"sha256\":\"" EMPTY "\",\"executable\":true}"
#define MANIFEST(files, total) \
	"{\"total_bytes\":" total ", \"files\":[" files "], \"algorithm\":\"sha256-tree-v1\"}"

static int read_with(const char *text, const char *digest, struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_manifest manifest;
	struct box_value map = tree(arena, text);
	int r = box_manifest_read(arena, &map, digest, &manifest, err);
	box_arena_free(arena);
	return r;
}

static void expect(const char *text, const char *why)
{
	struct box_err err = {0};
	ASSERT(read_with(text, "0", &err) < 0);
	if (strcmp(err.text, why) != 0) {
		TEST_FAIL("%s: %s", text, err.text);
	}
}

/* The hashed text, written by hand. */
TEST(digest)
{
	static const struct {
		const char *manifest;
		const char *canonical;
	} rows[] = {
		{MANIFEST("", "0"),
			"{\"algorithm\":\"sha256-tree-v1\",\"files\":[],\"total_bytes\":0}"},
		{MANIFEST(FILE_OF("\"a/\\u00fc \\\"\\n\\u0001/\\u2028\"", "0"), "0"),
			"{\"algorithm\":\"sha256-tree-v1\",\"files\":[{\"executable\":true,\"path\":"
			"\"a/\xc3\xbc \\\"\\n\\u0001/\xe2\x80\xa8\",\"sha256\":\"" EMPTY
			"\",\"size\":0}],\"total_bytes\":0}"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		unsigned char hash[BOX_HASH_SHA256_BYTES];
		char hex[2 * BOX_HASH_SHA256_BYTES + 1];
		struct box_err err = {0};
		box_hash_sha256(rows[i].canonical, strlen(rows[i].canonical), hash);
		box_hash_hex(hash, sizeof(hash), hex);
		if (read_with(rows[i].manifest, hex, &err) < 0) {
			TEST_FAIL("row %zu: %s", i, err.text);
		}
		hex[0] = hex[0] == '0' ? '1' : '0';
		ASSERT(read_with(rows[i].manifest, hex, &err) < 0);
		ASSERT_STR(err.text, "Artifact manifest does not match content_digest");
	}
}

TEST(refused)
{
	const char *malformed = "Artifact manifest is malformed";
	expect("[]", malformed);
	expect("{}", malformed);
	expect(MANIFEST("", "1"), malformed);
	expect(MANIFEST("", "-1"), malformed);
	expect(MANIFEST("", "0.0"), malformed);
	expect(MANIFEST("7", "0"), malformed);
	expect(MANIFEST(FILE_OF("\"a\"", "0") "," FILE_OF("\"a\"", "0"), "0"), malformed);
	expect(MANIFEST(
		       FILE_OF("\"a\"", "0") "," FILE_OF("\"a-\"", "0") "," FILE_OF("\"a/b\"", "0"),
		       "0"),
		malformed);
	expect(MANIFEST(FILE_OF("\"a\"", "268435457"), "268435457"),
		"Artifact is larger than 256 MiB");
	expect(MANIFEST(FILE_OF("\"a\"", "268435456") "," FILE_OF("\"b\"", "9223372036854775807"),
		       "0"),
		"Artifact is larger than 256 MiB");
}

TEST(paths)
{
	static const char *const good[] = {"a", "a/b", "...", ".a", "a b/c\nd", "\xc3\xbc"};
	static const char *const bad[] = {
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\\b"};
	for (size_t i = 0; i < BOX_COUNT_OF(good); i++) {
		ASSERT(box_manifest_path_is_good(box_str(good[i])));
	}
	for (size_t i = 0; i < BOX_COUNT_OF(bad); i++) {
		ASSERT(!box_manifest_path_is_good(box_str(bad[i])));
	}
	ASSERT(!box_manifest_path_is_good((struct box_str){"a\0b", 3}));
	char name[BOX_PATH_MAX + 1];
	memset(name, 'a', sizeof(name));
	ASSERT(box_manifest_path_is_good((struct box_str){name, 255}));
	ASSERT(!box_manifest_path_is_good((struct box_str){name, 256}));
}
