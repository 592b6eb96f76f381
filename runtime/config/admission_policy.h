/* The `admission` section of the configuration. */
#pragma once

#include "runtime/config/config.h"

/* No section at all. */
struct box_admission_policy box_admission_policy_default(void);

/* The policy of a section (NULL or null: none) that follows on `present`. Never fails: a malformed
 * section is a required policy with an error, and one that is required stays so. */
struct box_admission_policy box_admission_policy_read(struct box_arena *arena,
	const struct box_value *section, const struct box_admission_policy *present);

/* Whether the operator's own section (NULL or null: none) could be read: 0, or -EINVAL with
 * BOX_ERR_VALUE and a text that begins with its member. */
int box_admission_policy_check(const struct box_value *section, struct box_err *err);
