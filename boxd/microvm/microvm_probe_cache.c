/* One file: a line that says what it is about, then the words of box-vmm. It is believed when it is
 * ours and nobody else could have written it. */
#include "boxd/microvm/microvm_probe_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

#define FOLDER "box"
#define NAME "machine"
#define NEW_NAME "machine.new"
#define SUBJECT_MAX 256

/* The start of the host and the file of box-vmm: with another of either it is nothing worth. */
static int subject_of(const char *vmm_path, char subject[SUBJECT_MAX])
{
	char boot[64] = "";
	struct stat status;
	_cleanup_(box_close_p) int fd = open(
		"/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);
	if (got <= 0 || stat(vmm_path, &status) < 0) {
		return -ENOENT;
	}
	boot[strcspn(boot, "\n")] = '\0';
	(void)snprintf(subject, SUBJECT_MAX, "boot %s program %llx:%llx:%lld.%09ld\n", boot,
		(unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
		(long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
	return 0;
}

/* -1: there is none, or it is not ours alone. */
static int open_folder(bool root, bool make)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	struct stat status;
	const char *above = root ? "/run" : session && session[0] == '/' ? session : "";
	_cleanup_(box_close_p) int parent = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent >= 0 && make) {
		/* As the socket of the operator has it (operator_socket.c), whoever comes first. */
		(void)mkdirat(parent, FOLDER, root ? 0711 : 0700);
	}
	_cleanup_(box_close_p) int fd = parent < 0
		? -1
		: openat(parent, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0 || status.st_uid != geteuid() ||
		(status.st_mode & 0022) != 0) {
		return -1;
	}
	return TAKE_FD(fd);
}

int box_microvm_probe_cache_read(bool root, const char *vmm_path, char *text, size_t room)
{
	char subject[SUBJECT_MAX];
	char noted[SUBJECT_MAX] = "";
	_cleanup_(box_close_p) int folder = open_folder(root, false);
	_cleanup_(box_close_p) int fd = folder < 0
		? -1
		: openat(folder, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || subject_of(vmm_path, subject) < 0) {
		return -ENOENT;
	}
	size_t len = strlen(subject);
	if (read(fd, noted, len) != (ssize_t)len || memcmp(noted, subject, len) != 0) {
		return -ESTALE;
	}
	ssize_t got = read(fd, text, room);
	return got < 0 ? -errno : (int)got;
}

void box_microvm_probe_cache_write(bool root, const char *vmm_path, const char *text, size_t len)
{
	char subject[SUBJECT_MAX];
	_cleanup_(box_close_p) int folder = open_folder(root, true);
	if (folder < 0 || subject_of(vmm_path, subject) < 0) {
		return;
	}
	(void)unlinkat(folder, NEW_NAME, 0);
	_cleanup_(box_close_p) int fd = openat(
		folder, NEW_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const struct iovec parts[] = {{subject, strlen(subject)}, {(void *)(uintptr_t)text, len}};
	ssize_t size = (ssize_t)(strlen(subject) + len);
	if (fd < 0 || writev(fd, parts, 2) != size ||
		renameat(folder, NEW_NAME, folder, NAME) < 0) {
		(void)unlinkat(folder, NEW_NAME, 0);
	}
}
