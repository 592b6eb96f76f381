/* The walk that measures trees, over hostile ones: links, FIFOs, other mounts, depth, and trees
 * that change meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "boxd/files/tree_size.h"
#include "tests/unit/lib/test.h"

static const char *const names[] = {".mcp", "inbox", "outbox"};

static char top[64];
static struct box_boxd_part parts[BOX_BOXD_PARTS];

/* A folder of the test's own, where paths start. */
static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/box-walk-XXXXXX");
	ASSERT(mkdtemp(top));
	ASSERT_INT(chdir(top), 0);
}

static void finish(void)
{
	char command[128];
	ASSERT_INT(chdir("/"), 0);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", top);
	ASSERT_INT(system(command), 0); /* NOLINT(cert-env33-c) */
}

/* Mounts that end with the test in every case. */
static void have_own_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		finish();
		SKIP("no mount namespace can be made here");
	}
}

static void mount_tmpfs(const char *options)
{
	have_own_mounts();
	ASSERT_INT(mount("none", top, "tmpfs", 0, options), 0);
	ASSERT_INT(chdir(top), 0);
}

static void unmount_tmpfs(void)
{
	ASSERT_INT(chdir("/"), 0);
	ASSERT_INT(umount2(top, MNT_DETACH), 0);
}

static void make_file(const char *path, size_t size)
{
	_cleanup_(box_close_p) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	static const char bytes[4096] = {1};
	while (size > 0) {
		size_t piece = size < sizeof(bytes) ? size : sizeof(bytes);
		ASSERT_INT(write(fd, bytes, piece), piece);
		size -= piece;
	}
}

static void walk(const char *path, enum box_tree_size_unit unit)
{
	_cleanup_(box_close_p) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	ASSERT(fd >= 0);
	memset(parts, 0, sizeof(parts));
	box_tree_size_add(fd, unit, names, COUNT(names), parts);
}

static void expect(size_t part, bool exists, uint64_t size, uint64_t files, uint64_t errors)
{
	if (parts[part].exists != (uint32_t)exists || parts[part].size_bytes != size ||
		parts[part].file_count != files || parts[part].error_count != errors) {
		TEST_FAIL("part %zu is %u %" PRIu64 " %" PRIu64 " %" PRIu64, part,
			parts[part].exists, parts[part].size_bytes, parts[part].file_count,
			parts[part].error_count);
	}
}

TEST(an_empty_folder)
{
	begin();
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 0, 0, 0);
	expect(1, false, 0, 0, 0);
	finish();
}

TEST(lengths_by_name)
{
	begin();
	ASSERT_INT(mkdir("inbox", 0700), 0);
	ASSERT_INT(mkdir("inbox/.mcp", 0700), 0);
	ASSERT_INT(mkdir("outbox", 0700), 0);
	ASSERT_INT(mkdir("else", 0700), 0);
	ASSERT_INT(mkdir("else/outbox", 0700), 0);
	make_file("a", 5);
	make_file("inbox/b", 70);
	make_file("inbox/.mcp/c", 900);
	make_file("else/outbox/d", 11000);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 11975, 4, 0);
	expect(1, false, 0, 0, 0);
	expect(2, true, 970, 2, 0);
	expect(3, true, 0, 0, 0);
	finish();
}

TEST(a_name_that_is_a_file)
{
	begin();
	make_file("inbox", 12);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 12, 1, 0);
	expect(2, true, 12, 1, 0);
	walk("inbox", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 12, 1, 0);
	finish();
}

/* Links count with their own length, wherever they lead; only folders are opened. */
TEST(links_and_fifos)
{
	begin();
	ASSERT_INT(symlink("/", "root"), 0);
	ASSERT_INT(symlink("/usr", "inbox"), 0);
	ASSERT_INT(symlink(".", "loop"), 0);
	ASSERT_INT(mkfifo("fifo", 0600), 0);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 1 + 4 + 1, 4, 0);
	expect(2, true, 4, 1, 0);
	walk("root", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 1, 1, 0);
	walk(".", BOX_TREE_SIZE_BLOCKS);
	ASSERT_INT(parts[0].file_count, 0);
	finish();
}

TEST(blocks_and_holes)
{
	struct stat status;
	begin();
	make_file("full", 100000);
	make_file("sparse", 1);
	ASSERT_INT(truncate("sparse", 1L << 40), 0);
	ASSERT_INT(stat("full", &status), 0);
	uint64_t blocks = (uint64_t)status.st_blocks * 512;
	ASSERT_INT(stat("sparse", &status), 0);
	blocks += (uint64_t)status.st_blocks * 512;
	walk(".", BOX_TREE_SIZE_BLOCKS);
	expect(0, true, blocks, 2, 0);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 100000 + (1UL << 40), 2, 0);
	finish();
}

/* Owners choose lengths freely, and the sum is still a valid number. */
TEST(lengths_beyond_all)
{
	begin();
	mount_tmpfs(NULL);
	make_file("a", 1);
	make_file("b", 1);
	ASSERT_INT(truncate("a", 0x7ffffffffffff000), 0);
	ASSERT_INT(truncate("b", 0x7ffffffffffff000), 0);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	unmount_tmpfs();
	expect(0, true, INT64_MAX, 2, 0);
	finish();
}

/* Neither another file system nor a bind mount of the same one is entered. */
TEST(other_mounts)
{
	begin();
	have_own_mounts();
	ASSERT_INT(mkdir("inner", 0700), 0);
	ASSERT_INT(mkdir("bound", 0700), 0);
	ASSERT_INT(mkdir("own", 0700), 0);
	make_file("own/a", 10);
	ASSERT_INT(mount("none", "inner", "tmpfs", 0, NULL), 0);
	make_file("inner/b", 100);
	ASSERT_INT(mount("own", "bound", NULL, MS_BIND, NULL), 0);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 10, 1, 0);
	/* The requested folder may itself be a mount point. */
	walk("inner", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, 100, 1, 0);
	ASSERT_INT(umount2("inner", MNT_DETACH), 0);
	ASSERT_INT(umount2("bound", MNT_DETACH), 0);
	finish();
}

/* Deeper than the limit: what is above counts, and one error. */
TEST(depth)
{
	begin();
	for (int i = 0; i < BOX_MEASURE_DEPTH_MAX + 40; i++) {
		make_file("f", 1);
		ASSERT_INT(mkdir("d", 0700), 0);
		ASSERT_INT(chdir("d"), 0);
	}
	ASSERT_INT(chdir(top), 0);
	walk(".", BOX_TREE_SIZE_LENGTHS);
	expect(0, true, BOX_MEASURE_DEPTH_MAX, BOX_MEASURE_DEPTH_MAX, 1);
	finish();
}

TEST(what_cannot_be_read)
{
	begin();
	ASSERT_INT(mkdir("inbox", 0700), 0);
	ASSERT_INT(mkdir("inbox/shut", 0), 0);
	make_file("inbox/a", 10);
	ASSERT_INT(chmod(top, 0755), 0);
	ASSERT_INT(chown("inbox", 65533, 65533), geteuid() == 0 ? 0 : -1);
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 &&
			(setresgid(65533, 65533, 65533) < 0 ||
				setresuid(65533, 65533, 65533) < 0)) {
			exit(3);
		}
		walk(".", BOX_TREE_SIZE_LENGTHS);
		expect(0, true, 10, 1, 1);
		expect(2, true, 10, 1, 1);
		exit(0);
	}
	int status = -1;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT_INT(status, 0);
	finish();
}

/* Entries that appear as fast as they are read: the walk ends, and the sum is limited. */
TEST(what_changes_meanwhile)
{
	begin();
	pid_t pid = fork();
	if (pid == 0) {
		for (unsigned i = 0;; i++) {
			(void)mkdir("d", 0700);
			(void)mkdir("d/e", 0700);
			(void)rename("d", "was");
			(void)symlink("/", "d");
			(void)unlink("d");
			(void)rmdir("was/e");
			(void)rmdir("was");
		}
	}
	for (int i = 0; i < 300; i++) {
		walk(".", BOX_TREE_SIZE_LENGTHS);
		ASSERT_INT(parts[0].error_count, 0);
		ASSERT(parts[0].size_bytes <= 2); /* the link, under one name or the next */
	}
	ASSERT_INT(kill(pid, SIGKILL), 0);
	ASSERT_INT(waitpid(pid, NULL, 0), pid);
	finish();
}

/* More entries than the limit, on a file system where they cost little. */
TEST(entries)
{
	begin();
	mount_tmpfs("nr_inodes=0");
	make_file("f", 1);
	char name[16];
	for (int i = 1; i < BOX_MEASURE_ENTRIES_MAX + 10; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		ASSERT_INT(link("f", name), 0);
	}
	walk(".", BOX_TREE_SIZE_LENGTHS);
	unmount_tmpfs();
	expect(0, true, BOX_MEASURE_ENTRIES_MAX, BOX_MEASURE_ENTRIES_MAX, 1);
	finish();
}
