/* Folders and files of the host as detached mounts, ready to be attached in a box.
 *
 * A path is walked once; from then on there are only fds. The mounts are nosuid and nodev, read-only or
 * not, and, if ids can be mapped, show the files of the folder's owner as the payload's own. Called by
 * make.c and rpc/serve.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "boxd/files/mount_roots.h"

/* Who owns the files as seen inside. */
struct box_host_mount_owner {
	bool map;     /* false: owners stay as they are (there is only one uid) */
	uint32_t uid; /* of the payload, on the host */
	uint32_t gid;
};

struct box_host_mount_request {
	const char *path;
	const char *what; /* name of the field, for errors */
	bool make;        /* make a missing folder */
	bool files;       /* accept regular files too */
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
