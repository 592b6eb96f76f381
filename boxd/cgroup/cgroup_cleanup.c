/* What a process does that outlives the owner of the lots: the watcher. It has nothing but the
 * folders in which the lots are, and their names. */
#include <errno.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/cgroup/cgroup_manager.h"

#define ROUNDS 4                      /* of killing and removing, in one call */
#define ALL_RIGHTS ((1ULL << 13) - 1) /* of Landlock's first version */

size_t box_cgroups_become_cleaner(struct box_cgroups *cgroups, int *ret_folders)
{
	for (size_t i = 0; i < cgroups->count; i++) {
		cgroups->trees[i].lot = -1;
		ret_folders[i] = cgroups->trees[i].own.fd;
	}
	return cgroups->count;
}

static int add_folder(int ruleset, int folder)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
			LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR,
		.parent_fd = folder,
	};
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		? -errno
		: 0;
}

int box_cgroup_confine(const int *folders, size_t count)
{
	struct landlock_ruleset_attr attributes = {.handled_access_fs = ALL_RIGHTS};
	_cleanup_(box_close_p) int ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0);
	if (ruleset < 0) {
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	}
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = add_folder(ruleset, folders[i]);
	}
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0) {
		r = -errno;
	}
	return r;
}

bool box_cgroups_clean_up(struct box_cgroups *cgroups)
{
	bool done = true;
	for (size_t i = 0; i < cgroups->count; i++) {
		struct box_cgroup_hierarchy *tree = &cgroups->trees[i];
		if (box_cgroup_parent_remove(tree->own.fd, tree->lot_name, tree->manager, ROUNDS) <
			0) {
			done = false;
		} else if (tree->manager->leave) {
			tree->manager->leave(&tree->own);
			tree->own.moved = false;
		}
	}
	return done;
}
