/* What all boxes have in common, mounted once where only we see it: an /etc made for boxes, a /dev
 * with six harmless devices, and the system folders, all read-only. A box gets clones of these
 * mounts. */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

struct box_common_mounts {
	const char
		*anchor; /* a folder that exists in our mount namespace and is needed by no one */
	int etc;
	int dev;
	int kvm;       /* a /dev with kvm and nothing else; -1 until a microVM needs it */
	int artifacts; /* an empty folder, for artifacts.c */
	int entries[BOX_ROOT_ENTRIES_MAX]; /* of host->root_entries; -1 for links */
};

/* Enters a mount namespace of our own. As a plain user, a user namespace first, in which we are
 * root: to be called before anything else holds on to who we are. */
int box_common_mounts_enter_namespace(struct box_err *err);

/* Looks at the root that boxes get, the host's or `rootfs` ("" for the host's), fills in
 * root_entries of `host`, and mounts the common parts. */
int box_common_mounts_make(const char *rootfs, struct box_plan_host *host,
	struct box_common_mounts *ret_template, struct box_err *err);
/* Makes the /dev of microVMs, where there is none yet. The device is one of our own, which the ids of
 * boxes may use; where none can be made it is the host's, which they must be allowed to use. */
int box_common_mounts_make_kvm(struct box_common_mounts *common, struct box_err *err);
void box_common_mounts_close(struct box_common_mounts *common);
