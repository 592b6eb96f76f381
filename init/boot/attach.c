/* Attaches mounts to their mount points. Each component of a path is opened on its own and never through a
 * link, because commands may have created what is in writable folders. Missing components are created: in the
 * root, which nobody can write to by its path, through an fd of its own; elsewhere with the ids of commands,
 * so that we can only create there what commands could. Called by the mounter. */
#include "init/boot/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW)

/* The folder that a walk has reached. */
struct place {
	int fd; /* as commands see it */
	int back; /* the same folder through the root's own fd, or -1 outside the root's file system */
};

static void close_place(struct place *place)
{
	box_close_p(&place->fd);
	box_close_p(&place->back);
}

static int make_one(int fd, const char *name, bool folder)
{
	if (folder) {
		return mkdirat(fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	}
	return mknodat(fd, name, S_IFREG | 0644, 0) < 0 && errno != EEXIST ? -errno : 0;
}

/* Changes only the file system ids: they decide about files, and changing back needs no lost capability. */
static int make_as_payload(const struct box_attach *attach, int fd, const char *name, bool folder)
{
	if (attach->same) {
		return make_one(fd, name, folder);
	}
	(void)syscall(SYS_setfsgid, attach->gid);
	(void)syscall(SYS_setfsuid, attach->uid);
	int r = make_one(fd, name, folder);
	(void)syscall(SYS_setfsuid, geteuid());
	(void)syscall(SYS_setfsgid, getegid());
	return r;
}

static int make_missing(
	const struct box_attach *attach, const struct place *place, const char *name, bool folder)
{
	if (place->back >= 0) {
		int r = make_one(place->back, name, folder);
		/* A folder of the payload in a root that it may write to. */
		return r == -EACCES ? make_as_payload(attach, place->back, name, folder) : r;
	}
	return make_as_payload(attach, place->fd, name, folder);
}

/* Goes to the same folder through the root's own fd. Where something is mounted, both fds differ. */
static int follow(int back, const char *name, struct place *place)
{
	struct stat here;
	struct stat there;
	if (back < 0) {
		return 0;
	}
	place->back = openat(back, name, FOLDER_FLAGS | O_CLOEXEC);
	if (place->back < 0 || fstat(place->fd, &here) < 0 || fstat(place->back, &there) < 0) {
		return -errno;
	}
	if (here.st_dev != there.st_dev || here.st_ino != there.st_ino) {
		box_close_p(&place->back);
	}
	return 0;
}

/* Goes one component further. `folder`: what the last one must be; all others are folders. */
static int step(const struct box_attach *attach, struct place *place, const char *name, bool last,
	bool folder)
{
	int flags = last && !folder ? FOLDER_FLAGS & ~O_DIRECTORY : FOLDER_FLAGS;
	struct place next = {.fd = openat(place->fd, name, flags | O_CLOEXEC), .back = -1};
	if (next.fd < 0 && errno == ENOENT) {
		int r = make_missing(attach, place, name, !last || folder);
		if (r < 0) {
			return r;
		}
		next.fd = openat(place->fd, name, flags | O_CLOEXEC);
	}
	if (next.fd < 0) {
		return -errno;
	}
	int r = last ? 0 : follow(place->back, name, &next);
	if (r < 0) {
		close_place(&next);
		return r;
	}
	close_place(place);
	*place = next;
	return 0;
}

/* Checked before anything is created on the way: empty components, "." and ".." are refused. */
static bool is_plain(const char *path)
{
	for (const char *slash = path; slash; slash = strchr(slash + 1, '/')) {
		size_t len = strcspn(slash + 1, "/");
		if (len <= 2 && strncmp(slash + 1, "..", len) == 0) {
			return false;
		}
	}
	return true;
}

/* Replaces the slashes of the path by NULs, and puts them back. */
static int walk(const struct box_attach *attach, char *path, bool folder, struct place *place)
{
	for (char *name = path + 1;;) {
		char *slash = strchr(name, '/');
		if (slash) {
			*slash = '\0';
		}
		int r = step(attach, place, name, !slash, folder);
		if (!slash) {
			return r;
		}
		*slash = '/';
		if (r < 0) {
			return r;
		}
		name = slash + 1;
	}
}

static int attach_one(const struct box_attach *attach, int mount_fd, char *path)
{
	struct stat source;
	struct stat target;
	if (!is_plain(path)) {
		return -EINVAL;
	}
	if (fstat(mount_fd, &source) < 0) {
		return -errno;
	}
	struct place place = {.fd = open("/", FOLDER_FLAGS | O_CLOEXEC), .back = -1};
	int r = place.fd < 0 ? -errno : follow(attach->root_fd, ".", &place);
	if (r == 0) {
		r = walk(attach, path, S_ISDIR(source.st_mode), &place);
	}
	if (r == 0 && fstat(place.fd, &target) < 0) {
		r = -errno;
	}
	if (r == 0 && S_ISLNK(target.st_mode)) {
		r = -ELOOP;
	}
	if (r == 0) {
		r = box_fsmount_attach_at(mount_fd, place.fd);
	}
	close_place(&place);
	return r;
}

int box_attach_all(const struct box_attach *attach, uint32_t *ret_index)
{
	*ret_index = 0;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		return -errno;
	}
	char *path = attach->targets;
	for (uint32_t i = 0; i < attach->count; i++) {
		int r = attach_one(attach, attach->fds[i], path);
		if (r < 0) {
			*ret_index = i;
			return r;
		}
		path += strlen(path) + 1;
	}
	return 0;
}
