/* --check-config asks boxd what is at the paths of a configuration: box-rpc may not be who can see
 * them. */
#pragma once

#include "base/err.h"
#include "runtime/keeper/proto.h"

struct box_policy;

/* Waits for the answer: there is no loop yet. 0, or negative with err. */
int box_look_at_layout(const struct box_policy *policy, struct box_err *err);
int box_look_at(enum box_keeper_look_kind what, const char *path, struct box_err *err);
