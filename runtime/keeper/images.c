/* The operator's are kept; a caller's is made for one box and closed after. */
#include "runtime/keeper/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/keeper/image_file.h"
#include "runtime/keeper/source.h"

struct image {
	const struct box_image *wanted;
	bool ready;
	struct box_root root;
};

struct box_images {
	const struct box_policy *policy;
	const char *anchor;
	unsigned tries; /* each has a folder of its own */
	size_t count;
	struct image images[BOX_IMAGES_MAX];
};

static int make_place(struct box_images *images, int *ret_place)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "image-%u", images->tries++);
	_cleanup_(box_close_p) int anchor = open(images->anchor, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (anchor < 0 || mkdirat(anchor, name, 0700) < 0) {
		return -errno;
	}
	*ret_place = openat(anchor, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_place < 0 ? -errno : 0;
}

static int say(const char *what, const char *path, int r, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r, "%s: %s cannot be prepared: %s",
		what, path, strerrordesc_np(-r));
}

static int prepare(struct box_images *images, struct image *image, struct box_err *err)
{
	char what[BOX_IMAGE_NAME_MAX + 16];
	const char *path = image->wanted->path;
	_cleanup_(box_close_p) int place = -1;
	_cleanup_(box_close_p) int folder = -1;
	(void)snprintf(what, sizeof(what), "image %s", image->wanted->name);
	int r = make_place(images, &place);
	if (r < 0) {
		return say(what, path, r, err);
	}
	const struct box_image_ask ask = {.what = what, .path = path, .anchor = place};
	r = box_image_open(&ask, &folder, err);
	if (r < 0) {
		return r;
	}
	r = box_root_take(folder, BOX_ROOT_OPERATOR, place, &image->root);
	if (r < 0) {
		box_root_close(&image->root);
		box_root_init(&image->root);
		return say(what, path, r, err);
	}
	image->ready = true;
	return 0;
}

struct box_images *box_images_new(const struct box_policy *policy, const char *anchor)
{
	struct box_images *images = box_alloc(sizeof(*images));
	images->policy = policy;
	images->anchor = anchor;
	images->count = policy->image_count < BOX_IMAGES_MAX ? policy->image_count : BOX_IMAGES_MAX;
	for (size_t i = 0; i < images->count; i++) {
		struct image *image = &images->images[i];
		struct box_err err;
		image->wanted = &policy->images[i];
		box_root_init(&image->root);
		if (prepare(images, image, &err) < 0) {
			BOX_LOG(BOX_LOG_WARNING, "image.impossible", box_kv_str("why", err.text));
		}
	}
	return images;
}

void box_images_free(struct box_images *images)
{
	if (!images) {
		return;
	}
	for (size_t i = 0; i < images->count; i++) {
		box_root_close(&images->images[i].root);
	}
	free(images);
}

static struct image *find_named(struct box_images *images, const char *name)
{
	for (size_t i = 0; i < images->count; i++) {
		struct image *image = &images->images[i];
		if (strcmp(image->wanted->name, name) == 0 ||
			strcmp(image->wanted->path, name) == 0) {
			return image;
		}
	}
	return NULL;
}

/* --- a folder that a caller names --- */

/* What is at a path that may be looked at, if it is one of the things that no root can be. */
static const char *name_kind(const char *path)
{
	struct stat status;
	if (lstat(path, &status) < 0) {
		return NULL;
	}
	return S_ISLNK(status.st_mode)                               ? "is a link"
		: S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) ? "is a device"
		: S_ISREG(status.st_mode)
		? "is a file: only those that the operator has named in images are mounted"
		: NULL;
}

static int refuse(const char *path, const char *why, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "image %s %s", path, why);
}

/* Of a folder that is not allowed nothing is told, not even what it is. */
static int open_folder(
	const struct box_images *images, const char *path, int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_source_open(path, "image", false, true, images->policy, &fd, err);
	const char *kind = r == 0 || err->errnum == ENOTDIR ? name_kind(path) : NULL;
	if (kind) {
		return refuse(path, kind, err);
	}
	if (r < 0) {
		return r;
	}
	if (box_root_check_shell(fd) < 0) {
		return refuse(path, "has no /bin/sh, which commands are given to", err);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int take_folder(const struct box_images *images, const char *path,
	struct box_root **ret_root, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = open_folder(images, path, &fd, err);
	if (r < 0) {
		return r;
	}
	struct box_root *root = box_alloc(sizeof(*root));
	box_root_init(root);
	r = box_root_take(fd, BOX_ROOT_CALLER, -1, root);
	if (r < 0) {
		root->once = true;
		box_images_release(root);
		return refuse(path,
			r == -EPERM           ? "has other mounts in it, which boxes must not get"
				: r == -E2BIG ? "has too many entries at its top"
					      : strerrordesc_np(-r),
			err);
	}
	*ret_root = root;
	return 0;
}

/* --- what callers ask for --- */

int box_images_find(struct box_images *images, const char *image, struct box_host_can *host,
	struct box_root **ret_root, struct box_err *err)
{
	struct image *named = images && image[0] ? find_named(images, image) : NULL;
	int r = 0;
	*ret_root = NULL;
	if (named) {
		r = named->ready ? 0 : prepare(images, named, err);
		*ret_root = r == 0 ? &named->root : NULL;
	} else if (images && image[0] == '/') {
		r = take_folder(images, image, ret_root, err);
	}
	if (*ret_root) {
		box_root_describe(*ret_root, named ? named->wanted->path : image, host);
	}
	return r;
}

void box_images_release(struct box_root *root)
{
	if (root && root->once) {
		box_root_close(root);
		free(root);
	}
}
