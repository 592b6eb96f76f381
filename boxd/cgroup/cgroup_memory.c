/* How much unreclaimable memory groups hold, and how much our own group may still take: what the kernel
 * can free, as the page cache, is not counted. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup_manager.h"

#define STAT_MAX (64 * BOX_KIB)
#define LEVELS_MAX 64

uint64_t box_cgroup_stat_value(const char *text, const char *name)
{
	size_t len = strlen(name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ' ') {
			return strtoull(line + len + 1, NULL, 10);
		}
	}
	return 0;
}

/* Of a group with everything below it. 0 if it cannot be read. */
static uint64_t used_by(int folder, bool unified)
{
	static const char *const version1[] = {"total_rss", "total_shmem"};
	static const char *const version2[] = {"anon", "shmem", "slab_unreclaimable", "pagetables"};
	_cleanup_(box_free_p) char *text = malloc(STAT_MAX);
	if (!text || box_cgroup_read(folder, "memory.stat", text, STAT_MAX) < 0) {
		return 0;
	}
	uint64_t bytes = 0;
	const char *const *names = unified ? version2 : version1;
	size_t count = unified ? BOX_COUNT_OF(version2) : BOX_COUNT_OF(version1);
	for (size_t i = 0; i < count; i++) {
		bytes += box_cgroup_stat_value(text, names[i]);
	}
	return bytes;
}

/* UINT64_MAX: no limit. Version 1 shows that as a number larger than any memory. */
static uint64_t limit_of(int folder, bool unified)
{
	char text[64];
	const char *file = unified ? "memory.max" : "memory.limit_in_bytes";
	if (box_cgroup_read(folder, file, text, sizeof(text)) <= 0 || text[0] == 'm') {
		return UINT64_MAX;
	}
	uint64_t limit = strtoull(text, NULL, 10);
	return limit < (1ULL << 60) ? limit : UINT64_MAX;
}

static const struct box_cgroup_hierarchy *memory_tree(const struct box_cgroups *cgroups)
{
	for (size_t i = 0; i < cgroups->count; i++) {
		if (cgroups->trees[i].controllers & BOX_CGROUP_MEMORY) {
			return &cgroups->trees[i];
		}
	}
	return NULL;
}

bool box_cgroups_hold_sockets(const struct box_cgroups *cgroups)
{
	const struct box_cgroup_hierarchy *tree = memory_tree(cgroups);
	return tree &&
		(tree->manager->mode == BOX_CGROUP_V2 ||
			faccessat(tree->parent, BOX_CGROUP_V1_SOCKETS, F_OK, 0) == 0);
}

static bool is_cgroup(int fd)
{
	struct statfs system;
	return fstatfs(fd, &system) == 0 &&
		(system.f_type == CGROUP2_SUPER_MAGIC || system.f_type == CGROUP_SUPER_MAGIC);
}

/* Finds the group with the least memory left among our own and those above it, as far as they are
 * visible. */
void box_cgroups_memory(const struct box_cgroups *cgroups, uint64_t *ret_limit, uint64_t *ret_free)
{
	const struct box_cgroup_hierarchy *tree = memory_tree(cgroups);
	*ret_limit = UINT64_MAX;
	*ret_free = UINT64_MAX;
	_cleanup_(box_close_p) int at = tree ? fcntl(tree->own.fd, F_DUPFD_CLOEXEC, 3) : -1;
	for (int level = 0; at >= 0 && is_cgroup(at) && level < LEVELS_MAX; level++) {
		bool unified = tree->manager->mode == BOX_CGROUP_V2;
		uint64_t limit = limit_of(at, unified);
		if (limit != UINT64_MAX) {
			uint64_t taken = used_by(at, unified);
			uint64_t left = limit > taken ? limit - taken : 0;
			*ret_limit = left < *ret_free ? limit : *ret_limit;
			*ret_free = left < *ret_free ? left : *ret_free;
		}
		int up = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = up;
	}
}

uint64_t box_cgroup_memory(const struct box_cgroup *cgroup)
{
	const struct box_cgroup_hierarchy *tree = memory_tree(cgroup->cgroups);
	_cleanup_(box_close_p) int folder = -1;
	struct box_err ignored;
	return tree && box_cgroup_open_in(tree, cgroup, &folder, &ignored) == 0
		? used_by(folder, tree->manager->mode == BOX_CGROUP_V2)
		: 0;
}
