/* Keeps one folder open per level, so that a folder that is moved meanwhile cannot lead elsewhere.
 * Levels and entries are limited: the owner of the tree can exhaust neither time nor fds. */
#include "boxd/files/tree_size.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"

struct walk {
	enum box_tree_size_unit unit;
	const char *const *names;
	size_t name_count;
	struct box_boxd_part *parts;
	size_t part; /* which of `names` at the top we are at or below; 0: none */
	unsigned entries_left;
	DIR *folders[BOX_MEASURE_DEPTH_MAX];
	size_t depth;
};

/* The owner chooses lengths: a sparse file can have any. */
static uint64_t add_up(uint64_t a, uint64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static void count_in(
	struct box_boxd_part *part, enum box_tree_size_unit unit, const struct stat *status)
{
	uint64_t size = unit == BOX_TREE_SIZE_BLOCKS ? (uint64_t)status->st_blocks * 512
						     : (uint64_t)status->st_size;
	part->size_bytes = add_up(part->size_bytes, size <= INT64_MAX ? size : INT64_MAX);
	part->file_count += unit == BOX_TREE_SIZE_LENGTHS || S_ISREG(status->st_mode);
}

static void count(struct walk *walk, const struct stat *status)
{
	count_in(&walk->parts[0], walk->unit, status);
	if (walk->part > 0) {
		count_in(&walk->parts[walk->part], walk->unit, status);
	}
}

static void count_error(struct walk *walk)
{
	walk->parts[0].error_count++;
	if (walk->part > 0) {
		walk->parts[walk->part].error_count++;
	}
}

/* It was replaced or removed meanwhile: not an error, and not followed. */
static bool has_changed(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

static void enter(struct walk *walk, int parent, const char *name)
{
	/* O_DIRECTORY: opening a FIFO would wait for its other end. */
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			RESOLVE_NO_XDEV,
	};
	if (walk->depth == BOX_MEASURE_DEPTH_MAX) {
		count_error(walk);
		return;
	}
	long fd = syscall(SYS_openat2, parent, name, &how, sizeof(how));
	if (fd < 0) {
		if (!has_changed(errno) && errno != EXDEV) {
			count_error(walk);
		}
		return;
	}
	DIR *folder = fdopendir((int)fd);
	if (!folder) {
		(void)close((int)fd);
		count_error(walk);
		return;
	}
	walk->folders[walk->depth++] = folder;
}

static void leave(struct walk *walk)
{
	(void)closedir(walk->folders[--walk->depth]);
}

/* Names count only at the top. */
static size_t part_of(const struct walk *walk, const char *name)
{
	for (size_t i = 0; i < walk->name_count; i++) {
		if (strcmp(walk->names[i], name) == 0) {
			return i + 1;
		}
	}
	return 0;
}

static void examine(struct walk *walk, int parent, const char *name)
{
	struct stat status;
	walk->part = walk->depth == 1 ? part_of(walk, name) : walk->part;
	if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		if (!has_changed(errno)) {
			count_error(walk);
		}
		return;
	}
	if (walk->part > 0) {
		walk->parts[walk->part].exists = 1;
	}
	if (S_ISDIR(status.st_mode)) {
		enter(walk, parent, name);
	} else {
		count(walk, &status);
	}
}

static void step(struct walk *walk)
{
	DIR *folder = walk->folders[walk->depth - 1];
	errno = 0;
	const struct dirent *entry = readdir(folder);
	if (!entry) {
		if (errno != 0 && !has_changed(errno)) {
			count_error(walk);
		}
		leave(walk);
		return;
	}
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
		return;
	}
	if (walk->entries_left == 0) {
		count_error(walk);
		while (walk->depth > 0) {
			leave(walk);
		}
		return;
	}
	walk->entries_left--;
	examine(walk, dirfd(folder), entry->d_name);
}

void box_tree_size_add(int fd, enum box_tree_size_unit unit, const char *const *names,
	size_t name_count, struct box_boxd_part *parts)
{
	struct walk walk = {
		.unit = unit,
		.names = names,
		.name_count = name_count,
		.parts = parts,
		.entries_left = BOX_MEASURE_ENTRIES_MAX,
	};
	struct stat status;
	parts[0].exists = 1;
	if (fstat(fd, &status) < 0) {
		count_error(&walk);
		return;
	}
	if (!S_ISDIR(status.st_mode)) {
		count(&walk, &status);
		return;
	}
	enter(&walk, fd, ".");
	while (walk.depth > 0) {
		step(&walk);
	}
}
