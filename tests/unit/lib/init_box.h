/* Runs box-init where it belongs: as PID 1 of its own namespaces, in a root of its own, with ids,
 * Landlock rules and a filter; and gives it commands with mounts. Needs root. */
#pragma once

#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/unit/lib/init_fixture.h"

#define FIRST_ID 1879048192U /* host ids of the box: nobody has them */
#define PAYLOAD 1000

static char folder[] = "/tmp/init_mounts_XXXXXX";
static bool one_id; /* box-init has the payload's ids, as it does without root */

static inline uid_t payload_outside(void)
{
	return one_id ? FIRST_ID : FIRST_ID + PAYLOAD;
}

static inline void remove_folder(void)
{
	char command[64];
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command) != 0) {
		_exit(1);
	}
}

/* --- the box --- */

static inline void must(bool condition, const char *what)
{
	if (!condition) {
		(void)fprintf(stderr, "# %s: %s\n", what, strerror(errno));
		_exit(92);
	}
}

static inline void mount_tmpfs(const char *path, const char *options)
{
	(void)mkdir(path, 0755);
	must(mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0, path);
}

/* The host's programs, a /dev with one device, /proc, and two folders that commands can write to;
 * the root is read-only. */
static inline int make_root(void)
{
	static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
	char target[32];
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private");
	must(mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m") == 0,
		"root");
	must(chdir("/mnt") == 0 && mkdir("usr", 0755) == 0 && mkdir("dev", 0755) == 0, "folders");
	must(mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) == 0, "usr");
	for (size_t i = 0; i < COUNT(links); i++) {
		(void)snprintf(target, sizeof(target), "usr/%s", links[i]);
		must(symlink(target, links[i]) == 0, "link");
	}
	must(mknod("dev/null", S_IFREG | 0666, 0) == 0, "dev/null");
	must(mount("/dev/null", "dev/null", NULL, MS_BIND, NULL) == 0, "dev/null");
	(void)mkdir("proc", 0755);
	must(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "proc");
	mount_tmpfs("tmp", "mode=1777,size=4m");
	mount_tmpfs("workspace", "mode=755,uid=1000,gid=1000,size=4m");
	must(syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
	must(umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, "old root");
	long root = syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	must(root >= 0, "open_tree");
	must(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
		     NULL) == 0,
		"read-only root");
	return fcntl((int)root, F_DUPFD_CLOEXEC, CHILD_FDS_FROM);
}

static inline void write_map(pid_t pid, const char *name)
{
	char path[64];
	char text[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int len = snprintf(text, sizeof(text), "%d %u %d\n", one_id ? PAYLOAD : 0, FIRST_ID,
		one_id ? 1 : 65536);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, (size_t)len), len);
	ASSERT_INT(close(fd), 0);
}

static inline int copy_program(void)
{
	char bytes[65536];
	const char *path = getenv("BOX_INIT");
	if (!path) {
		TEST_FAIL("BOX_INIT does not name the program");
	}
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT(from >= 0 && to >= 0);
	ssize_t got;
	while ((got = read(from, bytes, sizeof(bytes))) > 0) {
		ASSERT_INT(write(to, bytes, (size_t)got), got);
	}
	ASSERT_INT(fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	(void)close(from);
	return high(to);
}

static inline int boot_confined(void)
{
	static const struct box_init_path_rule rules[] = {
		{BOX_INIT_MAY_READ, "/"},
		{BOX_INIT_MAY_WRITE, "/workspace"},
		{BOX_INIT_MAY_WRITE, "/tmp"},
		{BOX_INIT_MAY_USE, "/dev"},
		{BOX_INIT_MAY_USE, "/proc"},
	};
	static const struct sock_filter allow[] = {
		{.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW}};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	struct box_init_boot facts = {
		.payload_uid = PAYLOAD,
		.payload_gid = PAYLOAD,
		.same_uid = one_id,
		.landlock_abi = abi < 0 ? 0 : (uint32_t)abi,
		.rule_count = abi < 0 ? 0 : COUNT(rules),
		.filter_count = COUNT(allow),
		.mounter_filter_count = COUNT(allow),
	};
	return boot_file(facts, abi < 0 ? NULL : rules, allow);
}

/* Before an exec by an id that is not 0. */
static inline void keep_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	must(syscall(SYS_capget, &header, sets) == 0, "capget");
	for (size_t i = 0; i < COUNT(sets); i++) {
		sets[i].inheritable = sets[i].permitted;
	}
	must(syscall(SYS_capset, &header, sets) == 0, "capset");
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++) {
		must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0L, 0L) == 0, "ambient");
	}
}

_Noreturn static inline void enter_box(int go, struct beginning *from)
{
	char byte;
	must(read(go, &byte, 1) == 1, "go");
	uid_t id = one_id ? PAYLOAD : 0;
	must(setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0, "ids");
	from->root = make_root();
	if (one_id) {
		keep_capabilities();
	}
	for (int fd = 0; fd < 2; fd++) {
		must(dup2(STDERR_FILENO, fd) == fd, "stdio");
	}
	become_init(from);
}

static inline void start_box(struct child *child)
{
	int go[2];
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT(mkdtemp(folder));
	ASSERT_INT(atexit(remove_folder), 0);
	ASSERT_INT(chmod(folder, 0755), 0);
	struct beginning from = {
		.program = copy_program(),
		.boot = boot_confined(),
		.root = -1,
		.orders = order_that_came(-1),
	};
	open_child(child, &from);
	ASSERT_INT(pipe2(go, O_CLOEXEC), 0);
	unsigned long namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
		CLONE_NEWIPC | CLONE_NEWUTS;
	child->pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child->pid < 0) {
		SKIP("no namespaces: %s", strerror(errno));
	}
	if (child->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		enter_box(go[0], &from);
	}
	write_map(child->pid, "uid_map");
	write_map(child->pid, "gid_map");
	ASSERT_INT(write(go[1], "", 1), 1);
	close_beginning(&from);
	(void)close(go[0]);
	(void)close(go[1]);
	struct box_init_report said = take_report(child);
	ASSERT_INT(said.step, 0);
}

/* --- mounts --- */

/* A host folder with one file in it, owned by the payload. */
static inline const char *make_source(const char *name)
{
	static char path[128];
	char file[160];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	(void)snprintf(file, sizeof(file), "%s/file", path);
	ASSERT_INT(mkdir(path, 0755), 0);
	FILE *to = fopen(file, "we");
	ASSERT(to && fprintf(to, "%s\n", name) > 0 && fclose(to) == 0);
	ASSERT_INT(chown(path, payload_outside(), payload_outside()), 0);
	ASSERT_INT(chown(file, payload_outside(), payload_outside()), 0);
	return path;
}

static inline int detach(const char *path, bool read_only)
{
	long fd = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	ASSERT(fd >= 0);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			(read_only ? (unsigned long long)MOUNT_ATTR_RDONLY : 0),
	};
	ASSERT_INT(syscall(SYS_mount_setattr, (int)fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)), 0);
	return (int)fd;
}

static inline void send_mount(const struct child *child, uint32_t id, const char *target, int fd)
{
	send_with(child, BOX_INIT_MOUNT, id, target, strlen(target) + 1, fd);
	(void)close(fd);
}

/* A command with one mount. */
static inline struct outcome *run_with(const struct child *child, uint32_t id, const char *target,
	const char *source, const char *command)
{
	forget(id);
	send_mount(child, id, target, detach(source, false));
	ask(child, id, (struct asked){.command = command, .mounts = 1});
	return collect(child, id);
}
