/* Images by mke2fs, resize2fs, loop devices and ext4. Called only in a short-lived child: every call
 * may wait for a disk. */
#include "boxd/quota/quota_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/image/loop_device.h"

#define BLOCK 4096U
#define IMAGE_FD 3 /* in the programs that work on it */
#define IMAGE_PATH "/proc/self/fd/3"
#define UNMOUNT_TRIES 200
#define TRIAL_BYTES BOX_QUOTA_BYTES_MIN
#define PIECE (64 * BOX_KIB)
#define BYTES_MAX (2 * TRIAL_BYTES) /* if so much can be written, the size is not enforced */
#define FILES_MAX 65536
#define EXT4_RESIZE _IOW('f', 16, uint64_t) /* EXT4_IOC_RESIZE_FS, which no libc header has */

static int fail(struct box_err *err, const char *step, int errnum)
{
	return box_err_set(err, BOX_ERR_BOX, errnum,
		"the quota of host_path cannot be enforced: %s: %s", step,
		box_err_strerror(errnum));
}

void box_quota_image_close(struct box_quota_image *image)
{
	box_close_p(&image->mount);
	box_close_p(&image->loop);
	box_close_p(&image->file);
}

/* --- programs of e2fsprogs --- */

static _Noreturn void execute(const char *program, char *const arguments[], int file, pid_t parent)
{
	char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 || getppid() != parent ||
		null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0) {
		_exit(126);
	}
	/* In two steps: if it is IMAGE_FD already, dup2 alone would leave it CLOEXEC. */
	int copy = fcntl(file, F_DUPFD_CLOEXEC, IMAGE_FD + 1);
	if (copy < 0 || dup2(copy, IMAGE_FD) < 0 || close_range(IMAGE_FD + 1, ~0U, 0) < 0) {
		_exit(126);
	}
	(void)execve(program, arguments, environment);
	_exit(127);
}

static int run_program(const char *program, char *const arguments[], int file, struct box_err *err)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	int status = 0;
	if (pid == 0) {
		execute(program, arguments, file, parent);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		return fail(err, program, errno);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		return box_err_set(err, BOX_ERR_BOX, EIO,
			"the quota of host_path cannot be enforced: %s failed (%s %d)", program,
			WIFEXITED(status) ? "exit" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	}
	return 0;
}

int box_quota_image_format(
	int file, const char *mkfs, const struct box_quota_shape *shape, struct box_err *err)
{
	char inodes[32];
	char journal[32];
	char size[32];
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)shape->inodes);
	(void)snprintf(journal, sizeof(journal), "size=%u", shape->journal_mib);
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)(shape->size_bytes / BLOCK));
	char *const arguments[] = {"mkfs.ext4", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256",
		"-m", "0", "-N", inodes, "-J", journal, "-L", "box-quota", IMAGE_PATH, size, NULL};
	return run_program(mkfs, arguments, file, err);
}

int box_quota_image_make(int store, const char *file, const char *mkfs,
	const struct box_quota_shape *shape, int *ret_file, struct box_err *err)
{
	if (unlinkat(store, file, 0) < 0 && errno != ENOENT) {
		return fail(err, "an unfinished image cannot be removed", errno);
	}
	_cleanup_(box_close_p) int fd = openat(
		store, file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fchown(fd, BOX_QUOTA_UID, BOX_QUOTA_UID) < 0 ||
		ftruncate(fd, (off_t)shape->size_bytes) < 0) {
		return fail(err, "a new image", errno);
	}
	int r = box_quota_image_format(fd, mkfs, shape, err);
	if (r < 0) {
		return r;
	}
	*ret_file = TAKE_FD(fd);
	return 0;
}

/* --- the loop device --- */

static bool has_file(int loop, const struct stat *file)
{
	struct loop_info64 info = {0};
	return ioctl(loop, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
		info.lo_inode == file->st_ino;
}

/* The loop device of a file, or -1. */
static int find_loop(int file)
{
	struct stat status;
	DIR *blocks = opendir("/sys/block");
	const struct dirent *entry;
	int found = -1;
	if (!blocks || fstat(file, &status) < 0) {
		if (blocks) {
			(void)closedir(blocks);
		}
		return -1;
	}
	while (found < 0 && (entry = readdir(blocks))) {
		char bound[300];
		(void)snprintf(bound, sizeof(bound), "%s/loop/backing_file", entry->d_name);
		if (strncmp(entry->d_name, "loop", 4) != 0 ||
			faccessat(dirfd(blocks), bound, F_OK, 0) < 0) {
			continue;
		}
		int loop = box_loop_device_open(entry->d_name);
		if (loop >= 0 && has_file(loop, &status)) {
			found = loop;
		} else if (loop >= 0) {
			(void)close(loop);
		}
	}
	(void)closedir(blocks);
	return found;
}

/* --- the file system --- */

static int mount_loop(int loop, int *ret_mount)
{
	char device[BOX_PATH_MAX];
	int r = box_fsmount_path_of(loop, device, sizeof(device));
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int context = fsopen("ext4", FSOPEN_CLOEXEC);
	/* discard: deleted blocks are given back to the host. */
	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
		fsconfig(context, FSCONFIG_SET_STRING, "errors", "remount-ro", 0) < 0 ||
		fsconfig(context, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
		fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		return -errno;
	}
	int mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (mount < 0) {
		return -errno;
	}
	*ret_mount = mount;
	return 0;
}

int box_quota_image_mount(struct box_quota_image *image, struct box_err *err)
{
	image->loop = find_loop(image->file);
	image->in_use = image->loop >= 0;
	if (image->loop < 0) {
		int r = box_loop_device_attach(image->file, false, &image->loop);
		if (r < 0) {
			return fail(err, "a loop device", -r);
		}
	}
	int r = mount_loop(image->loop, &image->mount);
	return r < 0 ? fail(err, "the image cannot be mounted", -r) : 0;
}

/* --- its size --- */

static int has_capacity(int mount, uint64_t quota_bytes)
{
	struct statfs space;
	if (fstatfs(mount, &space) < 0) {
		return -errno;
	}
	uint64_t blocks = space.f_blocks - space.f_bfree + space.f_bavail;
	return blocks * (uint64_t)space.f_bsize >= quota_bytes;
}

/* The file first. If this process dies, the file is larger than its file system, which is grown the
 * next time. */
static int grow_mounted(const struct box_quota_image *image, uint64_t size_bytes)
{
	uint64_t blocks = size_bytes / BLOCK;
	_cleanup_(box_close_p) int root = openat(
		image->mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 || ftruncate(image->file, (off_t)size_bytes) < 0 ||
			ioctl(image->loop, LOOP_SET_CAPACITY, 0) < 0 ||
			ioctl(root, EXT4_RESIZE, &blocks) < 0 || syncfs(root) < 0
		? -errno
		: 0;
}

/* The kernel releases a file system a moment after its last user has gone. */
static int unmount(struct box_quota_image *image)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000000};
	box_close_p(&image->mount);
	box_close_p(&image->loop);
	for (int i = 0; i < UNMOUNT_TRIES; i++) {
		int loop = find_loop(image->file);
		if (loop < 0) {
			return 0;
		}
		(void)close(loop);
		(void)nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static int grow_unmounted(
	struct box_quota_image *image, const char *resize, uint64_t size_bytes, struct box_err *err)
{
	char size[32];
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)(size_bytes / BLOCK));
	char *const arguments[] = {"resize2fs", "-f", IMAGE_PATH, size, NULL};
	int r = unmount(image);
	if (r < 0) {
		return fail(err, "the image is in use", -r);
	}
	r = run_program(resize, arguments, image->file, err);
	if (r < 0) {
		return r;
	}
	return box_quota_image_mount(image, err);
}

static int refuse_growth(
	const struct box_quota_image *image, off_t size, int r, struct box_err *err)
{
	if (r != -EPERM) {
		/* The file system may have grown in part, so the file keeps its size: a file that is
		 * larger does no harm, one that is smaller would. */
		return fail(err, "the image cannot grow", -r);
	}
	if (ftruncate(image->file, size) == 0) {
		(void)ioctl(image->loop, LOOP_SET_CAPACITY, 0);
	}
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EPERM,
		"workspace_quota_mb cannot grow while host_path is mounted: boxd has no "
		"CAP_SYS_RESOURCE; unmount the folder when no session uses it");
}

int box_quota_image_fit(struct box_quota_image *image, const char *resize, uint64_t quota_bytes,
	struct box_err *err)
{
	struct box_quota_shape shape = {0};
	struct stat status;
	int r = has_capacity(image->mount, quota_bytes);
	if (r < 0 || fstat(image->file, &status) < 0 || box_quota_shape(quota_bytes, &shape) < 0) {
		return fail(err, "the image", r < 0 ? -r : ERANGE);
	}
	/* An image of another size may have enough capacity by chance: it is grown all the same. */
	if (r == 1 && (uint64_t)status.st_size >= shape.size_bytes) {
		return 0;
	}
	/* Never smaller than the file is: a process may have died while growing it to a larger size. */
	uint64_t size_bytes = BOX_MAX((uint64_t)status.st_size, shape.size_bytes);
	r = grow_mounted(image, size_bytes);
	if (r == -EPERM && !image->in_use) {
		r = grow_unmounted(image, resize, size_bytes, err);
		if (r < 0) {
			return r;
		}
	}
	if (r < 0) {
		return refuse_growth(image, status.st_size, r, err);
	}
	return has_capacity(image->mount, quota_bytes) == 1
		? 0
		: fail(err, "the image has too little room", ENOSPC);
}

/* --- whether quotas are enforced here --- */

static int fill_bytes(int root)
{
	static const char zeros[PIECE];
	size_t written = 0;
	_cleanup_(box_close_p) int fd = openat(root, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	while (written < BYTES_MAX) {
		ssize_t got = write(fd, zeros, sizeof(zeros));
		if (got <= 0) {
			return errno == ENOSPC && written >= TRIAL_BYTES - PIECE ? 0 : -errno;
		}
		written += (size_t)got;
	}
	return -EFBIG;
}

static int fill_files(int root)
{
	for (unsigned i = 0; i < FILES_MAX; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "n%u", i);
		int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			return errno == ENOSPC ? 0 : -errno;
		}
		(void)close(fd);
	}
	return -EMFILE;
}

static int try_to_overfill(const struct box_quota_image *image, struct box_err *err)
{
	int r = fill_bytes(image->mount);
	if (r == 0 && unlinkat(image->mount, "f", 0) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = fill_files(image->mount);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r,
			"the size of an image was not enforced: %s", box_err_strerror(-r));
	}
	return 0;
}

int box_quota_image_probe(const struct box_quota_support *support, struct box_err *err)
{
	_cleanup_(box_quota_image_close) struct box_quota_image image = BOX_QUOTA_IMAGE_NONE;
	struct box_quota_shape shape = {0};
	if (!support->mkfs || support->missing[0] != '\0') {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP, "%s", support->missing);
	}
	image.file = memfd_create("box-quota", MFD_CLOEXEC);
	if (image.file < 0 || box_quota_shape(TRIAL_BYTES, &shape) < 0 ||
		ftruncate(image.file, (off_t)shape.size_bytes) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "a file in memory: %s", box_err_strerror(errno));
	}
	int r = box_quota_image_format(image.file, support->mkfs, &shape, err);
	if (r < 0) {
		return r;
	}
	r = box_quota_image_mount(&image, err);
	if (r < 0) {
		return r;
	}
	r = box_quota_image_fit(&image, support->resize, TRIAL_BYTES, err);
	if (r < 0) {
		return r;
	}
	return try_to_overfill(&image, err);
}
