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
#include "boxd/files/mount_roots.h"

/* Whose files they are to seem inside. */
struct box_host_mount_owner {
	bool map;     /* false: as they are (one id is all there is) */
	uint32_t uid; /* of the payload, on the host */
	uint32_t gid;
};

struct box_host_mount_request {
	const char *path;
	const char *what; /* the field, for errors */
	bool make;        /* a missing folder is made */
	bool files;       /* regular files too */
	bool writable;    /* the box may write there */
	struct box_mount_roots_requester asker;
};

int box_host_mount_open(const struct box_host_mount_request *ask, struct box_mount_roots *roots,
	int *ret_fd, struct box_err *err);

/* The detached mount of an opened source. */
int box_host_mount_detach(int source, bool read_only, const struct box_host_mount_owner *owner,
	int *ret_mount, struct box_err *err);

/* Whether a mount point, as /proc/self/mountinfo writes it, is below a path. Pure. */
bool box_host_mount_is_below(const char *point, const char *path);
