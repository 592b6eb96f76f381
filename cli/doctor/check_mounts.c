/* Checks of mounts, each in a mount namespace of its own, which ends with the check. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/box/userns.h"
#include "cli/doctor/check.h"
#include "cli/doctor/probe_child.h"
#include "plan/plan.h"

#define TRIAL_ID 1879048192U /* like the uid of a box */
#define MOUNT_POINT "/tmp"   /* every root has it */

static const char kernel_cure[] =
	"use kernel 5.12 or newer; in a container, a seccomp profile that allows its mount calls";

/* --- the mount calls --- */

static int try_mounts(void *arg)
{
	(void)arg;
	int r = box_probe_child_enter_mounts();
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int tree = open_tree(
		AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	_cleanup_(box_close_p) int target = open(MOUNT_POINT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
		.propagation = MS_PRIVATE,
	};
	if (tree < 0 || target < 0 ||
		mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
		return -errno;
	}
	return box_fsmount_attach_at(tree, target);
}

void box_check_mounts(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_mounts, NULL);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"mounts can be cloned, made read-only and attached by fd");
	} else {
		box_check_report(check, BOX_CHECK_MISSING, kernel_cure,
			"open_tree, mount_setattr, move_mount: %s", box_err_strerror(-r));
	}
}

/* --- tmpfs --- */

static const struct box_fsmount_options small = {
	.size_bytes = 64 * BOX_KIB, .inodes = 64, .mode = 0755, .attributes = MOUNT_ATTR_NOSUID};

static int mount_tmpfs(void)
{
	_cleanup_(box_close_p) int mount = -1;
	int r = box_probe_child_enter_mounts();
	if (r < 0) {
		return r;
	}
	r = box_fsmount_make("tmpfs", &small, &mount);
	return r < 0 ? r : box_fsmount_attach(mount, AT_FDCWD, MOUNT_POINT, NULL);
}

/* Its size must be enforced: it limits the files of a box. */
static int try_tmpfs(void *arg)
{
	(void)arg;
	static const char page[4096] = {0};
	int r = mount_tmpfs();
	_cleanup_(box_close_p) int fd = r < 0
		? -1
		: open(MOUNT_POINT "/trial", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return r < 0 ? r : -errno;
	}
	for (size_t written = 0; written <= small.size_bytes; written += sizeof(page)) {
		if (write(fd, page, sizeof(page)) < 0) {
			return errno == ENOSPC ? 0 : -errno;
		}
	}
	return -EFBIG;
}

void box_check_tmpfs(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_tmpfs, NULL);
	if (r == 0) {
		box_check_report(
			check, BOX_CHECK_OK, "", "can be mounted, and its size limit works");
	} else {
		box_check_report(check, BOX_CHECK_MISSING, kernel_cure, "%s",
			r == -EFBIG ? "its size limit does not work" : box_err_strerror(-r));
	}
}

/* --- /proc --- */

static int mount_proc(void *arg)
{
	(void)arg;
	static const struct box_fsmount_options options = {
		.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	_cleanup_(box_close_p) int mount = -1;
	int r = box_fsmount_make("proc", &options, &mount);
	return r < 0 ? r : box_fsmount_attach(mount, AT_FDCWD, "/proc", NULL);
}

/* A pid namespace begins with the next process. */
static int try_proc(void *arg)
{
	(void)arg;
	int r = box_probe_child_enter_mounts();
	return r < 0                        ? r
		: unshare(CLONE_NEWPID) < 0 ? -errno
					    : box_probe_child_step(mount_proc, NULL);
}

void box_check_proc(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_proc, NULL);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"can be mounted; a box sees only its own processes");
	} else if (r == -EPERM) {
		box_check_report(check, BOX_CHECK_MISSING,
			"docker run --security-opt systempaths=unconfined; Kubernetes: procMount: "
			"Unmasked",
			"cannot be mounted: parts of /proc are masked here, as in containers");
	} else {
		box_check_report(check, BOX_CHECK_MISSING,
			"use kernel 5.8 or newer, with user and pid namespaces",
			"cannot be mounted: %s", box_err_strerror(-r));
	}
}

/* --- overlay --- */

static int try_overlay(void *arg)
{
	(void)arg;
	static const char *const folders[] = {MOUNT_POINT "/lower", MOUNT_POINT "/upper",
		MOUNT_POINT "/work", MOUNT_POINT "/whole"};
	int r = mount_tmpfs();
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(folders); i++) {
		r = mkdir(folders[i], 0755) < 0 ? -errno : 0;
	}
	if (r < 0) {
		return r;
	}
	static const char options[] = "lowerdir=" MOUNT_POINT "/lower,upperdir=" MOUNT_POINT
				      "/upper,workdir=" MOUNT_POINT "/work,userxattr";
	if (mount("overlay", MOUNT_POINT "/whole", "overlay", MS_NOSUID, options) < 0) {
		return -errno;
	}
	return mkdir(MOUNT_POINT "/whole/new", 0755) < 0 ? -errno
							 : access(MOUNT_POINT "/upper/new", F_OK);
}

/* Boxes do not use it yet. */
void box_check_overlay(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_overlay, NULL);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "", "can be mounted (not needed yet)");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED,
			"nothing to do; for later versions: modprobe overlay, kernel 5.11 or newer",
			"cannot be mounted: %s (not needed yet)", box_err_strerror(-r));
	}
}

/* --- owners --- */

static int try_owners(void *arg)
{
	const char *folder = arg;
	struct stat status;
	_cleanup_(box_close_p) int userns = -1;
	if (unshare(CLONE_NEWNS) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int tree = open_tree(
		AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || fstat(tree, &status) < 0) {
		return -errno;
	}
	int r = box_userns_map(status.st_uid, TRIAL_ID, status.st_gid, TRIAL_ID, &userns);
	if (r < 0) {
		return r;
	}
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (uint64_t)userns,
		.propagation = MS_PRIVATE};
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
		fstat(tree, &status) < 0) {
		return -errno;
	}
	return status.st_uid == TRIAL_ID && status.st_gid == TRIAL_ID ? 0 : -EIO;
}

void box_check_owners(const struct box_check_setup *setup, struct box_check *check)
{
	if (geteuid() != 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"not needed: commands run as uid %u on the host too", geteuid());
		return;
	}
	char folder[BOX_PATH_MAX];
	(void)snprintf(folder, sizeof(folder), "%s", setup->folder);
	int r = box_probe_child_step(try_owners, folder);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"folders on this file system can be mounted with mapped owners");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED,
			"keep folders for boxes on ext4, xfs, btrfs or tmpfs, with kernel 5.12 or "
			"newer (tmpfs: 6.3)",
			"folders on this file system cannot be mounted into a box: %s",
			r == -EINVAL ? "it does not support mapped owners" : box_err_strerror(-r));
	}
}
