/* Marks of packages that are not on disk yet: what happens to them when something fails. Calls that
 * fail, or that are observed, are linked through here. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"
#include "skills/store/deferred_sync.h"
#include "tests/unit/lib/test.h"

#define OLD "later.00000000-1111-4222-8333-444444444444.7-1"
#define FAILED "later.failed."

int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __real_renameat(int old_fd, const char *old_name, int fd, const char *name);
int __wrap_renameat(int old_fd, const char *old_name, int fd, const char *name);

static char folder[] = "/tmp/box-later-XXXXXX";
static int root = -1;
static char this_boot[64]; /* later.BOOT */

static bool disk_fails;         /* only the next time, as the kernel reports it */
static bool nothing_goes;       /* unlinkat fails */
static const char *stays;       /* renameat fails */
static bool synced_empty_stage; /* fsync */

static bool is_there(const char *path)
{
	struct stat st;
	return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has(const char *in, const char *start)
{
	char command[256];
	(void)snprintf(command, sizeof(command), "ls -A %s/%s | grep -q '^%s'", folder, in, start);
	return system(command) == 0;
}

int __wrap_syncfs(int fd)
{
	if (disk_fails) {
		disk_fails = false;
		errno = EIO;
		return -1;
	}
	return __real_syncfs(fd);
}

int __wrap_fsync(int fd)
{
	struct stat own;
	struct stat stage;
	if (fstat(fd, &own) == 0 && fstatat(root, BOX_STAGE_NAME, &stage, 0) == 0 &&
		own.st_ino == stage.st_ino && !has(BOX_STAGE_NAME, "later")) {
		synced_empty_stage = true;
	}
	return __real_fsync(fd);
}

int __wrap_unlinkat(int fd, const char *name, int flags)
{
	if (nothing_goes) {
		errno = EIO;
		return -1;
	}
	return __real_unlinkat(fd, name, flags);
}

int __wrap_renameat(int old_fd, const char *old_name, int fd, const char *name)
{
	if (stays && strcmp(stays, old_name) == 0) {
		errno = EBUSY;
		return -1;
	}
	return __real_renameat(old_fd, old_name, fd, name);
}

/* -- a tenant's folder -- */

static void make(const char *path)
{
	char command[256];
	(void)snprintf(command, sizeof(command), "mkdir -p %s/%s", folder, path);
	ASSERT_INT(system(command), 0);
}

static void make_mark(const char *marks, const char *package)
{
	char path[200];
	(void)snprintf(path, sizeof(path), BOX_STAGE_NAME "/%s/%s", marks, package);
	make(path);
}

static void set_up(void)
{
	box_log_setup("test", BOX_LOG_WARNING, BOX_LOG_TEXT);
	ASSERT(mkdtemp(folder) != NULL);
	root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(root >= 0);
	if (!box_deferred_sync_is_possible()) {
		SKIP("boots cannot be told apart here");
	}
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[40];
	ASSERT(file && fscanf(file, "%36s", boot) == 1);
	(void)fclose(file);
	(void)snprintf(this_boot, sizeof(this_boot), "later.%s", boot);
}

static void clean_up(void)
{
	char command[64];
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	ASSERT_INT(system(command), 0);
	(void)close(root);
}

/* An install of "pack" up to its answer. */
static void promise(struct box_deferred_sync *later)
{
	struct box_stage stage;
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE];
	ASSERT_INT(box_stage_open(root, &stage), 0);
	ASSERT_INT(box_deferred_sync_begin(&stage, marks), 0);
	ASSERT_INT(box_deferred_sync_mark(&stage, marks, "pack"), 0);
	make("pack/sub");
	ASSERT_INT(box_deferred_sync_hand_over(&stage, marks, later), 0);
	box_stage_close(&stage);
}

/* -- what is not on the disk -- */

TEST(what_the_disk_has_taken_stays)
{
	struct box_deferred_sync later;
	set_up();
	promise(&later);
	ASSERT(has(BOX_STAGE_NAME, this_boot));
	box_deferred_sync_finish(&later);
	ASSERT(synced_empty_stage && !is_there(BOX_STAGE_NAME));
	box_stage_sweep(root);
	ASSERT(is_there("pack"));
	clean_up();
}

TEST(what_the_disk_has_refused_goes_though_it_takes_the_next)
{
	struct box_deferred_sync later;
	set_up();
	promise(&later);
	disk_fails = true;
	box_deferred_sync_finish(&later);
	ASSERT(is_there("pack") && has(BOX_STAGE_NAME, FAILED) && !has(BOX_STAGE_NAME, this_boot));
	box_stage_sweep(root);
	ASSERT(!is_there("pack") && !is_there(BOX_STAGE_NAME));
	clean_up();
}

TEST(so_it_does_when_the_marks_were_left_by_another)
{
	char marks[2][80];
	set_up();
	for (int i = 0; i < 2; i++) {
		(void)snprintf(marks[i], sizeof(marks[i]), "%s.7-%d", this_boot, i);
	}
	make("one");
	make("two");
	make_mark(marks[0], "one");
	make_mark(marks[1], "two");
	disk_fails = true;
	stays = "two";
	box_stage_sweep(root);
	ASSERT(!disk_fails && !is_there("one") && is_there("two"));
	ASSERT(has(BOX_STAGE_NAME, FAILED) && !has(BOX_STAGE_NAME, this_boot));
	stays = NULL;
	box_stage_sweep(root);
	ASSERT(!is_there("two") && !is_there(BOX_STAGE_NAME));
	clean_up();
}

/* -- marks that must go, and those that must stay -- */

TEST(that_marks_were_removed_is_synced)
{
	set_up();
	make("pack");
	make_mark(OLD, "other");
	box_stage_sweep(root);
	ASSERT(synced_empty_stage && is_there("pack") && !is_there(BOX_STAGE_NAME));
	clean_up();
}

TEST(one_that_stays_does_not_keep_the_marks_of_others)
{
	set_up();
	make("gone");
	make("stays");
	make_mark(OLD, "gone");
	make_mark(OLD, "stays");
	make_mark(OLD, "never-moved");
	stays = "stays";
	box_stage_sweep(root);
	ASSERT(!is_there("gone") && is_there("stays"));
	ASSERT(has(BOX_STAGE_NAME "/" OLD, "stays"));
	make("gone");
	make("never-moved");
	stays = NULL;
	box_stage_sweep(root);
	ASSERT(is_there("gone") && is_there("never-moved") && !is_there("stays"));
	ASSERT(!is_there(BOX_STAGE_NAME));
	clean_up();
}

TEST(marks_that_cannot_be_read_stay)
{
	struct rlimit all;
	set_up();
	make("half");
	make_mark(OLD, "half");
	struct box_stage stage = {root, openat(root, BOX_STAGE_NAME, O_RDONLY | O_CLOEXEC)};
	ASSERT(stage.fd >= 0 && getrlimit(RLIMIT_NOFILE, &all) == 0);
	/* Staging, the folder of marks, and its contents: any of them can fail. */
	for (int room = 0; room < 3; room++) {
		struct rlimit few = {(rlim_t)(stage.fd + 1 + room), all.rlim_max};
		ASSERT_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
		bool is_redeemed = box_deferred_sync_recover(&stage);
		ASSERT_INT(setrlimit(RLIMIT_NOFILE, &all), 0);
		ASSERT(!is_redeemed && is_there("half"));
	}
	ASSERT(box_deferred_sync_recover(&stage) && !is_there("half"));
	(void)close(stage.fd);
	clean_up();
}

TEST(names_that_are_taken_are_passed_over)
{
	struct box_stage stage;
	char item[BOX_STAGE_ITEM_SIZE];
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE] = "";
	char taken[BOX_DEFERRED_SYNC_NAME_SIZE];
	unsigned long last = 0;
	set_up();
	ASSERT_INT(box_stage_open(root, &stage), 0);
	box_stage_name(item);
	ASSERT_INT(sscanf(strchr(item, '-'), "-%lu", &last), 1);
	for (unsigned long i = 1; i <= 100; i++) {
		(void)snprintf(
			taken, sizeof(taken), "%s.%ld-%lu", this_boot, (long)getpid(), last + i);
		make_mark(taken, "theirs");
	}
	ASSERT_INT(box_deferred_sync_begin(&stage, marks), -EEXIST);
	ASSERT_STR(marks, "");
	ASSERT_INT(box_deferred_sync_begin(&stage, marks), 0);
	(void)snprintf(taken, sizeof(taken), "%s.%ld-%lu", this_boot, (long)getpid(), last + 101);
	ASSERT_STR(marks, taken);
	box_stage_close(&stage);
	clean_up();
}

TEST(marks_that_cannot_be_removed_are_told_of)
{
	char text[1024] = "";
	struct box_deferred_sync later;
	set_up();
	promise(&later);
	int log = memfd_create("log", MFD_CLOEXEC);
	int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	ASSERT(log >= 0 && before >= 0 && dup2(log, STDERR_FILENO) >= 0);
	nothing_goes = true;
	box_deferred_sync_finish(&later);
	nothing_goes = false;
	ASSERT(dup2(before, STDERR_FILENO) >= 0);
	ASSERT(pread(log, text, sizeof(text) - 1, 0) > 0);
	ASSERT(strstr(text, "skills.marks_stay"));
	ASSERT(has(BOX_STAGE_NAME, this_boot));
	(void)close(log);
	(void)close(before);
	clean_up();
}
