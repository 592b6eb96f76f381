/* Which root a box gets, by the image that it asks for.
 *
 * A name of the operator's `images` is the root that the operator has given it, prepared once; so is
 * the path that is given there. Another absolute path is a folder of the host, judged like the
 * folders that boxes may mount, and only for this one box. Any other text is a label.
 */
#pragma once

#include "boxd/files/mount_roots.h"
#include "boxd/image/root.h"

struct box_images;

/* Prepares those of the policy, below a folder of ours. What cannot be is told in the log, and not
 * tried again. */
struct box_images *box_images_new(
	const struct box_policy *policy, struct box_mount_roots *mount_roots, const char *anchor);
void box_images_free(struct box_images *images);

/* The root of that image, or NULL in *ret_root: the usual one. Negative: err. `host` is made to tell
 * of it. Give it back with box_images_release. */
int box_images_find(struct box_images *images, const char *image, struct box_plan_host *host,
	struct box_root **ret_root, struct box_err *err);
/* Whether this image is a folder that a caller names. */
bool box_images_is_folder(struct box_images *images, const char *image);
/* Opens and judges it. */
int box_images_open_folder(
	const struct box_images *images, const char *path, int *ret_fd, struct box_err *err);
/* Takes all of it but its /etc, which is empty and writable: caller_roots.c fills it. */
int box_images_take_folder(
	int folder, const char *path, struct box_root **ret_root, struct box_err *err);
/* Why boxes of one of the named images would be refused now, as a text; "": they would not. */
void box_images_missing(const struct box_images *images, char *text, size_t room);
/* NULL is taken. */
void box_images_release(struct box_root *root);
static inline void box_images_release_p(struct box_root **root)
{
	box_images_release(*root);
}
