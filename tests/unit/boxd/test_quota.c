/* Quotas of folders: the size of an image, what has to be done for a folder, and the two walks that
 * copy a folder's files into its image. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "boxd/quota/quota.h"
#include "boxd/quota/quota_copy.h"
#include "boxd/quota/quota_task.h"
#include "tests/unit/lib/test.h"

static struct box_err err;

/* --- sizes --- */

/* What mke2fs of 2023 leaves free, measured; the kernel's own reserve is subtracted. */
TEST(image_sizes)
{
	static const struct {
		uint64_t quota_mib;
		uint64_t inodes;
		uint32_t journal_mib;
	} rows[] = {
		{1, 12288, 4},
		{4, 12288, 4},
		{64, 12288, 4},
		{255, 32640, 4},
		{256, 32768, 16},
		{1024, 131072, 16},
		{20480, 2621440, 16},
		{4UL * 1024 * 1024, 16UL * 1024 * 1024, 16},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_quota_shape shape;
		uint64_t quota = rows[i].quota_mib * BOX_MIB;
		ASSERT_INT(box_quota_shape(quota, &shape), 0);
		ASSERT_INT(shape.inodes, rows[i].inodes);
		ASSERT_INT(shape.journal_mib, rows[i].journal_mib);
		ASSERT_INT(shape.size_bytes % 4096, 0);
		uint64_t least = quota + shape.inodes * 256 + shape.journal_mib * BOX_MIB;
		ASSERT(shape.size_bytes > least);
		/* Two percent, the reserve for growing, and a small constant. */
		ASSERT(shape.size_bytes < least + least / 40 + 80 * BOX_MIB);
	}
}

/* Monotonic: a larger quota has a larger image. */
TEST(image_sizes_grow)
{
	struct box_quota_shape before = {0};
	for (uint64_t mib = 1; mib < 70000; mib += 1 + mib / 64) {
		struct box_quota_shape shape;
		ASSERT_INT(box_quota_shape(mib * BOX_MIB, &shape), 0);
		ASSERT(shape.size_bytes > before.size_bytes);
		before = shape;
	}
}

TEST(image_sizes_that_are_none)
{
	struct box_quota_shape shape;
	ASSERT_INT(box_quota_shape(0, &shape), -ERANGE);
	ASSERT_INT(box_quota_shape(BOX_QUOTA_BYTES_MIN - 1, &shape), -ERANGE);
	ASSERT_INT(box_quota_shape(BOX_QUOTA_BYTES_MIN, &shape), 0);
	ASSERT_INT(box_quota_shape(BOX_QUOTA_BYTES_MAX, &shape), 0);
	ASSERT_INT(box_quota_shape(BOX_QUOTA_BYTES_MAX + 1, &shape), -ERANGE);
	ASSERT_INT(box_quota_shape(UINT64_MAX, &shape), -ERANGE);
}

/* --- decisions --- */

enum {
	REFUSED = -1
};

TEST(decisions)
{
	struct box_quota_shape eight;
	struct box_quota_shape nine;
	ASSERT_INT(box_quota_shape(8 * BOX_MIB, &eight), 0);
	ASSERT_INT(box_quota_shape(9 * BOX_MIB, &nine), 0);
	uint64_t here = eight.size_bytes;
	uint64_t more = nine.size_bytes;
	/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of reading */
	const struct {
		bool possible;
		bool degraded;
		struct box_quota_state state; /* image, mounted, unswept, its size, its capacity */
		uint64_t quota_mib;
		int verdict;
	} rows[] = {
		{true, false, {false, false, false, 0, 0}, 0, BOX_QUOTA_READY},
		{true, false, {false, false, false, 0, 0}, 8, BOX_QUOTA_NEEDS_WORK},
		{true, true, {false, false, false, 0, 0}, 8, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, true, false, here, 8 * BOX_MIB}, 8, BOX_QUOTA_READY},
		{true, false, {true, true, false, here, 8 * BOX_MIB}, 0, BOX_QUOTA_READY},
		{true, false, {true, false, false, here, 0}, 8, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, false, false, here, 0}, 0, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, true, false, here, 8 * BOX_MIB}, 9, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, true, true, here, 8 * BOX_MIB}, 8, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, true, true, here, 8 * BOX_MIB}, 0, BOX_QUOTA_NEEDS_WORK},
		{false, false, {true, true, true, here, 8 * BOX_MIB}, 0, BOX_QUOTA_READY},
		/* A process died while the image was growing. */
		{true, false, {true, true, false, more, 8 * BOX_MIB}, 9, BOX_QUOTA_NEEDS_WORK},
		{true, false, {true, true, false, more, 9 * BOX_MIB}, 8, REFUSED},
		{true, true, {true, true, false, more, 9 * BOX_MIB}, 8, REFUSED},
		{true, false, {false, false, false, 0, 0}, 1UL << 40, REFUSED},
		{false, false, {false, false, false, 0, 0}, 0, BOX_QUOTA_READY},
		{false, false, {false, false, false, 0, 0}, 8, REFUSED},
		{false, true, {false, false, false, 0, 0}, 8, BOX_QUOTA_WAIVED},
		/* Files under a mounted image are not the folder's content. */
		{false, true, {true, false, false, here, 0}, 8, REFUSED},
		{false, true, {true, false, false, here, 0}, 0, REFUSED},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		const struct box_quota_support support = {
			.possible = rows[i].possible, .missing = "none"};
		enum box_quota_verdict verdict = BOX_QUOTA_WAIVED;
		int r = box_quota_decide(&support, &rows[i].state, rows[i].quota_mib * BOX_MIB,
			rows[i].degraded, &verdict, &err);
		if (r < 0 ? rows[i].verdict != REFUSED : rows[i].verdict != (int)verdict) {
			TEST_FAIL("row %zu: %d, %d", i, r, (int)verdict);
		}
	}
}

TEST(refusals_name_what_is_missing)
{
	const struct box_quota_support support = {.missing = "boxd is not root"};
	const struct box_quota_state state = {0};
	enum box_quota_verdict verdict;
	ASSERT(box_quota_decide(&support, &state, 8 * BOX_MIB, false, &verdict, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_STR(err.text,
		"workspace_quota_mb 8 cannot be enforced for a folder of the host: boxd is not root; "
		"leave out host_path, provide what is missing, or set local.degraded: true to run "
		"without");
}

TEST(shared_mounts)
{
	static const char shared[] = "36 35 98:0 /m /a rw,noatime shared:1 - ext3 /dev/root rw\n";
	static const char slave[] = "36 35 98:0 / /a rw master:7 - ext3 /dev/root rw\n";
	static const char private[] = "36 35 98:0 / /a rw - ext3 /dev/root rw, shared:1\n";
	ASSERT(box_quota_task_mount_is_shared(shared, 36));
	ASSERT(!box_quota_task_mount_is_shared(shared, 35));
	ASSERT(!box_quota_task_mount_is_shared(shared, 3));
	ASSERT(box_quota_task_mount_is_shared(slave, 36));
	ASSERT(!box_quota_task_mount_is_shared(private, 36));
	ASSERT(!box_quota_task_mount_is_shared("", 0));
	ASSERT(!box_quota_task_mount_is_shared("36", 36));
}

/* --- the walks --- */

static int from = -1;
static int to = -1;

static void open_both(void)
{
	char name[] = "/tmp/box-quota-XXXXXX";
	ASSERT(mkdtemp(name) != NULL);
	int top = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(top >= 0);
	ASSERT_INT(mkdirat(top, "from", 0750), 0);
	ASSERT_INT(mkdirat(top, "to", 0700), 0);
	from = openat(top, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = openat(top, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Their names are not needed any more: the contents are removed at the end. */
	ASSERT_INT(renameat(top, "from", top, "f"), 0);
	(void)close(top);
}

static void remove_all(void)
{
	char path[64];
	char target[4096];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", from);
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	ASSERT(len > 2);
	target[len - 2] = '\0';
	char command[5000];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", target);
	ASSERT_INT(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void put(int folder, const char *name, const char *text, time_t changed)
{
	_cleanup_(box_close_p) int fd = openat(
		folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, strlen(text)), strlen(text));
	const struct timespec times[2] = {{.tv_sec = changed}, {.tv_sec = changed}};
	ASSERT_INT(futimens(fd, times), 0);
}

static const char *get(int folder, const char *name)
{
	static char text[256];
	_cleanup_(box_close_p) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len < 0) {
		return "(none)";
	}
	text[len] = '\0';
	return text;
}

TEST(copies_what_is_not_there)
{
	struct stat status;
	char target[16] = "";
	open_both();
	put(from, "a", "one", 1000);
	ASSERT_INT(mkdirat(from, "d", 0751), 0);
	put(from, "d/b", "two", 2000);
	ASSERT_INT(symlinkat("/etc", from, "l"), 0);
	ASSERT_INT(mkfifoat(from, "p", 0600), 0);
	ASSERT_INT(box_quota_copy(from, to, true, &err), 0);
	ASSERT_STR(get(to, "a"), "one");
	ASSERT_STR(get(to, "d/b"), "two");
	ASSERT_STR(get(from, "d/b"), "two");
	ASSERT_INT(readlinkat(to, "l", target, sizeof(target) - 1), 4);
	ASSERT_STR(target, "/etc");
	ASSERT_INT(fstatat(to, "p", &status, AT_SYMLINK_NOFOLLOW), 0);
	ASSERT(S_ISFIFO(status.st_mode));
	ASSERT_INT(fstatat(to, "d/b", &status, 0), 0);
	ASSERT_INT(status.st_mtim.tv_sec, 2000);
	ASSERT_INT(status.st_mode & 07777, 0640);
	ASSERT_INT(fstatat(to, "d", &status, 0), 0);
	ASSERT_INT(status.st_mode & 07777, 0751);
	ASSERT_INT(fstat(to, &status), 0);
	ASSERT_INT(status.st_mode & 07777, 0750);
	remove_all();
}

/* Restarted, or after the host has written into the folder while the image was not mounted. */
TEST(keeps_what_is_newer)
{
	struct stat status;
	open_both();
	put(from, "old", "from", 1000);
	put(to, "old", "to, newer", 2000);
	put(from, "new", "from, newer", 2000);
	put(to, "new", "to", 1000);
	put(from, "same", "equal", 1000);
	put(to, "same", "equal", 1000);
	put(from, "coarse", "longer", 1000);
	put(to, "coarse", "short", 1000);
	ASSERT_INT(fchmod(to, 0711), 0);
	ASSERT_INT(box_quota_copy(from, to, false, &err), 0);
	ASSERT_STR(get(to, "old"), "to, newer");
	ASSERT_STR(get(to, "new"), "from, newer");
	ASSERT_STR(get(to, "coarse"), "longer");
	ASSERT_INT(fstat(to, &status), 0);
	ASSERT_INT(status.st_mode & 07777, 0711);
	remove_all();
}

/* Files added between the two walks are kept, and copied ones are removed. */
TEST(sweeps_what_is_copied)
{
	open_both();
	put(from, "a", "one", 1000);
	ASSERT_INT(mkdirat(from, "d", 0755), 0);
	put(from, "d/b", "two", 1000);
	ASSERT_INT(box_quota_copy(from, to, true, &err), 0);
	put(from, "d/b", "changed", 3000);
	put(from, "late", "three", 3000);
	ASSERT_INT(box_quota_copy_sweep(from, to, &err), 0);
	ASSERT_STR(get(to, "a"), "one");
	ASSERT_STR(get(to, "d/b"), "changed");
	ASSERT_STR(get(to, "late"), "three");
	ASSERT_STR(get(from, "a"), "(none)");
	ASSERT_STR(get(from, "late"), "(none)");
	ASSERT(faccessat(from, "d", F_OK, 0) < 0);
	remove_all();
}

/* Both versions are kept. */
TEST(refuses_two_kinds_of_one_name)
{
	open_both();
	put(from, "x", "file", 1000);
	ASSERT_INT(mkdirat(to, "x", 0755), 0);
	ASSERT(box_quota_copy(from, to, false, &err) < 0);
	ASSERT(strstr(err.text, "x cannot be moved") != NULL);
	ASSERT(box_quota_copy_sweep(from, to, &err) < 0);
	ASSERT_STR(get(from, "x"), "file");
	remove_all();
	open_both();
	ASSERT_INT(mkdirat(from, "x", 0755), 0);
	put(to, "x", "file", 1000);
	ASSERT(box_quota_copy(from, to, false, &err) < 0);
	ASSERT_STR(get(to, "x"), "file");
	remove_all();
}

/* A link on the way is not followed. */
TEST(follows_no_link)
{
	open_both();
	ASSERT_INT(mkdirat(from, "d", 0755), 0);
	put(from, "d/f", "inside", 1000);
	ASSERT_INT(symlinkat("/tmp", to, "d"), 0);
	ASSERT(box_quota_copy(from, to, false, &err) < 0);
	ASSERT(access("/tmp/f", F_OK) < 0 || strcmp(get(AT_FDCWD, "/tmp/f"), "inside") != 0);
	remove_all();
}

/* A folder and a file of the same file system are mounted in it: they belong to somebody else. */
TEST(leaves_alone_what_is_mounted_in_it)
{
	char path[64];
	char place[64];
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		SKIP("mounting needs root");
	}
	open_both();
	ASSERT_INT(mkdirat(from, "../other", 0755), 0);
	int other = openat(from, "../other", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(other, "kept", "of others", 1000);
	ASSERT_INT(mkdirat(from, "folder", 0755), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", other);
	(void)snprintf(place, sizeof(place), "/proc/self/fd/%d/folder", from);
	ASSERT_INT(mount(path, place, NULL, MS_BIND, NULL), 0);
	ASSERT(box_quota_copy(from, to, true, &err) < 0);
	ASSERT(strstr(err.text, "folder cannot be moved: something is mounted there") != NULL);
	ASSERT(box_quota_copy_sweep(from, to, &err) < 0);
	ASSERT_STR(get(other, "kept"), "of others");
	ASSERT_INT(umount2(place, MNT_DETACH), 0);
	ASSERT_INT(unlinkat(from, "folder", AT_REMOVEDIR), 0);
	put(from, "file", "", 1000);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/kept", other);
	(void)snprintf(place, sizeof(place), "/proc/self/fd/%d/file", from);
	ASSERT_INT(mount(path, place, NULL, MS_BIND, NULL), 0);
	ASSERT(box_quota_copy(from, to, true, &err) < 0);
	ASSERT(strstr(err.text, "file cannot be moved: something is mounted there") != NULL);
	ASSERT_INT(umount2(place, MNT_DETACH), 0);
	remove_all();
}
