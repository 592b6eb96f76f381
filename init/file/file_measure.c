/* MEASURE: the storage used by a box, measured from inside, because in a microVM nobody else can see it. No
 * link is followed and no other mount is entered; depth and number of entries are bounded. Files that the
 * payload has made inaccessible are included in the usage of the file system. Called by file_job.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "init/boot/boot.h"
#include "init/file/dir_entries.h"
#include "init/file/file_job.h"
#include "protocol/storage_parts.h"

#define TEMP "/tmp"
#define DEPTH_MAX 256
#define ENTRIES_MAX 1000000U
#define ENTRIES_BYTES 2048

struct sum {
	struct box_storage_part *part;
	dev_t device;          /* of the part: other mounts are not entered */
	unsigned entries_left; /* of ENTRIES_MAX */
};

static void add_folder(struct sum *sum, int fd, int depth);

static void add_one(struct sum *sum, int folder, const char *name, int depth)
{
	struct stat st;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != sum->device) {
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		sum->part->size_bytes += (uint64_t)st.st_blocks * 512;
		sum->part->file_count += S_ISREG(st.st_mode);
		return;
	}
	_cleanup_(box_close_p) int fd = depth == DEPTH_MAX
		? -1
		: openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat opened;
	/* It may have been replaced meanwhile. */
	if (fd >= 0 && fstat(fd, &opened) == 0 && opened.st_dev == sum->device) {
		add_folder(sum, fd, depth + 1);
	}
}

static void add_folder(struct sum *sum, int fd, int depth)
{
	BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .capacity = sizeof(bytes)};
	const char *name;
	while (sum->entries_left > 0 && (name = box_dir_entries_next(&folder))) {
		sum->entries_left--;
		add_one(sum, fd, name, depth);
	}
}

/* Opens a folder without following links, which the payload may have created. An fd or -errno. */
static int open_plain(int root, const char *path)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	char name[BOX_INIT_FILE_NAME_MAX + 1];
	int fd = openat(root, ".", flags);
	int r = fd < 0 ? -errno : fd;
	while (r >= 0 && *(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");
		if (len > BOX_INIT_FILE_NAME_MAX) {
			r = -ENAMETOOLONG;
			break;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		r = openat(fd, name, flags);
		r = r < 0 ? -errno : r;
		(void)close(fd);
		fd = r;
	}
	if (r < 0) {
		box_close_p(&fd);
	}
	return r;
}

static int measure(int root, const char *path, struct box_storage_part *part)
{
	struct statfs filesystem;
	struct stat st;
	_cleanup_(box_close_p) int fd = open_plain(root, path);
	if (fd < 0) {
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	}
	if (fstatfs(fd, &filesystem) < 0 || fstat(fd, &st) < 0) {
		return -errno;
	}
	if ((uint64_t)filesystem.f_type != TMPFS_MAGIC || filesystem.f_bsize <= 0) {
		return -EXDEV; /* not the box's own storage */
	}
	part->is_there = true;
	part->device = st.st_dev;
	part->used_bytes = (uint64_t)(filesystem.f_blocks - filesystem.f_bfree) *
		(uint64_t)filesystem.f_bsize;
	struct sum sum = {part, st.st_dev, ENTRIES_MAX};
	add_folder(&sum, fd, 0);
	return 0;
}

static bool is_under(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static void fill_part(struct box_init_file_part *to, const struct box_storage_part *part)
{
	to->exists = part->is_there;
	to->size_bytes = part->size_bytes;
	to->file_count = part->file_count;
}

/* A workspace that is a folder of the host is measured by the host, and hides what lies at its path. */
int box_file_job_measure(struct box_file_job *job)
{
	const struct box_init_boot *facts = &box_boot_facts()->facts;
	const char *outside = facts->workspace ? facts->workspace_path : NULL;
	const char *cache_path = job->texts[0];
	struct box_storage_part workspace = {0};
	struct box_storage_part cache = {0};
	struct box_storage_part temp = {0};
	struct box_init_file_measured measured = {0};
	int r = outside && is_under(TEMP, outside) ? 0 : measure(job->root, TEMP, &temp);
	if (r == 0 && !(outside && is_under(cache_path, outside))) {
		r = measure(job->root, cache_path, &cache);
	}
	if (r == 0 && !outside) {
		r = measure(job->root, facts->workspace_path, &workspace);
	}
	if (r < 0) {
		return r;
	}
	box_storage_parts_settle(&workspace, &cache, &temp);
	fill_part(&measured.workspace, &workspace);
	fill_part(&measured.cache, &cache);
	fill_part(&measured.temp, &temp);
	return box_file_job_put_data(job, &measured, sizeof(measured));
}
