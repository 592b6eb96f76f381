/* Copies the files of an artifact, and nothing else, each only if it is what the manifest says. */
#pragma once

#include "base/err.h"

/* `manifest` is an opened file, `target` an empty folder; all three stay the caller's. 0, or negative
 * with err; then what is in the target is worth nothing. */
int box_artifact_copy(
	int source, int manifest, int target, const char *digest, struct box_err *err);
