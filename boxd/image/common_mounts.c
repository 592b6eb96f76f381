/* The mounts that boxes share. They are attached to a tmpfs over a system folder that no box may have
 * anyway, in boxd's own mount namespace, so that nobody else sees or changes them. */
#include "boxd/image/common_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/box/userns.h"
#include "boxd/image/image_file.h"
#include "boxd/image/root.h"

static const char *const anchors[] = {"/sys/kernel", "/boot", "/mnt", "/media"};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const struct {
	const char *name;
	const char *target;
} device_links[] = {
	{"fd", "/proc/self/fd"},
	{"stdin", "/proc/self/fd/0"},
	{"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
};

static int fail(struct box_err *err, const char *step)
{
	int errnum = errno;
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", step, box_err_strerror(errnum));
}

static int enter_userns(struct box_err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER) < 0) {
		return fail(err, "user namespaces cannot be made");
	}
	int pid = (int)getpid();
	int r = box_userns_deny_groups(pid);
	if (r == 0) {
		r = box_userns_write_map(pid, "uid_map", 0, uid, 1);
	}
	if (r == 0) {
		r = box_userns_write_map(pid, "gid_map", 0, gid, 1);
	}
	if (r < 0) {
		errno = -r;
		return fail(err, "the user namespace cannot be mapped");
	}
	return 0;
}

int box_common_mounts_enter_namespace(struct box_err *err)
{
	if (geteuid() != 0) {
		int r = enter_userns(err);
		if (r < 0) {
			return r;
		}
	}
	if (unshare(CLONE_NEWNS) < 0) {
		return fail(err, "a mount namespace cannot be made");
	}
	/* Mounts of the operator still propagate to us; ours do not propagate back. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
		return fail(err, "the mount namespace cannot be separated");
	}
	return 0;
}

static const char *find_anchor(void)
{
	for (size_t i = 0; i < BOX_COUNT_OF(anchors); i++) {
		struct stat status;
		if (stat(anchors[i], &status) == 0 && S_ISDIR(status.st_mode)) {
			return anchors[i];
		}
	}
	return NULL;
}

/* The default root: the host's, or the operator's rootfs. */
static int take_root(
	int rootfs, int anchor, struct box_plan_host *host, struct box_common_mounts *common)
{
	struct box_root root;
	box_root_init(&root);
	_cleanup_(box_close_p) int own = rootfs < 0 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)
						    : -1;
	int r = rootfs < 0 && own < 0
		? -errno
		: box_root_take(rootfs < 0 ? own : rootfs,
			  rootfs < 0 ? BOX_ROOT_HOST : BOX_ROOT_OPERATOR, anchor, &root);
	/* box_common_mounts_close closes them, even after a failure. */
	memcpy(common->entries, root.trees, sizeof(common->entries));
	common->etc = root.etc;
	box_root_describe(&root, host->root_path, host);
	return r;
}

/* Binds the host's own device file, so that no device has to be made. */
static int take_device(int folder, const char *name)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	_cleanup_(box_close_p) int tree = open_tree(
		AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	_cleanup_(box_close_p) int place = openat(
		folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	struct stat status;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
		.propagation = MS_PRIVATE,
	};
	if (tree < 0 || place < 0 || fstat(tree, &status) < 0) {
		return -errno;
	}
	if (!S_ISCHR(status.st_mode)) {
		return -ENODEV;
	}
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
		return -errno;
	}
	return box_fsmount_attach_at(tree, place);
}

static const struct box_fsmount_options dev_options = {.size_bytes = 64 * BOX_KIB,
	.inodes = 64,
	.mode = 0755,
	.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

static int make_dev(int anchor, struct box_common_mounts *common)
{
	_cleanup_(box_close_p) int mount = -1;
	int r = box_fsmount_make("tmpfs", &dev_options, &mount);
	if (r == 0 && mkdirat(anchor, "dev", 0755) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return r;
	}
	r = box_fsmount_attach(mount, anchor, "dev", &common->dev);
	for (size_t i = 0; i < BOX_COUNT_OF(devices) && r == 0; i++) {
		r = take_device(common->dev, devices[i]);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(device_links) && r == 0; i++) {
		r = symlinkat(device_links[i].target, common->dev, device_links[i].name) < 0
			? -errno
			: 0;
	}
	if (r == 0 &&
		(mkdirat(common->dev, "pts", 0755) < 0 || mkdirat(common->dev, "shm", 0755) < 0 ||
			mkdirat(common->dev, "empty", 0555) < 0)) {
		r = -errno;
	}
	return r < 0 ? r : box_fsmount_make_read_only(common->dev);
}

/* Every id can use the device: only jails of microVMs see it. */
static int make_kvm_node(int folder)
{
	struct stat status;
	if (stat("/dev/kvm", &status) < 0) {
		return -errno;
	}
	if (!S_ISCHR(status.st_mode)) {
		return -ENODEV;
	}
	if (geteuid() == 0 && mknodat(folder, "kvm", S_IFCHR | 0600, status.st_rdev) == 0) {
		return fchmodat(folder, "kvm", 0666, 0) < 0 ? -errno : 0;
	}
	return take_device(folder, "kvm");
}

int box_common_mounts_make_kvm(struct box_common_mounts *common, struct box_err *err)
{
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int attached = -1;
	if (common->kvm >= 0) {
		return 0;
	}
	_cleanup_(box_close_p) int anchor = open(
		common->anchor ? common->anchor : "", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = anchor < 0 ? -errno : box_fsmount_make("tmpfs", &dev_options, &mount);
	if (r == 0 && mkdirat(anchor, "kvm", 0755) < 0 && errno != EEXIST) {
		r = -errno;
	}
	if (r == 0) {
		r = box_fsmount_attach(mount, anchor, "kvm", &attached);
	}
	if (r == 0) {
		r = make_kvm_node(attached);
	}
	if (r == 0) {
		r = box_fsmount_make_read_only(attached);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"/dev/kvm cannot be given to microVMs: %s", box_err_strerror(-r));
	}
	common->kvm = TAKE_FD(attached);
	return 0;
}

static int make_place(int anchor, const char *name, int *ret_fd)
{
	if (mkdirat(anchor, name, 0700) < 0) {
		return -errno;
	}
	*ret_fd = openat(anchor, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int box_common_mounts_make(const char *rootfs, struct box_plan_host *host,
	struct box_common_mounts *ret_template, struct box_err *err)
{
	static const struct box_fsmount_options options = {
		.size_bytes = 64 * BOX_MIB, .inodes = 32768, .mode = 0755};
	struct box_common_mounts common = {
		.anchor = find_anchor(), .etc = -1, .dev = -1, .kvm = -1, .artifacts = -1};
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int anchor = -1;
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		common.entries[i] = -1;
	}
	if (!common.anchor) {
		return box_err_set(
			err, BOX_ERR_OS, ENOENT, "the host has no folder to attach mounts to");
	}
	int r = box_fsmount_make("tmpfs", &options, &mount);
	if (r == 0) {
		r = box_fsmount_attach(mount, AT_FDCWD, common.anchor, &anchor);
	}
	const char *step = "the shared tmpfs";
	_cleanup_(box_close_p) int folder = -1;
	if (r == 0 && rootfs[0]) {
		const struct box_image_file_request ask = {
			.what = "local.rootfs", .path = rootfs, .follow = true, .anchor = anchor};
		r = box_image_file_open(&ask, &folder, err);
		if (r < 0) {
			box_common_mounts_close(&common);
			return r;
		}
	}
	if (r == 0) {
		step = "the system folders";
		r = take_root(folder, anchor, host, &common);
	}
	if (r == 0) {
		step = "/dev";
		r = make_dev(anchor, &common);
	}
	if (r == 0) {
		step = "the folder for artifacts";
		r = make_place(anchor, "artifacts", &common.artifacts);
	}
	if (r < 0) {
		box_common_mounts_close(&common);
		return box_err_set(err, BOX_ERR_OS, -r, "%s of boxes cannot be prepared: %s", step,
			box_err_strerror(-r));
	}
	*ret_template = common;
	return 0;
}

void box_common_mounts_close(struct box_common_mounts *common)
{
	box_close_p(&common->etc);
	box_close_p(&common->dev);
	box_close_p(&common->kvm);
	box_close_p(&common->artifacts);
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		box_close_p(&common->entries[i]);
	}
}
