/* One function for each kind of step. Places are opened beneath our own root, which nobody else can
 * see yet, and no link is followed on the way. */
#include "boxd/box/root_builder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "boxd/files/fsmount.h"

#define DIGITS(number) #number
#define NUMBER(name) DIGITS(name)

static uint32_t id_of(const struct box_root_builder *assembly, enum box_plan_owner owner)
{
	return owner == BOX_PLAN_OWNER_PAYLOAD || assembly->same_uid ? BOX_PLAN_PAYLOAD_ID : 0;
}

/* Makes the last component of `path` in `parent`, or finds it there. */
static int make_folder(int parent, const char *name, const struct box_root_builder *assembly,
	const struct box_plan_step *step, bool last, int *ret_fd)
{
	bool made = mkdirat(parent, name, 0755) == 0;
	if (!made && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	uint32_t id = id_of(assembly, step->owner);
	if (made && last &&
		(fchownat(fd, "", id, id, AT_EMPTY_PATH) < 0 ||
			(step->mode && fchmodat(parent, name, step->mode, 0) < 0))) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* The place of a step, made with its parents if it is missing. */
static int open_place(const struct box_root_builder *assembly, int root,
	const struct box_plan_step *step, int *ret_fd)
{
	int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? -errno : 0;
	const char *at = step->target;
	while (r == 0 && *(at += strspn(at, "/"))) {
		char name[256];
		size_t len = strcspn(at, "/");
		if (len >= sizeof(name)) {
			r = -ENAMETOOLONG;
			break;
		}
		memcpy(name, at, len);
		name[len] = '\0';
		at += len;
		int next = -1;
		r = make_folder(fd, name, assembly, step, *at == '\0', &next);
		if (r == 0) {
			(void)close(fd);
			fd = next;
		}
	}
	if (r < 0) {
		box_close_p(&fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static uint64_t attributes_of(const struct box_plan_step *step)
{
	return MOUNT_ATTR_NOSUID | (step->devices ? 0 : MOUNT_ATTR_NODEV) |
		(step->no_exec ? MOUNT_ATTR_NOEXEC : 0) | (step->read_only ? MOUNT_ATTR_RDONLY : 0);
}

static int make_tmpfs(
	const struct box_root_builder *assembly, const struct box_plan_step *step, int *ret_mount)
{
	struct box_fsmount_options options = {
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
		.mode = step->mode,
		.uid = id_of(assembly, step->owner),
		.gid = id_of(assembly, step->owner),
		.attributes = attributes_of(step),
	};
	return box_fsmount_make("tmpfs", &options, ret_mount);
}

static int do_tmpfs(const struct box_root_builder *assembly, int root, size_t number)
{
	const struct box_plan_step *step = &assembly->plan->steps[number];
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int place = -1;
	int r = make_tmpfs(assembly, step, &mount);
	r = r < 0 ? r : open_place(assembly, root, step, &place);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

/* Its attributes were set while it was made; nobody could use it without them. */
static int do_tree(const struct box_root_builder *assembly, int root, size_t number)
{
	_cleanup_(box_close_p) int place = -1;
	int r = open_place(assembly, root, &assembly->plan->steps[number], &place);
	return r < 0 ? r : box_fsmount_attach_at(assembly->trees[number], place);
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

/* The second wall against namespaces, behind the filter. Mount namespaces are needed by commands
 * with mounts of their own. The passt of a microVM fences itself in with one of some kinds: each user
 * of its jail may have that one. Where one id is all there is, it is also who made the box's own: they
 * count, but for the user namespace, which is its parent's. */
static int forbid_namespaces(int proc, bool for_passt, bool same_uid)
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
		const char *most = "0";
		if (for_passt && kinds[i].of_passt) {
			most = same_uid && kinds[i].of_box ? "2" : "1";
		}
		int r = write_at(proc, kinds[i].name, most);
		/* A kernel without one kind has no file for it. */
		if (r < 0 && r != -ENOENT) {
			return r;
		}
	}
	return 0;
}

/* Counted for the user who owns the namespace as well: as root that is an id of the box's own, and
 * nobody else's count moves. Where all boxes are one user, each has a share of what that one may
 * have. */
static int bound_inotify(int proc, bool same_uid)
{
	int r = write_at(proc, "sys/user/max_inotify_instances",
		same_uid ? NUMBER(BOX_INOTIFY_INSTANCES_SHARED) : NUMBER(BOX_INOTIFY_INSTANCES));
	r = r < 0 && r != -ENOENT ? r
				  : write_at(proc, "sys/user/max_inotify_watches",
					    same_uid ? NUMBER(BOX_INOTIFY_WATCHES_SHARED)
						     : NUMBER(BOX_INOTIFY_WATCHES));
	return r == -ENOENT ? 0 : r;
}

static int do_proc(const struct box_root_builder *assembly, int root, size_t number)
{
	const struct box_plan_step *step = &assembly->plan->steps[number];
	struct box_fsmount_options options = {.attributes = attributes_of(step)};
	_cleanup_(box_close_p) int whole = -1;
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int place = -1;
	int r = box_fsmount_make("proc", &options, &whole);
	bool for_passt = step->pids_only && assembly->plan->network;
	r = r < 0 ? r : forbid_namespaces(whole, for_passt, assembly->same_uid);
	r = r < 0 ? r : bound_inotify(whole, assembly->same_uid);
	if (r == 0 && step->pids_only) {
		options.pids_only = true;
		r = box_fsmount_make("proc", &options, &mount);
	} else {
		mount = TAKE_FD(whole);
	}
	r = r < 0 ? r : open_place(assembly, root, step, &place);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

static int do_pts(const struct box_root_builder *assembly, int root, size_t number)
{
	const struct box_plan_step *step = &assembly->plan->steps[number];
	struct box_fsmount_options options = {
		.uid = BOX_PLAN_PAYLOAD_ID,
		.gid = BOX_PLAN_PAYLOAD_ID,
		.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
	};
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int place = -1;
	int r = box_fsmount_make("devpts", &options, &mount);
	r = r < 0 ? r : open_place(assembly, root, step, &place);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

static int do_folder(const struct box_root_builder *assembly, int root, size_t number)
{
	_cleanup_(box_close_p) int place = -1;
	return open_place(assembly, root, &assembly->plan->steps[number], &place);
}

static int do_link(const struct box_root_builder *assembly, int root, size_t number)
{
	const struct box_plan_step *step = &assembly->plan->steps[number];
	return symlinkat(step->source, root, step->target + 1) < 0 ? -errno : 0;
}

/* A clone of something empty that the box has already: its /dev/null, its empty folder. */
static int make_mask(int root, bool folder, int *ret_mount)
{
	int fd = open_tree(root, folder ? "dev/empty" : "dev/null",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) < 0) {
		return -errno;
	}
	bool right = folder ? S_ISDIR(status.st_mode)
			    : S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
	if (!right) {
		(void)close(fd);
		return -ENODEV;
	}
	*ret_mount = fd;
	return 0;
}

static int do_mask(const struct box_root_builder *assembly, int root, size_t number)
{
	_cleanup_(box_close_p) int place = -1;
	_cleanup_(box_close_p) int mount = -1;
	struct stat status = {0};
	int r = box_fsmount_open_beneath(root, assembly->plan->steps[number].target + 1, &place);
	if (r == -ENOENT) {
		return 0;
	}
	if (r == 0 && fstat(place, &status) < 0) {
		r = -errno;
	}
	r = r < 0 ? r : make_mask(root, S_ISDIR(status.st_mode), &mount);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

/* The root is a mount already; a folder of /proc becomes one over itself. */
static int do_freeze(const struct box_root_builder *assembly, int root, size_t number)
{
	const struct box_plan_step *step = &assembly->plan->steps[number];
	if (!step->target[1]) {
		return box_fsmount_make_read_only(root);
	}
	_cleanup_(box_close_p) int place = -1;
	int r = box_fsmount_open_beneath(root, step->target + 1, &place);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	_cleanup_(box_close_p) int mount = open_tree(
		place, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	r = mount < 0 ? -errno : box_fsmount_make_read_only(mount);
	return r < 0 ? r : box_fsmount_attach_at(mount, place);
}

static int (*const doers[])(const struct box_root_builder *assembly, int root, size_t number) = {
	[BOX_PLAN_STEP_TMPFS] = do_tmpfs,
	[BOX_PLAN_STEP_TREE] = do_tree,
	[BOX_PLAN_STEP_PROC] = do_proc,
	[BOX_PLAN_STEP_PTS] = do_pts,
	[BOX_PLAN_STEP_FOLDER] = do_folder,
	[BOX_PLAN_STEP_LINK] = do_link,
	[BOX_PLAN_STEP_MASK] = do_mask,
	[BOX_PLAN_STEP_FREEZE] = do_freeze,
};

int box_root_builder_make_root(
	const struct box_root_builder *assembly, int *ret_root, int *ret_writable)
{
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int writable = -1;
	int r = make_tmpfs(assembly, &assembly->plan->steps[0], &mount);
	r = r < 0 ? r : box_fsmount_attach(mount, AT_FDCWD, assembly->anchor, NULL);
	if (r < 0) {
		return r;
	}
	writable = open_tree(mount, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (writable < 0) {
		return -errno;
	}
	*ret_root = TAKE_FD(mount);
	*ret_writable = TAKE_FD(writable);
	return 0;
}

int box_root_builder_run_steps(
	const struct box_root_builder *assembly, int root, int *ret_place, size_t *ret_step)
{
	for (size_t i = 1; i < assembly->plan->step_count; i++) {
		const struct box_plan_step *step = &assembly->plan->steps[i];
		bool later = step->kind == BOX_PLAN_STEP_TREE && assembly->trees[i] < 0;
		int r = later ? open_place(assembly, root, step, ret_place)
			      : doers[step->kind](assembly, root, i);
		if (r < 0) {
			*ret_step = i;
			return r;
		}
	}
	return 0;
}
