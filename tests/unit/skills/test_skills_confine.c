/* The confinement of box-skills from inside: what still works, and what an attacker who took it
 * over would try. Each test runs in a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "skills/archive/archive.h"
#include "skills/skills_confine.h"
#include "tests/unit/lib/test.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker wants ptrace at exit, which the filter forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static struct {
	char path[64];
	int outside; /* opened before the confinement */
	int store;
	int source;
} place;

static void make_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	ASSERT(fd >= 0 && write(fd, "x", 1) == 1);
	(void)close(fd);
}

/* A writable store and a readable source, with a secret beside them. */
static void enter(void)
{
	struct box_err err;
	(void)snprintf(place.path, sizeof(place.path), "/tmp/box-skill-XXXXXX");
	ASSERT(mkdtemp(place.path) != NULL);
	place.outside = open(place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(mkdirat(place.outside, "store", 0755) == 0);
	ASSERT(mkdirat(place.outside, "source", 0755) == 0);
	place.store = openat(place.outside, "store", O_PATH | O_DIRECTORY | O_CLOEXEC);
	place.source = openat(place.outside, "source", O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_file(place.outside, "secret");
	make_file(place.store, "file");
	make_file(place.source, "file");
	const struct box_skills_confine_folder rooms[] = {
		{.fd = place.store, .writes = true, .moves = true}, {.fd = place.source}};
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	if (box_skills_confine(rooms, 2, &err) < 0) {
		TEST_FAIL("box_skills_confine: %s", err.text);
	}
}

/* Files outside cannot be removed from inside: another process does it. */
static void run_inside(void (*inside)(void))
{
	int pipe_ends[2];
	ASSERT(pipe2(pipe_ends, O_CLOEXEC) == 0);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		enter();
		(void)write(pipe_ends[1], place.path, sizeof(place.path));
		inside();
		exit(0);
	}
	char command[128];
	int status = 0;
	ASSERT(read(pipe_ends[0], place.path, sizeof(place.path)) == sizeof(place.path));
	ASSERT(waitpid(pid, &status, 0) == pid);
	(void)snprintf(command, sizeof(command), "rm -rf %s", place.path);
	ASSERT_INT(system(command), 0);
	ASSERT_INT(status, 0);
}

#define ASSERT_REFUSED(call)                                                     \
	do {                                                                     \
		errno = 0;                                                       \
		long result_ = (long)(call);                                     \
		if (result_ != -1 ||                                             \
			(errno != EPERM && errno != EACCES && errno != ENOSYS && \
				errno != EXDEV)) {                               \
			TEST_FAIL("%s: %ld (errno %d)", #call, result_, errno);  \
		}                                                                \
	} while (0)

static void work_in_the_store(void)
{
	int fd = openat(place.store, "new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT(fd >= 0 && write(fd, "ab", 2) == 2 && fchmod(fd, 0644) == 0 && fsync(fd) == 0);
	ASSERT(mkdirat(place.store, "d", 0755) == 0);
	ASSERT(renameat2(place.store, "new", place.store, "d/new", RENAME_NOREPLACE) == 0);
	ASSERT(unlinkat(place.store, "d/new", 0) == 0);
	ASSERT(unlinkat(place.store, "d", AT_REMOVEDIR) == 0);
	int source = openat(place.source, "file", O_RDONLY | O_CLOEXEC);
	char byte;
	ASSERT(source >= 0 && read(source, &byte, 1) == 1);
}

TEST(the_work_can_be_done)
{
	run_inside(work_in_the_store);
}

static void try_files(void)
{
	ASSERT_REFUSED(openat(AT_FDCWD, "/etc/passwd", O_RDONLY | O_CLOEXEC));
	ASSERT_REFUSED(openat(place.outside, "secret", O_RDONLY | O_CLOEXEC));
	ASSERT_REFUSED(openat(place.store, "../secret", O_RDONLY | O_CLOEXEC));
	ASSERT_REFUSED(openat(place.outside, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ASSERT_REFUSED(unlinkat(place.outside, "secret", 0));
	ASSERT_REFUSED(renameat2(place.store, "file", place.outside, "file", 0));
	ASSERT_REFUSED(linkat(place.outside, "secret", place.store, "secret", 0));
	ASSERT_REFUSED(openat(place.source, "file", O_WRONLY | O_CLOEXEC));
	ASSERT_REFUSED(openat(place.source, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ASSERT_REFUSED(unlinkat(place.source, "file", 0));
	ASSERT_REFUSED(symlinkat("/etc/passwd", place.store, "link"));
	ASSERT_REFUSED(mknodat(place.store, "fifo", S_IFIFO | 0600, 0));
	ASSERT_REFUSED(fchownat(place.store, "file", 1, 1, 0));
	/* Landlock does not cover these. */
	ASSERT_REFUSED(fchmodat(place.outside, "secret", 0777, 0));
	ASSERT_REFUSED(utimensat(place.outside, "secret", NULL, 0));
	ASSERT_REFUSED(syscall(SYS_inotify_init1, 0));
	ASSERT_REFUSED(faccessat(place.outside, "secret", R_OK, AT_EACCESS));
}

TEST(no_other_file)
{
	run_inside(try_files);
}

static void try_the_rest(void)
{
	char *const none[] = {NULL};
	ASSERT_REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	ASSERT_REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	ASSERT_REFUSED(execve("/bin/true", none, none));
	ASSERT_REFUSED(syscall(SYS_execveat, place.store, "file", none, none, 0));
	ASSERT_REFUSED(unshare(CLONE_NEWUSER));
	ASSERT_REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	ASSERT_REFUSED(ptrace(PTRACE_TRACEME, 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	ASSERT_REFUSED(syscall(SYS_bpf, 0, NULL, 0));
	ASSERT_REFUSED(mount("a", "/tmp", "tmpfs", 0, NULL));
	ASSERT_REFUSED(chroot("/tmp"));
	ASSERT_REFUSED(setuid(0));
	ASSERT_REFUSED(kill(getppid(), 0));
	ASSERT_REFUSED(syscall(SYS_pidfd_open, getppid(), 0));
	struct rlimit limit;
	ASSERT_REFUSED(prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
	ASSERT_INT(prlimit(0, RLIMIT_NOFILE, NULL, &limit), 0);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(code == MAP_FAILED && errno == EPERM);
}

TEST(no_program_no_socket_no_namespace)
{
	run_inside(try_the_rest);
}

/* --- kernels that have less --- */

/* Simulates Landlock version `abi` for this process; 0: none. Another process answers the calls. */
static void pretend_landlock(int abi)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	ASSERT(filter);
	uint32_t what = abi == 0 ? SCMP_ACT_ERRNO(EOPNOTSUPP) : SCMP_ACT_NOTIFY;
	/* The version query is the call with flags. */
	ASSERT_INT(seccomp_rule_add(filter, what, SCMP_SYS(landlock_create_ruleset), 1,
			   SCMP_A2(SCMP_CMP_EQ, 1)),
		0);
	ASSERT_INT(seccomp_load(filter), 0);
	if (abi == 0 || fork() != 0) {
		return;
	}
	struct seccomp_notif *asked = NULL;
	struct seccomp_notif_resp *answer = NULL;
	ASSERT_INT(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), 0);
	ASSERT_INT(seccomp_notify_alloc(&asked, &answer), 0);
	ASSERT_INT(seccomp_notify_receive(seccomp_notify_fd(filter), asked), 0);
	answer->id = asked->id;
	answer->val = abi;
	ASSERT_INT(seccomp_notify_respond(seccomp_notify_fd(filter), answer), 0);
	_exit(0);
}

static int confine(const char *folder, bool moves, uid_t uid, struct box_err *err)
{
	const struct box_skills_confine_folder room = {
		.fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC),
		.writes = true,
		.moves = moves};
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	ASSERT_INT(setresuid(uid, uid, uid), 0);
	return box_skills_confine(&room, 1, err);
}

/* Only Landlock keeps it from root's files. */
static void confine_fails(int abi, const char *why)
{
	static struct box_err err;
	if (getuid() != 0) {
		SKIP("only root can be refused");
	}
	pretend_landlock(abi);
	ASSERT(confine("/tmp", true, 0, &err) < 0);
	if (!strstr(err.text, why)) {
		TEST_FAIL("%s", err.text);
	}
	/* No part of it was applied. */
	ASSERT(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
}

TEST(root_is_not_served_without_landlock)
{
	confine_fails(0, "must belong to another user");
}

TEST(root_is_not_served_by_a_landlock_without_moves)
{
	confine_fails(1, "since Linux 5.19");
}

TEST(another_user_is_served_without_landlock)
{
	static struct box_err err;
	uid_t uid = getuid() == 0 ? 65534 : getuid();
	pretend_landlock(0);
	ASSERT_INT(confine("/tmp", true, uid, &err), 0);
}

static void move_a_file(int landlock)
{
	static struct box_err err;
	char folder[] = "/tmp/box-skill-XXXXXX";
	uid_t uid = getuid() == 0 ? 65534 : getuid();
	ASSERT(mkdtemp(folder) && chmod(folder, 0777) == 0);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t child = fork();
	if (child == 0) {
		pretend_landlock(landlock);
		ASSERT_INT(confine(folder, true, uid, &err), 0);
		ASSERT_INT(mkdirat(fd, "d", 0755), 0);
		make_file(fd, "file");
		ASSERT_INT(renameat2(fd, "file", fd, "d/file", 0), 0);
		_exit(0);
	}
	int status = -1;
	ASSERT(waitpid(child, &status, 0) == child);
	(void)unlinkat(fd, "d/file", 0);
	(void)unlinkat(fd, "d", AT_REMOVEDIR);
	(void)unlinkat(fd, "file", 0);
	ASSERT_INT(rmdir(folder), 0);
	ASSERT_INT(status, 0);
}

TEST(files_are_moved_where_landlock_cannot_allow_it)
{
	move_a_file(1);
}

/* A process that moves nothing gets Landlock on such a kernel, too. */
TEST(an_old_landlock_is_enough_for_artifacts)
{
	static struct box_err err;
	pretend_landlock(1);
	ASSERT_INT(confine("/tmp", false, getuid(), &err), 0);
	ASSERT_REFUSED(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

/* A child of it unpacks archives, with a confinement of its own. */
TEST(archives_can_be_unpacked)
{
	static const char *const conditional[] = {
		"clone", "mmap", "mprotect", "prlimit64", "tgkill"};
	for (const char *const *call = box_archive_calls; *call; call++) {
		bool there = false;
		for (const char *const *kept = box_skills_confine_calls; *kept; kept++) {
			there = there || strcmp(*call, *kept) == 0;
		}
		for (size_t i = 0; i < BOX_COUNT_OF(conditional); i++) {
			there = there || strcmp(*call, conditional[i]) == 0;
		}
		if (!there) {
			TEST_FAIL("%s is missing", *call);
		}
	}
}
