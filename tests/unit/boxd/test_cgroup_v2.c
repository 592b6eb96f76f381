/* Cgroup version 2 of this host, where it is mounted. No controller is used, so a hybrid host will
 * do. */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "boxd/cgroup/cgroup_manager.h"
#include "tests/unit/lib/test.h"

static int top; /* of the mounted hierarchy */

static pid_t start_sleeper(int folder)
{
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		/* It must have no parent group any more when it is seen in there. */
		(void)dup2(folder, 3);
		(void)close_range(4, ~0U, 0);
		(void)box_cgroup_write(3, "cgroup.procs", "0");
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)alarm(TEST_SECONDS);
		(void)pause();
		_exit(0);
	}
	/* Until it is in there. */
	struct box_cgroup_pid_list list;
	pid_t found = 0;
	while (found == 0) {
		ASSERT_INT(box_cgroup_pid_list_open(&list, folder), 0);
		(void)box_cgroup_pid_list_next(&list, &found);
		box_cgroup_pid_list_close(&list);
	}
	return pid;
}

/* Makes a cgroup at the top of the hierarchy and returns its fd. `top` is the mount. */
static int open_real(char name[64])
{
	static char groups[65536];
	static char mounts[1 << 20];
	static struct box_cgroup_location found[BOX_CGROUP_LOCATIONS_MAX];
	if (geteuid() != 0) {
		SKIP("making cgroups needs root");
	}
	ASSERT(box_cgroup_read(AT_FDCWD, "/proc/self/cgroup", groups, sizeof(groups)) > 0);
	ASSERT(box_cgroup_read(AT_FDCWD, "/proc/self/mountinfo", mounts, sizeof(mounts)) > 0);
	size_t count = box_cgroup_find(groups, mounts, found, BOX_CGROUP_LOCATIONS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (!found[i].unified || found[i].read_only) {
			continue;
		}
		top = open(found[i].mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT(top >= 0);
		(void)snprintf(name, 64, "box-test-%d", (int)getpid());
		if (mkdirat(top, name, 0700) < 0) {
			SKIP("no group can be made in %s: %s", found[i].mount, strerror(errno));
		}
		int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT(fd >= 0);
		return fd;
	}
	SKIP("version 2 is not mounted here");
}

/* A failed assertion in a process inside must not keep the cgroup from being removed. */
static int run_inside(void (*inside)(const char *name, int group), const char *name, int group)
{
	int status = 0;
	(void)fflush(NULL);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		inside(name, group);
		exit(0);
	}
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	return status;
}

static int count_in(int group)
{
	struct box_cgroup_pid_list list;
	pid_t pid = 0;
	int count = 0;
	ASSERT_INT(box_cgroup_pid_list_open(&list, group), 0);
	while (box_cgroup_pid_list_next(&list, &pid)) {
		count++;
	}
	box_cgroup_pid_list_close(&list);
	return count;
}

static void settle_inside(const char *name, int group)
{
	struct box_err err;
	struct box_cgroup_own own = {.fd = -1};
	ASSERT_INT(box_cgroup_write(group, "cgroup.procs", "0"), 0);
	/* No controller is enabled, so that any host will do. */
	ASSERT_INT(box_cgroup_v2.settle(top, name, 0, &own, &err), 0);
	ASSERT_INT(count_in(own.fd), 0);
	int leaf = openat(own.fd, "boxd-leaf", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(leaf >= 0);
	ASSERT_INT(count_in(leaf), 2);
	/* A runtime that starts in the leaf leaves it alone. */
	struct box_cgroup_own beside = {.fd = -1};
	char below[96];
	(void)snprintf(below, sizeof(below), "%s/boxd-leaf", name);
	ASSERT_INT(box_cgroup_v2.settle(top, below, 0, &beside, &err), 0);
	box_cgroup_v2.leave(&beside);
	ASSERT_INT(count_in(leaf), 2);
	box_cgroup_v2.leave(&own);
	ASSERT_INT(count_in(own.fd), 2);
	ASSERT_INT(faccessat(own.fd, "boxd-leaf", F_OK, 0), -1);
}

TEST(version_2_of_this_host_moves_aside)
{
	char name[64];
	int status = 0;
	int group = open_real(name);
	pid_t beside = start_sleeper(group);
	int inside = run_inside(settle_inside, name, group);
	ASSERT_INT(kill(beside, SIGKILL), 0);
	ASSERT_INT(waitpid(beside, &status, 0), beside);
	(void)unlinkat(group, "boxd-leaf", AT_REMOVEDIR); /* still there when an assertion failed */
	ASSERT_INT(unlinkat(top, name, AT_REMOVEDIR), 0);
	ASSERT_INT(inside, 0);
}

/* Enters the group from another process with these ids: 0, or the number of an error. */
static int go_in(int from, int procs_fd, uid_t uid, const char *text)
{
	int status = 0;
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		bool done = box_cgroup_write(from, "cgroup.procs", "0") == 0 &&
			setresuid(uid, uid, uid) == 0 &&
			write(procs_fd, text, strlen(text)) == (ssize_t)strlen(text);
		_exit(done ? 0 : errno);
	}
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int make_group(int parent, const char *name, mode_t mode)
{
	ASSERT_INT(mkdirat(parent, name, mode), 0);
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fd >= 0);
	return fd;
}

/* The cgroup.procs fd of a process cgroup admits processes of its box and no others. */
TEST(version_2_of_this_host_admits_processes_of_the_box)
{
	enum {
		ROOT = 0x7fff0000,
		OTHER = 61184
	};
	char name[64];
	char text[16];
	int status = 0;
	int procs_fd = -1;
	struct box_err err;
	int group = open_real(name);
	int box = make_group(group, "box", 0700);
	int rest = make_group(box, "rest", 0700);
	int part = make_group(box, "p1", 0711);
	ASSERT_INT(box_cgroup_make_writable(box, "cgroup.procs", &err), 0);
	ASSERT_INT(box_cgroup_open_procs_fd(part, "cgroup.procs", ROOT, &procs_fd, &err), 0);
	ASSERT_INT(geteuid(), 0);
	pid_t stranger = start_sleeper(group);
	(void)snprintf(text, sizeof(text), "%d", (int)stranger);
	int results[] = {
		go_in(rest, procs_fd, ROOT, "0"),
		go_in(group, procs_fd, ROOT, "0"),
		go_in(group, procs_fd, OTHER, text),
		go_in(rest, procs_fd, ROOT, text),
	};
	ASSERT_INT(kill(stranger, SIGKILL), 0);
	ASSERT_INT(waitpid(stranger, &status, 0), stranger);
	(void)close(procs_fd);
	ASSERT_INT(unlinkat(box, "p1", AT_REMOVEDIR), 0);
	ASSERT_INT(unlinkat(box, "rest", AT_REMOVEDIR), 0);
	ASSERT_INT(unlinkat(group, "box", AT_REMOVEDIR), 0);
	ASSERT_INT(unlinkat(top, name, AT_REMOVEDIR), 0);
	ASSERT_INT(results[0], 0);
	ASSERT_INT(results[1], EACCES);
	ASSERT_INT(results[2], EACCES);
	ASSERT_INT(results[3], EACCES);
}

/* A parent with a box in it, whose owner is dead as soon as its fd is closed. */
TEST(version_2_of_this_host_sweeps)
{
	char name[64];
	char parents[2][BOX_CGROUP_PARENT_NAME_SIZE];
	int fds[2] = {-1, -1};
	int status = 0;
	struct box_err err;
	int group = open_real(name);
	ASSERT_INT(box_cgroup_parent_make(group, parents[0], &fds[0], &err), 0);
	ASSERT_INT(box_cgroup_parent_make(group, parents[1], &fds[1], &err), 0);
	ASSERT_INT(mkdirat(fds[0], "a-box", 0700), 0);
	int box = openat(fds[0], "a-box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid = start_sleeper(box);
	box_cgroup_parent_sweep(group, &box_cgroup_v2);
	ASSERT_INT(waitpid(pid, &status, WNOHANG), 0);
	(void)close(fds[0]);
	box_cgroup_parent_sweep(group, &box_cgroup_v2);
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ASSERT_INT(faccessat(group, parents[0], F_OK, 0), -1);
	ASSERT_INT(faccessat(group, parents[1], F_OK, 0), 0);
	(void)close(fds[1]);
	box_cgroup_parent_sweep(group, &box_cgroup_v2);
	ASSERT_INT(unlinkat(top, name, AT_REMOVEDIR), 0);
}
