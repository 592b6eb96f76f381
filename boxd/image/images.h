/* Which root a box gets, by the image in the request. Owned by host_state.c, called by boxes.c.
 *
 * The name of one of the operator's `images`, or the path given there, stands for that root, prepared
 * once. Any other absolute path is a folder of the host, checked like the folders that boxes may mount,
 * and used for this one box. Any other text is a label.
 */
#pragma once

#include "boxd/files/mount_roots.h"
#include "boxd/image/root.h"

struct box_images;

/* Prepares the images of the policy, below a folder of ours. Those that cannot be prepared are logged,
 * and not tried again. */
struct box_images *box_images_new(
	const struct box_policy *policy, struct box_mount_roots *mount_roots, const char *anchor);
void box_images_free(struct box_images *images);

/* The root of an image in *ret_root; NULL for the default root. Negative: err. Sets `host` to describe
 * it. Give it back with box_images_release. */
int box_images_find(struct box_images *images, const char *image, struct box_plan_host *host,
	struct box_root **ret_root, struct box_err *err);
/* Whether this image is a folder that a caller names. */
bool box_images_is_folder(struct box_images *images, const char *image);
/* Opens and checks it. */
int box_images_open_folder(
	const struct box_images *images, const char *path, int *ret_fd, struct box_err *err);
/* Prepares all of it but its /etc, which is empty and writable: caller_roots.c fills it. */
int box_images_take_folder(
	int folder, const char *path, struct box_root **ret_root, struct box_err *err);
/* Why boxes of a named image would be refused now; "" if they would not. */
void box_images_missing(const struct box_images *images, char *text, size_t room);
/* Takes NULL. */
void box_images_release(struct box_root *root);
static inline void box_images_release_p(struct box_root **root)
{
	box_images_release(*root);
}
