/* Operations on cgroup folders, in ordinary folders: files there contain what the test wrote. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>

#include "boxd/cgroup/cgroup_manager.h"
#include "tests/unit/lib/test.h"

#define P BOX_CGROUP_PIDS
#define M BOX_CGROUP_MEMORY
#define C BOX_CGROUP_CPU

/* A folder that stands for one of the kernel's. */

static char place[64];
static int top;

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

static void remove_place(void)
{
	(void)nftw(place, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_place(void)
{
	(void)snprintf(place, sizeof(place), "/tmp/box-test-cgroup-XXXXXX");
	ASSERT(mkdtemp(place));
	ASSERT_INT(atexit(remove_place), 0);
	top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(top >= 0);
}

static void put_file(const char *name, const char *text)
{
	int fd = openat(top, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void assert_file(const char *name, const char *text)
{
	char found[256];
	ASSERT(box_cgroup_read(top, name, found, sizeof(found)) >= 0);
	ASSERT_STR(found, text);
}

static bool is_there(const char *name)
{
	return faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(version_2_writes_limits)
{
	struct box_err err;
	make_place();
	put_file("memory.max", "");
	put_file("memory.swap.max", "");
	put_file("cpu.max", "");
	ASSERT_INT(box_cgroup_v2.limit_memory(top, 64 << 20, &err), 0);
	ASSERT_INT(box_cgroup_v2.limit_cpu(top, 20000, &err), 0);
	assert_file("memory.max", "67108864");
	assert_file("memory.swap.max", "0");
	assert_file("cpu.max", "20000 100000");
}

TEST(version_1_writes_limits)
{
	struct box_err err;
	make_place();
	put_file("memory.limit_in_bytes", "");
	put_file("memory.memsw.limit_in_bytes", "");
	put_file("memory.kmem.tcp.limit_in_bytes", "");
	put_file("cpu.cfs_period_us", "");
	put_file("cpu.cfs_quota_us", "");
	ASSERT_INT(box_cgroup_v1.limit_memory(top, 64 << 20, &err), 0);
	ASSERT_INT(box_cgroup_v1.limit_cpu(top, 20000, &err), 0);
	assert_file("memory.limit_in_bytes", "67108864");
	assert_file("memory.memsw.limit_in_bytes", "67108864");
	assert_file("memory.kmem.tcp.limit_in_bytes", "67108864");
	assert_file("cpu.cfs_period_us", "100000");
	assert_file("cpu.cfs_quota_us", "20000");
}

TEST(swap_is_left_out_where_it_is_not_accounted_for)
{
	struct box_err err;
	make_place();
	put_file("memory.max", "");
	put_file("memory.limit_in_bytes", "");
	ASSERT_INT(box_cgroup_v2.limit_memory(top, 4096, &err), 0);
	ASSERT_INT(box_cgroup_v1.limit_memory(top, 4096, &err), 0);
	ASSERT(!is_there("memory.swap.max"));
	ASSERT(!is_there("memory.memsw.limit_in_bytes"));
	ASSERT(!is_there("memory.kmem.tcp.limit_in_bytes"));
}

/* Longer files keep their tail: as if the kernel had changed what was written. */
TEST(a_limit_that_is_not_there_afterwards_is_an_error)
{
	struct box_err err;
	make_place();
	put_file("memory.max", "1111111\n");
	ASSERT_INT(box_cgroup_v2.limit_memory(top, 4096, &err), -ERANGE);
	ASSERT_STR(err.text, "memory.max is 4096111 where 4096 was written");
	put_file("memory.limit_in_bytes", "");
	put_file("memory.memsw.limit_in_bytes", "8192000\n");
	ASSERT_INT(box_cgroup_v1.limit_memory(top, 4096, &err), -ERANGE);
	ASSERT_STR(err.text, "memory.memsw.limit_in_bytes is 4096000 where 4096 was written");
	put_file("memory.memsw.limit_in_bytes", "");
	put_file("memory.kmem.tcp.limit_in_bytes", "8192000\n");
	ASSERT_INT(box_cgroup_v1.limit_memory(top, 4096, &err), -ERANGE);
	ASSERT_STR(err.text, "memory.kmem.tcp.limit_in_bytes is 4096000 where 4096 was written");
	put_file("cpu.max", "max 1000000000\n");
	ASSERT_INT(box_cgroup_v2.limit_cpu(top, 1000, &err), -ERANGE);
	ASSERT_STR(err.text, "cpu.max is 1000 100000000 where 1000 100000 was written");
	ASSERT_INT(box_cgroup_write_number_checked(top, "pids.max", 5, &err), -ENOENT);
	ASSERT_STR(err.text, "cannot write 5 to pids.max: No such file or directory");
	ASSERT_INT(err.errnum, ENOENT);
}

TEST(a_newline_at_the_end_is_no_difference)
{
	struct box_err err;
	make_place();
	put_file("pids.max", "77\n");
	ASSERT_INT(box_cgroup_write_number_checked(top, "pids.max", 12, &err), 0);
}

TEST(a_text_too_long_is_not_cut)
{
	char text[8];
	make_place();
	put_file("short", "1234567");
	put_file("long", "12345678");
	ASSERT_INT(box_cgroup_read(top, "short", text, sizeof(text)), 7);
	ASSERT_INT(box_cgroup_read(top, "long", text, sizeof(text)), -E2BIG);
}

TEST(lists_pids_across_pieces)
{
	static struct box_cgroup_pid_list list;
	static char text[40000];
	size_t len = 0;
	pid_t pid = 0;
	make_place();
	for (int i = 1; i <= 5000; i++) {
		/* 0 is a process that our pid namespace does not show. */
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, i % 10 ? "%d\n" : "%d\n0\n", i);
	}
	put_file("cgroup.procs", text);
	ASSERT_INT(box_cgroup_pid_list_open(&list, top), 0);
	for (int i = 1; i <= 5000; i++) {
		ASSERT(box_cgroup_pid_list_next(&list, &pid));
		ASSERT_INT(pid, i);
	}
	ASSERT(!box_cgroup_pid_list_next(&list, &pid));
	box_cgroup_pid_list_close(&list);
}

/* Otherwise a fork bomb could outrun its killer. Both ways do it where there is no cgroup.kill. */
TEST(forks_are_forbidden_before_killing)
{
	make_place();
	put_file("cgroup.procs", "");
	put_file("pids.max", "");
	box_cgroup_v1.kill(top);
	assert_file("pids.max", "0");
	put_file("pids.max", "");
	box_cgroup_v2.kill(top);
	assert_file("pids.max", "0");
	put_file("pids.max", "");
	put_file("cgroup.kill", "");
	box_cgroup_v2.kill(top);
	assert_file("pids.max", "");
	assert_file("cgroup.kill", "1");
}

/* Exactly the listed processes are killed, in more than one batch. */
TEST(kills_what_is_listed)
{
	enum {
		CHILDREN = 150
	};
	static char text[CHILDREN * 16];
	pid_t pids[CHILDREN + 1];
	size_t len = 0;
	int status = 0;
	make_place();
	put_file("pids.max", "");
	for (int i = 0; i <= CHILDREN; i++) {
		pids[i] = fork();
		ASSERT(pids[i] >= 0);
		if (pids[i] == 0) {
			(void)alarm(TEST_SECONDS);
			(void)pause();
			_exit(0);
		}
		if (i < CHILDREN) {
			len += (size_t)snprintf(
				text + len, sizeof(text) - len, "%d\n0\n", (int)pids[i]);
		}
	}
	put_file("cgroup.procs", text);
	box_cgroup_v1.kill(top);
	for (int i = 0; i < CHILDREN; i++) {
		ASSERT_INT(waitpid(pids[i], &status, 0), pids[i]);
		ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	ASSERT_INT(waitpid(pids[CHILDREN], &status, WNOHANG), 0);
	ASSERT_INT(kill(pids[CHILDREN], SIGKILL), 0);
	ASSERT_INT(waitpid(pids[CHILDREN], &status, 0), pids[CHILDREN]);
}

/* The processes of our cgroup move to the leaf one by one; a plain file keeps the last pid. */
TEST(version_2_moves_our_group_aside)
{
	struct box_err err;
	struct box_cgroup_own own = {.fd = -1};
	make_place();
	ASSERT_INT(mkdirat(top, "a", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/boxd-leaf", 0700), 0);
	put_file("a/cgroup.events", "populated 1\n");
	put_file("a/cgroup.procs", "4194301\n4194302\n");
	put_file("a/cgroup.subtree_control", "cpu memory pids\n");
	put_file("a/boxd-leaf/cgroup.procs", "");
	ASSERT_INT(box_cgroup_v2.settle(top, "a", P | M | C, &own, &err), 0);
	assert_file("a/boxd-leaf/cgroup.procs", "4194302");
	struct stat named;
	struct stat opened;
	ASSERT_INT(fstatat(top, "a", &named, 0), 0);
	ASSERT_INT(fstat(own.fd, &opened), 0);
	ASSERT_INT(opened.st_ino, named.st_ino);
	(void)close(own.fd);
}

TEST(version_2_stays_in_the_root)
{
	struct box_err err;
	struct box_cgroup_own own = {.fd = -1};
	make_place();
	put_file("cgroup.procs", "1\n2\n");
	put_file("cgroup.subtree_control", "cpu memory pids\n");
	ASSERT_INT(box_cgroup_v2.settle(top, ".", P | M | C, &own, &err), 0);
	ASSERT(!is_there("boxd-leaf"));
	(void)close(own.fd);
}

TEST(version_2_in_a_leaf_makes_its_lot_beside_it)
{
	static const struct {
		const char *below;
		const char *control;
		const char *found;
	} rows[] = {
		{"boxd-leaf", "cpu memory pids\n", "."},
		{"a/boxd-leaf", "cpu memory pids\n", "a"},
		/* Someone else's leaf, without controllers. */
		{"a/boxd-leaf", "memory pids\n", NULL},
		{"a/notboxd-leaf", "cpu memory pids\n", NULL},
	};
	struct box_err err;
	make_place();
	ASSERT_INT(mkdirat(top, "boxd-leaf", 0700), 0);
	ASSERT_INT(mkdirat(top, "a", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/boxd-leaf", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/notboxd-leaf", 0700), 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct stat named;
		struct stat opened;
		struct box_cgroup_own own = {.fd = -1};
		put_file("cgroup.subtree_control", rows[i].control);
		put_file("a/cgroup.subtree_control", rows[i].control);
		int r = box_cgroup_v2.settle(top, rows[i].below, P | M | C, &own, &err);
		ASSERT_INT(r < 0, rows[i].found == NULL);
		if (rows[i].found) {
			ASSERT_INT(fstatat(top, rows[i].found, &named, 0), 0);
			ASSERT_INT(fstat(own.fd, &opened), 0);
			ASSERT_INT(opened.st_ino, named.st_ino);
			(void)close(own.fd);
		}
	}
}

/* As the watcher of a killed boxd does while the next boxd starts in its leaf. */
TEST(version_2_in_a_leaf_that_another_leaves)
{
	struct box_err err;
	struct box_cgroup_own own = {.fd = -1};
	int ready[2];
	char byte;
	make_place();
	ASSERT_INT(mkdirat(top, "a", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/boxd-leaf", 0700), 0);
	put_file("a/cgroup.events", "populated 1\n");
	put_file("a/cgroup.procs", "");
	put_file("a/cgroup.subtree_control", "cpu memory pids\n");
	put_file("a/boxd-leaf/cgroup.procs", "");
	ASSERT_INT(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		const struct timespec pause = {.tv_nsec = 200000000L};
		int folder = openat(top, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		box_cgroup_own_lock(folder);
		(void)write(ready[1], "r", 1);
		(void)nanosleep(&pause, NULL);
		put_file("a/cgroup.subtree_control", "");
		box_cgroup_own_unlock(folder);
		_exit(0);
	}
	ASSERT_INT(read(ready[0], &byte, 1), 1);
	/* It enables the controllers again; a plain file does not show them, hence the error. */
	ASSERT_INT(box_cgroup_v2.settle(top, "a/boxd-leaf", P | M | C, &own, &err), -EINVAL);
	assert_file("a/cgroup.subtree_control", "+pids +memory +cpu");
	ASSERT_INT(waitpid(pid, NULL, 0), pid);
}

/* A plain file contains "+pids ..." as it was written, which is no list of controllers. */
TEST(version_2_believes_only_what_it_reads_back)
{
	struct box_err err;
	make_place();
	put_file("cgroup.subtree_control", "");
	ASSERT_INT(box_cgroup_v2.prepare_parent(top, P | M | C, &err), -EINVAL);
	ASSERT_STR(err.text,
		"cannot write \"+pids +memory +cpu\" to cgroup.subtree_control: Invalid "
		"argument");
	assert_file("cgroup.subtree_control", "+pids +memory +cpu");
	put_file("cgroup.subtree_control", "");
	ASSERT_INT(box_cgroup_v2.prepare_parent(top, M, &err), -EINVAL);
	assert_file("cgroup.subtree_control", "+memory");
}

TEST(version_2_leaves_nothing_when_it_cannot_move)
{
	struct box_err err;
	struct box_cgroup_own own = {.fd = -1};
	make_place();
	put_file("cgroup.events", "populated 1\n");
	put_file("cgroup.procs", "4194301\n");
	ASSERT_INT(box_cgroup_v2.settle(top, ".", P | M | C, &own, &err), -ENOENT);
	ASSERT_STR(err.text, "cannot move to the group boxd-leaf: No such file or directory");
	ASSERT(!is_there("boxd-leaf"));
	ASSERT_INT(own.fd, -1);
}

/* The processes of a box move down into a leaf, we do not; a plain file keeps the last pid. */
TEST(version_2_divides_a_box)
{
	struct box_err err;
	int rest = -1;
	make_place();
	ASSERT_INT(mkdirat(top, "rest", 0700), 0);
	put_file("cgroup.procs", "4194301\n4194302\n");
	put_file("cgroup.subtree_control", "memory\n");
	put_file("rest/cgroup.procs", "");
	put_file("cgroup.freeze", "");
	ASSERT_INT(box_cgroup_v2.divide(top, &rest, &err), 0);
	assert_file("rest/cgroup.procs", "4194302");
	assert_file("cgroup.freeze", "0");
	char found[16];
	ASSERT(box_cgroup_read(rest, "cgroup.procs", found, sizeof(found)) > 0);
	(void)close(rest);
	/* A controller that is missing afterwards was not available. */
	rest = -1;
	put_file("cgroup.subtree_control", "");
	put_file("cgroup.freeze", "");
	ASSERT_INT(box_cgroup_v2.divide(top, &rest, &err), -EINVAL);
	ASSERT_INT(rest, -1);
	assert_file("cgroup.freeze", "0");
}

TEST(version_1_divides_where_limits_count_below)
{
	struct box_err err;
	int rest = 7;
	make_place();
	ASSERT_INT(box_cgroup_v1.divide(top, &rest, &err), 0);
	ASSERT_INT(rest, -1);
	put_file("memory.use_hierarchy", "1\n");
	ASSERT_INT(box_cgroup_v1.divide(top, &rest, &err), 0);
	put_file("memory.use_hierarchy", "0\n");
	ASSERT_INT(box_cgroup_v1.divide(top, &rest, &err), 0);
	assert_file("memory.use_hierarchy", "1\n");
}

TEST(a_part_ends_as_one_in_version_2)
{
	struct box_err err;
	make_place();
	put_file("memory.max", "");
	put_file("memory.oom.group", "");
	ASSERT_INT(box_cgroup_v2.limit_process(top, 64 << 20, &err), 0);
	assert_file("memory.max", "67108864");
	assert_file("memory.oom.group", "1");
	put_file("memory.limit_in_bytes", "");
	ASSERT_INT(box_cgroup_v1.limit_process(top, 64 << 20, &err), 0);
	assert_file("memory.limit_in_bytes", "67108864");
}

TEST(groups_below_are_cleared)
{
	make_place();
	ASSERT_INT(mkdirat(top, "a", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/p1", 0700), 0);
	ASSERT_INT(mkdirat(top, "a/rest", 0700), 0);
	ASSERT_INT(mkdirat(top, "b", 0700), 0);
	box_cgroup_clear(top, &box_cgroup_v2);
	ASSERT(!is_there("a") && !is_there("b"));
}

TEST(goes_through_no_link_and_not_up)
{
	int fd = -1;
	make_place();
	ASSERT_INT(mkdirat(top, "a", 0700), 0);
	ASSERT_INT(symlinkat("a", top, "link"), 0);
	ASSERT_INT(box_cgroup_open_below(top, "a", &fd), 0);
	(void)close(fd);
	ASSERT_INT(box_cgroup_open_below(top, "link", &fd), -ELOOP);
	ASSERT_INT(box_cgroup_open_below(top, "a/../..", &fd), -EXDEV);
	ASSERT_INT(box_cgroup_open_below(top, "/tmp", &fd), -EXDEV);
}

TEST(cgroup_parents_of_live_owners_are_left_alone)
{
	static const char *const strangers[] = {"box-web.service", "box-", "box-0123456789abcde",
		"box-0123456789abcdefa", "box-0123456789ABCDEF", "pox-0123456789abcdef",
		"box-0123456789abcdeg", "boxd-leaf"};
	char names[2][BOX_CGROUP_PARENT_NAME_SIZE];
	int parents[2] = {-1, -1};
	struct box_err err;
	make_place();
	for (size_t i = 0; i < COUNT(strangers); i++) {
		ASSERT_INT(mkdirat(top, strangers[i], 0700), 0);
	}
	for (int i = 0; i < 2; i++) {
		ASSERT_INT(box_cgroup_parent_make(top, names[i], &parents[i], &err), 0);
		ASSERT(is_there(names[i]));
	}
	ASSERT(strcmp(names[0], names[1]) != 0);
	ASSERT_INT(mkdirat(parents[0], "one", 0700), 0);
	ASSERT_INT(mkdirat(parents[0], "two", 0700), 0);
	box_cgroup_parent_sweep(top, &box_cgroup_v1);
	ASSERT(is_there(names[0]) && is_there(names[1]));
	(void)close(parents[0]);
	box_cgroup_parent_sweep(top, &box_cgroup_v1);
	ASSERT(!is_there(names[0]) && is_there(names[1]));
	for (size_t i = 0; i < COUNT(strangers); i++) {
		ASSERT(is_there(strangers[i]));
	}
	(void)close(parents[1]);
}

/* The cleaner has the folder and the names, and gets the lock only when the owner is dead. */
TEST(a_cleaner_removes_what_a_dead_owner_left)
{
	struct box_cgroups cgroups = {.mode = BOX_CGROUP_V1, .count = 1};
	struct box_cgroup_hierarchy *tree = &cgroups.trees[0];
	struct box_cgroups cleaner;
	char alive[BOX_CGROUP_PARENT_NAME_SIZE];
	int folders[BOX_CGROUP_PROCS_FDS_MAX];
	int other = -1;
	struct box_err err;
	make_place();
	*tree = (struct box_cgroup_hierarchy){.manager = &box_cgroup_v1, .own = {.fd = top}};
	ASSERT_INT(box_cgroup_parent_make(top, tree->parent_name, &tree->parent, &err), 0);
	ASSERT_INT(box_cgroup_parent_make(top, alive, &other, &err), 0);
	ASSERT_INT(mkdirat(tree->parent, "b1", 0700), 0);
	ASSERT_INT(mkdirat(other, "b1", 0700), 0);
	cleaner = cgroups;
	ASSERT_INT(box_cgroups_become_cleaner(&cleaner, folders), 1);
	ASSERT_INT(folders[0], top);
	ASSERT_INT(cleaner.trees[0].parent, -1);
	ASSERT(!box_cgroups_clean_up(&cleaner));
	ASSERT(is_there(tree->parent_name));
	(void)close(tree->parent);
	ASSERT(box_cgroups_clean_up(&cleaner));
	ASSERT(!is_there(tree->parent_name));
	ASSERT(is_there(alive));
	ASSERT(box_cgroups_clean_up(&cleaner));
	(void)close(other);
}

/* Its owner died between making and locking it. */
TEST(a_cgroup_parent_that_was_never_locked_is_swept)
{
	make_place();
	ASSERT_INT(mkdirat(top, "box-0123456789abcdef", 0700), 0);
	box_cgroup_parent_sweep(top, &box_cgroup_v2);
	ASSERT(!is_there("box-0123456789abcdef"));
}

/* Nobody else can open it, so nobody else can hold its lock. */
TEST(a_cgroup_parent_is_private)
{
	char name[BOX_CGROUP_PARENT_NAME_SIZE];
	int parent = -1;
	struct box_err err;
	struct stat status;
	make_place();
	(void)umask(0);
	ASSERT_INT(box_cgroup_parent_make(top, name, &parent, &err), 0);
	ASSERT_INT(fstat(parent, &status), 0);
	ASSERT_INT(status.st_mode & 07777, 0700);
	ASSERT_INT(fcntl(parent, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	(void)close(parent);
}

TEST(a_cgroup_parent_in_a_folder_that_is_gone)
{
	char name[BOX_CGROUP_PARENT_NAME_SIZE];
	int parent = -1;
	struct box_err err;
	make_place();
	ASSERT_INT(rmdir(place), 0);
	ASSERT_INT(box_cgroup_parent_make(top, name, &parent, &err), -ENOENT);
	ASSERT_STR(err.text, "cannot make a cgroup below that of boxd: No such file or directory");
	ASSERT_INT(parent, -1);
}
