/* The hierarchies in which boxes get cgroups, and boxd's parent group in each of them.
 *
 * Each controller is taken from wherever it is found, so a host with some controllers in version 1 and
 * others in version 2 needs no special case. The order is pids, memory, cpu: boxes are killed through
 * the first hierarchy, where new processes can be forbidden. */
#include "boxd/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup_manager.h"

/* returned when not even this struct can be allocated */
static struct box_cgroups out_of_memory = {.why = "out of memory"};

/* -ENODEV when something else has been mounted over it. */
static int open_mount(const struct box_cgroup_location *place, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = open(place->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs system;
	struct statx status;
	if (fd < 0 || fstatfs(fd, &system) < 0 ||
		statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) < 0) {
		return -errno;
	}
	if (system.f_type != (place->unified ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC) ||
		(status.stx_mask & STATX_MNT_ID && status.stx_mnt_id != place->mount_id)) {
		return -ENODEV;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The text of a /proc file, cut at BOX_CGROUP_TEXT_MAX; NULL if it cannot be read. */
static char *read_proc(const char *path)
{
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(box_free_p) char *text = NULL;
	size_t len = 0;
	size_t room = 0;
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0 && len < BOX_CGROUP_TEXT_MAX) {
		if (room - len < 2) {
			room = room ? 2 * room : 16 * BOX_KIB;
			char *larger = realloc(text, room);
			if (!larger) {
				return NULL;
			}
			text = larger;
		}
		n = read(fd, text + len, room - len - 1);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		return NULL;
	}
	text[len] = '\0';
	return TAKE_PTR(text);
}

static void tree_close(struct box_cgroup_hierarchy *tree)
{
	if (tree->parent >= 0) {
		(void)unlinkat(tree->own.fd, tree->parent_name, AT_REMOVEDIR);
	}
	if (tree->own.fd >= 0 && tree->manager->leave) {
		tree->manager->leave(&tree->own);
	}
	box_close_p(&tree->parent);
	box_close_p(&tree->own.fd);
}

/* The order of the numbered steps matters. */
static int tree_open(struct box_cgroup_hierarchy *tree, const struct box_cgroup_location *place,
	struct box_err *err)
{
	_cleanup_(box_close_p) int mount = -1;
	*tree = (struct box_cgroup_hierarchy){
		.manager = place->unified ? &box_cgroup_v2 : &box_cgroup_v1,
		.controllers = place->controllers,
		.own = {.fd = -1},
		.parent = -1,
	};
	/* Checked first, so that nothing is moved in vain. */
	int r = place->read_only ? -EROFS : open_mount(place, &mount);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_BOX, -r, "cannot open it: %s", box_err_strerror(-r));
	}
	/* 1. Move ourselves out of the way. */
	r = tree->manager->settle(mount, place->below, tree->controllers, &tree->own, err);
	/* 2. Remove parents of dead runtimes before we need their room. */
	if (r == 0) {
		box_cgroup_parent_sweep(tree->own.fd, tree->manager);
		r = box_cgroup_parent_make(tree->own.fd, tree->parent_name, &tree->parent, err);
	}
	/* 3. Enable controllers for the boxes: from then on nobody can disable them in our own group. */
	if (r == 0 && tree->manager->prepare_parent) {
		r = tree->manager->prepare_parent(tree->parent, tree->controllers, err);
	}
	if (tree->own.fd >= 0) {
		box_cgroup_own_unlock(tree->own.fd);
	}
	if (r < 0) {
		tree_close(tree);
	}
	return r;
}

/* In version 2, cgroup.controllers lists the controllers; those in use by version 1 are missing. */
static void ask_controllers(struct box_cgroup_location *place)
{
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int own = -1;
	char text[1024];
	if (!place->unified || open_mount(place, &mount) < 0 ||
		box_cgroup_open_below(mount, place->below, &own) < 0) {
		return;
	}
	int len = box_cgroup_read(own, "cgroup.controllers", text, sizeof(text));
	place->controllers = len < 0 ? 0 : box_cgroup_controllers(text, (size_t)len);
}

static const char *advice(int r)
{
	switch (-r) {
	case EROFS:
		return "; mount cgroups writable";
	case EACCES:
	case EPERM:
		return "; start boxd in a cgroup of its own (systemd: Delegate=yes)";
	case EBUSY:
		return "; processes that cannot be moved are in our group";
	default:
		return "";
	}
}

/* Opens the first usable hierarchy that has the controller. */
static int take_controller(struct box_cgroups *cgroups, const struct box_cgroup_location *places,
	size_t count, unsigned controller)
{
	struct box_err err;
	int r = -ENOENT;
	for (size_t i = 0; i < count; i++) {
		const struct box_cgroup_location *place = &places[i];
		if (!(place->controllers & controller)) {
			continue;
		}
		r = tree_open(&cgroups->trees[cgroups->count], place, &err);
		if (r == 0) {
			cgroups->count++;
			return 0;
		}
		(void)snprintf(cgroups->why, sizeof(cgroups->why), "%.200s/%.100s: %.100s%s",
			place->mount, strcmp(place->below, ".") == 0 ? "" : place->below, err.text,
			advice(r));
	}
	return r;
}

static unsigned controllers_taken(const struct box_cgroups *cgroups)
{
	unsigned taken = 0;
	for (size_t i = 0; i < cgroups->count; i++) {
		taken |= cgroups->trees[i].controllers;
	}
	return taken;
}

static void close_all(struct box_cgroups *cgroups)
{
	while (cgroups->count > 0) {
		tree_close(&cgroups->trees[--cgroups->count]);
	}
}

/* All three or nothing. Checks that all three exist before anything is changed. */
static int take_all(
	struct box_cgroups *cgroups, const struct box_cgroup_location *places, size_t count)
{
	static const struct {
		unsigned bit;
		const char *name;
	} needed[] = {
		{BOX_CGROUP_PIDS, "pids"}, {BOX_CGROUP_MEMORY, "memory"}, {BOX_CGROUP_CPU, "cpu"}};
	unsigned there = 0;
	for (size_t i = 0; i < count; i++) {
		there |= places[i].controllers;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(needed); i++) {
		if (!(there & needed[i].bit)) {
			(void)snprintf(cgroups->why, sizeof(cgroups->why),
				"our group has no controller %s%s", needed[i].name, advice(-EPERM));
			return -ENOENT;
		}
	}
	for (size_t i = 0; i < BOX_COUNT_OF(needed); i++) {
		if (!(controllers_taken(cgroups) & needed[i].bit)) {
			int r = take_controller(cgroups, places, count, needed[i].bit);
			if (r < 0) {
				close_all(cgroups);
				return r;
			}
		}
	}
	return 0;
}

/* V2 only if no hierarchy is version 1: then CLONE_INTO_CGROUP puts a process into all its groups. */
static enum box_cgroup_mode mode_of(const struct box_cgroups *cgroups)
{
	for (size_t i = 0; i < cgroups->count; i++) {
		if (cgroups->trees[i].manager->mode != BOX_CGROUP_V2) {
			return BOX_CGROUP_V1;
		}
	}
	return BOX_CGROUP_V2;
}

static void open_found(struct box_cgroups *cgroups, const char *groups, const char *mounts)
{
	struct box_cgroup_location *places = calloc(BOX_CGROUP_LOCATIONS_MAX, sizeof(*places));
	if (!places) {
		(void)snprintf(cgroups->why, sizeof(cgroups->why), "out of memory");
		return;
	}
	size_t count = box_cgroup_find(groups, mounts, places, BOX_CGROUP_LOCATIONS_MAX);
	for (size_t i = 0; i < count; i++) {
		ask_controllers(&places[i]);
	}
	if (count == 0) {
		(void)snprintf(cgroups->why, sizeof(cgroups->why),
			"no cgroup hierarchy with our group in it is mounted");
	} else if (take_all(cgroups, places, count) == 0) {
		cgroups->mode = mode_of(cgroups);
		cgroups->why[0] = '\0';
	}
	free(places);
}

struct box_cgroups *box_cgroups_open(void)
{
	struct box_cgroups *cgroups = calloc(1, sizeof(*cgroups));
	if (!cgroups) {
		return &out_of_memory;
	}
	char *groups = read_proc("/proc/self/cgroup");
	char *mounts = read_proc("/proc/self/mountinfo");
	if (groups && mounts) {
		open_found(cgroups, groups, mounts);
	} else {
		(void)snprintf(cgroups->why, sizeof(cgroups->why),
			"cannot read cgroup and mountinfo in /proc/self");
	}
	free(groups);
	free(mounts);
	return cgroups;
}

enum box_cgroup_mode box_cgroups_mode(const struct box_cgroups *cgroups)
{
	return cgroups->mode;
}

const char *box_cgroups_why(const struct box_cgroups *cgroups)
{
	return cgroups->why;
}

void box_cgroups_close(struct box_cgroups *cgroups)
{
	if (!cgroups || cgroups == &out_of_memory) {
		return;
	}
	close_all(cgroups);
	free(cgroups);
}
