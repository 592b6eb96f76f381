/* The operator's policy for boxes, from the configuration before any client connects. */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

struct box_config;
struct box_runtime;
struct box_value;

/* Mount roots and the skill store come from the configuration; rootfs, seccomp and degraded from the `local` section,
 * and `images`, only from the operator's own file. 0, or -EINVAL with BOX_ERR_VALUE, also if rootfs or an image is
 * inside a mount root. The struct is large: use a static one. */
int box_policy_read(const struct box_runtime *runtime, const struct box_config *config,
	struct box_policy *ret_policy, struct box_err *err);

/* Whether such a file (NULL: none) is valid with this configuration: like box_policy_read. */
int box_policy_check(const struct box_value *file, const struct box_config *config,
	const char *working_folder, struct box_err *err);
