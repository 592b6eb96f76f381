/* How the watcher removes the parent groups of a dead boxd. All it has are the folders that contain
 * them, and their names. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/landlock.h"
#include "boxd/cgroup/cgroup_manager.h"

#define ROUNDS 4       /* of killing and removing, per call */
#define LANDLOCK_ABI 1 /* the rights that every version has are enough */

size_t box_cgroups_become_cleaner(struct box_cgroups *cgroups, int *ret_folders)
{
	for (size_t i = 0; i < cgroups->count; i++) {
		cgroups->trees[i].parent = -1;
		ret_folders[i] = cgroups->trees[i].own.fd;
	}
	return cgroups->count;
}

static int allow_folders(int ruleset, const int *folders, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int r = box_landlock_allow(ruleset, LANDLOCK_ABI, folders[i],
			BOX_LANDLOCK_READ_FILE | BOX_LANDLOCK_READ_DIR | BOX_LANDLOCK_WRITE_FILE |
				BOX_LANDLOCK_REMOVE_DIR);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

int box_cgroup_confine(const int *folders, size_t count)
{
	_cleanup_(box_close_p) int ruleset = box_landlock_open(LANDLOCK_ABI, BOX_LANDLOCK_FILES);
	if (ruleset < 0) {
		return ruleset == -ENOSYS || ruleset == -EOPNOTSUPP ? 0 : ruleset;
	}
	int r = allow_folders(ruleset, folders, count);
	return r < 0 ? r : box_landlock_restrict(ruleset);
}

bool box_cgroups_clean_up(struct box_cgroups *cgroups)
{
	bool done = true;
	for (size_t i = 0; i < cgroups->count; i++) {
		struct box_cgroup_hierarchy *tree = &cgroups->trees[i];
		if (box_cgroup_parent_remove(
			    tree->own.fd, tree->parent_name, tree->manager, ROUNDS) < 0) {
			done = false;
		} else if (tree->manager->leave) {
			tree->manager->leave(&tree->own);
			tree->own.moved = false;
		}
	}
	return done;
}
