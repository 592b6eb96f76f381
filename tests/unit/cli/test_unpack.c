/* Unpacking archives into a folder: hard links inside it, and existing files that are left alone.
 */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/copy/tar.h"
#include "cli/copy/unpack.h"
#include "tests/unit/lib/test.h"

#define OLD 1234567890 /* 011145401322 */

static char home[] = "/tmp/box-unpack-XXXXXX";
static char complaint[512];

static int drop(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status, (void)kind, (void)walk;
	return remove(path);
}

static void clean(void)
{
	(void)nftw(home, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* A folder with `in` to unpack into and a file `secret` beside it. */
static int make_home(void)
{
	ASSERT(mkdtemp(home));
	ASSERT_INT(atexit(clean), 0);
	ASSERT_INT(chdir(home), 0);
	ASSERT_INT(mkdir("in", 0755), 0);
	int fd = open("secret", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	ASSERT_INT(close(fd), 0);
	int folder = open("in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(folder >= 0);
	return folder;
}

static void put(
	struct box_buf *out, const char *name, char type, const char *mode, const char *link)
{
	char block[BOX_TAR_BLOCK] = {0};
	unsigned sum = 0;
	(void)strncpy(block, name, 100);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a field of a fixed width */
	memcpy(block + 100, mode, strlen(mode));
	memcpy(block + 124, "00000000000", 12);
	memcpy(block + 136, "11145401322", 12);
	block[156] = type;
	(void)strncpy(block + 157, link, 100);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): here too */
	memcpy(block + 257, "ustar\00000", 8);
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < sizeof(block); i++) {
		sum += (unsigned char)block[i];
	}
	(void)snprintf(block + 148, 8, "%06o", sum);
	ASSERT_INT(box_buf_append(out, block, sizeof(block)), 0);
}

static void complain(void *arg, const char *line)
{
	(void)arg;
	(void)snprintf(complaint, sizeof(complaint), "%s", line);
}

/* How many entries were refused. */
static uint64_t unpack(int folder, struct box_buf *archive)
{
	struct box_unpack *unpack = box_unpack_new(folder, NULL, complain, NULL);
	ASSERT_INT(box_tar_write_end(archive), 0);
	ASSERT_INT(
		box_unpack_feed(unpack, (struct box_str){archive->bytes, archive->len}, NULL), 0);
	ASSERT_INT(box_unpack_end(unpack, NULL), 0);
	uint64_t refused = box_unpack_refused(unpack);
	box_unpack_free(unpack);
	box_buf_free(archive);
	(void)close(folder);
	return refused;
}

static struct stat status_of(const char *path)
{
	struct stat status;
	if (lstat(path, &status) < 0) {
		TEST_FAIL("%s is not there", path);
	}
	return status;
}

TEST(a_hard_link_leaves_its_folder_as_the_archive_tells)
{
	struct box_buf archive = box_buf(BOX_MIB);
	int folder = make_home();
	put(&archive, "e/", '5', "0000755", "");
	put(&archive, "e/f", '0', "0000644", "");
	put(&archive, "d/", '5', "0000555", "");
	put(&archive, "d/h", '1', "0000644", "e/f");
	put(&archive, "d/later", '0', "0000644", "");
	ASSERT_INT(unpack(folder, &archive), 0);
	ASSERT_INT(status_of("in/d/h").st_ino, status_of("in/e/f").st_ino);
	ASSERT_INT(status_of("in/d").st_mode & 07777, 0555);
	ASSERT_INT(status_of("in/d").st_mtim.tv_sec, OLD);
	ASSERT_INT(status_of("in/e").st_mtim.tv_sec, OLD);
	ASSERT_INT(status_of("in/d/later").st_size, 0);
	ASSERT_INT(chmod("in/d", 0755), 0);
}

TEST(a_hard_link_to_what_is_not_there_makes_nothing)
{
	struct box_buf archive = box_buf(BOX_MIB);
	int folder = make_home();
	put(&archive, "d/", '5', "0000700", "");
	put(&archive, "d/h", '1', "0000644", "none/f");
	put(&archive, "d/later", '0', "0000644", "");
	ASSERT_INT(unpack(folder, &archive), 1);
	ASSERT_STR(complaint, "d/h: not copied: No such file or directory");
	ASSERT_INT(access("in/none", F_OK), -1);
	ASSERT_INT(access("in/d/h", F_OK), -1);
	ASSERT_INT(status_of("in/d").st_mode & 07777, 0700);
	ASSERT_INT(status_of("in/d").st_mtim.tv_sec, OLD);
	ASSERT_INT(status_of("in/d/later").st_size, 0);
}

TEST(a_hard_link_to_itself_changes_nothing)
{
	struct box_buf archive = box_buf(BOX_MIB);
	int folder = make_home();
	put(&archive, "d/f", '0', "0000600", "");
	put(&archive, "d/f", '1', "0000644", "d/f");
	ASSERT_INT(unpack(folder, &archive), 0);
	ASSERT_INT(status_of("in/d/f").st_nlink, 1);
}

TEST(a_hard_link_leads_nowhere_outside)
{
	static const char *const targets[] = {"../secret", "/tmp/secret", "d/../../secret",
		"l/secret", "d/up/secret", "s", ".", "d"};
	struct box_buf archive = box_buf(BOX_MIB);
	int folder = make_home();
	put(&archive, "d/", '5', "0000755", "");
	put(&archive, "l", '2', "0000777", "..");
	put(&archive, "d/up", '2', "0000777", "../..");
	put(&archive, "s", '2', "0000777", "../secret");
	for (size_t i = 0; i < COUNT(targets); i++) {
		put(&archive, "h", '1', "0000644", targets[i]);
	}
	ASSERT_INT(unpack(folder, &archive), COUNT(targets));
	ASSERT_INT(access("in/h", F_OK), -1);
	ASSERT_INT(status_of("secret").st_nlink, 1);
}
