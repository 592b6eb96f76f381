/* File transfers: the order of chunks, keys, and the limits of a file, of a connection and of all.
 */
#include <dirent.h>
#include <errno.h>

#include "base/arena.h"
#include "base/limits.h"
#include "handlers/transfers.h"
#include "tests/unit/lib/test.h"

#define MOST (20 * (int64_t)BOX_MIB)
#define BAD_KEY "Invalid file transfer key"
#define BAD_ORDER "Invalid file transfer capability"
#define TOO_LARGE "File transfer exceeds the configured size limit"
#define FULL "Active file transfer capacity reached"

static uint64_t total;

static int take(struct box_transfers *files, const char *key, int64_t index, int64_t amount,
	size_t len, int64_t most, struct box_err *err)
{
	static char bytes[BOX_MIB];
	struct box_transfers_chunk chunk = {box_str(key), index, amount, {bytes, len}};
	return box_transfers_take_chunk(files, &chunk, most, err);
}

static void expect_taken(
	struct box_transfers *files, const char *key, int64_t index, int64_t amount)
{
	struct box_err err = {0};
	if (take(files, key, index, amount, 10, MOST, &err) < 0) {
		TEST_FAIL("%s %d/%d: %s", key, (int)index, (int)amount, err.text);
	}
}

static void expect_refused(struct box_transfers *files, const char *key, int64_t index,
	int64_t amount, const char *text)
{
	struct box_err err = {0};
	ASSERT(take(files, key, index, amount, 10, MOST, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	ASSERT_STR(err.text, text);
}

TEST(in_order)
{
	struct box_transfers *files = box_transfers_new(&total);
	expect_taken(files, "one", 0, 3);
	expect_taken(files, "two", 0, 1);
	expect_taken(files, "one", 1, 3);
	expect_taken(files, "one", 2, 3);
	ASSERT_INT(total, 40);
	box_transfers_free(files);
	ASSERT_INT(total, 0);
	box_transfers_free(NULL);
}

TEST(out_of_order)
{
	struct box_transfers *files = box_transfers_new(&total);
	expect_refused(files, "k", 1, 3, BAD_ORDER); /* never begun */
	expect_taken(files, "k", 0, 4);
	expect_refused(files, "k", 2, 4, BAD_ORDER); /* a gap */
	expect_refused(files, "k", 1, 5, BAD_ORDER); /* another amount */
	expect_refused(files, "other", 1, 4, BAD_ORDER);
	expect_taken(files, "k", 1, 4);              /* a refused chunk changes nothing */
	expect_refused(files, "k", 1, 4, BAD_ORDER); /* twice */
	expect_refused(files, "k", -1, 4, BAD_ORDER);
	ASSERT_INT(total, 20);
	box_transfers_free(files);
	ASSERT_INT(total, 0);
}

TEST(chunk_0_starts_over)
{
	struct box_transfers *files = box_transfers_new(&total);
	expect_taken(files, "k", 0, 3);
	expect_taken(files, "k", 1, 3);
	ASSERT_INT(total, 20);
	expect_taken(files, "k", 0, 2);
	ASSERT_INT(total, 10);
	expect_refused(files, "k", 2, 3, BAD_ORDER);
	expect_refused(files, "k", 1, 3, BAD_ORDER);
	expect_taken(files, "k", 1, 2);
	ASSERT_INT(total, 20);
	box_transfers_free(files);
}

TEST(keys)
{
	char longest[BOX_FILE_KEY_MAX + 2];
	memset(longest, 'k', sizeof(longest) - 1);
	longest[BOX_FILE_KEY_MAX + 1] = '\0';
	static const char *const good[] = {"a", "Z", "0", "a.b", "a-b_c.d", "a.", "a-", "0.1.2",
		"5d41402abc4b2a76b9719d911017c592-00ff.zip", "ft1_00ff.zip"};
	static const char *const bad[] = {"", ".", "..", ".a", "-a", "_a", "a..b", "a..", "../a",
		"a/b", "/a", "a b", "a\n", "\xc3\xa9", "a\\b", "a:b", "a%2e"};
	struct box_transfers *files = box_transfers_new(&total);
	for (size_t i = 0; i < COUNT(good); i++) {
		expect_taken(files, good[i], 0, 1);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		expect_refused(files, bad[i], 0, 1, BAD_KEY);
	}
	expect_refused(files, longest, 0, 1, BAD_KEY);
	expect_taken(files, longest + 1, 0, 1);
	struct box_transfers_chunk nul = {{"a\0b", 3}, 0, 1, {"", 0}};
	struct box_err err = {0};
	ASSERT(box_transfers_take_chunk(files, &nul, MOST, &err) < 0);
	ASSERT_STR(err.text, BAD_KEY);
	box_transfers_free(files);
}

TEST(size_of_a_file)
{
	struct box_transfers *files = box_transfers_new(&total);
	struct box_err err = {0};
	ASSERT_INT(take(files, "k", 0, 3, 60, 100, &err), 0);
	ASSERT_INT(take(files, "k", 1, 3, 40, 100, &err), 0);
	ASSERT_INT(total, 100);
	ASSERT(take(files, "k", 2, 3, 1, 100, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	ASSERT_STR(err.text, TOO_LARGE);
	ASSERT_INT(total, 0); /* a file that is too large is gone */
	expect_refused(files, "k", 2, 3, BAD_ORDER);
	ASSERT(take(files, "k", 0, 1, 101, 100, &err) < 0);
	ASSERT_STR(err.text, TOO_LARGE);
	ASSERT_INT(total, 0);
	ASSERT_INT(take(files, "k", 0, 1, 100, 100, &err), 0);
	ASSERT_INT(take(files, "empty", 0, 1, 0, 100, &err), 0);
	ASSERT_INT(total, 100);
	box_transfers_free(files);
}

TEST(files_of_a_connection)
{
	struct box_transfers *files = box_transfers_new(&total);
	struct box_transfers *others = box_transfers_new(&total);
	char key[32];
	for (int i = 0; i < BOX_FILES_MAX; i++) {
		(void)snprintf(key, sizeof(key), "file-%d", i);
		expect_taken(files, key, 0, 2);
	}
	expect_refused(files, "one-more", 0, 1, FULL);
	expect_taken(files, "file-7", 1, 2);
	expect_taken(files, "file-7", 0, 2); /* starting over needs no second slot */
	expect_taken(others, "one-more", 0, 1);
	box_transfers_free(files);
	box_transfers_free(others);
	ASSERT_INT(total, 0);
}

TEST(bytes_of_all)
{
	struct box_transfers *files = box_transfers_new(&total);
	struct box_transfers *others = box_transfers_new(&total);
	struct box_err err = {0};
	total = BOX_FILES_TOTAL_BYTES_MAX - 100;
	ASSERT_INT(take(files, "a", 0, 3, 60, MOST, &err), 0);
	ASSERT_INT(take(others, "b", 0, 3, 40, MOST, &err), 0);
	ASSERT(take(others, "c", 0, 1, 1, MOST, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	ASSERT_STR(err.text, FULL);
	ASSERT(take(files, "a", 1, 3, 1, MOST, &err) < 0);
	ASSERT_STR(err.text, FULL);
	ASSERT_INT(total, BOX_FILES_TOTAL_BYTES_MAX - 60); /* "a" is gone */
	ASSERT_INT(take(others, "b", 1, 3, 60, MOST, &err), 0);
	box_transfers_free(files);
	box_transfers_free(others);
	ASSERT_INT(total, BOX_FILES_TOTAL_BYTES_MAX - 100);
}

static int open_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;
	while (readdir(folder)) {
		count++;
	}
	(void)closedir(folder);
	return count;
}

TEST(nothing_stays_open)
{
	int before = open_fds();
	struct box_transfers *files = box_transfers_new(&total);
	struct box_err err = {0};
	for (int round = 0; round < 3; round++) {
		expect_taken(files, "a", 0, 2);
		expect_taken(files, "b", 0, 2);
		ASSERT(take(files, "b", 1, 2, 100, 50, &err) < 0);
	}
	ASSERT_INT(open_fds(), before + 1);
	box_transfers_free(files);
	ASSERT_INT(open_fds(), before);
}
