/* The members that profiles and specs share, for profile.c and profile_apply.c. */
#pragma once

#include "runtime/spec/fields.h"

enum {
	BOX_PROFILE_IMAGE,
	BOX_PROFILE_NETWORK,
	BOX_PROFILE_TIMEOUT_SEC,
	BOX_PROFILE_HOST_PATH_MODE,
	BOX_PROFILE_CPUS,
	BOX_PROFILE_MEMORY_MB,
	BOX_PROFILE_PIDS_LIMIT,
	BOX_PROFILE_READ_ONLY_ROOTFS,
	BOX_PROFILE_WORKSPACE_QUOTA_MB,
	BOX_PROFILE_FIELDS
};

extern const struct box_field box_profile_fields[BOX_PROFILE_FIELDS];
