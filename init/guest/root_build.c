/* One function for each kind of root step. Places are made in file systems of our own, one name at a
 * time and through no link; nothing else runs yet. */
#include "init/guest/root_build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"
#include "init/boot/attach.h"
#include "init/guest/mount.h"
#include "protocol/microvm.h"

#define DETACH 2 /* MNT_DETACH */

struct work {
	const struct box_root_build *furnish;
	const struct box_root_step *piece;
	int root;
};

static uint32_t uid_of(const struct work *work)
{
	return work->piece->flags & BOX_ROOT_STEP_OF_PAYLOAD ? work->furnish->uid : 0;
}

static uint32_t gid_of(const struct work *work)
{
	return work->piece->flags & BOX_ROOT_STEP_OF_PAYLOAD ? work->furnish->gid : 0;
}

static uint64_t attributes_of(const struct work *work)
{
	uint32_t kind = work->piece->kind;
	bool devices = kind == BOX_ROOT_STEP_DEVICES || kind == BOX_ROOT_STEP_PTS;
	uint32_t flags = work->piece->flags;
	return MOUNT_ATTR_NOSUID | (devices ? 0 : MOUNT_ATTR_NODEV) |
		(devices || (flags & BOX_ROOT_STEP_NO_EXEC) ? MOUNT_ATTR_NOEXEC : 0) |
		(flags & BOX_ROOT_STEP_READ_ONLY ? MOUNT_ATTR_RDONLY : 0);
}

/* --- places --- */

/* Its fd, or -errno. What was there already stays as it is. */
static int make_folder(const struct work *work, int parent, const char *name, bool last)
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
		(fchownat(parent, name, uid_of(work), gid_of(work), AT_SYMLINK_NOFOLLOW) < 0 ||
			(work->piece->mode && fchmodat(parent, name, work->piece->mode, 0) < 0))) {
		return -errno;
	}
	return TAKE_FD(fd);
}

/* Where the piece goes, made with its parents if it is missing. An fd or -errno. */
static int open_place(const struct work *work)
{
	_cleanup_(box_close_p) int fd = fcntl(work->root, F_DUPFD_CLOEXEC, 3);
	const char *at = work->piece->target;
	while (fd >= 0 && *(at += strspn(at, "/"))) {
		char name[256];
		size_t len = strcspn(at, "/");
		if (len >= sizeof(name)) {
			return -ENAMETOOLONG;
		}
		memcpy(name, at, len);
		name[len] = '\0';
		at += len;
		int next = make_folder(work, fd, name, *at == '\0');
		if (next < 0) {
			return next;
		}
		(void)close(fd);
		fd = next;
	}
	return fd < 0 ? -errno : TAKE_FD(fd);
}

/* Takes the mount's fd, or a -errno in its place. */
static int put(const struct work *work, int mount)
{
	if (mount < 0) {
		return mount;
	}
	int place = open_place(work);
	int r = place < 0 ? place : box_attach_at(mount, place);
	box_close_p(&place);
	(void)close(mount);
	return r;
}

/* --- the kinds --- */

static int make_tmpfs(const struct work *work)
{
	const struct box_root_step *piece = work->piece;
	char size[BOX_MOUNT_NUMBER_SIZE];
	char inodes[BOX_MOUNT_NUMBER_SIZE];
	char mode[BOX_MOUNT_NUMBER_SIZE];
	char uid[BOX_MOUNT_NUMBER_SIZE];
	char gid[BOX_MOUNT_NUMBER_SIZE];
	box_mount_number(size, piece->size_bytes, 10);
	box_mount_number(inodes, piece->inodes, 10);
	box_mount_number(mode, piece->mode, 8);
	box_mount_number(uid, uid_of(work), 10);
	box_mount_number(gid, gid_of(work), 10);
	const struct box_mount_option options[] = {
		{"size", size}, {"nr_inodes", inodes}, {"mode", mode}, {"uid", uid}, {"gid", gid}};
	return box_mount_make("tmpfs", options, BOX_COUNT_OF(options), attributes_of(work));
}

static int do_tmpfs(const struct work *work)
{
	return put(work, make_tmpfs(work));
}

static int do_tree(const struct work *work)
{
	int tree = work->furnish->open_tree(work->piece->source);
	int r = tree < 0 ? tree : box_mount_add_attributes(tree, attributes_of(work));
	if (r < 0) {
		box_close_p(&tree);
		return r;
	}
	return put(work, tree);
}

static int do_folder(const struct work *work)
{
	int place = open_place(work);
	if (place < 0) {
		return place;
	}
	(void)close(place);
	return 0;
}

static int do_link(const struct work *work)
{
	return symlinkat(work->piece->source, work->root, work->piece->target + 1) < 0 ? -errno : 0;
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
	int r = 0;
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(nodes); i++) {
		dev_t number = makedev(nodes[i].major, nodes[i].minor);
		r = mknodat(dev, nodes[i].name, S_IFCHR | 0666, number);
	}
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(links); i++) {
		r = symlinkat(links[i].target, dev, links[i].name);
	}
	return r < 0 || mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ? -errno : 0;
}

/* Read-only when it is filled; the nodes in it can be used all the same. */
static int do_devices(const struct work *work)
{
	static const struct box_mount_option options[] = {
		{"size", "65536"}, {"nr_inodes", "64"}, {"mode", "755"}};
	int mount = box_mount_make("tmpfs", options, 3, attributes_of(work));
	int r = mount < 0 ? mount : fill_devices(mount);
	r = r < 0 ? r : box_mount_add_attributes(mount, MOUNT_ATTR_RDONLY);
	if (r < 0) {
		box_close_p(&mount);
		return r;
	}
	return put(work, mount);
}

/* The second wall against namespaces, behind the filter. Mount namespaces are needed by commands
 * with mounts of their own. A kernel without one kind has no file for it. */
static int forbid_namespaces(int proc)
{
	static const char *const names[] = {"sys/user/max_user_namespaces",
		"sys/user/max_pid_namespaces", "sys/user/max_net_namespaces",
		"sys/user/max_ipc_namespaces", "sys/user/max_uts_namespaces",
		"sys/user/max_cgroup_namespaces", "sys/user/max_time_namespaces"};
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		_cleanup_(box_close_p) int fd = openat(
			proc, names[i], O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT) {
			continue;
		}
		if (fd < 0 || write(fd, "0", 1) != 1) {
			return -errno;
		}
	}
	return 0;
}

/* Commands see no process that is not theirs. */
static int do_proc(const struct work *work)
{
	static const struct box_mount_option options[] = {{"hidepid", "invisible"}};
	int mount = box_mount_make("proc", options, 1, attributes_of(work));
	int r = mount < 0 ? mount : forbid_namespaces(mount);
	if (r < 0) {
		box_close_p(&mount);
		return r;
	}
	return put(work, mount);
}

/* Every terminal is the commands' own, whoever made it. */
static int do_pts(const struct work *work)
{
	char most[BOX_MOUNT_NUMBER_SIZE];
	char uid[BOX_MOUNT_NUMBER_SIZE];
	char gid[BOX_MOUNT_NUMBER_SIZE];
	box_mount_number(most, BOX_TERMINALS_MAX, 10);
	box_mount_number(uid, work->furnish->uid, 10);
	box_mount_number(gid, work->furnish->gid, 10);
	const struct box_mount_option options[] = {
		{"ptmxmode", "0666"}, {"mode", "0620"}, {"max", most}, {"uid", uid}, {"gid", gid}};
	return put(work,
		box_mount_make("devpts", options, BOX_COUNT_OF(options), attributes_of(work)));
}

/* The root is a mount already; a folder of /proc becomes one over itself, if it is there. */
static int do_freeze(const struct work *work)
{
	const char *target = work->piece->target;
	if (!target[1]) {
		return box_mount_add_attributes(work->root, MOUNT_ATTR_RDONLY);
	}
	int tree = box_mount_clone(work->root, target + 1);
	if (tree < 0) {
		return tree == -ENOENT ? 0 : tree;
	}
	int r = box_mount_add_attributes(tree, MOUNT_ATTR_RDONLY);
	if (r < 0) {
		(void)close(tree);
		return r;
	}
	return put(work, tree);
}

static int (*const doers[])(const struct work *work) = {
	[BOX_ROOT_STEP_TMPFS] = do_tmpfs,
	[BOX_ROOT_STEP_TREE] = do_tree,
	[BOX_ROOT_STEP_FOLDER] = do_folder,
	[BOX_ROOT_STEP_LINK] = do_link,
	[BOX_ROOT_STEP_DEVICES] = do_devices,
	[BOX_ROOT_STEP_PROC] = do_proc,
	[BOX_ROOT_STEP_PTS] = do_pts,
	[BOX_ROOT_STEP_FREEZE] = do_freeze,
};

/* --- all of it --- */

/* The first piece. It is attached at once: only in a mount namespace can it be copied and built on. */
static int make_root(struct work *work, int *ret_writable)
{
	const struct box_root_step *piece = work->piece;
	if (piece->kind != BOX_ROOT_STEP_TMPFS || strcmp(piece->target, "/") != 0) {
		return -EINVAL;
	}
	_cleanup_(box_close_p) int mount = make_tmpfs(work);
	_cleanup_(box_close_p) int place = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = mount < 0 ? mount : place < 0 ? -errno : box_attach_at(mount, place);
	int writable = r < 0 ? r : box_mount_clone(mount, "");
	if (writable < 0) {
		return writable;
	}
	work->root = TAKE_FD(mount);
	*ret_writable = writable;
	return 0;
}

int box_root_build(
	const struct box_root_build *furnish, int *ret_root, int *ret_writable, uint32_t *ret_piece)
{
	static struct box_root_step piece;
	struct work work = {.furnish = furnish, .piece = &piece, .root = -1};
	_cleanup_(box_close_p) int writable = -1;
	mode_t mask = umask(0);
	int r = furnish->count > 0 ? 0 : -EINVAL;
	for (uint32_t i = 0; r == 0 && i < furnish->count; i++) {
		memcpy(&piece, furnish->pieces + i * sizeof(piece), sizeof(piece));
		*ret_piece = i;
		r = i == 0                                 ? make_root(&work, &writable)
			: piece.kind < BOX_COUNT_OF(doers) ? doers[piece.kind](&work)
							   : -EINVAL;
	}
	(void)umask(mask);
	if (r < 0) {
		box_close_p(&work.root);
		return r;
	}
	*ret_root = work.root;
	*ret_writable = TAKE_FD(writable);
	return 0;
}

/* The old root ends up below the new one and is let go. */
int box_root_build_enter(int root)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		syscall(SYS_umount2, ".", DETACH) < 0 || chdir("/") < 0) {
		return -errno;
	}
	return 0;
}
