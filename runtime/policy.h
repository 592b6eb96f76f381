/* The operator's policy for boxes, out of the configuration that was there before any client. */
#pragma once

#include "base/err.h"
#include "runtime/plan/plan.h"

struct box_runtime;

/* Mount roots as they are enforced now; rootfs, seccomp and degraded from the `local` section of
 * the operator's own file alone. 0, or -EINVAL with BOX_ERR_VALUE. Big: let it be static. */
int box_policy_read(
	const struct box_runtime *runtime, struct box_policy *ret_policy, struct box_err *err);
