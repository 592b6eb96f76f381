/* The privileged helper, which keeps the privileges that PID 1 of a microVM gives up: what it hands
 * out, what it refuses, and that no other process has them. A folder stands in for the share. Needs
 * root. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fsmount.h"
#include "init/guest/priv_helper.h"
#include "tests/unit/lib/test.h"

#define MARK "box-priv-helper-test" /* the mount source that exists only in the test */

static int told[2]; /* the power-off is reported here */

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		_exit(90);
	}
	(void)close(fd);
}

/* Runs in the privileged helper's mount namespace. */
static int enter_played_share(void)
{
	static const char *const folders[] = {
		"trees", "trees/usr", "workspace", "mounts", "mounts/7", "secret"};
	if (mount(MARK, "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, NULL) < 0 || chdir("/mnt") < 0) {
		return -errno;
	}
	for (size_t i = 0; i < COUNT(folders); i++) {
		if (mkdir(folders[i], 0755) < 0) {
			return -errno;
		}
	}
	put_file("trees/usr/file", "usr");
	put_file("workspace/file", "workspace");
	put_file("mounts/7/file", "seven");
	put_file("mounts/8", "eight");
	return symlink("../secret", "trees/link") < 0 ? -errno : 0;
}

static void note_end(void)
{
	(void)!write(told[1], "e", 1);
}

static const struct box_priv_helper played = {enter_played_share, note_end};

static void start(void)
{
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	/* In a mount namespace of its own, so that a failure leaves no mount on this host. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		SKIP("no mount namespace: %s", strerror(errno));
	}
	ASSERT_INT(pipe2(told, O_CLOEXEC), 0);
	/* It keeps the standard fds only. */
	ASSERT_INT(dup2(told[1], STDOUT_FILENO), STDOUT_FILENO);
	ASSERT_INT(close(told[1]), 0);
	told[1] = STDOUT_FILENO;
	ASSERT_INT(box_priv_helper_start(&played), 0);
}

static void check_text(int fd, const char *name, const char *text)
{
	char bytes[32] = {0};
	ASSERT(fd >= 0);
	int file = *name ? openat(fd, name, O_RDONLY | O_CLOEXEC) : -1;
	if (!*name) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		file = open(path, O_RDONLY | O_CLOEXEC);
	}
	ASSERT(file >= 0);
	ASSERT(read(file, bytes, sizeof(bytes) - 1) >= 0);
	ASSERT_STR(bytes, text);
	(void)close(file);
	(void)close(fd);
}

TEST(without_one)
{
	int events = -1;
	ASSERT_INT(box_priv_helper_open_tree("usr"), -ENOTCONN);
	ASSERT_INT(box_priv_helper_open_mount(7), -ENOTCONN);
	ASSERT_INT(box_priv_helper_make_cgroup(64, &events), -ENOTCONN);
	box_priv_helper_step_clock(1);
	box_priv_helper_end_microvm();
}

TEST(what_it_gives_out)
{
	start();
	check_text(box_priv_helper_open_tree("usr"), "file", "usr");
	check_text(box_priv_helper_open_workspace(), "file", "workspace");
	check_text(box_priv_helper_open_mount(7), "file", "seven");
	check_text(box_priv_helper_open_mount(8), "", "eight");
	/* The fd is a mount that can be attached. */
	int fd = box_priv_helper_open_tree("usr");
	ASSERT_INT(box_fsmount_add_attributes(fd, 1 /* read-only */), 0);
	ASSERT(openat(fd, "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644) < 0);
	ASSERT_INT(errno, EROFS);
	(void)close(fd);
}

TEST(what_it_refuses)
{
	static const char *const names[] = {"", ".", "..", "usr/file", "../secret", "/", "none"};
	int events = -1;
	start();
	for (size_t i = 0; i < COUNT(names); i++) {
		int r = box_priv_helper_open_tree(names[i]);
		ASSERT_INT(r, i < COUNT(names) - 1 ? -EINVAL : -ENOENT);
	}
	/* A link is not followed: its target stays inaccessible. */
	int fd = box_priv_helper_open_tree("link");
	ASSERT(fd < 0 || openat(fd, "x", O_RDONLY | O_CLOEXEC) < 0);
	ASSERT_INT(box_priv_helper_open_mount(9), -ENOENT);
	char name[300];
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ASSERT_INT(box_priv_helper_open_tree(name), -ENAMETOOLONG);
	/* No cgroup is available. */
	ASSERT_INT(box_priv_helper_make_cgroup(64, &events), -EOPNOTSUPP);
	/* And it still serves. */
	check_text(box_priv_helper_open_tree("usr"), "file", "usr");
}

static bool file_has(const char *path, const char *text)
{
	static char bytes[262144];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	size_t have = 0;
	ssize_t got;
	while ((got = read(fd, bytes + have, sizeof(bytes) - 1 - have)) > 0) {
		have += (size_t)got;
	}
	(void)close(fd);
	bytes[have] = '\0';
	return strstr(bytes, text) != NULL;
}

static pid_t find_child(void)
{
	char path[64];
	char text[32] = {0};
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
		SKIP("no list of children");
	}
	(void)close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

TEST(the_share_is_in_its_namespace_alone)
{
	start();
	char path[64];
	pid_t pid = find_child();
	(void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	ASSERT(file_has(path, MARK));
	ASSERT(!file_has("/proc/self/mountinfo", MARK));
}

TEST(it_keeps_three_rights)
{
	start();
	char path[64];
	pid_t pid = find_child();
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	/* SYS_ADMIN, SYS_BOOT, SYS_TIME, unless this host has taken some of them from us, too. */
	char text[64] = {0};
	ASSERT(file_has(path, "NoNewPrivs:\t1"));
	ASSERT(!file_has(path, "CapEff:\t000001ffffffffff"));
	uint64_t kept = 0;
	FILE *status = fopen(path, "re");
	while (status && fgets(text, sizeof(text), status)) {
		if (strncmp(text, "CapEff:", 7) == 0) {
			kept = strtoull(text + 7, NULL, 16);
		}
	}
	ASSERT(status && fclose(status) == 0);
	const uint64_t three = 1ULL << 21 | 1ULL << 22 | 1ULL << 25;
	ASSERT_INT(kept & ~three, 0);
	ASSERT((kept & 1ULL << 21) != 0);
}

static void expect_told(void)
{
	char byte = 0;
	struct pollfd fd = {.fd = told[0], .events = POLLIN};
	ASSERT_INT(poll(&fd, 1, 10000), 1);
	ASSERT_INT(read(told[0], &byte, 1), 1);
	ASSERT_INT(byte, 'e');
}

TEST(it_ends_the_machine_when_told)
{
	start();
	box_priv_helper_end_microvm();
	expect_told();
}

TEST(it_ends_the_machine_without_pid_1)
{
	start();
	box_priv_helper_forget();
	expect_told();
	ASSERT_INT(box_priv_helper_open_tree("usr"), -ENOTCONN);
}

static int refuse(void)
{
	return -EXDEV;
}

TEST(a_share_that_cannot_be_had)
{
	static const struct box_priv_helper none = {refuse, note_end};
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT_INT(box_priv_helper_start(&none), -EXDEV);
}
