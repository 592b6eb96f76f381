/* Process cgroups: groups below a box's, each for one process, with only a memory limit, and so in the
 * memory hierarchy only. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/cgroup/cgroup_manager.h"

#define NAME_SIZE sizeof("p4294967295")
#define PROCESS_MODE 0711 /* its cgroup.procs is opened as another id; nobody else gets here */

static void name_part(uint32_t number, char name[NAME_SIZE])
{
	(void)snprintf(name, NAME_SIZE, "p%" PRIu32, number);
}

/* Always found: without this hierarchy the box would have no cgroup. */
static const struct box_cgroup_hierarchy *memory_tree(const struct box_cgroup *cgroup)
{
	const struct box_cgroup_hierarchy *tree = cgroup->cgroups->trees;
	while (!(tree->controllers & BOX_CGROUP_MEMORY)) {
		tree++;
	}
	return tree;
}

static int open_file(int folder, const char *file, int flags, int *ret_fd, struct box_err *err)
{
	int fd = openat(folder, file, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot open %s: %s", file,
			box_err_strerror(errno));
	}
	*ret_fd = fd;
	return 0;
}

static int open_part(int box, uint32_t number, int *ret_folder, struct box_err *err)
{
	char name[NAME_SIZE];
	name_part(number, name);
	return open_file(box, name, O_RDONLY | O_DIRECTORY, ret_folder, err);
}

/* Done once per box. */
static int divide(struct box_cgroup *cgroup, const struct box_cgroup_manager *manager, int box,
	struct box_err *err)
{
	_cleanup_(box_close_p) int rest = -1;
	if (cgroup->divided) {
		return 0;
	}
	int r = manager->divide(box, &rest, err);
	/* In version 2, moving a process needs write access to cgroup.procs of the common ancestor too. */
	if (r == 0 && cgroup->id != 0 && manager->mode == BOX_CGROUP_V2) {
		r = box_cgroup_make_writable(box, manager->procs_file, err);
	}
	if (r == 0 && rest >= 0) {
		r = open_file(rest, manager->events, O_RDONLY, &cgroup->rest_events, err);
	}
	cgroup->divided = r == 0;
	return r;
}

static int make_limited(const struct box_cgroup_manager *manager, int box, uint32_t number,
	uint64_t memory_bytes, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	char name[NAME_SIZE];
	name_part(number, name);
	if (mkdirat(box, name, PROCESS_MODE) < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot make the cgroup %s: %s", name,
			box_err_strerror(errno));
	}
	int r = open_part(box, number, &folder, err);
	if (r == 0) {
		r = manager->limit_process(folder, box_cgroup_round_to_pages(memory_bytes), err);
	}
	if (r < 0) {
		(void)unlinkat(box, name, AT_REMOVEDIR);
	}
	return r;
}

int box_process_cgroups_make_group(
	struct box_cgroup *cgroup, uint32_t number, uint64_t memory_bytes, struct box_err *err)
{
	const struct box_cgroup_hierarchy *tree = memory_tree(cgroup);
	_cleanup_(box_close_p) int box = -1;
	int r = box_cgroup_open_in(tree, cgroup, &box, err);
	if (r < 0) {
		return r;
	}
	r = divide(cgroup, tree->manager, box, err);
	return r < 0 ? r : make_limited(tree->manager, box, number, memory_bytes, err);
}

int box_process_cgroups_open_group(const struct box_cgroup *cgroup, uint32_t number,
	int *ret_procs_fd, int *ret_events, struct box_err *err)
{
	const struct box_cgroup_hierarchy *tree = memory_tree(cgroup);
	_cleanup_(box_close_p) int box = -1;
	_cleanup_(box_close_p) int folder = -1;
	_cleanup_(box_close_p) int procs_fd = -1;
	int r = box_cgroup_open_in(tree, cgroup, &box, err);
	if (r == 0) {
		r = open_part(box, number, &folder, err);
	}
	if (r == 0) {
		r = box_cgroup_open_procs_fd(
			folder, tree->manager->procs_file, cgroup->id, &procs_fd, err);
	}
	if (r == 0) {
		r = open_file(folder, tree->manager->events, O_RDONLY, ret_events, err);
	}
	if (r == 0) {
		*ret_procs_fd = TAKE_FD(procs_fd);
	}
	return r;
}

int box_process_cgroups_remove_group(const struct box_cgroup *cgroup, uint32_t number)
{
	struct box_err ignored;
	_cleanup_(box_close_p) int box = -1;
	char name[NAME_SIZE];
	name_part(number, name);
	int r = box_cgroup_open_in(memory_tree(cgroup), cgroup, &box, &ignored);
	if (r < 0) {
		return r == -ENOENT ? 0 : -EBUSY;
	}
	return unlinkat(box, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -EBUSY;
}

int box_cgroup_leaf_events(const struct box_cgroup *cgroup)
{
	return cgroup->rest_events;
}
