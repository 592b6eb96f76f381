/* Examines a folder by fds: no path is resolved twice, and files that boxd has not made itself are
 * refused. Two parts are pure: how large an image must be, and what must be done for a folder.
 *
 * Sizes are those of an ext4 with 4 KiB blocks as mke2fs makes it, each rounded up; whether an image
 * has enough room is checked again when it is mounted. */
#include "boxd/quota/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/files/location.h"

#define LOOP_MAJOR 7
#define STORE_MODE 0700U

#define BLOCK 4096ULL
#define GROUP_BLOCKS 32768ULL
#define INODES_IN_BLOCK 16ULL
#define DESCRIPTORS_IN_BLOCK 64ULL
#define RESERVED_DESCRIPTORS_MAX 1024ULL /* in each copy of the superblock, so that it can grow */
#define GROWTH 1024ULL
#define KERNEL_SHARE 50ULL /* the kernel reserves one of so many blocks */
#define KERNEL_BLOCKS_MAX 4096ULL
#define SPARE_BLOCKS 64ULL /* lost+found, the root, and what a too small last group loses */

#define BYTES_PER_INODE 8192ULL
#define INODES_MIN 12288ULL /* their tables make the smallest image large enough for a journal */
#define INODES_MAX (16ULL * 1024 * 1024)
#define SMALL_BYTES (256 * BOX_MIB)
#define SMALL_JOURNAL_MIB 4
#define JOURNAL_MIB 16

/* --- what the host has --- */

static const char *const mkfs_paths[] = {
	"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/local/sbin/mkfs.ext4", NULL};
static const char *const resize_paths[] = {
	"/usr/sbin/resize2fs", "/sbin/resize2fs", "/usr/local/sbin/resize2fs", NULL};

static const char *find_program(const char *const *paths)
{
	while (*paths && access(*paths, X_OK) < 0) {
		paths++;
	}
	return *paths;
}

static void say_missing(struct box_quota_support *support, const char *why)
{
	if (support->missing[0] == '\0') {
		(void)snprintf(support->missing, sizeof(support->missing), "%s", why);
	}
}

void box_quota_support_find(struct box_quota_support *support)
{
	*support = (struct box_quota_support){.host_ns = -1, .own_ns = -1};
	if (geteuid() != 0) {
		say_missing(support, "boxd is not root, and only root can mount an image");
		return;
	}
	support->mkfs = find_program(mkfs_paths);
	support->resize = find_program(resize_paths);
	if (!support->mkfs || !support->resize) {
		say_missing(support, "mkfs.ext4 or resize2fs is missing (package e2fsprogs)");
	}
	if (access("/dev/loop-control", R_OK | W_OK) < 0) {
		say_missing(support, "/dev/loop-control cannot be used: there are no loop devices");
	}
	support->host_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (support->host_ns < 0) {
		say_missing(support, "/proc/self/ns/mnt cannot be opened");
	}
}

void box_quota_support_enter_namespace(struct box_quota_support *support)
{
	if (support->missing[0] != '\0') {
		return;
	}
	support->own_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (support->own_ns < 0) {
		say_missing(support, "/proc/self/ns/mnt cannot be opened");
		return;
	}
	support->possible = true;
}

void box_quota_support_close(struct box_quota_support *support)
{
	box_close_p(&support->host_ns);
	box_close_p(&support->own_ns);
}

/* --- what a folder has --- */

/* The caller checks that the name refers to the folder. */
static int find_name(int source, char path[BOX_PATH_MAX], const char **ret_name)
{
	int r = box_fsmount_path_of(source, path, BOX_PATH_MAX);
	if (r < 0) {
		return r;
	}
	const char *slash = strrchr(path, '/');
	if (!slash || slash[1] == '\0') {
		return -ENOENT;
	}
	*ret_name = slash + 1;
	return 0;
}

static bool is_same_folder(int parent, const char *name, int source)
{
	struct box_location here = {0};
	struct box_location there = {0};
	_cleanup_(box_close_p) int fd = -1;
	return box_location_open_no_follow(parent, name, &fd) == 0 &&
		box_location_of(fd, &here) == 0 && box_location_of(source, &there) == 0 &&
		here.major == there.major && here.minor == there.minor && here.inode == there.inode;
}

static int refuse_name(int r, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_VALIDATION, -r,
		"host_path cannot have a quota: its name cannot be determined: %s",
		box_err_strerror(-r));
}

int box_quota_find(int source, struct box_quota_folder *ret_folder, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	const char *name = "";
	_cleanup_(box_close_p) int parent = -1;
	int r = box_location_open_following(source, "..", &parent);
	if (r < 0) {
		return refuse_name(r, err);
	}
	r = find_name(source, path, &name);
	if (r < 0) {
		return refuse_name(r, err);
	}
	if (!is_same_folder(parent, name, source)) {
		return refuse_name(-ENOENT, err);
	}
	if (strlen(name) + sizeof(".img") > sizeof(ret_folder->name)) {
		return refuse_name(-ENAMETOOLONG, err);
	}
	*ret_folder = (struct box_quota_folder){.parent = TAKE_FD(parent)};
	memcpy(ret_folder->name, name, strlen(name) + 1);
	return 0;
}

static int not_ours(const char *what, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BOX, EPERM,
		"the quota of host_path cannot be enforced: %s is not as boxd makes it", what);
}

int box_quota_open_store(int parent, int *ret_store, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = openat(parent, BOX_QUOTA_STORE_NAME,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	if (fd < 0) {
		/* A folder of another user than root: mounts made by root are visible, the rest is not
		 * ours to change.
		 */
		return errno == ENOENT || errno == EACCES ? -ENOENT
							  : not_ours(BOX_QUOTA_STORE_NAME, err);
	}
	if (fstat(fd, &status) < 0 || status.st_uid != BOX_QUOTA_UID ||
		(status.st_mode & 07777) != STORE_MODE) {
		return not_ours(BOX_QUOTA_STORE_NAME, err);
	}
	*ret_store = TAKE_FD(fd);
	return 0;
}

int box_quota_open_image(int store, const char *name, int *ret_image, struct box_err *err)
{
	char file[sizeof(((struct box_quota_folder *)0)->name) + 8];
	(void)snprintf(file, sizeof(file), "%s.img", name);
	_cleanup_(box_close_p) int fd = openat(
		store, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	if (fd < 0) {
		return errno == ENOENT ? -ENOENT : not_ours(file, err);
	}
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != BOX_QUOTA_UID ||
		status.st_nlink != 1) {
		return not_ours(file, err);
	}
	*ret_image = TAKE_FD(fd);
	return 0;
}

void box_quota_unswept_marker_name(const char *name, char ret_file[300])
{
	(void)snprintf(ret_file, 300, "%s.swp", name);
}

/* Compares the loop device of its file system: names prove nothing here. */
bool box_quota_is_root_of(int fd, int image)
{
	struct statx place;
	struct stat file;
	struct stat node;
	struct loop_info64 info = {0};
	char path[32];
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &place) < 0 || fstat(image, &file) < 0 ||
		place.stx_dev_major != LOOP_MAJOR ||
		!(place.stx_attributes & STATX_ATTR_MOUNT_ROOT)) {
		return false;
	}
	(void)snprintf(path, sizeof(path), "/dev/loop%u", place.stx_dev_minor);
	_cleanup_(box_close_p) int loop = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return loop >= 0 && fstat(loop, &node) == 0 && S_ISBLK(node.st_mode) &&
		major(node.st_rdev) == place.stx_dev_major &&
		minor(node.st_rdev) == place.stx_dev_minor &&
		ioctl(loop, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file.st_dev &&
		info.lo_inode == file.st_ino;
}

/* Opens the store and the image of a folder; -ENOENT when it has none. */
static int open_store_and_image(
	int source, int *ret_store, int *ret_image, char name[256], struct box_err *err)
{
	struct box_quota_folder folder = {.parent = -1};
	int r = box_quota_find(source, &folder, err);
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int parent = folder.parent;
	memcpy(name, folder.name, sizeof(folder.name));
	r = box_quota_open_store(parent, ret_store, err);
	if (r < 0) {
		return r;
	}
	return box_quota_open_image(*ret_store, name, ret_image, err);
}

int box_quota_read_state(int source, struct box_quota_state *ret_state, struct box_err *err)
{
	char name[sizeof(((struct box_quota_folder *)0)->name)];
	_cleanup_(box_close_p) int store = -1;
	_cleanup_(box_close_p) int image = -1;
	struct box_quota_state state = {0};
	struct stat status;
	int r = open_store_and_image(source, &store, &image, name, err);
	if (r == -ENOENT) {
		*ret_state = state;
		return 0;
	}
	if (r < 0) {
		return r;
	}
	if (fstat(image, &status) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "the image of host_path: fstat");
	}
	state.has_image = true;
	state.image_bytes = (uint64_t)status.st_size;
	state.mounted = box_quota_is_root_of(source, image);
	char marker[300];
	box_quota_unswept_marker_name(name, marker);
	state.unswept = faccessat(store, marker, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	struct statfs space;
	if (state.mounted && fstatfs(source, &space) == 0) {
		state.capacity_bytes = (space.f_blocks - space.f_bfree + space.f_bavail) *
			(uint64_t)space.f_bsize;
	}
	*ret_state = state;
	return 0;
}

/* --- how large an image must be (pure) --- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return BOX_MIN(a, b);
}

static uint64_t div_round_up(uint64_t value, uint64_t by)
{
	return (value + by - 1) / by;
}

/* Groups with a copy of the superblock: 0, 1 and the powers of 3, 5 and 7. */
static uint64_t count_copies(uint64_t groups)
{
	uint64_t copies = groups > 1 ? 2 : 1;
	for (uint64_t base = 3; base <= 7; base += 2) {
		for (uint64_t power = base; power < groups; power *= base) {
			copies++;
		}
	}
	return copies;
}

static uint64_t count_orphan_blocks(uint64_t blocks)
{
	if (blocks < 128 * 1024) {
		return 32;
	}
	return min_u64(blocks / 4096, 512);
}

/* How many blocks of an image are needed for its own metadata. */
static uint64_t count_overhead(uint64_t blocks, const struct box_quota_shape *shape)
{
	uint64_t groups = div_round_up(blocks, GROUP_BLOCKS);
	uint64_t tables = groups *
		(div_round_up(div_round_up(shape->inodes, groups), INODES_IN_BLOCK) + 1);
	uint64_t max_groups = div_round_up(min_u64(blocks * GROWTH, UINT32_MAX), GROUP_BLOCKS);
	uint64_t descriptors = div_round_up(groups, DESCRIPTORS_IN_BLOCK) +
		min_u64(div_round_up(max_groups, DESCRIPTORS_IN_BLOCK), RESERVED_DESCRIPTORS_MAX);
	return tables + 2 * groups + count_copies(groups) * (1 + descriptors) +
		shape->journal_mib * BOX_MIB / BLOCK + count_orphan_blocks(blocks) +
		min_u64(div_round_up(blocks, KERNEL_SHARE), KERNEL_BLOCKS_MAX) + SPARE_BLOCKS;
}

int box_quota_shape(uint64_t quota_bytes, struct box_quota_shape *ret_shape)
{
	if (quota_bytes < BOX_QUOTA_BYTES_MIN || quota_bytes > BOX_QUOTA_BYTES_MAX) {
		return -ERANGE;
	}
	struct box_quota_shape shape = {
		.inodes = min_u64(quota_bytes / BYTES_PER_INODE, INODES_MAX),
		.journal_mib = quota_bytes < SMALL_BYTES ? SMALL_JOURNAL_MIB : JOURNAL_MIB,
	};
	shape.inodes = BOX_MAX(shape.inodes, INODES_MIN);
	uint64_t wanted = div_round_up(quota_bytes, BLOCK);
	uint64_t blocks = wanted;
	uint64_t before;
	/* The overhead grows far more slowly than the image. */
	do {
		before = blocks;
		blocks = wanted + count_overhead(before, &shape);
	} while (blocks > before);
	shape.size_bytes = before * BLOCK;
	*ret_shape = shape;
	return 0;
}

/* --- what must be done for a folder (pure) --- */

static int refuse_unenforced(
	const struct box_quota_support *support, uint64_t quota_bytes, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"workspace_quota_mb %llu cannot be enforced for a folder of the host: %s; leave out "
		"host_path, provide what is missing, or set local.degraded: true to run without",
		(unsigned long long)(quota_bytes / BOX_MIB), support->missing);
}

static int decide_by_size(const struct box_quota_state *state, uint64_t quota_bytes,
	enum box_quota_verdict *ret_verdict, struct box_err *err)
{
	struct box_quota_shape shape = {0};
	if (box_quota_shape(quota_bytes, &shape) < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, ERANGE,
			"workspace_quota_mb %llu cannot be enforced for a folder of the host: it must "
			"be from %llu to %llu",
			(unsigned long long)(quota_bytes / BOX_MIB),
			(unsigned long long)(BOX_QUOTA_BYTES_MIN / BOX_MIB),
			(unsigned long long)(BOX_QUOTA_BYTES_MAX / BOX_MIB));
	}
	if (state->has_image && state->image_bytes > shape.size_bytes) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"workspace_quota_mb %llu is smaller than the one that the folder of the "
			"host has: its image can grow, not shrink",
			(unsigned long long)(quota_bytes / BOX_MIB));
	}
	/* A process that died while growing it leaves a file that is larger than its file system. */
	bool ready = state->has_image && state->mounted && !state->unswept &&
		state->image_bytes == shape.size_bytes && state->capacity_bytes >= quota_bytes;
	*ret_verdict = ready ? BOX_QUOTA_READY : BOX_QUOTA_NEEDS_WORK;
	return 0;
}

int box_quota_decide(const struct box_quota_support *support, const struct box_quota_state *state,
	uint64_t quota_bytes, bool degraded, enum box_quota_verdict *ret_verdict,
	struct box_err *err)
{
	bool hidden = state->has_image && !state->mounted;
	if (!support->possible && hidden) {
		/* Not even with local.degraded: what is under the image is not the folder's content. */
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"the folder of the host has an image that cannot be mounted: %s",
			support->missing);
	}
	if (quota_bytes == 0) {
		bool unswept = state->unswept && support->possible;
		*ret_verdict = hidden || unswept ? BOX_QUOTA_NEEDS_WORK : BOX_QUOTA_READY;
		return 0;
	}
	if (!support->possible && degraded) {
		*ret_verdict = BOX_QUOTA_WAIVED;
		return 0;
	}
	return support->possible ? decide_by_size(state, quota_bytes, ret_verdict, err)
				 : refuse_unenforced(support, quota_bytes, err);
}
