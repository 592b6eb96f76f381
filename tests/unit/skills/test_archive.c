/* Unpacking: which files are on disk afterwards, and what a taken-over child could do.
 *
 * Hostile children are work functions of the test, run as the real one is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/log.h"
#include "skills/archive/archive.h"
#include "skills/archive/archive_child.h"
#include "tests/unit/lib/zip_maker.h"

#define VALID "Uploaded file must be a valid .zip archive"

static struct box_err err;
static char folder[] = "/tmp/box-archive-XXXXXX";
static char outside[sizeof(folder) + 16];
static int out_fd = -1;

static void remove_folder(void)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ASSERT_INT(system(command), 0);
}

/* A folder that contains the output folder and another file. */
static void open_out(void)
{
	char path[sizeof(folder) + 16];
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	ASSERT(mkdtemp(folder));
	(void)atexit(remove_folder);
	(void)snprintf(path, sizeof(path), "%s/out", folder);
	ASSERT_INT(mkdir(path, 0755), 0);
	out_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(outside, sizeof(outside), "%s/outside", folder);
	int fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ASSERT(out_fd >= 0 && fd >= 0 && write(fd, "mine", 4) == 4);
	(void)close(fd);
}

static int memory_file(const void *bytes, size_t len)
{
	int fd = memfd_create("zip", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, bytes, len), len);
	return fd;
}

static int unpack(const struct zip_item *items, size_t count)
{
	_zip_ buf = zip_make(items, count, NULL);
	_cleanup_(box_close_p) int fd = memory_file(buf.bytes, buf.len);
	err = (struct box_err){0};
	return box_archive_unpack(fd, out_fd, &err);
}

static size_t count_names(void)
{
	size_t count = 0;
	DIR *list = fdopendir(openat(out_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	ASSERT(list);
	for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
		count += entry->d_name[0] != '.';
	}
	(void)closedir(list);
	return count;
}

static void has_file(const char *path, mode_t mode, const char *content)
{
	char bytes[64];
	struct stat st;
	_cleanup_(box_close_p) int fd = openat(out_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ASSERT(fd >= 0 && fstat(fd, &st) == 0);
	ASSERT_INT(st.st_mode, S_IFREG | mode);
	ASSERT_BYTES(bytes, read(fd, bytes, sizeof(bytes)), content, strlen(content));
}

TEST(files_and_folders_are_there_with_their_modes)
{
	const struct zip_item items[] = {
		{.name = "deep/er/text", .content = "hello hello hello", .method = 8},
		{.name = "run.sh", .content = "#!", .mode = S_IFREG | 06711},
		{.name = "secret", .content = "s", .mode = S_IFREG | 0400},
		{.name = "sticky/", .mode = S_IFDIR | 01777},
		{.name = "packed/",
			.method = 8}, /* an empty deflate stream takes some bytes, too */
		{.name = "empty", .has_descriptor = true},
	};
	struct stat st;
	open_out();
	(void)umask(077);
	if (unpack(items, COUNT(items)) < 0) {
		TEST_FAIL("%s", err.text);
	}
	has_file("deep/er/text", 0644, "hello hello hello");
	has_file("run.sh", 0755, "#!");
	has_file("secret", 0644, "s");
	has_file("empty", 0644, "");
	ASSERT_INT(fstatat(out_fd, "sticky", &st, 0), 0);
	ASSERT_INT(st.st_mode, S_IFDIR | 0755);
	ASSERT_INT(fstatat(out_fd, "deep/er", &st, 0), 0);
	ASSERT_INT(st.st_mode, S_IFDIR | 0755);
	ASSERT_INT(count_names(), 6);
}

/* Faults that only unpacking can find: the faulty entry is not written. */
TEST(what_the_data_say_counts)
{
	static const struct {
		struct zip_item item;
		const char *text;
	} rows[] = {
		{{.name = "a", .content = "hello hello", .method = 8, .crc_off = 1},
			VALID ": wrong checksum: a"},
		{{.name = "a", .content = "hello", .crc_off = 1}, VALID ": wrong checksum: a"},
		{{.name = "a", .content = "hello hello", .method = 8, .size_off = 1},
			"Archive entry size changed while extracting: a"},
		{{.name = "a", .content = "hello hello", .method = 8, .size_off = -1},
			"Archive entry size changed while extracting: a"},
		{{.name = "a/", .content = "x", .method = 8, .size_off = -1},
			"Archive entry size changed while extracting: a/"},
	};
	open_out();
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(unpack(&rows[i].item, 1), -EINVAL);
		ASSERT_INT(err.code, BOX_ERR_VALIDATION);
		ASSERT_STR(err.text, rows[i].text);
		struct stat st;
		ASSERT(fstatat(out_fd, "a", &st, 0) < 0 || S_ISDIR(st.st_mode));
	}
}

/* Large enough for several threads: everything is written, and of many faults the first is
 * reported. */
TEST(a_large_one_is_unpacked_whole)
{
	static char content[4 * BOX_MIB];
	static char names[40][8];
	struct zip_item items[COUNT(names)] = {{0}};
	struct stat st;
	for (size_t i = 0; i < COUNT(items); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "d/f%zu", i);
		items[i] = (struct zip_item){.name = names[i], .content = content};
		items[i].content_len = 100000 + i;
	}
	open_out();
	if (unpack(items, COUNT(items)) < 0) {
		TEST_FAIL("%s", err.text);
	}
	for (size_t i = 0; i < COUNT(items); i++) {
		ASSERT_INT(fstatat(out_fd, names[i], &st, 0), 0);
		ASSERT_INT(st.st_size, 100000 + i);
		ASSERT_INT(unlinkat(out_fd, names[i], 0), 0);
	}
	ASSERT_INT(unlinkat(out_fd, "d", AT_REMOVEDIR), 0);
	for (size_t i = 7; i < COUNT(items); i++) {
		items[i].crc_off = 1;
	}
	ASSERT_INT(unpack(items, COUNT(items)), -EINVAL);
	ASSERT_STR(err.text, VALID ": wrong checksum: d/f7");
}

TEST(broken_data_are_refused)
{
	struct zip_item item = {.name = "a", .content = "\xff\xff\xff", .content_len = 3};
	_zip_ buf = zip_make(&item, 1, NULL);
	open_out();
	/* Stored becomes deflated, in both headers. */
	buf.bytes[8] = 8;
	buf.bytes[30 + 1 + 3 + 10] = 8;
	_cleanup_(box_close_p) int fd = memory_file(buf.bytes, buf.len);
	ASSERT_INT(box_archive_unpack(fd, out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, VALID ": broken data: a");
	ASSERT_INT(count_names(), 0);
}

/* The packed data is followed by extra bytes that no reader would miss. */
TEST(data_behind_the_data_are_refused)
{
	struct zip_item plain = {.name = "a", .content = "x", .method = 8};
	struct zip_packed packed = zip_pack(&plain);
	char *longer = calloc(1, packed.packed + 1);
	put_bytes(longer, packed.bytes, packed.packed);
	struct zip_item item = {.name = "a", .content = longer, .content_len = packed.packed + 1};
	_zip_ buf = zip_make(&item, 1, NULL);
	size_t central = 30 + 1 + item.content_len;
	open_out();
	buf.bytes[8] = 8;
	buf.bytes[central + 10] = 8;
	put_bytes(buf.bytes + 14, &packed.crc, 4);
	put_bytes(buf.bytes + 22, &packed.size, 4);
	put_bytes(buf.bytes + central + 16, &packed.crc, 4);
	put_bytes(buf.bytes + central + 24, &packed.size, 4);
	_cleanup_(box_close_p) int fd = memory_file(buf.bytes, buf.len);
	ASSERT_INT(box_archive_unpack(fd, out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, VALID ": broken data: a");
	free(longer);
	free(packed.memory);
}

/* Another process creates files in the folder first. */
TEST(a_link_in_the_folder_leads_nowhere)
{
	const struct zip_item items[] = {{.name = "there/outside", .content = "theirs"}};
	const struct zip_item file = {.name = "link", .content = "theirs"};
	open_out();
	ASSERT_INT(symlinkat("..", out_fd, "there"), 0);
	ASSERT_INT(symlinkat("../outside", out_fd, "link"), 0);
	ASSERT(unpack(items, 1) < 0);
	ASSERT(unpack(&file, 1) < 0);
	char bytes[8];
	_cleanup_(box_close_p) int fd = open(outside, O_RDONLY | O_CLOEXEC);
	ASSERT_BYTES(bytes, read(fd, bytes, sizeof(bytes)), "mine", 4);
}

TEST(what_is_there_already_stays)
{
	const struct zip_item first = {.name = "a", .content = "first"};
	const struct zip_item second = {.name = "a", .content = "second"};
	open_out();
	ASSERT_INT(unpack(&first, 1), 0);
	ASSERT_INT(unpack(&second, 1), -EEXIST);
	ASSERT_STR(err.text, "Archive contains a duplicate path: a");
	has_file("a", 0644, "first");
}

TEST(only_regular_files_of_some_size_are_archives)
{
	int ends[2];
	open_out();
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	ASSERT_INT(box_archive_unpack(ends[0], out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, VALID ": not a regular file");
	_cleanup_(box_close_p) int fd = memfd_create("zip", MFD_CLOEXEC);
	ASSERT_INT(box_archive_unpack(fd, out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, "Uploaded file is empty");
	ASSERT_INT(ftruncate(fd, BOX_ARCHIVE_BYTES_MAX), 0);
	ASSERT_INT(box_archive_unpack(fd, out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, VALID);
	ASSERT_INT(ftruncate(fd, BOX_ARCHIVE_BYTES_MAX + 1), 0);
	ASSERT_INT(box_archive_unpack(fd, out_fd, &err), -EINVAL);
	ASSERT_STR(err.text, "Uploaded archive exceeds the compressed size limit (20971520 bytes)");
}

/* --- hostile children --- */

static int confine(box_archive_child_work work, int timeout_ms)
{
	struct box_archive_child_job job = {.archive_fd = memory_file("x", 1), .out_fd = out_fd};
	job.archive_size = 1;
	err = (struct box_err){0};
	int r = box_archive_child_run(&job, work, timeout_ms, &err);
	(void)close(job.archive_fd);
	return r;
}

/* Prints what was possible and should not have been. */
#define MUST_FAIL(call)                                                                      \
	do {                                                                                 \
		errno = 0;                                                                   \
		if ((long)(call) != -1) {                                                    \
			return box_err_set(                                                  \
				child_err, BOX_ERR_OS, EBADE, "was possible: %s", #call);    \
		}                                                                            \
		if (errno != EPERM && errno != EACCES && errno != EBADF) {                   \
			return box_err_set(                                                  \
				child_err, BOX_ERR_OS, EBADE, "errno %d: %s", errno, #call); \
		}                                                                            \
	} while (0)

static void holds(box_archive_child_work work)
{
	open_out();
	if (confine(work, 20000) < 0) {
		TEST_FAIL("%s", err.text);
	}
}

static long open_at(int fd, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0600 : 0};
	return syscall(SYS_openat2, fd, path, &how, sizeof(how));
}

static int try_files(const struct box_archive_child_job *job, struct box_err *child_err)
{
	/* Refused by Landlock: the call itself is allowed. */
	MUST_FAIL(open_at(AT_FDCWD, "/etc/passwd", O_RDONLY));
	MUST_FAIL(open_at(AT_FDCWD, "/etc", O_RDONLY | O_DIRECTORY));
	MUST_FAIL(open_at(AT_FDCWD, outside, O_WRONLY));
	MUST_FAIL(open_at(AT_FDCWD, "/tmp/box-archive-test", O_WRONLY | O_CREAT));
	MUST_FAIL(open_at(job->out_fd, "../outside", O_WRONLY));
	MUST_FAIL(open_at(job->out_fd, "../more", O_WRONLY | O_CREAT));
	MUST_FAIL(open_at(job->out_fd, ".", O_RDONLY | O_DIRECTORY));
	MUST_FAIL(syscall(SYS_mkdirat, job->out_fd, "../more", 0700));
	MUST_FAIL(syscall(SYS_mkdirat, AT_FDCWD, "/tmp/box-archive-test", 0700));
	return 0;
}

TEST(no_file_outside_is_reached)
{
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
		SKIP("this kernel has no Landlock");
	}
	holds(try_files);
}

static int try_calls(const struct box_archive_child_job *job, struct box_err *child_err)
{
	int pair[2];
	char byte;
	MUST_FAIL(syscall(SYS_openat, job->out_fd, "x", O_WRONLY | O_CREAT, 0600));
	MUST_FAIL(syscall(SYS_unlinkat, job->out_fd, "x", 0));
	MUST_FAIL(syscall(SYS_symlinkat, "/", job->out_fd, "x"));
	MUST_FAIL(syscall(SYS_linkat, job->out_fd, "x", job->out_fd, "y", 0));
	MUST_FAIL(syscall(SYS_mknodat, job->out_fd, "x", S_IFIFO, 0));
	MUST_FAIL(syscall(SYS_renameat2, job->out_fd, "x", job->out_fd, "y", 0));
	MUST_FAIL(syscall(SYS_fchmod, job->out_fd, 04777));
	MUST_FAIL(syscall(SYS_fchmodat, job->out_fd, ".", 04777));
	MUST_FAIL(syscall(SYS_fchownat, job->out_fd, ".", 1, 1, 0));
	MUST_FAIL(syscall(SYS_getdents64, job->out_fd, NULL, 0));
	MUST_FAIL(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
	MUST_FAIL(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair));
	MUST_FAIL(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	MUST_FAIL(syscall(SYS_clone, CLONE_VM | SIGCHLD, 0, 0, 0, 0));
	MUST_FAIL(syscall(SYS_execve, "/bin/true", NULL, NULL));
	MUST_FAIL(syscall(SYS_kill, getppid(), 0));
	MUST_FAIL(syscall(SYS_ptrace, 0, 0, 0, 0));
	MUST_FAIL(syscall(SYS_memfd_create, "x", 0));
	MUST_FAIL(syscall(SYS_setrlimit, RLIMIT_FSIZE, NULL));
	MUST_FAIL(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0));
	MUST_FAIL(syscall(
		SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	MUST_FAIL(syscall(SYS_ftruncate, job->archive_fd, 0));
	MUST_FAIL(syscall(SYS_pread64, 42, &byte, 1, 0)); /* open in the caller: EBADF here */
	return 0;
}

TEST(nothing_else_can_be_done)
{
	int kept = memory_file("secret", 6);
	ASSERT_INT(dup2(kept, 42), 42);
	holds(try_calls);
}

static int write_much(const struct box_archive_child_job *job, struct box_err *child_err)
{
	static char bytes[BOX_MIB];
	long fd = open_at(job->out_fd, "large", O_WRONLY | O_CREAT | O_EXCL);
	for (size_t i = 0; fd >= 0 && i < 16; i++) {
		if (write((int)fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes)) {
			return box_err_set(child_err, BOX_ERR_OS, errno, "too early");
		}
	}
	return fd < 0 || write((int)fd, "x", 1) != -1
		? box_err_set(child_err, BOX_ERR_OS, EBADE, "it goes on")
		: 0;
}

TEST(no_file_is_larger_than_an_entry_may_be)
{
	holds(write_much);
}

static int spin(const struct box_archive_child_job *job, struct box_err *child_err)
{
	(void)job;
	(void)child_err;
	for (volatile bool on = true; on;) {
	}
	return 0;
}

TEST(time_runs_out)
{
	open_out();
	uint64_t start = box_clock_ms();
	ASSERT_INT(confine(spin, 200), -ETIMEDOUT);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT(box_clock_ms() - start >= 200 && box_clock_ms() - start < 10000);
	ASSERT_INT(waitpid(-1, NULL, 0), -1);
	ASSERT_INT(errno, ECHILD);
}

static int eat(const struct box_archive_child_job *job, struct box_err *child_err)
{
	(void)job;
	void *memory = mmap(NULL, BOX_ARCHIVE_MEMORY_BYTES_MAX, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? 0 : box_err_set(child_err, BOX_ERR_OS, EBADE, "all of it");
}

TEST(memory_runs_out)
{
#ifdef BOX_SANITIZED
	SKIP("the sanitizers take terabytes");
#endif
	holds(eat);
}

static int die(const struct box_archive_child_job *job, struct box_err *child_err)
{
	(void)job;
	(void)child_err;
	_exit(0);
}

TEST(an_end_without_an_answer_is_a_failure)
{
	open_out();
	ASSERT_INT(confine(die, 20000), -ECHILD);
	ASSERT_INT(err.code, BOX_ERR_OS);
}

static int lie(const struct box_archive_child_job *job, struct box_err *child_err)
{
	(void)child_err;
	/* The fields of a struct filled with 0xff. */
	static char bytes[4096];
	memset(bytes, 0xff, sizeof(bytes));
	(void)!write(job->out_fd + 1, bytes, sizeof(bytes));
	return 0;
}

TEST(an_answer_that_is_none_is_a_failure)
{
	open_out();
	ASSERT_INT(confine(lie, 20000), -EPROTO);
}

/* --- without confinement --- */

/* From now on one system call fails, here and in children. */
static void deny(uint32_t call, uint32_t errnum)
{
	struct filter_step {
		uint16_t code;
		uint8_t yes;
		uint8_t no;
		uint32_t k;
	} steps[] = {
		{0x20, 0, 0, 0},    /* the number of the call */
		{0x15, 0, 1, call}, /* is it this one? */
		{0x06, 0, 0, SECCOMP_RET_ERRNO | errnum},
		{0x06, 0, 0, SECCOMP_RET_ALLOW},
	};
	struct {
		uint16_t len;
		struct filter_step *steps;
	} program = {COUNT(steps), steps};
	ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ASSERT_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

static void refuses_without(uint32_t call, uint32_t errnum, const char *step)
{
	const struct zip_item item = {.name = "a", .content = "x"};
	open_out();
	deny(call, errnum);
	ASSERT(unpack(&item, 1) < 0);
	ASSERT_INT(err.code, BOX_ERR_OS);
	if (!strstr(err.text, step)) {
		TEST_FAIL("%s", err.text);
	}
	ASSERT_INT(count_names(), 0);
}

TEST(nothing_is_unpacked_without_seccomp)
{
	refuses_without(SYS_seccomp, EACCES, "seccomp");
}

TEST(nothing_is_unpacked_when_landlock_fails)
{
	refuses_without(SYS_landlock_restrict_self, E2BIG, "landlock_restrict_self");
}

TEST(nothing_is_unpacked_without_limits)
{
	refuses_without(SYS_prlimit64, EPERM, "rlimit");
}

/* As box-rpc does on such a kernel. */
TEST(a_kernel_without_landlock_is_enough)
{
	const struct zip_item item = {.name = "a", .content = "x"};
	open_out();
	deny(SYS_landlock_create_ruleset, EOPNOTSUPP);
	ASSERT_INT(unpack(&item, 1), 0);
	has_file("a", 0644, "x");
	/* The allowlist still applies. */
	if (confine(try_calls, 20000) < 0) {
		TEST_FAIL("%s", err.text);
	}
}
