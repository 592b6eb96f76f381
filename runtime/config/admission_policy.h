/* The `admission` section of the configuration. */
#pragma once

#include "runtime/config/config.h"

/* Sets the policy for a configuration without the section. */
struct box_admission_policy box_admission_policy_default(void);

/* The policy of a section (NULL or null: none) that replaces `present`. Never fails: a malformed section becomes a
 * required policy with an error, and a required policy stays required. */
struct box_admission_policy box_admission_policy_read(struct box_arena *arena,
	const struct box_value *section, const struct box_admission_policy *present);

/* Whether the operator's own section (NULL or null: none) is valid: 0, or -EINVAL with BOX_ERR_VALUE and a text
 * that begins with its member. */
int box_admission_policy_check(const struct box_value *section, struct box_err *err);
