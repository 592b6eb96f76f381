/* Which folders of the host a spec may name: an early check of the path as a text.
 *
 * It gives clients the texts of the reference before any work begins. It is not the security boundary: boxd compares
 * opened folders when it mounts one.
 */
#pragma once

#include "base/err.h"

struct box_config;
struct box_spec;

/* 0, or -EPERM with BOX_ERR_VALIDATION naming the member and the path. */
int box_host_path_check(
	const struct box_spec *spec, const struct box_config *config, struct box_err *err);
