/* Owns the format in which the kernel returns the entries of a folder; glibc and musl have no common struct
 * for it. */
#include "init/file/dir_entries.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short size;
	unsigned char type;
	char name[];
};

const char *box_dir_entries_next(struct box_dir_entries *folder)
{
	for (;;) {
		if (folder->at >= folder->size) {
			folder->at = 0;
			folder->size = syscall(
				SYS_getdents64, folder->fd, folder->bytes, folder->capacity);
		}
		if (folder->size <= 0) {
			folder->failed = folder->size < 0 ? -errno : 0;
			folder->size = 0;
			return NULL;
		}
		const struct entry *entry =
			(const struct entry *)(const void *)(folder->bytes + folder->at);
		folder->at += entry->size;
		if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0) {
			return entry->name;
		}
	}
}
