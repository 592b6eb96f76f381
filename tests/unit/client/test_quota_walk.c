/* The walk that measures a quota: what counts, where it stops, and that no link leads outside. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "client/service/quota_walk.h"
#include "tests/unit/lib/test.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
	(void)about, (void)kind, (void)at;
	return remove(path);
}

static void clean(void)
{
	(void)nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/box-walk-XXXXXX");
	ASSERT(mkdtemp(folder) != NULL);
	ASSERT_INT(atexit(clean), 0);
	ASSERT_INT(chdir(folder), 0);
}

static void make_file(const char *path, off_t size)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	ASSERT_INT(ftruncate(fd, size), 0);
	ASSERT_INT(close(fd), 0);
}

static struct box_quota_walk_found walk(
	uint64_t bytes, uint64_t entries, size_t piece, size_t *ret_steps)
{
	const struct box_quota_walk_limits quota = {bytes, entries};
	struct box_quota_walk *walk;
	struct box_quota_walk_found found;
	struct box_err err;
	size_t steps = 1;
	int r;
	ASSERT_INT(box_quota_walk_open(folder, &quota, &walk, &err), 0);
	while ((r = box_quota_walk_step(walk, piece, &found, &err)) == 1) {
		steps++;
	}
	ASSERT_INT(r, 0);
	box_quota_walk_close(walk);
	if (ret_steps) {
		*ret_steps = steps;
	}
	return found;
}

TEST(files_and_links_count_and_links_are_not_followed)
{
	make_folder();
	ASSERT_INT(mkdir("a", 0700), 0);
	ASSERT_INT(mkdir("a/b", 0700), 0);
	make_file("one", 1000);
	make_file("a/b/two", 500);
	ASSERT_INT(symlink("/usr", "a/usr"), 0);  /* 4 bytes of its own */
	ASSERT_INT(symlink("..", "a/b/loop"), 0); /* 2 */
	ASSERT_INT(mkfifo("a/fifo", 0600), 0);
	struct box_quota_walk_found found = walk(10000, 100, 1000, NULL);
	ASSERT_INT(found.bytes, 1506);
	ASSERT_INT(found.entries, 7);
	ASSERT(!found.too_large && !found.too_many && !found.too_deep);
	/* Exactly the limit is allowed, one byte more is not. */
	ASSERT(!walk(1506, 7, 1000, NULL).too_large);
	ASSERT(walk(1505, 7, 1000, NULL).too_large);
	ASSERT(walk(1506, 6, 1000, NULL).too_many);
}

TEST(it_can_be_taken_in_pieces)
{
	size_t steps;
	make_folder();
	for (int i = 0; i < 40; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "f%d", i);
		make_file(name, 10);
	}
	ASSERT_INT(walk(1000, 100, 7, &steps).bytes, 400);
	ASSERT(steps >= 6 && steps <= 8);
	/* It stops as soon as the limit is exceeded. */
	struct box_quota_walk_found found = walk(95, 100, 1000, NULL);
	ASSERT(found.too_large);
	ASSERT_INT(found.entries, 10);
}

TEST(sparse_files_count_for_what_they_claim)
{
	make_folder();
	make_file("a", 1LL << 40);
	ASSERT(walk(1 << 20, 10, 10, NULL).too_large);
}

TEST(depth_has_an_end)
{
	make_folder();
	for (int i = 0; i < BOX_WORKSPACE_DEPTH_MAX - 1; i++) {
		ASSERT_INT(mkdir("d", 0700), 0);
		ASSERT_INT(chdir("d"), 0);
	}
	ASSERT(!walk(10, 1000, 1000, NULL).too_deep);
	ASSERT_INT(mkdir("d", 0700), 0);
	ASSERT(walk(10, 1000, 1000, NULL).too_deep);
	ASSERT_INT(chdir("/"), 0);
}

TEST(what_cannot_be_read_is_no_free_room)
{
	const struct box_quota_walk_limits quota = {10, 10};
	struct box_quota_walk *walk;
	struct box_quota_walk_found found;
	struct box_err err;
	make_folder();
	ASSERT_INT(mkdir("hidden", 0000), 0);
	if (geteuid() == 0) {
		/* The folder is given away first: it must be reached and removed again. */
		ASSERT_INT(chmod(folder, 0777), 0);
		pid_t pid = fork();
		if (pid == 0) {
			ASSERT_INT(setresuid(12345, 12345, 12345), 0);
			ASSERT_INT(box_quota_walk_open(folder, &quota, &walk, &err), 0);
			ASSERT_INT(box_quota_walk_step(walk, 99, &found, &err), -EACCES);
			_exit(strstr(err.text, "hidden") ? 0 : 1);
		}
		int status = 1;
		ASSERT_INT(waitpid(pid, &status, 0), pid);
		ASSERT_INT(status, 0);
		return;
	}
	ASSERT_INT(box_quota_walk_open(folder, &quota, &walk, &err), 0);
	ASSERT_INT(box_quota_walk_step(walk, 99, &found, &err), -EACCES);
	ASSERT(strstr(err.text, "hidden") != NULL);
	box_quota_walk_close(walk);
}

TEST(a_folder_that_is_none)
{
	const struct box_quota_walk_limits quota = {10, 10};
	struct box_quota_walk *walk;
	struct box_err err;
	make_folder();
	make_file("file", 1);
	ASSERT_INT(symlink("/usr", "link"), 0);
	ASSERT_INT(box_quota_walk_open("missing", &quota, &walk, &err), -ENOENT);
	ASSERT_INT(box_quota_walk_open("file", &quota, &walk, &err), -ENOENT);
	ASSERT_INT(box_quota_walk_open("link", &quota, &walk, &err), -ENOENT);
	box_quota_walk_close(NULL);
}

TEST(what_is_said_of_it)
{
	static const struct {
		struct box_quota_walk_found found;
		const char *says;
	} rows[] = {
		{{.bytes = 10, .entries = 1}, NULL},
		{{.bytes = 11, .entries = 2, .too_large = true},
			"workspace quota exceeded after execution: used=11 bytes limit=10 bytes "
			"entries=2 host_path=/w session_id=s"},
		{{.too_many = true},
			"workspace entry limit exceeded after execution: entries>5 host_path=/w "
			"session_id=s"},
		{{.too_deep = true},
			"workspace entry limit exceeded after execution: folders in folders>256 "
			"host_path=/w session_id=s"},
	};
	const struct box_quota_walk_limits quota = {10, 5};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *says = box_quota_walk_verdict(
			arena, &quota, &rows[i].found, "after execution", "/w", "s");
		if (rows[i].says) {
			ASSERT_STR(says, rows[i].says);
		} else {
			ASSERT(says == NULL);
		}
	}
	box_arena_free(arena);
}
