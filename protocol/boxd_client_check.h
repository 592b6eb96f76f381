/* For --check-config: asks boxd what is at the paths of a configuration, which box-rpc itself may not
 * be able to see. */
#pragma once

#include "base/err.h"
#include "protocol/boxd.h"

struct box_policy;

/* Waits for the answer, since there is no event loop yet. 0, or negative with err. */
int box_boxd_client_check_layout(const struct box_policy *policy, struct box_err *err);
int box_boxd_client_check_path(
	enum box_boxd_check_kind what, const char *path, struct box_err *err);
