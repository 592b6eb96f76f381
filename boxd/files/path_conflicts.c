/* Walks each path link by link, and compares what it leads to by device and by the path on that device. */
#include "boxd/files/path_conflicts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/log.h"

#define LINKS_MAX 40 /* the kernel's limit */

static bool is_everything(const struct box_mount_roots_path *held)
{
	return strcmp(held->path, "/") == 0;
}

static bool is_within(
	const struct box_mount_roots_path *held, const struct box_mount_roots_path *root)
{
	bool whole = box_mount_roots_path_is_complete(root);
	_cleanup_(box_close_p) int folder = whole ? box_mount_roots_open_folder_of(held) : -1;
	return whole &&
		(box_location_same(&held->place, &root->place) ||
			(folder >= 0 && box_location_is_below(folder, &root->place)));
}

/* --- walking a path --- */

/* The walk is done by hand, because the kernel does not report the links it has followed. */
struct walk {
	int fd;
	unsigned links;
	char rest[BOX_PATH_MAX];
};

static int take_link(struct walk *walk, const char *name)
{
	char target[BOX_PATH_MAX];
	char rest[BOX_PATH_MAX];
	ssize_t len = readlinkat(walk->fd, name, target, sizeof(target) - 1);
	if (len <= 0 || ++walk->links > LINKS_MAX) {
		return len < 0 ? -errno : -ELOOP;
	}
	target[len] = '\0';
	(void)snprintf(rest, sizeof(rest), "%s", walk->rest);
	int size = snprintf(walk->rest, sizeof(walk->rest), "%s/%s", target, rest);
	if (size < 0 || (size_t)size >= sizeof(walk->rest)) {
		return -ENAMETOOLONG;
	}
	if (target[0] == '/') {
		box_close_p(&walk->fd);
		return box_location_open_following(AT_FDCWD, "/", &walk->fd);
	}
	return 0;
}

/* Walks one component; negative when the path ends here or cannot be entered. */
static int step(struct walk *walk)
{
	char name[NAME_MAX + 1];
	int next = -1;
	size_t skipped = strspn(walk->rest, "/");
	size_t len = strcspn(walk->rest + skipped, "/");
	if (len == 0 || len > NAME_MAX) {
		return -ENOENT;
	}
	memcpy(name, walk->rest + skipped, len);
	name[len] = '\0';
	memmove(walk->rest, walk->rest + skipped + len, strlen(walk->rest + skipped + len) + 1);
	int r = strcmp(name, "..") == 0 ? box_location_open_following(walk->fd, name, &next)
					: box_location_open_no_follow(walk->fd, name, &next);
	if (r == -ELOOP) {
		return take_link(walk, name);
	}
	if (r == 0) {
		box_close_p(&walk->fd);
		walk->fd = next;
	}
	return r;
}

/* Whether a component of the path is looked up in a root or below it, or is a link there: whoever
 * controls the root decides where the path leads. */
static bool goes_through(const char *path, const struct box_mount_roots_path *root, bool links_only)
{
	struct walk walk = {.fd = -1};
	bool found = false;
	if (!box_mount_roots_path_is_complete(root) || is_everything(root)) {
		return false;
	}
	(void)snprintf(walk.rest, sizeof(walk.rest), "%s", path);
	int r = box_location_open_following(AT_FDCWD, "/", &walk.fd);
	while (r == 0 && !found && walk.rest[strspn(walk.rest, "/")] != '\0') {
		unsigned links = walk.links;
		bool inside = box_location_is_below(walk.fd, &root->place);
		r = step(&walk);
		found = inside && (!links_only || walk.links > links);
	}
	box_close_p(&walk.fd);
	return found;
}

/* The part of a path below a folder, with its slash; NULL: it is elsewhere. */
static const char *below(const char *path, const char *folder)
{
	size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
	bool is = strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
	return is ? path + len : NULL;
}

/* --- roots in roots --- */

static void drop(struct box_mount_roots_paths *roots, size_t index)
{
	struct box_mount_roots_path *held = &roots->items[index];
	box_close_p(&held->fd);
	*held = roots->items[--roots->count];
	roots->items[roots->count] = (struct box_mount_roots_path){.fd = -1};
}

/* A root whose path goes through another root but leads out of it was redirected by a link. */
static void merge(struct box_mount_roots_paths *roots, size_t inner, size_t outer)
{
	bool leads_out = !is_within(&roots->items[inner], &roots->items[outer]);
	BOX_LOG(leads_out ? BOX_LOG_WARNING : BOX_LOG_DEBUG, "mount_root.merged",
		box_log_str("path", roots->items[inner].path),
		box_log_str("into", roots->items[outer].path));
	drop(roots, inner);
}

/* First by the texts, which no box can change. */
static bool merge_one_by_its_text(struct box_mount_roots_paths *roots)
{
	for (size_t i = roots->count; i-- > 0;) {
		for (size_t j = 0; j < roots->count; j++) {
			const struct box_mount_roots_path *inner = &roots->items[i];
			const struct box_mount_roots_path *outer = &roots->items[j];
			bool same = strcmp(inner->path, outer->path) == 0;
			if (i != j && !is_everything(outer) && below(inner->path, outer->path) &&
				!(same && j > i)) {
				merge(roots, i, j);
				return true;
			}
		}
	}
	return false;
}

static bool goes_through_any(
	const struct box_mount_roots_paths *roots, size_t index, size_t *ret_by)
{
	for (size_t i = 0; i < roots->count; i++) {
		if (i != index && goes_through(roots->items[index].path, &roots->items[i], true)) {
			*ret_by = i;
			return true;
		}
	}
	return false;
}

/* Then by links in other roots. A root that is itself reached through a link cannot be trusted, and
 * absorbs another only when there is no other choice: then neither is certain. */
static bool merge_one_by_its_links(struct box_mount_roots_paths *roots)
{
	size_t unsure = SIZE_MAX;
	size_t by = 0;
	for (size_t i = 0; i < roots->count; i++) {
		size_t outer = 0;
		size_t ignored = 0;
		if (!goes_through_any(roots, i, &outer)) {
			continue;
		}
		if (!goes_through_any(roots, outer, &ignored)) {
			merge(roots, i, outer);
			return true;
		}
		unsure = i;
		by = outer;
	}
	if (unsure != SIZE_MAX) {
		merge(roots, unsure, by);
	}
	return unsure != SIZE_MAX;
}

static bool merge_one_by_its_place(struct box_mount_roots_paths *roots)
{
	for (size_t i = roots->count; i-- > 0;) {
		for (size_t j = 0; j < roots->count; j++) {
			const struct box_mount_roots_path *inner = &roots->items[i];
			const struct box_mount_roots_path *outer = &roots->items[j];
			bool same = box_location_same(&inner->place, &outer->place) &&
				box_mount_roots_path_is_complete(inner);
			if (i != j && is_within(inner, outer) && !(same && j > i)) {
				merge(roots, i, j);
				return true;
			}
		}
	}
	return false;
}

void box_path_conflicts_merge_roots(struct box_mount_roots_paths *roots)
{
	while (merge_one_by_its_text(roots)) {
	}
	while (merge_one_by_its_links(roots)) {
	}
	while (merge_one_by_its_place(roots)) {
	}
}

/* --- trees: a device and a path on it, the same through every bind mount --- */

struct tree {
	unsigned major;
	unsigned minor;
	char path[3 * BOX_PATH_MAX];
};

/* A line of mountinfo. */
struct mount {
	uint64_t id;
	struct tree tree;
	char point[BOX_PATH_MAX];
};

/* White space and backslashes are octal numbers there. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		bool octal = from[0] == '\\' && from[1] && from[2] && from[3];
		*to = octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'))
			    : *from;
		from += octal ? 4 : 1;
	}
	*to = '\0';
}

static bool next_mount(FILE *mounts, struct mount *mount)
{
	_cleanup_(box_free_p) char *line = NULL;
	size_t room = 0;
	unsigned long long id = 0;
	if (getline(&line, &room, mounts) <= 0 ||
		sscanf(line, "%llu %*u %u:%u %4095s %4095s", &id, &mount->tree.major,
			&mount->tree.minor, mount->tree.path, mount->point) != 5) {
		return false;
	}
	mount->id = id;
	unescape(mount->tree.path);
	unescape(mount->point);
	return true;
}

static bool overlap(const struct tree *a, const struct tree *b)
{
	return a->major == b->major && a->minor == b->minor &&
		(below(a->path, b->path) || below(b->path, a->path));
}

static void close_mounts(FILE **mounts)
{
	if (*mounts) {
		(void)fclose(*mounts);
	}
}

static bool tree_of(const struct box_mount_roots_path *held, struct tree *ret_tree)
{
	char path[BOX_PATH_MAX];
	struct mount mount;
	_cleanup_(close_mounts) FILE *mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts || box_fsmount_path_of(held->fd, path, sizeof(path)) < 0) {
		return false;
	}
	while (next_mount(mounts, &mount)) {
		const char *rest = mount.id == held->place.mount ? below(path, mount.point) : NULL;
		if (rest) {
			const char *top = strcmp(mount.tree.path, "/") == 0 ? "" : mount.tree.path;
			struct tree tree = {mount.tree.major, mount.tree.minor, ""};
			int size = snprintf(tree.path, sizeof(tree.path), "%s%s%s%s", top, rest,
				held->rest[0] ? "/" : "", held->rest);
			*ret_tree = tree;
			return size >= 0 && (size_t)size < sizeof(tree.path);
		}
	}
	return false;
}

/* Whether a bind mount shows one inside the other, or inside something mounted below the root. */
static bool is_shown_in(
	const struct box_mount_roots_path *own, const struct box_mount_roots_path *root)
{
	char path[BOX_PATH_MAX];
	struct mount mount;
	struct tree tree;
	struct tree of_root;
	_cleanup_(close_mounts) FILE *mounts = NULL;
	if (!tree_of(own, &tree)) {
		return false;
	}
	if (tree_of(root, &of_root) && overlap(&tree, &of_root)) {
		return true;
	}
	mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts || !box_mount_roots_path_is_complete(root) ||
		box_fsmount_path_of(root->fd, path, sizeof(path)) < 0) {
		return false;
	}
	while (next_mount(mounts, &mount)) {
		if (below(mount.point, path) && overlap(&mount.tree, &tree)) {
			return true;
		}
	}
	return false;
}

/* --- the checks --- */

static int refuse(const struct box_mount_roots_path *own, const char *relation,
	const struct box_mount_roots_path *root, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_VALUE, EINVAL,
		"%s: %s %s the mount root %s, so that boxes could change it: move it out of there, "
		"or change local.allowed_mount_roots (host_root by default)",
		own->name, own->path, relation, root->path);
}

static int check_pair(const struct box_mount_roots_path *own,
	const struct box_mount_roots_path *root, struct box_err *err)
{
	if (is_everything(root)) {
		return 0;
	}
	if (is_within(own, root)) {
		return refuse(own, "is in", root, err);
	}
	if (is_within(root, own)) {
		return refuse(own, "contains", root, err);
	}
	if (goes_through(own->path, root, false)) {
		return refuse(own, "is reached through a link in", root, err);
	}
	return is_shown_in(own, root) ? refuse(own, "is mounted at, above or below", root, err) : 0;
}

/* Nothing tells where the other name of the file is. */
static int check_names(const struct box_mount_roots_path *own, struct box_err *err)
{
	struct stat status;
	if (box_mount_roots_path_is_complete(own) && fstat(own->fd, &status) == 0 &&
		S_ISREG(status.st_mode) && status.st_nlink > 1) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"%s: %s has %lu names (hard links), and boxes may reach another of "
			"them: replace it with a copy",
			own->name, own->path, (unsigned long)status.st_nlink);
	}
	return 0;
}

/* Skills may be in a root. A root inside the skill store would refuse all mounts, and a box can read
 * everything in its own root. */
static int check_store(const struct box_mount_roots *roots, struct box_err *err)
{
	const struct box_mount_roots_path *store = &roots->stores[BOX_MOUNT_ROOTS_STORE_OWN];
	if (!store->path) {
		return 0;
	}
	for (size_t i = 0; i < roots->roots.count; i++) {
		const struct box_mount_roots_path *root = &roots->roots.items[i];
		if (!is_everything(root) && is_within(root, store)) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.local.skills_root: %s contains the mount root %s, so that "
				"nothing could be mounted: choose another skills_root",
				store->path, root->path);
		}
	}
	for (size_t i = 0; i < roots->own_count; i++) {
		const struct box_mount_roots_path *own = &roots->own[i];
		if (is_within(store, own) || is_within(own, store)) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.local.skills_root: %s and %s (%s) are inside each other, so "
				"that boxes could read the skills of all: choose another skills_root",
				store->path, own->path, own->name);
		}
	}
	return 0;
}

int box_path_conflicts_check_own(const struct box_mount_roots *roots,
	const struct box_mount_roots_path *own, struct box_err *err)
{
	for (size_t i = 0; i < roots->roots.count; i++) {
		int r = check_pair(own, &roots->roots.items[i], err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

int box_path_conflicts_check(const struct box_mount_roots *roots, struct box_err *err)
{
	int r = check_store(roots, err);
	for (size_t i = 0; r == 0 && i < roots->own_count; i++) {
		const struct box_mount_roots_path *own = &roots->own[i];
		r = box_path_conflicts_check_own(roots, own, err);
		if (r == 0 && roots->roots.count > 0) {
			r = check_names(own, err);
		}
	}
	return r;
}
