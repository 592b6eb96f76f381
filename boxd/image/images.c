/* Keeps the operator's images; a caller's is opened for one box and closed with it. */
#include "boxd/image/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/files/host_mount.h"
#include "boxd/image/image_file.h"

#define PLACE_NAME_SIZE 32

struct image {
	const struct box_policy_image *wanted;
	bool ready;
	char why[256]; /* why it cannot be used */
	struct box_err unready;
	struct box_root root;
};

struct box_images {
	struct box_mount_roots *mount_roots;
	const char *anchor;
	unsigned tries; /* each attempt has a folder of its own */
	size_t count;
	struct image images[BOX_IMAGES_MAX];
};

static int open_anchor(const struct box_images *images)
{
	return open(images->anchor, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void name_place(unsigned number, char name[PLACE_NAME_SIZE])
{
	(void)snprintf(name, PLACE_NAME_SIZE, "image-%u", number);
}

/* A tmpfs of its own: all mounts in it go with it. */
static int make_place(const struct box_images *images, unsigned number, int *ret_place)
{
	static const struct box_fsmount_options options = {
		.size_bytes = 1 * BOX_MIB, .inodes = 4096, .mode = 0700};
	char name[PLACE_NAME_SIZE];
	_cleanup_(box_close_p) int anchor = open_anchor(images);
	_cleanup_(box_close_p) int mount = -1;
	name_place(number, name);
	if (anchor < 0 || mkdirat(anchor, name, 0700) < 0) {
		return -errno;
	}
	int r = box_fsmount_make("tmpfs", &options, &mount);
	if (r == 0) {
		r = box_fsmount_attach(mount, anchor, name, ret_place);
	}
	if (r < 0) {
		(void)unlinkat(anchor, name, AT_REMOVEDIR);
	}
	return r;
}

/* Otherwise each further request would attach everything again, loop devices too. */
static void remove_place(const struct box_images *images, unsigned number, int place)
{
	char path[32];
	char name[PLACE_NAME_SIZE];
	_cleanup_(box_close_p) int anchor = open_anchor(images);
	name_place(number, name);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	(void)umount2(path, MNT_DETACH);
	(void)unlinkat(anchor, name, AT_REMOVEDIR);
}

static int say(const char *what, const char *path, int r, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r, "%s: %s cannot be prepared: %s",
		what, path, box_err_strerror(-r));
}

static int take_root(
	struct image *image, const struct box_image_file_request *ask, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	int r = box_image_file_open(ask, &folder, err);
	if (r < 0) {
		return r;
	}
	r = box_root_take(folder, BOX_ROOT_OPERATOR, ask->anchor, &image->root);
	if (r < 0) {
		box_root_close(&image->root);
		box_root_init(&image->root);
		return say(ask->what, ask->path, r, err);
	}
	return 0;
}

static int prepare(struct box_images *images, struct image *image, struct box_err *err)
{
	char what[BOX_IMAGE_NAME_MAX + 16];
	const char *path = image->wanted->path;
	unsigned number = images->tries++;
	_cleanup_(box_close_p) int place = -1;
	(void)snprintf(what, sizeof(what), "image %s", image->wanted->name);
	int r = make_place(images, number, &place);
	if (r < 0) {
		return say(what, path, r, err);
	}
	const struct box_image_file_request ask = {.what = what, .path = path, .anchor = place};
	r = take_root(image, &ask, err);
	if (r < 0) {
		remove_place(images, number, place);
	}
	image->ready = r == 0;
	(void)snprintf(image->why, sizeof(image->why), "%.*s", (int)sizeof(image->why) - 1,
		r < 0 ? err->text : "");
	return r;
}

struct box_images *box_images_new(
	const struct box_policy *policy, struct box_mount_roots *mount_roots, const char *anchor)
{
	struct box_images *images = box_alloc(sizeof(*images));
	images->mount_roots = mount_roots;
	images->anchor = anchor;
	images->count = BOX_MIN(policy->image_count, BOX_IMAGES_MAX);
	for (size_t i = 0; i < images->count; i++) {
		struct image *image = &images->images[i];
		image->wanted = &policy->images[i];
		box_root_init(&image->root);
		if (prepare(images, image, &image->unready) < 0) {
			BOX_LOG(BOX_LOG_WARNING, "image.impossible",
				box_log_str("why", image->unready.text));
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

/* The type of what is at an accessible path, if it cannot be a root. */
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

/* About a folder that is not allowed nothing is reported, not even its type. */
int box_images_open_folder(
	const struct box_images *images, const char *path, int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	const struct box_host_mount_request wanted = {
		.path = path, .what = "image", .files = true, .asker = {.namespace = ""}};
	int r = box_host_mount_open(&wanted, images->mount_roots, &fd, err);
	const char *kind = r == 0 || err->errnum == ENOTDIR ? name_kind(path) : NULL;
	if (kind) {
		return refuse(path, kind, err);
	}
	if (r < 0) {
		return r;
	}
	if (box_root_check_shell(fd) < 0) {
		return refuse(path, "has no /bin/sh, which runs commands", err);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int box_images_take_folder(
	int folder, const char *path, struct box_root **ret_root, struct box_err *err)
{
	struct box_root *root = box_alloc(sizeof(*root));
	box_root_init(root);
	int r = box_root_take(folder, BOX_ROOT_CALLER, -1, root);
	if (r < 0) {
		root->once = true;
		box_images_release(root);
		return refuse(path,
			r == -EPERM           ? "has other mounts in it, which boxes must not get"
				: r == -E2BIG ? "has too many entries at its top"
					      : box_err_strerror(-r),
			err);
	}
	*ret_root = root;
	return 0;
}

bool box_images_is_folder(struct box_images *images, const char *image)
{
	return images && image[0] == '/' && !find_named(images, image);
}

/* --- requests --- */

/* What appears at the path later may be anyone's: the kernel must not mount it. */
static int refuse_unready(const struct image *image, struct box_err *err)
{
	return box_err_set(err, image->unready.code, image->unready.errnum,
		"%.400s; it was checked when boxd started, and is checked again at the next start",
		image->unready.text);
}

int box_images_find(struct box_images *images, const char *image, struct box_plan_host *host,
	struct box_root **ret_root, struct box_err *err)
{
	struct image *named = images && image[0] ? find_named(images, image) : NULL;
	int r = 0;
	*ret_root = NULL;
	if (named) {
		r = named->ready ? 0 : refuse_unready(named, err);
		*ret_root = r == 0 ? &named->root : NULL;
	} else if (images && image[0] == '/') {
		r = refuse(image, "is a folder that was not prepared", err);
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

void box_images_missing(const struct box_images *images, char *text, size_t room)
{
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < images->count && len < room; i++) {
		const struct image *image = &images->images[i];
		const struct box_root *root = &image->root;
		const char *before = len > 0 ? "; " : "";
		if (!image->ready) {
			len += (size_t)snprintf(text + len, room - len, "%s%s", before, image->why);
		} else if (!box_root_has_shell(root->entries, root->trees, root->count)) {
			len += (size_t)snprintf(text + len, room - len,
				"%simage %s: %s has no /bin/sh any more", before,
				image->wanted->name, image->wanted->path);
		}
	}
}
