/* Mounts that all boxes share, made once where only boxd sees them: an /etc, a /dev with six harmless
 * devices, and the system folders, all read-only. A box gets clones of these mounts. Owned by
 * host_state.c. */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

struct box_common_mounts {
	const char *anchor; /* a folder that exists in our mount namespace and that nobody needs */
	int etc;
	int dev;
	int kvm;                           /* a /dev with only kvm; -1 until a microVM needs it */
	int artifacts;                     /* an empty folder, for artifacts.c */
	int entries[BOX_ROOT_ENTRIES_MAX]; /* of host->root_entries; -1 for symbolic links */
};

/* Enters a new mount namespace; as a plain user a user namespace first, in which we are root. Call it
 * before anything else depends on our ids. */
int box_common_mounts_enter_namespace(struct box_err *err);

/* Examines the root that boxes get, `rootfs` or the host's (""), fills in root_entries of `host`, and
 * makes the shared mounts. */
int box_common_mounts_make(const char *rootfs, struct box_plan_host *host,
	struct box_common_mounts *ret_template, struct box_err *err);
/* Makes the /dev of microVMs, unless there is one. The device is a new one that the ids of boxes may
 * use; if it cannot be made, the host's, which those ids must be allowed to use. */
int box_common_mounts_make_kvm(struct box_common_mounts *common, struct box_err *err);
void box_common_mounts_close(struct box_common_mounts *common);
