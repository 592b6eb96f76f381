/* Checks of mounts, each in a mount namespace of its own: what is mounted there goes with it. */
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
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/box/userns.h"
#include "boxd/files/fsmount.h"
#include "cli/doctor/check.h"
#include "cli/doctor/probe_child.h"
#include "plan/plan.h"

#define TRIAL_ID 1879048192U /* stands for the payload of a box */
#define PLACE "/tmp"         /* every root has it */

static const char kernel_cure[] =
	"a kernel from 5.12 on; in a container, a seccomp profile that allows its mount calls";

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
	_cleanup_(box_close_p) int place = open(PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
		.propagation = MS_PRIVATE,
	};
	if (tree < 0 || place < 0 ||
		mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
		return -errno;
	}
	return box_fsmount_attach_at(tree, place);
}

void box_check_mounts(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_mounts, NULL);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"folders can be cloned, made read-only and attached by fd");
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
	r = r < 0 ? r : box_fsmount_make("tmpfs", &small, &mount);
	return r < 0 ? r : box_fsmount_attach(mount, AT_FDCWD, PLACE, NULL);
}

/* Its size must hold: it is what bounds a box's files. */
static int try_tmpfs(void *arg)
{
	(void)arg;
	static const char page[4096] = {0};
	int r = mount_tmpfs();
	_cleanup_(box_close_p) int fd = r < 0
		? -1
		: open(PLACE "/trial", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
		box_check_report(check, BOX_CHECK_OK, "", "can be mounted, and its size holds");
	} else {
		box_check_report(check, BOX_CHECK_MISSING, kernel_cure, "%s",
			r == -EFBIG ? "its size does not hold" : box_err_strerror(-r));
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
		box_check_report(
			check, BOX_CHECK_OK, "", "can be mounted, showing a box only itself");
	} else if (r == -EPERM) {
		box_check_report(check, BOX_CHECK_MISSING,
			"docker run --security-opt systempaths=unconfined; Kubernetes: procMount: "
			"Unmasked",
			"cannot be mounted: parts of /proc are covered here, as in containers");
	} else {
		box_check_report(check, BOX_CHECK_MISSING,
			"a kernel from 5.8 on, and user and pid namespaces",
			"cannot be mounted: %s", box_err_strerror(-r));
	}
}

/* --- overlay --- */

static int try_overlay(void *arg)
{
	(void)arg;
	static const char *const folders[] = {
		PLACE "/lower", PLACE "/upper", PLACE "/work", PLACE "/whole"};
	int r = mount_tmpfs();
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(folders); i++) {
		r = mkdir(folders[i], 0755) < 0 ? -errno : 0;
	}
	if (r < 0) {
		return r;
	}
	static const char options[] = "lowerdir=" PLACE "/lower,upperdir=" PLACE
				      "/upper,workdir=" PLACE "/work,userxattr";
	if (mount("overlay", PLACE "/whole", "overlay", MS_NOSUID, options) < 0) {
		return -errno;
	}
	return mkdir(PLACE "/whole/new", 0755) < 0 ? -errno : access(PLACE "/upper/new", F_OK);
}

/* Boxes do without it today. */
void box_check_overlay(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(try_overlay, NULL);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "", "can be mounted (not needed yet)");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED,
			"none is needed; for later: modprobe overlay, a kernel from 5.11 on",
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
			"not needed: commands are uid %u for the host too", geteuid());
		return;
	}
	char folder[BOX_PATH_MAX];
	(void)snprintf(folder, sizeof(folder), "%s", setup->folder);
	int r = box_probe_child_step(try_owners, folder);
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"folders of this file system can be shown to a box as its own");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED,
			"keep what boxes are to see on ext4, xfs, btrfs or tmpfs, with a kernel "
			"from 5.12 on (tmpfs: 6.3)",
			"folders of this file system cannot be mounted into a box: %s",
			r == -EINVAL ? "it cannot map owners" : box_err_strerror(-r));
	}
}
