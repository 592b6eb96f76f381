/* Which folders of the host a spec may name at all: the early, lexical refusal.
 *
 * It gives clients the reference's texts before anything is begun. It is no wall: whoever mounts a
 * folder compares opened fds.
 */
#pragma once

#include "base/err.h"

struct box_config;
struct box_spec;

/* 0, or -EPERM with BOX_ERR_VALIDATION naming the member and the path. */
int box_host_path_check(
	const struct box_spec *spec, const struct box_config *config, struct box_err *err);
