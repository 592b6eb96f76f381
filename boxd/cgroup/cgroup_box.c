/* The cgroup of one box: made in every hierarchy that is needed, limited, and removed with everything
 * below it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/cgroup/cgroup_manager.h"

static bool is_name(const char *name)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t len = strnlen(name, BOX_CGROUP_NAME_MAX + 1);
	return len > 0 && len <= BOX_CGROUP_NAME_MAX && strspn(name, letters) == len &&
		strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int write_limits(const struct box_cgroup_hierarchy *tree, int folder,
	const struct box_cgroup_limits *limits, struct box_err *err)
{
	int r = 0;
	if (tree->controllers & BOX_CGROUP_PIDS && limits->pids > 0) {
		r = box_cgroup_write_number_checked(folder, "pids.max", limits->pids, err);
	}
	if (r == 0 && tree->controllers & BOX_CGROUP_MEMORY && limits->memory_bytes > 0) {
		r = tree->manager->limit_memory(
			folder, box_cgroup_round_to_pages(limits->memory_bytes), err);
	}
	if (r == 0 && tree->controllers & BOX_CGROUP_CPU && limits->cpu_milli > 0) {
		r = tree->manager->limit_cpu(folder, box_cgroup_quota_us(limits->cpu_milli), err);
	}
	return r;
}

int box_cgroup_open_in(const struct box_cgroup_hierarchy *tree, const struct box_cgroup *cgroup,
	int *ret_folder, struct box_err *err)
{
	int folder = openat(
		tree->parent, cgroup->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot open the cgroup %s: %s",
			cgroup->name, box_err_strerror(errno));
	}
	*ret_folder = folder;
	return 0;
}

static int make_in(const struct box_cgroup_hierarchy *tree, struct box_cgroup *cgroup,
	const struct box_cgroup_limits *limits, struct box_err *err)
{
	if (mkdirat(tree->parent, cgroup->name, 0700) < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot make the cgroup %s: %s",
			cgroup->name, box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int folder = -1;
	int r = box_cgroup_open_in(tree, cgroup, &folder, err);
	if (r == 0) {
		r = write_limits(tree, folder, limits, err);
	}
	if (r == 0 && tree->controllers & BOX_CGROUP_MEMORY) {
		cgroup->events = openat(folder, tree->manager->events, O_RDONLY | O_CLOEXEC);
		r = cgroup->events < 0 ? box_err_set(err, BOX_ERR_BOX, errno, "cannot open %s: %s",
						 tree->manager->events, box_err_strerror(errno))
				       : 0;
	}
	if (r < 0) {
		(void)unlinkat(tree->parent, cgroup->name, AT_REMOVEDIR);
	} else if (tree->manager->mode == BOX_CGROUP_V2) {
		cgroup->folder = TAKE_FD(folder);
	}
	return r;
}

static void cgroup_free(struct box_cgroup *cgroup)
{
	box_close_p(&cgroup->folder);
	box_close_p(&cgroup->events);
	box_close_p(&cgroup->rest_events);
	free(cgroup);
}

int box_cgroup_make(struct box_cgroups *cgroups, const char *name,
	const struct box_cgroup_limits *limits, struct box_cgroup **ret_cgroup, struct box_err *err)
{
	if (!is_name(name)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "not the name of a cgroup");
	}
	if (cgroups->mode == BOX_CGROUP_NONE) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"no limits can be set here: %s", cgroups->why);
	}
	struct box_cgroup *cgroup = calloc(1, sizeof(*cgroup));
	if (!cgroup) {
		return box_err_set(err, BOX_ERR_BOX, ENOMEM, "out of memory");
	}
	*cgroup = (struct box_cgroup){
		.cgroups = cgroups, .folder = -1, .events = -1, .rest_events = -1};
	memcpy(cgroup->name, name, strlen(name) + 1);
	for (size_t i = 0; i < cgroups->count; i++) {
		int r = make_in(&cgroups->trees[i], cgroup, limits, err);
		if (r < 0) {
			while (i-- > 0) {
				(void)unlinkat(cgroups->trees[i].parent, name, AT_REMOVEDIR);
			}
			cgroup_free(cgroup);
			return r;
		}
	}
	*ret_cgroup = cgroup;
	return 0;
}

void box_cgroup_set_root_id(struct box_cgroup *cgroup, uint32_t id)
{
	cgroup->id = id;
}

int box_cgroup_limit(
	struct box_cgroup *cgroup, const struct box_cgroup_limits *limits, struct box_err *err)
{
	int r = 0;
	for (size_t i = 0; i < cgroup->cgroups->count && r == 0; i++) {
		const struct box_cgroup_hierarchy *tree = &cgroup->cgroups->trees[i];
		_cleanup_(box_close_p) int folder = -1;
		r = box_cgroup_open_in(tree, cgroup, &folder, err);
		if (r == 0) {
			r = write_limits(tree, folder, limits, err);
		}
	}
	return r;
}

int box_cgroup_folder(const struct box_cgroup *cgroup)
{
	return cgroup->folder;
}

int box_cgroup_open_procs_fds(const struct box_cgroup *cgroup,
	int ret_fds[BOX_CGROUP_PROCS_FDS_MAX], size_t *ret_count, struct box_err *err)
{
	char file[BOX_CGROUP_NAME_MAX + 32];
	size_t count = 0;
	for (size_t i = 0; i < cgroup->cgroups->count; i++) {
		const struct box_cgroup_hierarchy *tree = &cgroup->cgroups->trees[i];
		if (tree->manager->mode == BOX_CGROUP_V2) {
			continue;
		}
		(void)snprintf(
			file, sizeof(file), "%s/%s", cgroup->name, tree->manager->procs_file);
		int fd = count < BOX_CGROUP_PROCS_FDS_MAX
			? openat(tree->parent, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
			: -1;
		if (fd < 0) {
			int errnum = count < BOX_CGROUP_PROCS_FDS_MAX ? errno : E2BIG;
			while (count > 0) {
				(void)close(ret_fds[--count]);
			}
			return box_err_set(err, BOX_ERR_BOX, errnum, "cannot open %s: %s", file,
				box_err_strerror(errnum));
		}
		ret_fds[count++] = fd;
	}
	*ret_count = count;
	return 0;
}

int box_cgroup_enter(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (write(fds[i], "0", 1) != 1) {
			return errno ? -errno : -EIO;
		}
	}
	return 0;
}

int box_cgroup_events(const struct box_cgroup *cgroup)
{
	return cgroup->events;
}

/* By now all processes in it are usually dead, and trying is cheaper than asking. */
static int remove_from(const struct box_cgroup_hierarchy *tree, const char *name)
{
	if (unlinkat(tree->parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		return 0;
	}
	_cleanup_(box_close_p) int folder = openat(
		tree->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0) {
		return -errno;
	}
	tree->manager->kill(folder);
	box_cgroup_clear(folder, tree->manager);
	return unlinkat(tree->parent, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

int box_cgroup_remove(struct box_cgroup *cgroup)
{
	int first = 0;
	for (size_t i = 0; i < cgroup->cgroups->count; i++) {
		int r = remove_from(&cgroup->cgroups->trees[i], cgroup->name);
		first = first < 0 ? first : r;
	}
	if (first == 0) {
		cgroup_free(cgroup);
	}
	return first < 0 ? -EBUSY : 0;
}
