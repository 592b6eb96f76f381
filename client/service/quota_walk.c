/* Walks through a workspace that its user may change meanwhile: folders are opened below the folder that they
 * were listed in, without following links, and an fd stays open for each level. */
#include "client/service/quota_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"

struct box_quota_walk {
	struct box_quota_walk_limits quota;
	struct box_quota_walk_found found;
	size_t depth;
	DIR *folders[BOX_WORKSPACE_DEPTH_MAX];
};

/* Takes over the fd. */
static int push(struct box_quota_walk *walk, int fd)
{
	DIR *folder = fdopendir(fd);
	if (!folder) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	walk->folders[walk->depth++] = folder;
	return 0;
}

int box_quota_walk_open(const char *folder, const struct box_quota_walk_limits *quota,
	struct box_quota_walk **ret_walk, struct box_err *err)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		int r = errno == ENOTDIR || errno == ELOOP ? ENOENT : errno;
		return box_err_set(
			err, BOX_ERR_VALIDATION, r, "%s: %s", folder, box_err_strerror(r));
	}
	struct box_quota_walk *walk = box_alloc(sizeof(*walk));
	walk->quota = *quota;
	int r = push(walk, fd);
	if (r < 0) {
		free(walk);
		return box_err_set(err, BOX_ERR_OS, -r, "%s: %s", folder, box_err_strerror(-r));
	}
	*ret_walk = walk;
	return 0;
}

void box_quota_walk_close(struct box_quota_walk *walk)
{
	if (!walk) {
		return;
	}
	while (walk->depth > 0) {
		(void)closedir(walk->folders[--walk->depth]);
	}
	free(walk);
}

/* Negative if the folder exists and cannot be read. */
static int enter(struct box_quota_walk *walk, int parent, const char *name)
{
	if (walk->depth == BOX_WORKSPACE_DEPTH_MAX) {
		walk->found.too_deep = true;
		return 0;
	}
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		/* It was removed, or replaced by something that is too small to matter. */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
	}
	return push(walk, fd);
}

static int count_entry(struct box_quota_walk *walk, int parent, const char *name)
{
	struct stat about;
	walk->found.entries++;
	if (walk->found.entries > walk->quota.entries_max) {
		walk->found.too_many = true;
		return 0;
	}
	if (fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	if (S_ISDIR(about.st_mode)) {
		return enter(walk, parent, name);
	}
	uint64_t size = about.st_size > 0 ? (uint64_t)about.st_size : 0;
	/* Sparse files may claim anything. */
	if (__builtin_add_overflow(walk->found.bytes, size, &walk->found.bytes)) {
		walk->found.bytes = UINT64_MAX;
	}
	walk->found.too_large = walk->found.bytes > walk->quota.bytes_max;
	return 0;
}

static bool is_over(const struct box_quota_walk_found *found)
{
	return found->too_large || found->too_many || found->too_deep;
}

/* 0, or negative with the name of what could not be read in `name`. */
static int look(struct box_quota_walk *walk, char name[NAME_MAX + 1])
{
	DIR *folder = walk->folders[walk->depth - 1];
	errno = 0;
	const struct dirent *entry = readdir(folder);
	if (!entry) {
		(void)snprintf(name, NAME_MAX + 1, "this folder");
		if (errno != 0 && errno != ENOENT) {
			return -errno;
		}
		(void)closedir(folder);
		walk->depth--;
		return 0;
	}
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
		return 0;
	}
	(void)snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
	return count_entry(walk, dirfd(folder), name);
}

int box_quota_walk_step(struct box_quota_walk *walk, size_t entries,
	struct box_quota_walk_found *ret_found, struct box_err *err)
{
	char name[NAME_MAX + 1];
	for (size_t i = 0; walk->depth > 0 && !is_over(&walk->found); i++) {
		if (i >= entries) {
			return 1;
		}
		int r = look(walk, name);
		if (r < 0) {
			return box_err_set(err, BOX_ERR_VALIDATION, -r,
				"workspace quota cannot be checked: %.200s: %s", name,
				box_err_strerror(-r));
		}
	}
	*ret_found = walk->found;
	return 0;
}

const char *box_quota_walk_verdict(struct box_arena *arena,
	const struct box_quota_walk_limits *quota, const struct box_quota_walk_found *found,
	const char *phase, const char *folder, const char *session_id)
{
	if (found->too_many) {
		return box_arena_printf(arena,
			"workspace entry limit exceeded %s: entries>%llu host_path=%s "
			"session_id=%s",
			phase, (unsigned long long)quota->entries_max, folder, session_id);
	}
	if (found->too_deep) {
		return box_arena_printf(arena,
			"workspace entry limit exceeded %s: folders in folders>%d host_path=%s "
			"session_id=%s",
			phase, BOX_WORKSPACE_DEPTH_MAX, folder, session_id);
	}
	if (found->too_large) {
		return box_arena_printf(arena,
			"workspace quota exceeded %s: used=%llu bytes limit=%llu bytes "
			"entries=%llu host_path=%s session_id=%s",
			phase, (unsigned long long)found->bytes,
			(unsigned long long)quota->bytes_max, (unsigned long long)found->entries,
			folder, session_id);
	}
	return NULL;
}
