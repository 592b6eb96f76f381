/* The root of a microVM's box, built in namespaces of this host: where everything is, who owns it,
 * and what cannot be changed. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/fsmount.h"
#include "init/guest/root_build.h"
#include "protocol/microvm.h"
#include "tests/unit/lib/test.h"

#define FIRST_ID 1879048192U /* host ids that nobody has */
#define PAYLOAD 1000
#define MIB 1048576

static int outer_tmp = -1; /* the source of the trees */

/* In the child of a test: the exit code is the result. */
#define MUST(condition)                                                                    \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# line %d: %s: %s\n", __LINE__, #condition, \
				strerror(errno));                                          \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

/* With the namespaces; in a user namespace as its root. */
static void run_in(unsigned long namespaces, void (*body)(void))
{
	int go[2];
	char byte = 0;
	int status;
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT_INT(pipe2(go, O_CLOEXEC), 0);
	pid_t pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0) {
		SKIP("no namespaces: %s", strerror(errno));
	}
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		MUST(read(go[0], &byte, 1) == 1);
		MUST(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
		MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		body();
		_exit(0);
	}
	static const char *const maps[] = {"uid_map", "gid_map"};
	for (size_t i = 0; (namespaces & CLONE_NEWUSER) && i < COUNT(maps); i++) {
		char path[64];
		char text[64];
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
		int len = snprintf(text, sizeof(text), "0 %u 65536\n", FIRST_ID);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		ASSERT_INT(write(fd, text, (size_t)len), len);
		ASSERT_INT(close(fd), 0);
	}
	ASSERT_INT(write(go[1], &byte, 1), 1);
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	ASSERT_INT(WEXITSTATUS(status), 0);
}

/* A folder in a tmpfs with one file named after the tree. */
static int open_tree_here(const char *name)
{
	return strcmp(name, "usr") == 0 ? box_fsmount_clone(outer_tmp, name) : -ENOENT;
}

static void make_outside(void)
{
	const struct box_fsmount_parameter options[] = {{"mode", "755"}};
	outer_tmp = box_fsmount_make_by_parameters("tmpfs", options, 1, 0);
	MUST(outer_tmp >= 0);
	/* In a namespace, because its mounts could not be cloned otherwise. */
	MUST(syscall(SYS_move_mount, outer_tmp, "", AT_FDCWD, "/mnt", 4) == 0);
	MUST(mkdirat(outer_tmp, "usr", 0755) == 0);
	int fd = openat(outer_tmp, "usr/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	MUST(fd >= 0 && write(fd, "tree", 4) == 4 && close(fd) == 0);
}

static struct box_root_build furnish_with(const struct box_root_step *pieces, size_t count)
{
	return (struct box_root_build){
		.steps = (const char *)pieces,
		.count = (uint32_t)count,
		.uid = PAYLOAD,
		.gid = PAYLOAD,
		.open_tree = open_tree_here,
	};
}

#define ROOT                                                                                 \
	{                                                                                    \
		.kind = BOX_ROOT_STEP_TMPFS, .target = "/", .mode = 0755, .size_bytes = MIB, \
		.inodes = 256                                                                \
	}

static unsigned long flags_of(const char *path)
{
	struct statvfs st;
	MUST(statvfs(path, &st) == 0);
	return st.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
}

static void check_owner(const char *path, uid_t uid, mode_t mode)
{
	struct stat st;
	MUST(lstat(path, &st) == 0);
	MUST(st.st_uid == uid && st.st_gid == uid && (st.st_mode & 07777) == mode);
}

static void refuse_making(const char *path)
{
	errno = 0;
	MUST(mkdir(path, 0755) < 0 && errno == EROFS);
}

static void build_all(void)
{
	static const struct box_root_step pieces[] = {
		ROOT,
		{.kind = BOX_ROOT_STEP_TREE,
			.flags = BOX_ROOT_STEP_READ_ONLY,
			.target = "/usr",
			.source = "usr"},
		{.kind = BOX_ROOT_STEP_LINK, .target = "/bin", .source = "usr/bin"},
		{.kind = BOX_ROOT_STEP_PROC, .flags = BOX_ROOT_STEP_NO_EXEC, .target = "/proc"},
		{.kind = BOX_ROOT_STEP_FREEZE, .target = "/proc/sys"},
		{.kind = BOX_ROOT_STEP_FREEZE, .target = "/proc/no-such-thing"},
		{.kind = BOX_ROOT_STEP_FOLDER, .target = "/dev/pts", .mode = 0755},
		{.kind = BOX_ROOT_STEP_PTS, .target = "/dev/pts"},
		{.kind = BOX_ROOT_STEP_TMPFS,
			.flags = BOX_ROOT_STEP_NO_EXEC,
			.target = "/dev/shm",
			.mode = 01777,
			.size_bytes = MIB,
			.inodes = 16},
		{.kind = BOX_ROOT_STEP_FOLDER,
			.flags = BOX_ROOT_STEP_OF_PAYLOAD,
			.target = "/deep/er/place",
			.mode = 0700},
		{.kind = BOX_ROOT_STEP_TMPFS,
			.flags = BOX_ROOT_STEP_OF_PAYLOAD,
			.target = "/home/box",
			.mode = 0750,
			.size_bytes = MIB,
			.inodes = 16},
		{.kind = BOX_ROOT_STEP_FREEZE, .target = "/"},
	};
	int root = -1;
	int writable = -1;
	uint32_t piece = 0;
	make_outside();
	const struct box_root_build furnish = furnish_with(pieces, COUNT(pieces));
	MUST(box_root_build(&furnish, &root, &writable, &piece) == 0);
	MUST(access("/usr/bin/env", F_OK) == 0); /* still the host's */
	MUST(box_fsmount_enter_root(root) == 0);

	MUST(access("/usr/file", R_OK) == 0 && access("/usr/bin/env", F_OK) < 0);
	refuse_making("/usr/x");
	refuse_making("/x");
	refuse_making("/deep/x");
	MUST(mkdirat(writable, "made", 0755) == 0 && access("/made", F_OK) == 0);
	MUST(flags_of("/usr") == (ST_RDONLY | ST_NOSUID | ST_NODEV));
	MUST(flags_of("/") == (ST_RDONLY | ST_NOSUID | ST_NODEV));
	MUST(flags_of("/proc") == (ST_NOSUID | ST_NODEV | ST_NOEXEC));
	MUST((flags_of("/proc/sys") & ST_RDONLY) != 0);
	MUST(flags_of("/dev/shm") == (ST_NOSUID | ST_NODEV | ST_NOEXEC));
	MUST(flags_of("/home/box") == (ST_NOSUID | ST_NODEV));
	MUST((flags_of("/dev/pts") & (ST_NOSUID | ST_NOEXEC)) == (ST_NOSUID | ST_NOEXEC));
	MUST(access("/dev/pts/ptmx", W_OK) == 0);
	check_owner("/home/box", PAYLOAD, 0750);
	check_owner("/deep/er/place", PAYLOAD, 0700);
	check_owner("/deep", 0, 0755);
	check_owner("/dev/shm", 0, 01777);
	char link[16] = {0};
	MUST(readlink("/bin", link, sizeof(link)) == 7 && strcmp(link, "usr/bin") == 0);
	/* Only mount namespaces are still possible. */
	MUST(unshare(CLONE_NEWUTS) < 0 && errno == ENOSPC);
	MUST(unshare(CLONE_NEWUSER) < 0);
	MUST(unshare(CLONE_NEWNS) == 0);
	/* The host's root is not accessible below it, either. */
	MUST(access("/../usr/bin/env", F_OK) < 0);
}

TEST(a_root_of_every_kind_of_step)
{
	run_in(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			CLONE_NEWUTS,
		build_all);
}

static void check_node(const char *path, unsigned major, unsigned minor)
{
	struct stat st;
	MUST(stat(path, &st) == 0 && S_ISCHR(st.st_mode));
	MUST(st.st_rdev == makedev(major, minor) && (st.st_mode & 0777) == 0666);
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	MUST(fd >= 0 || errno == ENXIO); /* no controlling terminal */
	(void)close(fd);
}

static void build_devices(void)
{
	static const struct box_root_step pieces[] = {
		ROOT, {.kind = BOX_ROOT_STEP_DEVICES, .target = "/dev"}};
	int root = -1;
	int writable = -1;
	uint32_t piece = 0;
	const struct box_root_build furnish = furnish_with(pieces, COUNT(pieces));
	MUST(box_root_build(&furnish, &root, &writable, &piece) == 0);
	MUST(box_fsmount_enter_root(root) == 0);
	check_node("/dev/null", 1, 3);
	check_node("/dev/zero", 1, 5);
	check_node("/dev/full", 1, 7);
	check_node("/dev/random", 1, 8);
	check_node("/dev/urandom", 1, 9);
	check_node("/dev/tty", 5, 0);
	MUST(flags_of("/dev") == (ST_RDONLY | ST_NOSUID | ST_NOEXEC));
	refuse_making("/dev/x");
	check_owner("/dev/pts", 0, 0755);
	check_owner("/dev/shm", 0, 0755);
	/* Device files outside of /dev do not work. */
	MUST(mknod("/null", S_IFCHR | 0666, makedev(1, 3)) == 0);
	MUST(open("/null", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
}

TEST(devices)
{
	run_in(CLONE_NEWNS, build_devices);
}

/* A step that fails is named, and the box does not start. */
static void build_wrongly(void)
{
	static const struct box_root_step table[][2] = {
		{ROOT, {.kind = BOX_ROOT_STEP_TREE, .target = "/usr", .source = "other"}},
		{ROOT, {.kind = BOX_ROOT_STEP_FREEZE + 1, .target = "/usr"}},
		{{.kind = BOX_ROOT_STEP_FOLDER, .target = "/"}, ROOT},
		{{.kind = BOX_ROOT_STEP_TMPFS, .target = "/tmp", .size_bytes = MIB}, ROOT},
	};
	static const struct {
		uint32_t piece;
		int r;
	} wanted[] = {{1, -ENOENT}, {1, -EINVAL}, {0, -EINVAL}, {0, -EINVAL}};
	for (size_t i = 0; i < COUNT(table); i++) {
		int root = -1;
		int writable = -1;
		uint32_t piece = UINT32_MAX;
		const struct box_root_build furnish = furnish_with(table[i], 2);
		MUST(box_root_build(&furnish, &root, &writable, &piece) == wanted[i].r);
		MUST(piece == wanted[i].piece && root < 0 && writable < 0);
	}
	int root;
	int writable;
	uint32_t piece;
	const struct box_root_build none = furnish_with(NULL, 0);
	MUST(box_root_build(&none, &root, &writable, &piece) == -EINVAL);
}

TEST(what_cannot_be_made)
{
	run_in(CLONE_NEWUSER | CLONE_NEWNS, build_wrongly);
}

/* A link on the way is not followed. */
static void build_over_a_link(void)
{
	static const struct box_root_step pieces[] = {ROOT,
		{.kind = BOX_ROOT_STEP_FOLDER, .target = "/there", .mode = 0755},
		{.kind = BOX_ROOT_STEP_LINK, .target = "/here", .source = "there"},
		{.kind = BOX_ROOT_STEP_TMPFS, .target = "/here", .size_bytes = MIB, .inodes = 16}};
	int root = -1;
	int writable = -1;
	uint32_t piece = 0;
	const struct box_root_build furnish = furnish_with(pieces, COUNT(pieces));
	int r = box_root_build(&furnish, &root, &writable, &piece);
	MUST((r == -ELOOP || r == -ENOTDIR) && piece == 3);
}

TEST(links_are_not_followed)
{
	run_in(CLONE_NEWUSER | CLONE_NEWNS, build_over_a_link);
}
