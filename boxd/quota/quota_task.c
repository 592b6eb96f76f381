/* The child process that makes, grows or mounts the image of one folder. The store is locked, so only
 * one works on its images at a time, even with several boxds.
 *
 * Whenever it is killed, either the folder is as it was, with an unfinished image beside it
 * (NAME.new, made again the next time), or the image is complete: the content of the folder is removed
 * only when it is on disk in the image and the image has its final name. */
#include "boxd/quota/quota_task.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/fsmount.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/files/location.h"
#include "boxd/quota/quota_copy.h"
#include "boxd/quota/quota_image.h"

#define STORE_MODE 0700

struct work {
	const struct box_quota_task *task;
	int under; /* the folder under the mount, as boxd sees it */
	int store;
	char path[BOX_PATH_MAX]; /* where the folder is */
	char file[300];          /* the image's name */
	char new_file[300];      /* its name until it is complete */
	char sweep_file[300];    /* exists while the original files may be there */
	struct box_quota_image image;
	bool fresh;
};

static int fail(struct box_err *err, const char *step, int errnum)
{
	return box_err_set(err, BOX_ERR_BOX, errnum,
		"the quota of host_path cannot be enforced: %s: %s", step,
		box_err_strerror(errnum));
}

/* --- a mount over a folder, for the host and for boxd ---
 *
 * One mount in two namespaces: the host's, because the folder is the host's too, and boxd's own, where
 * boxes take it from. Where mounts of the host propagate to boxd the second is there already. */

struct attach {
	int mount;        /* detached */
	int under;        /* the folder itself, O_PATH */
	int parent;       /* the folder that contains it, O_PATH, as boxd sees it */
	const char *name; /* its name there */
	const char *path; /* its path for the host */
	int host_ns;
	int own_ns;
};

static bool same_device(const struct box_location *a, const struct box_location *b)
{
	return a->major == b->major && a->minor == b->minor;
}

static bool same_folder(const struct box_location *a, const struct box_location *b)
{
	return same_device(a, b) && a->inode == b->inode;
}

/* In boxd's own mount namespace, a mount that is shared on the host has it as its master. */
bool box_quota_task_mount_is_shared(const char *line, unsigned long mount)
{
	char *end = NULL;
	unsigned long number = strtoul(line, &end, 10);
	const char *options = strstr(line, " - ");
	const char *shared = strstr(line, " shared:");
	const char *master = strstr(line, " master:");
	return end != line && *end == ' ' && number == mount && options &&
		((shared && shared < options) || (master && master < options));
}

/* Everyone who shares a shared mount sees what is mounted below it. */
static bool is_shared(unsigned long mount)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	while (mounts && !found && getline(&line, &room, mounts) > 0) {
		found = box_quota_task_mount_is_shared(line, mount);
	}
	free(line);
	if (mounts) {
		(void)fclose(mounts);
	}
	return found;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
		getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

/* Whether all who use the folder will see a mount over it. */
static int check_visible(int under, bool alone, struct box_err *err)
{
	_cleanup_(box_close_p) int root = -1;
	struct box_location location = {0};
	struct box_location top = {0};
	if (alone || !in_container()) {
		return 0;
	}
	/* The root of a container is its own; a volume may be shared with others. */
	if (box_location_open_following(AT_FDCWD, "/", &root) == 0 &&
		box_location_of(root, &top) == 0 && box_location_of(under, &location) == 0 &&
		(location.mount == top.mount || is_shared((unsigned long)location.mount))) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"workspace_quota_mb cannot be enforced for host_path: boxd runs in a container, and "
		"what it mounts in this volume would not be seen by others who share it; give the "
		"volume mount propagation, or leave out the quota");
}

/* The folder as the host sees it: the one we found, or our mount over it from earlier. */
static int open_for_host(const char *path, const struct box_location *under,
	const struct box_location *image, int *ret_fd, bool *ret_done, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	struct box_location location = {0};
	int r = box_location_open_following(AT_FDCWD, path, &fd);
	if (r < 0) {
		return fail(err, "the folder as the host sees it", -r);
	}
	r = box_location_of(fd, &location);
	if (r < 0) {
		return fail(err, "the folder as the host sees it", -r);
	}
	*ret_done = same_folder(&location, image);
	if (!*ret_done && !same_folder(&location, under)) {
		return box_err_set(err, BOX_ERR_BOX, ESTALE,
			"the quota of host_path cannot be enforced: boxd does not see the folder as "
			"the host does");
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int attach_for_host(const struct attach *attach, const struct box_location *under,
	const struct box_location *image, int *ret_clone, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	bool done = false;
	int r = open_for_host(attach->path, under, image, &folder, &done, err);
	if (r < 0) {
		return r;
	}
	r = done ? 0 : box_fsmount_attach_at(attach->mount, folder);
	if (r < 0) {
		return fail(err, "the image cannot be attached for the host", -r);
	}
	/* Clones the one that is in this namespace now. */
	int clone = open_tree(done ? folder : attach->mount, "",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (clone < 0) {
		return fail(err, "a second mount of the image", errno);
	}
	*ret_clone = clone;
	return 0;
}

static int attach_for_boxd(const struct attach *attach, const struct box_location *image, int clone,
	struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	struct box_location location = {0};
	int r = box_location_open_no_follow(attach->parent, attach->name, &folder);
	if (r < 0) {
		return fail(err, "the image cannot be attached", -r);
	}
	r = box_location_of(folder, &location);
	if (r == 0 && !same_folder(&location, image)) {
		r = box_fsmount_attach_at(clone, folder);
	}
	return r < 0 ? fail(err, "the image cannot be attached", -r) : 0;
}

/* Attaches the mount over the folder for the host and for boxd, unless it is attached there already. Changes
 * the root and the working folder of the process, which must have one thread. */
static int attach_everywhere(const struct attach *attach, struct box_err *err)
{
	_cleanup_(box_close_p) int clone = -1;
	struct box_location under = {0};
	struct box_location image = {0};
	int r = box_location_of(attach->under, &under);
	if (r < 0) {
		return fail(err, "the folder", -r);
	}
	r = box_location_of(attach->mount, &image);
	if (r < 0) {
		return fail(err, "the folder", -r);
	}
	if (setns(attach->host_ns, CLONE_NEWNS) < 0) {
		return fail(err, "the host's mount namespace", errno);
	}
	r = attach_for_host(attach, &under, &image, &clone, err);
	if (setns(attach->own_ns, CLONE_NEWNS) < 0 && r == 0) {
		r = fail(err, "boxd's mount namespace", errno);
	}
	if (r < 0) {
		return r;
	}
	return attach_for_boxd(attach, &image, clone, err);
}

/* --- the store --- */

/* File systems of this machine only: an image that two machines mount is destroyed. */
static int check_filesystem(int parent, struct box_err *err)
{
	static const uint32_t known[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
		TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, 0x2fc12fc1 /* zfs */,
		0xca451a4e /* bcachefs */};
	struct statfs filesystem;
	if (fstatfs(parent, &filesystem) < 0) {
		return fail(err, "the folder's file system", errno);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(known); i++) {
		if ((uint32_t)filesystem.f_type == known[i]) {
			return 0;
		}
	}
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"workspace_quota_mb cannot be enforced for host_path: its file system (0x%x) may be "
		"shared by several machines",
		(unsigned)filesystem.f_type);
}

/* An empty store of root's may have been left by a process that died just here. It gets its owner
 * before it gets any content. */
static int make_store(int parent, struct box_err *err)
{
	struct stat status;
	if (mkdirat(parent, BOX_QUOTA_STORE_NAME, STORE_MODE) < 0 && errno != EEXIST) {
		return fail(err, "the folder for images", errno);
	}
	_cleanup_(box_close_p) int fd = openat(
		parent, BOX_QUOTA_STORE_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		return fail(err, "the folder for images", errno);
	}
	/* A store made by others may be larger, or contain links: box_quota_open_store decides. */
	if (status.st_uid == 0 && status.st_nlink <= 2 &&
		(fchown(fd, BOX_QUOTA_UID, BOX_QUOTA_UID) < 0 || fchmod(fd, STORE_MODE) < 0)) {
		return fail(err, "the folder for images", errno);
	}
	return 0;
}

static int make_checked_store(int parent, struct box_err *err)
{
	int r = check_filesystem(parent, err);
	return r < 0 ? r : make_store(parent, err);
}

static int open_store(struct work *work, struct box_err *err)
{
	int parent = work->task->folder->parent;
	int r = box_quota_open_store(parent, &work->store, err);
	if (r != 0 && work->task->quota_bytes > 0) {
		r = make_checked_store(parent, err);
		if (r < 0) {
			return r;
		}
		r = box_quota_open_store(parent, &work->store, err);
	}
	if (r < 0) {
		return r;
	}
	return flock(work->store, LOCK_EX) < 0 ? fail(err, "the lock of the images", errno) : 0;
}

/* --- the image --- */

static int open_folder(struct work *work, struct box_err *err)
{
	const struct box_quota_folder *folder = work->task->folder;
	int r = box_location_open_no_follow(folder->parent, folder->name, &work->under);
	if (r < 0) {
		return fail(err, "the folder", -r);
	}
	r = box_fsmount_path_of(work->under, work->path, sizeof(work->path));
	return r < 0 ? fail(err, "the folder's path", -r) : 0;
}

static int find_image(struct work *work, struct box_err *err)
{
	const char *name = work->task->folder->name;
	(void)snprintf(work->file, sizeof(work->file), "%s.img", name);
	(void)snprintf(work->new_file, sizeof(work->new_file), "%s.new", name);
	box_quota_unswept_marker_name(name, work->sweep_file);
	int r = box_quota_open_image(work->store, name, &work->image.file, err);
	return r == -ENOENT ? 0 : r;
}

static int make_image(struct work *work, struct box_err *err)
{
	struct box_quota_shape shape = {0};
	if (box_quota_shape(work->task->quota_bytes, &shape) < 0) {
		return fail(err, "its size", ERANGE);
	}
	work->fresh = true;
	return box_quota_image_make(work->store, work->new_file, work->task->support->mkfs, &shape,
		&work->image.file, err);
}

static int prepare(struct work *work, struct box_err *err)
{
	uint64_t quota_bytes = work->task->quota_bytes;
	int r = box_quota_image_mount(&work->image, err);
	return r < 0 || quota_bytes == 0
		? r
		: box_quota_image_fit(&work->image, work->task->support->resize, quota_bytes, err);
}

static int sync_image(const struct work *work, struct box_err *err)
{
	_cleanup_(box_close_p) int root = openat(
		work->image.mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 || syncfs(root) < 0 || fsync(work->image.file) < 0
		? fail(err, "the image cannot be written", errno)
		: 0;
}

static int fill(struct work *work, struct box_err *err)
{
	if (work->fresh && unlinkat(work->image.mount, "lost+found", AT_REMOVEDIR) < 0 &&
		errno != ENOENT) {
		return fail(err, "lost+found", errno);
	}
	int r = box_quota_copy(work->under, work->image.mount, work->fresh, err);
	if (r < 0) {
		return r;
	}
	r = sync_image(work, err);
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int sweep = openat(
		work->store, work->sweep_file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (sweep < 0 ||
		(work->fresh &&
			renameat(work->store, work->new_file, work->store, work->file) < 0) ||
		fsync(work->store) < 0) {
		return fail(err, "the image's name", errno);
	}
	return 0;
}

static int attach_image(const struct work *work, struct box_err *err)
{
	const struct box_quota_task *task = work->task;
	const struct attach attach = {
		.mount = work->image.mount,
		.under = work->under,
		.parent = task->folder->parent,
		.name = task->folder->name,
		.path = work->path,
		.host_ns = task->support->host_ns,
		.own_ns = task->support->own_ns,
	};
	return attach_everywhere(&attach, err);
}

/* Opens the folder under the mount, where a process that died may have left files. */
static int open_under(struct work *work)
{
	const struct box_quota_folder *folder = work->task->folder;
	_cleanup_(box_close_p) int tree = open_tree(
		folder->parent, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0) {
		return -errno;
	}
	box_close_p(&work->under);
	return box_location_open_no_follow(tree, folder->name, &work->under);
}

/* Files that cannot be removed are hidden by the mount; removing them is tried again when a box next needs the
 * folder. */
static void sweep(struct work *work, bool mounted)
{
	struct box_err err = {0};
	int r = mounted ? open_under(work) : 0;
	r = r < 0 ? fail(&err, "the folder under its image", -r)
		  : box_quota_copy_sweep(work->under, work->image.mount, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "quota.sweep_failed", box_log_str("path", work->path),
			box_log_str("why", err.text));
		return;
	}
	(void)unlinkat(work->store, work->sweep_file, 0);
}

static int serve_mounted(struct work *work, struct box_err *err)
{
	int r = prepare(work, err);
	if (r == 0 && faccessat(work->store, work->sweep_file, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		sweep(work, true);
	}
	return r;
}

static int make_and_attach(struct work *work, bool has_image, struct box_err *err)
{
	int r = check_visible(work->under, work->task->alone, err);
	if (r < 0) {
		return r;
	}
	r = has_image ? 0 : make_image(work, err);
	if (r < 0) {
		return r;
	}
	r = prepare(work, err);
	if (r < 0) {
		return r;
	}
	r = fill(work, err);
	if (r < 0) {
		return r;
	}
	r = attach_image(work, err);
	if (r < 0) {
		return r;
	}
	sweep(work, false);
	return 0;
}

/* An existing image is left as it is. */
static int do_work(struct work *work, struct box_err *err)
{
	bool mount_only = work->task->quota_bytes == 0;
	int r = open_store(work, err);
	if (r == -ENOENT && work->store < 0 && mount_only) {
		return 0; /* nothing to mount: the process that we waited for made no image */
	}
	if (r < 0) {
		return r;
	}
	r = open_folder(work, err);
	if (r < 0) {
		return r;
	}
	r = find_image(work, err);
	if (r < 0) {
		return r;
	}
	bool has_image = work->image.file >= 0;
	if (has_image && box_quota_is_root_of(work->under, work->image.file)) {
		return serve_mounted(work, err);
	}
	if (!has_image && mount_only) {
		return 0; /* it was removed meanwhile */
	}
	return make_and_attach(work, has_image, err);
}

static int become_ready(const struct box_quota_task *task, pid_t parent, int out)
{
	const int kept[] = {
		out, task->folder->parent, task->support->host_ns, task->support->own_ns};
	struct rlimit core = {0, 0};
	sigset_t none;
	(void)sigemptyset(&none);
	/* Closes all fds of boxd but these: a copy of a socket would keep it open. */
	int r = box_fds_close_but(STDERR_FILENO + 1, kept, BOX_COUNT_OF(kept));
	if (r == 0 &&
		(prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 ||
			setrlimit(RLIMIT_CORE, &core) < 0 ||
			sigprocmask(SIG_SETMASK, &none, NULL) < 0)) {
		r = -errno;
	}
	return r == 0 && getppid() != parent ? -EOWNERDEAD : r;
}

_Noreturn void box_quota_task_run(const struct box_quota_task *task, pid_t parent, int out)
{
	static struct work work;
	struct box_quota_report report = {0};
	struct box_err err = {0};
	if (become_ready(task, parent, out) < 0) {
		_exit(1);
	}
	work = (struct work){.task = task, .under = -1, .store = -1, .image = BOX_QUOTA_IMAGE_NONE};
	int r = do_work(&work, &err);
	if (r < 0) {
		if (work.fresh && work.store >= 0) {
			box_quota_image_close(&work.image);
			(void)unlinkat(work.store, work.new_file, 0);
		}
		report.failure.result = r;
		report.failure.code = err.code;
		(void)snprintf(report.failure.text, sizeof(report.failure.text), "%.*s",
			(int)sizeof(report.failure.text) - 1, err.text);
	}
	ssize_t wrote = write(out, &report, sizeof(report));
	_exit(wrote == (ssize_t)sizeof(report) ? 0 : 1);
}
