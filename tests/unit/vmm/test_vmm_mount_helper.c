/* The mount helper: real mounts in a mount namespace of the test's own, and the privileges it is
 * left with. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/unit/lib/test.h"
#include "vmm/bridge/mount_helper.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker wants what the filter forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static int socket_fd;
static pid_t pid;
static struct box_err err;

static void start(void)
{
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT_INT(unshare(CLONE_NEWNS), 0);
	ASSERT_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ASSERT_INT(mount("tmpfs", "/mnt", "tmpfs", 0, "mode=755,size=1m"), 0);
	ASSERT_INT(mkdir("/mnt/mounts", 0755) | mkdir("/mnt/source", 0755), 0);
	ASSERT_INT(close(open("/mnt/source/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
	ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L), 0);
	int folder = open("/mnt/mounts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(folder >= 0);
	if (box_mount_helper_start(folder, &socket_fd, &pid, &err) < 0) {
		TEST_FAIL("%s", err.text);
	}
	(void)close(folder);
}

static int detach(const char *path)
{
	long fd = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	ASSERT(fd >= 0);
	return (int)fd;
}

/* The answer, or the error in its place. */
static int hang(uint32_t number, int fd)
{
	int r = box_mount_helper_attach(socket_fd, number, fd);
	if (fd >= 0) {
		(void)close(fd);
	}
	for (int i = 0; r == 0 && i < 1000; i++) {
		r = box_mount_helper_answer(socket_fd);
		if (r != -EAGAIN) {
			return r;
		}
		(void)usleep(10000);
		r = 0;
	}
	return r < 0 ? r : -ETIMEDOUT;
}

static bool there(const char *path)
{
	return access(path, F_OK) == 0;
}

static bool gone(const char *path)
{
	for (int i = 0; i < 1000 && there(path); i++) {
		(void)usleep(10000);
	}
	return !there(path);
}

TEST(folders_and_files_come_and_go)
{
	start();
	ASSERT_INT(hang(7, detach("/mnt/source")), 0);
	ASSERT(there("/mnt/mounts/7/file"));
	ASSERT_INT(hang(8, detach("/mnt/source/file")), 0);
	ASSERT(there("/mnt/mounts/8"));
	ASSERT_INT(box_mount_helper_detach(socket_fd, 7), 0);
	ASSERT_INT(box_mount_helper_detach(socket_fd, 8), 0);
	ASSERT_INT(box_mount_helper_detach(socket_fd, 9), 0);
	ASSERT(gone("/mnt/mounts/7") && gone("/mnt/mounts/8"));
	/* Its existing attributes stay. */
	ASSERT(there("/mnt/source/file"));
	ASSERT_INT(hang(10, detach("/mnt/source")), 0);
}

TEST(what_cannot_be_hung_leaves_nothing)
{
	start();
	ASSERT_INT(hang(1, -1), 1);
	ASSERT(!there("/mnt/mounts/1"));
	/* Not a detached mount. */
	ASSERT_INT(hang(2, open("/mnt/source", O_PATH | O_CLOEXEC)), 1);
	ASSERT(!there("/mnt/mounts/2"));
	ASSERT_INT(hang(3, detach("/mnt/source")), 0);
	/* The number is in use: it is not mounted over, and is detached. */
	ASSERT_INT(hang(3, detach("/mnt/source/file")), 1);
	ASSERT_INT(hang(4, detach("/mnt/source")), 0);
	ASSERT(there("/mnt/mounts/4/file"));
}

TEST(it_ends_with_its_socket)
{
	start();
	(void)close(socket_fd);
	int status = -1;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT_INT(status, 0);
}

TEST(what_it_is_left_with)
{
	start();
	char path[64];
	char line[256];
	size_t right = 0;
	ASSERT_INT(hang(1, detach("/mnt/source")), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *from = fopen(path, "re");
	ASSERT(from);
	while (fgets(line, sizeof(line), from)) {
		right += strcmp(line, "CapEff:\t0000000000200000\n") == 0;
		right += strcmp(line, "CapPrm:\t0000000000200000\n") == 0;
		right += strcmp(line, "CapInh:\t0000000000000000\n") == 0;
		right += strcmp(line, "Seccomp:\t2\n") == 0;
	}
	(void)fclose(from);
	ASSERT_INT(right, 4);
	(void)snprintf(path, sizeof(path), "ls /proc/%d/fd | wc -l", pid);
	from = popen(path, "re");
	ASSERT(from && fgets(line, sizeof(line), from));
	ASSERT_STR(line, "5\n"); /* the standard fds, its socket, its folder */
	(void)pclose(from);
}
