/* What the service reads from LangBot's `box` map. Pure: paths are handled as text. For service.c. */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "base/value.h"
#include "client/service/profile.h"

struct box_arena;

struct box_service_config {
	bool enabled;
	const char *endpoint; /* runtime.endpoint, or NULL */
	struct box_profile_set profiles;
	const struct box_profile *profile; /* from local.profile */
	struct box_value defaults; /* the operator's, for specs: image, workspace_quota_mb */
	const char *host_root;     /* absolute, or NULL, like the next */
	const char *default_workspace;
	const char *mount_roots[BOX_MOUNT_ROOTS_MAX + 1]; /* NULL-terminated */
	uint64_t entries_max;
	size_t output_chars;
	const char *session_template;
	const char *forced_session_template; /* or NULL */
	struct box_value init;               /* for box_init: the map without `runtime` */
};

/* `map` is that section, or LangBot's whole configuration with `box` and `system` in it; NULL: all defaults.
 * Relative paths start at working_folder. -EINVAL with the reason (BOX_ERR_VALIDATION, or BOX_ERR_VALUE for
 * what the runtime would refuse too). */
int box_service_config_read(struct box_arena *arena, const struct box_value *map,
	const char *working_folder, struct box_service_config *ret_config, struct box_err *err);
