/* Walks a path by opened fds, makes missing folders, and refuses folders that no box may have. */
#include "boxd/files/host_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "boxd/files/location.h"
#include "boxd/files/mount_roots.h"
#include "boxd/quota/quota.h"

/* Absolute, without ".", "..", empty components or a slash at the end; "/" itself is normal. */
static bool is_normal(const char *path)
{
	if (path[0] != '/') {
		return false;
	}
	if (path[1] == '\0') {
		return true;
	}
	for (const char *at = path; *at;) {
		at++;
		size_t len = strcspn(at, "/");
		if (len == 0 || (len == 1 && at[0] == '.') ||
			(len == 2 && at[0] == '.' && at[1] == '.')) {
			return false;
		}
		at += len;
	}
	return true;
}

/* Cuts the next component off *at into `name`; false at the end. */
static bool next_name(const char **at, char name[BOX_PATH_MAX])
{
	const char *start = *at + strspn(*at, "/");
	size_t len = strcspn(start, "/");
	memcpy(name, start, len);
	name[len] = '\0';
	*at = start + len;
	return len > 0;
}

/* Symbolic links are not followed here: a folder made by us or by others meanwhile must be a real one. */
static int make_one(int parent, const char *name, int *ret_fd)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return errno == ELOOP ? -ENOTDIR : -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* A path, and how far it was walked. */
struct walk {
	int fd;         /* of the last folder that was reached */
	const char *at; /* the rest of the path */
	char name[BOX_PATH_MAX];
	struct box_mount_roots *roots;
	bool inside; /* at or below a mount root: no link is followed from here on */
	bool refused_link;
};

static void walk_close(struct walk *walk)
{
	box_close_p(&walk->fd);
}

/* Links below a root may have been made by boxes, and are not followed. Links above a root are the
 * operator's, and are followed: one may lead into a root without passing the root itself. */
static int enter(struct walk *walk)
{
	_cleanup_(box_close_p) int next = -1;
	int r = box_location_open_no_follow(walk->fd, walk->name, &next);
	bool linked = r == -ELOOP;
	if (linked && walk->inside) {
		walk->refused_link = true;
		return r;
	}
	r = linked ? box_location_open_following(walk->fd, walk->name, &next) : r;
	if (r < 0) {
		return r;
	}
	walk->inside = walk->inside || box_mount_roots_contains(walk->roots, next, linked);
	box_close_p(&walk->fd);
	walk->fd = TAKE_FD(next);
	return 0;
}

/* Walks as far as folders exist: 0 at the end of the path, -ENOENT when `name` is the first missing
 * component, or why `name` could not be entered. */
static int walk_existing(struct walk *walk)
{
	int r = box_location_open_following(AT_FDCWD, "/", &walk->fd);
	walk->inside = r == 0 && box_mount_roots_contains(walk->roots, walk->fd, false);
	while (r == 0 && next_name(&walk->at, walk->name)) {
		r = enter(walk);
	}
	return r;
}

static int make_missing(struct walk *walk)
{
	int r = box_location_check_makes_no_system(walk->fd, walk->name);
	if (r < 0) {
		return r;
	}
	do {
		int next = -1;
		r = make_one(walk->fd, walk->name, &next);
		if (r < 0) {
			return r;
		}
		box_close_p(&walk->fd);
		walk->fd = next;
	} while (next_name(&walk->at, walk->name));
	return 0;
}

/* Makes the missing rest of the path, from the folder that the walk reached. */
static const char *missing_of(const struct walk *walk)
{
	return walk->at - strlen(walk->name);
}

/* Whether an opened folder is allowed: neither a system folder, nor outside the mount roots, nor Box's
 * own. */
static int check_whole(
	int fd, const struct box_host_folder_request *ask, const struct box_mount_roots *roots)
{
	struct stat status;
	int r = box_location_check_contains_no_system(fd);
	if (r == 0) {
		r = box_mount_roots_check(roots, fd, &ask->asker);
	}
	if (r == 0 && ask->to_mount) {
		r = box_mount_roots_check_above(roots, fd);
	}
	/* It contains the images of quotas: a box could write to its own. */
	if (r == 0 && (fstat(fd, &status) < 0 || status.st_uid == BOX_QUOTA_UID)) {
		r = -EPERM;
	}
	return r;
}

/* The same for the folder where a walk has ended with `walked`. */
static int finish(struct walk *walk, int walked, const struct box_host_folder_request *ask)
{
	/* Checked before any other answer: a caller must not learn whether something exists in refused
	 * folders or outside the roots. */
	int r = box_location_check_not_in_system(walk->fd);
	if (r < 0 || walked == 0) {
		return r < 0 ? r : check_whole(walk->fd, ask, walk->roots);
	}
	r = box_mount_roots_check(walk->roots, walk->fd, &ask->asker);
	/* A root itself may be made; it is then found again by its fd. */
	if (r == -EXDEV && walked == -ENOENT &&
		box_mount_roots_creates_root(walk->roots, walk->fd, missing_of(walk))) {
		r = 0;
	}
	if (r < 0 || walked != -ENOENT || !ask->make) {
		return r < 0 ? r : walked;
	}
	r = make_missing(walk);
	if (r < 0) {
		return r;
	}
	box_mount_roots_refresh(walk->roots);
	return check_whole(walk->fd, ask, walk->roots);
}

int box_host_folder_open(const struct box_host_folder_request *ask, struct box_mount_roots *roots,
	size_t *ret_link, int *ret_fd)
{
	const char *path = ask->path;
	_cleanup_(walk_close) struct walk walk = {.fd = -1, .at = path, .roots = roots};
	*ret_link = 0;
	if (strnlen(path, BOX_PATH_MAX) == BOX_PATH_MAX || !is_normal(path)) {
		return -EINVAL;
	}
	int walked = walk_existing(&walk);
	if (walk.fd < 0) {
		return walked;
	}
	int r = finish(&walk, walked, ask);
	if (r < 0) {
		*ret_link = r == -ELOOP && walk.refused_link ? (size_t)(walk.at - path) : 0;
		return r;
	}
	*ret_fd = TAKE_FD(walk.fd);
	return 0;
}

int box_host_folder_make(const char *path, bool look_only, struct box_mount_roots *roots)
{
	_cleanup_(box_close_p) int fd = -1;
	size_t link;
	const struct box_host_folder_request ask = {
		.path = path, .make = !look_only, .asker = {.namespace = ""}};
	box_mount_roots_refresh(roots);
	return box_host_folder_open(&ask, roots, &link, &fd);
}
