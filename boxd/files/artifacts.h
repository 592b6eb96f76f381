/* Trees of files that are named by what is in them, for boxes to read.
 *
 * Each is a small file system of its own that only boxd sees: box-skills fills it from a folder of the
 * host, checking every file against the manifest, and then nobody can change it any more. A box gets
 * a clone of the mount; what is dropped here lives on in the boxes that have it, and counts for them
 * until they end.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "boxd/identity.h"
#include "protocol/boxd.h"

struct box_artifacts;
struct box_jobs;
struct box_mount_roots;
struct box_policy;

/* The answer: a detached mount that is the callee's, or an error and -1. May come from inside the call
 * that asked. */
typedef void box_artifacts_done(void *arg, uint32_t id, int mount, const struct box_err *err);

/* `program` is the path of box-skills; all of these outlive it. */
struct box_artifacts *box_artifacts_new(struct box_jobs *errands, const char *program,
	const struct box_identity *ids, const struct box_policy *policy,
	struct box_mount_roots *mount_roots, box_artifacts_done *done, void *arg);
void box_artifacts_free(struct box_artifacts *artifacts);

/* Where the file systems are hung: an O_PATH fd of an empty folder that only we see, -1 while there is
 * none. */
void box_artifacts_set_folder(struct box_artifacts *artifacts, int folder);

/* One for a box of this tenant. The source is looked at also when the tree is there already. */
void box_artifacts_open(struct box_artifacts *artifacts, const char *tenant,
	const struct box_boxd_open_artifact *wanted);

/* The memory of all of them, with what is set aside for those that are being filled. */
uint64_t box_artifacts_bytes(const struct box_artifacts *artifacts);

/* A box is no more. */
void box_artifacts_release_box(struct box_artifacts *artifacts, uint64_t box);
/* Whoever asked is gone: nothing of it is answered. */
void box_artifacts_drop_requests(struct box_artifacts *artifacts);
