/* The configuration: one map, from --config, LANGBOT_BOX_CONFIG or box_init, checked into a struct.
 *
 * Pure: a map is merged over the present one by top-level key, the whole is checked, and either a
 * new struct comes out or nothing changes. Unknown members are ignored and named once; wrong ones
 * are refused with the key. Where the map came from is the caller's to say in front of the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/value.h"

struct box_arena;

struct box_limits {
	int64_t max_sessions;
	int64_t max_managed_processes;
	int64_t max_completed_processes;
	int64_t max_admission_records;
	int64_t max_rpc_file_bytes;
	int64_t max_output_bytes;
	int64_t completed_process_retention_sec;
	/* The operator's alone; 0: not written, and then it follows from others (ceilings.h). */
	int64_t max_memory_mb;
	int64_t max_cpus;
	int64_t max_pids;
	int64_t max_timeout_sec;
	int64_t max_sessions_per_workspace;
	int64_t max_processes_per_workspace;
	int64_t max_memory_mb_per_workspace;
	int64_t max_promised_memory_mb;
	int64_t max_artifact_memory_mb;
	int64_t max_artifact_memory_mb_per_workspace;
	int64_t reserve_memory_mb; /* of the host's, which no new box may touch */
};

struct box_admission_policy {
	bool required;
	const char *error; /* why the section is malformed (then required is true), or NULL */
	int64_t max_sessions;
	int64_t max_managed_processes;
	int64_t max_grant_ttl_sec;
	int64_t max_timeout_sec;
	double cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	bool read_only_rootfs;
	int64_t workspace_quota_mb;
	int64_t readiness_cache_sec;
};

/* Where a map came from: it decides what its relative paths mean. */
enum box_config_origin {
	BOX_CONFIG_OPERATOR, /* --config: relative allowed roots are enforced */
	BOX_CONFIG_CLIENT,   /* LANGBOT_BOX_CONFIG, box_init */
};

struct box_config {
	struct box_arena *arena;
	struct box_value map; /* the known members merged so far, as they came */
	const char *backend;  /* "" when unset: the best that works */
	int64_t session_ttl_sec;
	bool require_context;
	const char *const *allowed_origins; /* NULL-terminated, or NULL */
	struct box_limits limits;
	struct box_admission_policy admission;
	const char *host_root;         /* absolute, or NULL when none is configured */
	const char *default_workspace; /* absolute, or NULL */
	const char *skills_root;       /* absolute, or NULL */
	const char *allowed_mount_roots[BOX_MOUNT_ROOTS_MAX + 1]; /* absolute, NULL-terminated */
	/* For mounts: the operator's roots, or a client's when all of them are absolute: what a
	 * client's relative one means is not known here, and the rest of such a list would refuse
	 * what it was to allow. May be empty, which means that none are enforced. */
	const char *enforced_mount_roots[BOX_MOUNT_ROOTS_MAX + 1];
	bool operator_mount_roots; /* those are the operator's: no client's map changes them */
};

/* The configuration with nothing set. */
struct box_config *box_config_default(void);
void box_config_free(struct box_config *config);
static inline void box_config_free_p(struct box_config **config)
{
	box_config_free(*config);
}

/* Merges `map` over `present` and checks the whole. `working_folder` (absolute) is what relative
 * paths start from. 0 and a new config, or negative with `err` set and nothing made. Texts are the
 * reference's: `box.limits.max_sessions must be an integer` (BOX_ERR_VALUE). Each unknown member
 * is appended, as "a.b", to the list value *unknown in its arena. */
int box_config_merge(const struct box_config *present, const struct box_value *map,
	enum box_config_origin origin, const char *working_folder, struct box_arena *unknown_arena,
	struct box_value *unknown, struct box_config **ret_config, struct box_err *err);

/* Whether a map of that origin may have this top-level member; others are ignored. */
bool box_config_takes(struct box_str name, enum box_config_origin origin);

/* Whether a default_workspace that does not exist yet may be made: 0, or -EPERM with
 * BOX_ERR_VALIDATION and the reference's text. */
int box_config_may_make_workspace(const struct box_config *config, struct box_err *err);

/* Lexically absolute and normalised: no `.`, `..`, `//`; relative ones start at `base`. NULL when
 * it would pass BOX_PATH_MAX. */
const char *box_path_resolve(struct box_arena *arena, const char *base, struct box_str path);
