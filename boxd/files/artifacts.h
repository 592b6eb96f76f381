/* Artifacts: trees of files named by a digest of their content, which boxes can mount read-only.
 *
 * Each tree is a small file system that only boxd can reach: box-skills fills it from a folder of the
 * host and checks every file against the manifest; after that nobody can change it. A box gets a clone
 * of the mount. A tree that is dropped here lives on in the boxes that have it, and counts for them
 * until they end. Owned by rpc/serve.c.
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

/* The answer: a detached mount that the callee owns, or an error and -1. May be called from inside
 * box_artifacts_open. */
typedef void box_artifacts_done(void *arg, uint32_t id, int mount, const struct box_err *err);

/* `program` is the path of box-skills; all arguments must outlive it. */
struct box_artifacts *box_artifacts_new(struct box_jobs *jobs, const char *program,
	const struct box_identity *ids, const struct box_policy *policy,
	struct box_mount_roots *mount_roots, box_artifacts_done *done, void *arg);
void box_artifacts_free(struct box_artifacts *artifacts);

/* Where the file systems are attached: an O_PATH fd of an empty folder that only boxd sees; -1 until
 * there is one. */
void box_artifacts_set_folder(struct box_artifacts *artifacts, int folder);

/* Requests a tree for a box of this tenant. The source is checked even if the tree exists already. */
void box_artifacts_open(struct box_artifacts *artifacts, const char *tenant,
	const struct box_boxd_open_artifact *wanted);

/* The memory of all trees, including what is reserved for fills. */
uint64_t box_artifacts_bytes(const struct box_artifacts *artifacts);

/* A box has ended. */
void box_artifacts_release_box(struct box_artifacts *artifacts, uint64_t box);
/* box-rpc is gone: its requests get no answers. */
void box_artifacts_drop_requests(struct box_artifacts *artifacts);
