/* Owns the kernel's numbers and structs for mounts, which no C library of ours has. */
#include "init/guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in the kernel's headers, which not every C library lets be included beside its own. */
enum {
	FS_OPEN_CLOEXEC = 1,
	FS_CONFIG_SET_STRING = 1,
	FS_CONFIG_CREATE = 6,
	FS_MOUNT_CLOEXEC = 1,
	TREE_CLONE = 1,
};

struct attributes {
	uint64_t set;
	uint64_t clear;
	uint64_t propagation;
	uint64_t user_namespace;
};

static int configure(int fs, const struct box_mount_option *options, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (syscall(SYS_fsconfig, fs, FS_CONFIG_SET_STRING, options[i].key,
			    options[i].value, 0) < 0) {
			return -errno;
		}
	}
	return syscall(SYS_fsconfig, fs, FS_CONFIG_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int box_mount_make(
	const char *type, const struct box_mount_option *options, size_t count, uint64_t attributes)
{
	int fs = (int)syscall(SYS_fsopen, type, FS_OPEN_CLOEXEC);
	if (fs < 0) {
		return -errno;
	}
	int r = configure(fs, options, count);
	if (r == 0) {
		r = (int)syscall(SYS_fsmount, fs, FS_MOUNT_CLOEXEC, (unsigned)attributes);
		r = r < 0 ? -errno : r;
	}
	(void)close(fs);
	return r;
}

int box_mount_add_attributes(int mount_fd, uint64_t attributes)
{
	struct attributes change = {.set = attributes};
	long r = syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &change, sizeof(change));
	return r < 0 ? -errno : 0;
}

int box_mount_clone(int folder, const char *path)
{
	long fd = syscall(SYS_open_tree, folder, path,
		TREE_CLONE | O_CLOEXEC | AT_SYMLINK_NOFOLLOW | (*path ? 0 : AT_EMPTY_PATH));
	return fd < 0 ? -errno : (int)fd;
}

void box_mount_number(char to[BOX_MOUNT_NUMBER_SIZE], uint64_t number, unsigned base)
{
	char digits[BOX_MOUNT_NUMBER_SIZE];
	size_t count = 0;
	do {
		digits[count++] = (char)('0' + number % base);
		number /= base;
	} while (number > 0);
	while (count > 0) {
		*to++ = digits[--count];
	}
	*to = '\0';
}
