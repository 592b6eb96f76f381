/* What the process does that makes, grows or mounts the image of one folder. One at a time for all
 * images of a store, whoever runs boxd: the store is locked.
 *
 * Killed at any moment it leaves either the folder as it was, with an image beside it that is
 * called new and is made again, or an image that is whole: what was in the folder is removed only
 * when it is on disk in there and the image has its name. */
#include "boxd/quota/quota_task.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
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
#include "boxd/quota/quota_attach.h"
#include "boxd/quota/quota_copy.h"
#include "boxd/quota/quota_image.h"

#define STORE_MODE 0700

struct work {
	const struct box_quota_task *task;
	int under; /* the folder, as boxd sees it */
	int store;
	char path[BOX_PATH_MAX]; /* where the folder is */
	char file[300];          /* the image's name */
	char new_file[300];      /* until it is whole */
	char sweep_file[300];    /* while the originals may be there */
	struct box_quota_image image;
	bool fresh;
};

static int fail(struct box_err *err, const char *step, int errnum)
{
	return box_err_set(err, BOX_ERR_BOX, errnum,
		"the quota of host_path cannot be held: %s: %s", step, box_err_strerror(errnum));
}

/* --- the store --- */

/* File systems of this machine alone: an image that two machines mount is lost. */
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
		"workspace_quota_mb cannot be held for host_path: its file system (0x%x) may be "
		"one of several machines",
		(unsigned)filesystem.f_type);
}

/* One of root's that is empty may be that of someone who died just here. It is ours before
 * anything is in it. */
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
	/* A folder that others have made may be larger, or have links: left to the next check. */
	if (status.st_uid == 0 && status.st_nlink <= 2 &&
		(fchown(fd, BOX_QUOTA_UID, BOX_QUOTA_UID) < 0 || fchmod(fd, STORE_MODE) < 0)) {
		return fail(err, "the folder for images", errno);
	}
	return 0;
}

static int open_store(struct work *work, struct box_err *err)
{
	int parent = work->task->folder->parent;
	int r = box_quota_open_store(parent, &work->store, err);
	if (r != 0 && work->task->quota_bytes > 0) {
		r = check_filesystem(parent, err);
		r = r < 0 ? r : make_store(parent, err);
		r = r < 0 ? r : box_quota_open_store(parent, &work->store, err);
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
	r = r < 0 ? r : sync_image(work, err);
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

static int attach(const struct work *work, struct box_err *err)
{
	const struct box_quota_task *task = work->task;
	const struct box_quota_attach attach = {
		.mount = work->image.mount,
		.under = work->under,
		.parent = task->folder->parent,
		.name = task->folder->name,
		.path = work->path,
		.host_ns = task->support->host_ns,
		.own_ns = task->support->own_ns,
	};
	return box_quota_attach(&attach, err);
}

/* What was left by someone who died at it, under the mount. */
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

/* What stays is hidden, and is tried again when a box next needs the folder. */
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

/* The one way in. What is there already is left as it is. */
static int do_work(struct work *work, struct box_err *err)
{
	int r = open_store(work, err);
	if (r == -ENOENT && work->store < 0 && work->task->quota_bytes == 0) {
		return 0; /* nothing has come of what we waited for */
	}
	r = r < 0 ? r : open_folder(work, err);
	r = r < 0 ? r : find_image(work, err);
	if (r < 0) {
		return r;
	}
	bool found = work->image.file >= 0;
	if (found && box_quota_is_root_of(work->under, work->image.file)) {
		return serve_mounted(work, err);
	}
	if (!found && work->task->quota_bytes == 0) {
		return 0; /* it went while we came here */
	}
	r = box_quota_attach_check(work->under, work->task->alone, err);
	r = r < 0 || found ? r : make_image(work, err);
	r = r < 0 ? r : prepare(work, err);
	if (r < 0) {
		return r;
	}
	r = fill(work, err);
	r = r < 0 ? r : attach(work, err);
	if (r == 0) {
		sweep(work, false);
	}
	return r;
}

static int become_ready(const struct box_quota_task *task, pid_t parent, int out)
{
	const int kept[] = {
		out, task->folder->parent, task->support->host_ns, task->support->own_ns};
	struct rlimit core = {0, 0};
	sigset_t none;
	(void)sigemptyset(&none);
	/* Nothing of boxd's but these: a copy of a socket would keep it open. */
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
