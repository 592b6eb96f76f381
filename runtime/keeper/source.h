/* Folders and files of the host as detached mounts, ready to be attached in a box.
 *
 * A path is walked once; from then on there are only fds. What comes out is read-only or not,
 * without setuid and devices, and, where ids can be mapped, as if it belonged to the payload: files
 * keep the owner of the folder, whoever that is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct box_policy;

/* Whose files they are to seem inside. */
struct box_source_owner {
	bool map;     /* false: as they are (one id is all there is) */
	uint32_t uid; /* of the payload, on the host */
	uint32_t gid;
};

/* `what` names the field in errors. With `make` a missing folder is made. Folders; with `files`
 * also regular files. */
int box_source_open(const char *path, const char *what, bool make, bool files,
	const struct box_policy *policy, int *ret_fd, struct box_err *err);

/* The detached mount of an opened source. */
int box_source_detach(int source, bool read_only, const struct box_source_owner *owner,
	int *ret_mount, struct box_err *err);

/* Whether a mount point, as /proc/self/mountinfo writes it, is below a path. Pure. */
bool box_mount_is_below(const char *point, const char *path);
