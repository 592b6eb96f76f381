/* REMOVE, also of whole trees. No link is followed and no mount is entered: each folder is first removed
 * as if it were empty, and the kernel then says whether something is mounted on it. Folders that lie too
 * deep are moved up, so that any tree can be removed with few open folders. Called by file_job.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/file/dir_entries.h"
#include "init/file/file_job.h"

#define DEPTH_MAX 64
#define ROUNDS_MAX 64 /* for a folder that is filled meanwhile */
#define ENTRIES_BYTES 4096

static int clear(int top, int fd, int depth);

/* Removes a folder that is not empty. */
static int remove_full(int top, int folder, const char *name, int depth)
{
	if (depth == DEPTH_MAX) {
		char up[24];
		int r = box_file_job_temporary_name(up);
		if (r < 0) {
			return r;
		}
		return box_file_job_rename(folder, name, top, up, false);
	}
	int r = -ENOTEMPTY;
	for (int i = 0; i < ROUNDS_MAX && r == -ENOTEMPTY; i++) {
		int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0) {
			return -errno;
		}
		r = clear(top < 0 ? fd : top, fd, depth + 1);
		(void)close(fd);
		if (r == 0) {
			r = unlinkat(folder, name, AT_REMOVEDIR) < 0 ? -errno : 0;
		}
	}
	return r;
}

static int remove_one(int top, int folder, const char *name, int depth, bool recursive)
{
	if (unlinkat(folder, name, 0) == 0) {
		return 0;
	}
	/* POSIX returns EPERM for a folder. */
	if (errno != EISDIR && errno != EPERM) {
		return -errno;
	}
	int r = -errno;
	if (unlinkat(folder, name, AT_REMOVEDIR) == 0) {
		return 0;
	}
	if (errno == ENOTDIR) {
		return r;
	}
	if ((errno != ENOTEMPTY && errno != EEXIST) || !recursive) {
		return errno == EEXIST ? -ENOTEMPTY : -errno;
	}
	return remove_full(top, folder, name, depth);
}

/* One pass over the names: 1 if there were any, 0 if not, or -errno. */
static int pass(int top, int fd, int depth)
{
	BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .capacity = sizeof(bytes)};
	const char *name;
	int seen = 0;
	if (lseek(fd, 0, SEEK_SET) < 0) {
		return -errno;
	}
	while ((name = box_dir_entries_next(&folder))) {
		int r = remove_one(top, fd, name, depth, true);
		if (r < 0 && r != -ENOENT) {
			return r;
		}
		seen = 1;
	}
	return folder.failed < 0 ? folder.failed : seen;
}

/* A pass may skip names while others are removed, so passes are repeated until one sees none. */
static int clear(int top, int fd, int depth)
{
	int r = 1;
	while (r == 1) {
		r = pass(top, fd, depth);
	}
	return r;
}

int box_file_job_remove(struct box_file_job *job)
{
	struct box_path_walk *walk = &job->walk;
	int r = box_file_job_walk(job, 0);
	if (r < 0) {
		return r;
	}
	if (!walk->name[0]) {
		walk->why = BOX_INIT_FILE_WHY_BASE;
		return -EBUSY;
	}
	bool recursive = job->request.flags & BOX_INIT_FILE_RECURSIVE;
	return remove_one(-1, walk->folder, walk->name, 0, recursive);
}
