/* A file of the host that appears under its name when it is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy/unpack.h"

int box_unpack_file_begin(struct box_unpack_file *file, int folder)
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		abort();
	}
	(void)snprintf(file->temporary, sizeof(file->temporary), ".box-cp.%016llx",
		(unsigned long long)number);
	file->folder = folder;
	file->fd = openat(folder, file->temporary,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return file->fd < 0 ? -errno : 0;
}

int box_unpack_file_finish(struct box_unpack_file *file, const char *name, unsigned mode,
	int64_t mtime_sec, uint32_t mtime_nsec)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {mtime_sec, mtime_nsec}};
	int r = fchmod(file->fd, mode & 0777) < 0 ? -errno : 0;
	/* A time that the file system cannot have is no reason to have no file. */
	(void)futimens(file->fd, times);
	/* Of a file system that tells of no room only now. */
	r = close(file->fd) < 0 && r == 0 ? -errno : r;
	file->fd = -1;
	if (r == 0 && renameat(file->folder, file->temporary, file->folder, name) < 0) {
		r = -errno;
	}
	if (r < 0) {
		(void)unlinkat(file->folder, file->temporary, 0);
	}
	return r;
}

void box_unpack_file_drop(struct box_unpack_file *file)
{
	if (file->fd >= 0) {
		(void)close(file->fd);
		(void)unlinkat(file->folder, file->temporary, 0);
		file->fd = -1;
	}
}
