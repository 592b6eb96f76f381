/* Copies the files of an artifact, and nothing else, each only if it matches the manifest. For main.c. */
#pragma once

#include "base/err.h"

/* `manifest` is an opened file, `target` an empty folder; the caller keeps all three. 0, or negative with
 * err; then what is in the target must be discarded. */
int box_artifact_copy(
	int source, int manifest, int target, const char *digest, struct box_err *err);
