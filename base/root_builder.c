/* One function per kind of step. */
#include "base/root_builder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/macros.h"

#define DIGITS(number) #number
#define NUMBER(name) DIGITS(name)

/* --- paths --- */

/* Makes the last component of a path in `parent`; what exists already stays as it is. */
static int make_folder(int parent, const char *name, const struct box_root_builder_step *step,
	bool last, int *ret_fd)
{
	bool made = mkdirat(parent, name, 0755) == 0;
	if (!made && errno != EEXIST) {
		return -errno;
	}
	_cleanup_(box_close_p) int fd = openat(
		parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (made && last &&
		(fchownat(fd, "", step->uid, step->gid, AT_EMPTY_PATH) < 0 ||
			(step->mode && fchmodat(parent, name, step->mode, 0) < 0))) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int box_root_builder_open_place(int root, const struct box_root_builder_step *step, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		return -errno;
	}
	const char *at = step->target;
	while (*(at += strspn(at, "/"))) {
		char name[256];
		size_t len = strcspn(at, "/");
		if (len >= sizeof(name)) {
			return -ENAMETOOLONG;
		}
		memcpy(name, at, len);
		name[len] = '\0';
		at += len;
		int next = -1;
		int r = make_folder(fd, name, step, *at == '\0', &next);
		if (r < 0) {
			return r;
		}
		(void)close(fd);
		fd = next;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The caller keeps the mount. */
static int attach(int root, const struct box_root_builder_step *step, int mount)
{
	_cleanup_(box_close_p) int place = -1;
	int r = box_root_builder_open_place(root, step, &place);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

/* --- one function per kind of step --- */

static int make_tmpfs(const struct box_root_builder_step *step, int *ret_mount)
{
	const struct box_fsmount_options options = {
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
		.mode = step->mode,
		.uid = step->uid,
		.gid = step->gid,
		.attributes = step->attributes,
	};
	return box_fsmount_make("tmpfs", &options, ret_mount);
}

static int do_tmpfs(int root, const struct box_root_builder_step *step)
{
	_cleanup_(box_close_p) int mount = -1;
	int r = make_tmpfs(step, &mount);
	return r < 0 ? r : attach(root, step, mount);
}

/* The tree's attributes were set while it was made; nobody could use it without them. */
static int do_tree(int root, const struct box_root_builder_step *step)
{
	return attach(root, step, step->tree);
}

static int fill_devices(int dev)
{
	static const struct {
		const char *name;
		unsigned major;
		unsigned minor;
	} nodes[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8},
		{"urandom", 1, 9}, {"tty", 5, 0}};
	static const struct {
		const char *name;
		const char *target;
	} links[] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};
	for (size_t i = 0; i < BOX_COUNT_OF(nodes); i++) {
		dev_t number = makedev(nodes[i].major, nodes[i].minor);
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, number) < 0) {
			return -errno;
		}
	}
	for (size_t i = 0; i < BOX_COUNT_OF(links); i++) {
		if (symlinkat(links[i].target, dev, links[i].name) < 0) {
			return -errno;
		}
	}
	return mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ? -errno : 0;
}

/* Read-only once it is filled; the device nodes in it still work. */
static int do_devices(int root, const struct box_root_builder_step *step)
{
	const struct box_fsmount_options options = {.size_bytes = 64 * BOX_KIB,
		.inodes = 64,
		.mode = 0755,
		.attributes = step->attributes};
	_cleanup_(box_close_p) int mount = -1;
	int r = box_fsmount_make("tmpfs", &options, &mount);
	if (r < 0) {
		return r;
	}
	r = fill_devices(mount);
	if (r < 0) {
		return r;
	}
	r = box_fsmount_make_read_only(mount);
	return r < 0 ? r : attach(root, step, mount);
}

static int write_at(int folder, const char *name, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(text);
	if (fd < 0) {
		return -errno;
	}
	return write(fd, text, len) == (ssize_t)len ? 0 : errno ? -errno : -EIO;
}

/* The second defence against namespaces, behind the seccomp filter. Commands with mounts of their own
 * need mount namespaces. The passt of a microVM confines itself with some kinds: each user of its jail
 * may have one of those. If there is only one uid, that uid also made the box's own namespaces, which
 * count too; all but the user namespace, which is counted in its parent. */
static int forbid_namespaces(int proc, const struct box_root_builder_proc *options)
{
	static const struct {
		const char *name;
		bool of_passt;
		bool of_box;
	} kinds[] = {
		{"sys/user/max_user_namespaces", true, false},
		{"sys/user/max_pid_namespaces", true, true},
		{"sys/user/max_ipc_namespaces", true, true},
		{"sys/user/max_uts_namespaces", true, true},
		{"sys/user/max_net_namespaces", false, true},
		{"sys/user/max_cgroup_namespaces", false, true},
		{"sys/user/max_time_namespaces", false, false},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(kinds); i++) {
		const char *max = "0";
		if (options->for_passt && kinds[i].of_passt) {
			max = options->same_uid && kinds[i].of_box ? "2" : "1";
		}
		int r = write_at(proc, kinds[i].name, max);
		/* A kernel that lacks a kind of namespace has no file for it. */
		if (r < 0 && r != -ENOENT) {
			return r;
		}
	}
	return 0;
}

/* The kernel counts instances for the owner of the namespace as well. As root that is an id of the
 * box's own, so nobody else is affected. If all boxes are one user, each gets a share of that user's
 * limit. */
static int bound_inotify(int proc, bool same_uid)
{
	int r = write_at(proc, "sys/user/max_inotify_instances",
		same_uid ? NUMBER(BOX_INOTIFY_INSTANCES_SHARED) : NUMBER(BOX_INOTIFY_INSTANCES));
	if (r < 0 && r != -ENOENT) {
		return r;
	}
	r = write_at(proc, "sys/user/max_inotify_watches",
		same_uid ? NUMBER(BOX_INOTIFY_WATCHES_SHARED) : NUMBER(BOX_INOTIFY_WATCHES));
	return r == -ENOENT ? 0 : r;
}

static int set_limits(int proc, const struct box_root_builder_proc *options)
{
	int r = forbid_namespaces(proc, options);
	if (r < 0 || !options->bound_inotify) {
		return r;
	}
	return bound_inotify(proc, options->same_uid);
}

/* A proc with subset=pid has no /proc/sys, so the limits are set through another mount of proc. */
static int do_proc(int root, const struct box_root_builder_step *step)
{
	struct box_fsmount_options options = {.attributes = step->attributes};
	_cleanup_(box_close_p) int whole = -1;
	_cleanup_(box_close_p) int pids = -1;
	int r = box_fsmount_make("proc", &options, &whole);
	if (r < 0) {
		return r;
	}
	r = set_limits(whole, &step->proc);
	if (r < 0) {
		return r;
	}
	if (!step->proc.pids_only) {
		return attach(root, step, whole);
	}
	options.pids_only = true;
	r = box_fsmount_make("proc", &options, &pids);
	return r < 0 ? r : attach(root, step, pids);
}

static int do_pts(int root, const struct box_root_builder_step *step)
{
	const struct box_fsmount_options options = {
		.uid = step->uid, .gid = step->gid, .attributes = step->attributes};
	_cleanup_(box_close_p) int mount = -1;
	int r = box_fsmount_make("devpts", &options, &mount);
	return r < 0 ? r : attach(root, step, mount);
}

static int do_folder(int root, const struct box_root_builder_step *step)
{
	_cleanup_(box_close_p) int place = -1;
	return box_root_builder_open_place(root, step, &place);
}

static int do_link(int root, const struct box_root_builder_step *step)
{
	return symlinkat(step->source, root, step->target + 1) < 0 ? -errno : 0;
}

/* A clone of something empty that the box has already: its /dev/null or its empty folder. */
static int make_mask(int root, bool folder, int *ret_mount)
{
	_cleanup_(box_close_p) int fd = box_fsmount_clone(root, folder ? "dev/empty" : "dev/null");
	struct stat status;
	if (fd < 0) {
		return fd;
	}
	if (fstat(fd, &status) < 0) {
		return -errno;
	}
	bool right = folder ? S_ISDIR(status.st_mode)
			    : S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
	if (!right) {
		return -ENODEV;
	}
	*ret_mount = TAKE_FD(fd);
	return 0;
}

static int do_mask(int root, const struct box_root_builder_step *step)
{
	_cleanup_(box_close_p) int place = -1;
	_cleanup_(box_close_p) int mount = -1;
	struct stat status;
	int r = box_fsmount_open_beneath(root, step->target + 1, &place);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	if (fstat(place, &status) < 0) {
		return -errno;
	}
	r = make_mask(root, S_ISDIR(status.st_mode), &mount);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

/* The root is a mount already; a folder below /proc is bind-mounted over itself first. */
static int do_freeze(int root, const struct box_root_builder_step *step)
{
	if (!step->target[1]) {
		return box_fsmount_make_read_only(root);
	}
	_cleanup_(box_close_p) int place = -1;
	int r = box_fsmount_open_beneath(root, step->target + 1, &place);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	_cleanup_(box_close_p) int mount = box_fsmount_clone(place, "");
	if (mount < 0) {
		return mount;
	}
	r = box_fsmount_make_read_only(mount);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

static int (*const doers[])(int root, const struct box_root_builder_step *step) = {
	[BOX_ROOT_BUILDER_TMPFS] = do_tmpfs,
	[BOX_ROOT_BUILDER_TREE] = do_tree,
	[BOX_ROOT_BUILDER_DEVICES] = do_devices,
	[BOX_ROOT_BUILDER_PROC] = do_proc,
	[BOX_ROOT_BUILDER_PTS] = do_pts,
	[BOX_ROOT_BUILDER_FOLDER] = do_folder,
	[BOX_ROOT_BUILDER_LINK] = do_link,
	[BOX_ROOT_BUILDER_MASK] = do_mask,
	[BOX_ROOT_BUILDER_FREEZE] = do_freeze,
};

int box_root_builder_run_step(int root, const struct box_root_builder_step *step)
{
	return doers[step->kind](root, step);
}

/* Attached at once: a mount can be cloned and mounted on only within a mount namespace. */
int box_root_builder_make_root(const struct box_root_builder_step *step, const char *anchor,
	int *ret_root, int *ret_writable)
{
	_cleanup_(box_close_p) int mount = -1;
	int r = make_tmpfs(step, &mount);
	if (r < 0) {
		return r;
	}
	r = box_fsmount_attach(mount, AT_FDCWD, anchor, NULL);
	if (r < 0) {
		return r;
	}
	int writable = box_fsmount_clone(mount, "");
	if (writable < 0) {
		return writable;
	}
	*ret_root = TAKE_FD(mount);
	*ret_writable = writable;
	return 0;
}
