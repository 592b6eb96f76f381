/* The operator's policy for boxes, out of the configuration that was there before any client. */
#pragma once

#include "base/err.h"
#include "runtime/plan/plan.h"

struct box_runtime;
struct box_value;

/* Mount roots as they are enforced now, also as the narrower ones; rootfs, seccomp and degraded
 * from the `local` section and `images` of the operator's own file alone. 0, or -EINVAL with
 * BOX_ERR_VALUE. Big: let it be static. */
int box_policy_read(
	const struct box_runtime *runtime, struct box_policy *ret_policy, struct box_err *err);

/* Whether such a file could be read: 0, or as box_policy_read. */
int box_policy_check(const struct box_value *file, const char *working_folder, struct box_err *err);
