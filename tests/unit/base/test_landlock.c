/* Landlock: each right refused and allowed, each in a process of its own, and what each ABI version
 * can restrict. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/landlock.h"
#include "tests/unit/lib/test.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker reads /proc, which is not accessible then. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

#define ALL_RIGHTS UINT64_MAX

static char folder
	[64]; /* with a/file, a/program, a/empty, b and a null device where root may make it */
static uint32_t abi;

static const char *path_of(const char *name)
{
	static char paths[2][256];
	static unsigned turn;
	char *path = paths[turn++ % 2];
	(void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *content, mode_t mode)
{
	FILE *to = fopen(path_of(name), "we");
	ASSERT(to);
	(void)fputs(content, to);
	ASSERT_INT(fclose(to), 0);
	ASSERT_INT(chmod(path_of(name), mode), 0);
}

static void make_scene(void)
{
	abi = box_landlock_abi();
	if (abi == 0) {
		SKIP("this kernel has no Landlock");
	}
	(void)snprintf(folder, sizeof(folder), "/tmp/test_landlock_XXXXXX");
	ASSERT(mkdtemp(folder));
	ASSERT_INT(mkdir(path_of("a"), 0700), 0);
	ASSERT_INT(mkdir(path_of("a/empty"), 0700), 0);
	ASSERT_INT(mkdir(path_of("b"), 0700), 0);
	write_file("a/file", "text", 0600);
	write_file("a/program", "#!/bin/true\n", 0700);
	(void)mknod(path_of("a/null"), S_IFCHR | 0600, makedev(1, 3));
}

static void remove_scene(void)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ASSERT_INT(system(command), 0);
}

/* --- operations: 0 or -errno --- */

static int negative(int r)
{
	return r < 0 ? -errno : 0;
}

static int try_open(const char *name, int flags)
{
	int fd = open(path_of(name), flags | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	(void)close(fd);
	return 0;
}

static int execute(void)
{
	return negative(access(path_of("a/program"), F_OK)) < 0
		? -errno
		: negative(execl(path_of("a/program"), "program", NULL));
}

static int read_file(void)
{
	return try_open("a/file", O_RDONLY);
}

static int write_to_file(void)
{
	return try_open("a/file", O_WRONLY);
}

static int read_folder(void)
{
	return try_open("a", O_RDONLY | O_DIRECTORY);
}

static int remove_folder(void)
{
	return negative(rmdir(path_of("a/empty")));
}

static int remove_file(void)
{
	return negative(unlink(path_of("a/file")));
}

static int make_folder(void)
{
	return negative(mkdir(path_of("a/new"), 0700));
}

static int make_file(void)
{
	return negative(mknod(path_of("a/new"), S_IFREG | 0600, 0));
}

static int make_device(void)
{
	return negative(mknod(path_of("a/new"), S_IFCHR | 0600, makedev(1, 3)));
}

static int make_disk(void)
{
	return negative(mknod(path_of("a/new"), S_IFBLK | 0600, makedev(7, 0)));
}

static int move_between_folders(void)
{
	return negative(rename(path_of("a/file"), path_of("b/file")));
}

static int truncate_file(void)
{
	return negative(truncate(path_of("a/file"), 1));
}

/* ENOTTY is the driver's own answer: the ioctl was allowed. */
static int ask_device(void)
{
	int count;
	int fd = open(path_of("a/null"), O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int r = ioctl(fd, TIOCOUTQ, &count) < 0 && errno != ENOTTY ? -errno : 0;
	(void)close(fd);
	return r;
}

/* A right of the kernel, the operation that needs it, and the other rights that it needs. */
static const struct {
	const char *name;
	uint64_t right;
	uint64_t also;
	uint32_t since_abi;
	bool needs_root;
	bool of_files; /* a rule for the file alone can grant it */
	int refused;   /* the errno */
	int (*try)(void);
	const char *file;
} rights[] = {
	{"read a file", BOX_LANDLOCK_READ_FILE, 0, 1, false, true, EACCES, read_file, "a/file"},
	{"write to a file", BOX_LANDLOCK_WRITE_FILE, 0, 1, false, true, EACCES, write_to_file,
		"a/file"},
	{"read a folder", BOX_LANDLOCK_READ_DIR, 0, 1, false, false, EACCES, read_folder, "a/file"},
	{"remove a folder", BOX_LANDLOCK_REMOVE_DIR, 0, 1, false, false, EACCES, remove_folder,
		"a/file"},
	{"remove a file", BOX_LANDLOCK_REMOVE_FILE, 0, 1, false, false, EACCES, remove_file,
		"a/file"},
	{"make a folder", BOX_LANDLOCK_MAKE_DIR, 0, 1, false, false, EACCES, make_folder, "a/file"},
	{"make a file", BOX_LANDLOCK_MAKE_REG, 0, 1, false, false, EACCES, make_file, "a/file"},
	{"make a character device", BOX_LANDLOCK_MAKE_CHAR, 0, 1, true, false, EACCES, make_device,
		"a/file"},
	{"make a block device", BOX_LANDLOCK_MAKE_BLOCK, 0, 1, true, false, EACCES, make_disk,
		"a/file"},
	{"move between folders", BOX_LANDLOCK_REFER,
		BOX_LANDLOCK_REMOVE_FILE | BOX_LANDLOCK_MAKE_REG, 2, false, false, EXDEV,
		move_between_folders, "a/file"},
	{"truncate a file", BOX_LANDLOCK_TRUNCATE, 0, 3, false, true, EACCES, truncate_file,
		"a/file"},
	{"ioctl of a device", BOX_LANDLOCK_IOCTL_DEV, BOX_LANDLOCK_READ_FILE, 5, true, true, EACCES,
		ask_device, "a/null"},
};

/* The result of an operation in a child that has these rights below a path. */
static int try_with(uint64_t allowed, const char *below, int (*try)(void))
{
	int result[2];
	int r = 0;
	int status;
	ASSERT_INT(pipe2(result, O_CLOEXEC), 0);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		const char *step = NULL;
		int fd = open(below, O_PATH | O_CLOEXEC);
		struct box_landlock_rule rule = {fd, allowed};
		ASSERT(fd >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
		ASSERT_INT(box_landlock_enter(abi, BOX_LANDLOCK_FILES, &rule, 1, &step), 0);
		r = try();
		_exit(write(result[1], &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 1);
	}
	(void)close(result[1]);
	ASSERT_INT(read(result[0], &r, sizeof(r)), sizeof(r));
	(void)close(result[0]);
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT_INT(status, 0);
	return r;
}

static void expect(size_t row, const char *what, int r, int expected)
{
	if (r != expected) {
		TEST_FAIL("%s, %s: %d, not %d", rights[row].name, what, r, expected);
	}
}

TEST(each_right_is_refused_and_allowed)
{
	for (size_t i = 0; i < COUNT(rights); i++) {
		make_scene();
		if (abi >= rights[i].since_abi && (!rights[i].needs_root || geteuid() == 0)) {
			uint64_t needed = rights[i].right | rights[i].also;
			expect(i, "refused",
				try_with(ALL_RIGHTS & ~rights[i].right, folder, rights[i].try),
				-rights[i].refused);
			expect(i, "allowed elsewhere only",
				try_with(ALL_RIGHTS, path_of("b"), rights[i].try), -EACCES);
			expect(i, "allowed", try_with(needed, folder, rights[i].try), 0);
		}
		remove_scene();
	}
}

/* A rule for a file applies the rights that a file can have, and ignores the rest. */
TEST(a_rule_for_a_file)
{
	for (size_t i = 0; i < COUNT(rights); i++) {
		make_scene();
		if (abi >= rights[i].since_abi && (!rights[i].needs_root || geteuid() == 0)) {
			int r = try_with(ALL_RIGHTS, path_of(rights[i].file), rights[i].try);
			expect(i, "by a rule for the file", r, rights[i].of_files ? 0 : -EACCES);
		}
		remove_scene();
	}
}

/* The file's interpreter is elsewhere, so success would not show; the refusal does. */
TEST(programs_are_executed_by_right)
{
	make_scene();
	ASSERT_INT(try_with(ALL_RIGHTS & ~(uint64_t)BOX_LANDLOCK_EXECUTE, "/", execute), -EACCES);
	remove_scene();
}

/* --- ABI versions --- */

TEST(versions_and_their_rights)
{
	static const struct {
		uint32_t abi;
		uint64_t rights;
	} rows[] = {{0, 0}, {1, 0x1fff}, {2, 0x3fff}, {3, 0x7fff}, {4, 0x7fff}, {5, 0xffff},
		{6, 0xffff}, {7, 0xffff}, {99, 0xffff}, {UINT32_MAX, 0xffff}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_landlock_rights(rows[i].abi), rows[i].rights);
	}
}

/* Every version up to the kernel's own can be requested, and enforces what it knows. */
static int open_and_allow(uint32_t version, enum box_landlock_scope scope)
{
	const char *step = NULL;
	int fd = open("/", O_PATH | O_CLOEXEC);
	int file = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	const struct box_landlock_rule rules[] = {{fd, ALL_RIGHTS}, {file, ALL_RIGHTS}};
	ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	return box_landlock_enter(version, scope, rules, COUNT(rules), &step);
}

TEST(older_versions_on_this_kernel)
{
	make_scene();
	remove_scene();
	for (uint32_t version = 1; version <= abi; version++) {
		for (int scope = BOX_LANDLOCK_FILES; scope <= BOX_LANDLOCK_ALL; scope++) {
			int status;
			pid_t pid = fork();
			ASSERT(pid >= 0);
			if (pid == 0) {
				_exit(-open_and_allow(version, (enum box_landlock_scope)scope));
			}
			ASSERT_INT(waitpid(pid, &status, 0), pid);
			ASSERT_INT(status, 0);
		}
	}
}

/* --- other than files --- */

/* To an abstract socket of this test's own process. */
static int reach_abstract_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		(size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			"test_landlock_%d", (int)getppid()));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = negative(connect(fd, (struct sockaddr *)&address, size));
	(void)close(fd);
	return r;
}

static int listen_as_parent(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		(size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			"test_landlock_%d", (int)getpid()));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_INT(bind(fd, (struct sockaddr *)&address, size), 0);
	ASSERT_INT(listen(fd, 4), 0);
	return fd;
}

static int result_in_scope(enum box_landlock_scope scope)
{
	int status;
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		const char *step = NULL;
		ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
		ASSERT_INT(box_landlock_enter(abi, scope, NULL, 0, &step), 0);
		bool signals = kill(getppid(), 0) == 0;
		_exit((reach_abstract_socket() == 0 ? 1 : 0) | (signals ? 2 : 0));
	}
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(signals_and_abstract_sockets)
{
	abi = box_landlock_abi();
	if (abi < 6) {
		SKIP("this kernel's Landlock has no scopes");
	}
	int fd = listen_as_parent();
	ASSERT_INT(result_in_scope(BOX_LANDLOCK_FILES), 3);
	ASSERT_INT(result_in_scope(BOX_LANDLOCK_ALL), 0);
	(void)close(fd);
}

/* --- errors --- */

TEST(the_call_that_failed_is_named)
{
	const char *step = NULL;
	const struct box_landlock_rule rule = {.fd = -1, .rights = ALL_RIGHTS};
	abi = box_landlock_abi();
	if (abi == 0) {
		SKIP("this kernel has no Landlock");
	}
	/* A ruleset that forbids nothing is refused. */
	ASSERT_INT(box_landlock_enter(0, BOX_LANDLOCK_FILES, NULL, 0, &step), -ENOMSG);
	ASSERT_STR(step, "landlock_create_ruleset");
	ASSERT_INT(box_landlock_enter(abi, BOX_LANDLOCK_FILES, &rule, 1, &step), -EBADF);
	ASSERT_STR(step, "landlock_add_rule");
	if (geteuid() != 0) {
		/* no_new_privs is not set. */
		ASSERT_INT(box_landlock_enter(abi, BOX_LANDLOCK_FILES, NULL, 0, &step), -EPERM);
		ASSERT_STR(step, "landlock_restrict_self");
	}
}

/* Makes landlock_create_ruleset return 0 from now on: version 0, without an error. */
static int answer_with_version_0(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
		? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
		: -1;
}

/* Callers return -errno; with errno 0 that would look as if Landlock were in force. */
TEST(version_0_comes_with_a_reason)
{
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		if (answer_with_version_0() < 0) {
			_exit(2);
		}
		errno = 0;
		_exit(box_landlock_abi() == 0 && errno == ENOSYS ? 0 : 1);
	}
	int status;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2) {
		SKIP("no seccomp filters here");
	}
	ASSERT_INT(WEXITSTATUS(status), 0);
}

TEST(a_ruleset_is_closed_by_exec)
{
	abi = box_landlock_abi();
	if (abi == 0) {
		SKIP("this kernel has no Landlock");
	}
	int fd = box_landlock_open(abi, BOX_LANDLOCK_ALL);
	ASSERT(fd >= 0);
	ASSERT_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
	(void)close(fd);
}
