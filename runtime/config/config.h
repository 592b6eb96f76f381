/* The configuration: one map, from --config, LANGBOT_BOX_CONFIG or box_init, checked into a struct.
 *
 * Pure: a map is merged over the present one by top-level key, the whole is checked, and either a new struct is
 * returned or nothing changes. Invalid members are refused by name; config_members.h decides about unknown ones. The
 * caller prefixes the text with the map's origin.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/value.h"

struct box_arena;

#define BOX_CONFIG_MEMORY_MB_MAX (1024 * 1024 * 1024LL) /* a pebibyte */

#define BOX_CONFIG_SEALED 2 /* set by the operator, and part of the policy that boxd seals */

/* The members of `limits`: name, minimum, maximum, default, and whether only the operator may set it, so
 * that a client's map does not change it. A row here is a field of struct box_limits, is read from the
 * file, and is shown in the answer of box_status. boxd holds those that are sealed, until a restart.
 *
 * From max_memory_mb on 0 means "not written": then the limit follows from others (ceilings.h).
 * reserve_memory_mb is memory of the host that no new box may touch. */
#define BOX_CONFIG_LIMITS(LIMIT)                                                            \
	LIMIT(max_sessions, 0, 5000, 64, false)                                             \
	LIMIT(max_managed_processes, 0, 1024, 64, false)                                    \
	LIMIT(max_completed_processes, 0, 10000, 256, false)                                \
	LIMIT(max_admission_records, 1, 250000, 100000, false)                              \
	LIMIT(max_rpc_file_bytes, 1, 100 * BOX_MIB, 20 * BOX_MIB, false)                    \
	LIMIT(max_output_bytes, 4 * BOX_KIB, 15 * BOX_MIB, 8 * BOX_MIB, false)              \
	LIMIT(completed_process_retention_sec, 0, 86400, 300, false)                        \
	LIMIT(max_memory_mb, 32, BOX_CONFIG_MEMORY_MB_MAX, 0, true)                         \
	LIMIT(max_cpus, 1, 4096, 0, true)                                                   \
	LIMIT(max_pids, 1, 4194304, 4096, true)                                             \
	LIMIT(max_timeout_sec, 1, INT32_MAX, 0, true)                                       \
	LIMIT(max_sessions_per_workspace, 1, 5000, 0, true)                                 \
	LIMIT(max_processes_per_workspace, 1, 1024, 0, true)                                \
	LIMIT(max_memory_mb_per_workspace, 32, BOX_CONFIG_MEMORY_MB_MAX, 0, true)           \
	LIMIT(max_promised_memory_mb, 32, BOX_CONFIG_MEMORY_MB_MAX, 0, true)                \
	LIMIT(max_artifact_memory_mb, 1, BOX_CONFIG_MEMORY_MB_MAX, 1024, BOX_CONFIG_SEALED) \
	LIMIT(max_artifact_memory_mb_per_workspace, 1, BOX_CONFIG_MEMORY_MB_MAX, 0,         \
		BOX_CONFIG_SEALED)                                                          \
	LIMIT(reserve_memory_mb, 0, BOX_CONFIG_MEMORY_MB_MAX, 512, BOX_CONFIG_SEALED)

struct box_limits {
#define LIMIT(name, ...) int64_t name;
	BOX_CONFIG_LIMITS(LIMIT)
#undef LIMIT
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

/* Where a map came from, which decides what it may set about mounts. */
enum box_config_origin {
	BOX_CONFIG_OPERATOR, /* --config */
	BOX_CONFIG_PARENT,   /* the process that started this one: LANGBOT_BOX_CONFIG, box_init on
			      * stdio. It sets what may be mounted where the file does not */
	BOX_CONFIG_CLIENT,   /* box_init on any other connection, which can only narrow that */
};

struct box_config {
	struct box_arena *arena;
	struct box_value map; /* the known members merged so far, as received */
	const char *backend;  /* "" if unset: the best that works */
	int64_t session_ttl_sec;
	bool require_context;
	const char *const *allowed_origins; /* NULL-terminated, or NULL */
	bool unauthenticated; /* without a token, everyone who reaches the port is admitted */
	bool metrics_open;    /* everyone may read /metrics */
	struct box_limits limits;
	struct box_admission_policy admission;
	const char *host_root;         /* absolute, or NULL when none is configured */
	const char *default_workspace; /* absolute, or NULL */
	const char *skills_root;       /* absolute: the store; no client can change it */
	/* As the newest map has them, for the workspace that box_init makes; absolute,
	 * NULL-terminated. */
	const char *allowed_mount_roots[BOX_MOUNT_ROOTS_MAX + 1];
	/* What may be mounted, as set by the file or by the process that started this one. Empty:
	 * nothing may be mounted. */
	const char *mount_roots[BOX_MOUNT_ROOTS_MAX + 1];
	bool file_settled; /* set by the file: only the file can change it */
	/* Those of a client, when all of them are absolute: mounts must be in one of these, too. Empty:
	 * not narrowed. */
	const char *narrower_roots[BOX_MOUNT_ROOTS_MAX + 1];
	/* A client's own skill folder, which no box may mount either; or NULL. */
	const char *client_skills;
};

/* The configuration with all defaults. */
struct box_config *box_config_default(void);
void box_config_free(struct box_config *config);
static inline void box_config_free_p(struct box_config **config)
{
	box_config_free(*config);
}

/* Merges `map` over `present` and checks the whole. `working_folder` (absolute) is what relative
 * paths start from. 0 and a new config, or negative with `err` set and nothing made. Texts are the
 * reference's: `box.limits.max_sessions must be an integer` (BOX_ERR_VALUE). Unknown members are
 * ignored. */
int box_config_merge(const struct box_config *present, const struct box_value *map,
	enum box_config_origin origin, const char *working_folder, struct box_config **ret_config,
	struct box_err *err);

/* Whether a map of that origin may have this top-level member; other members are ignored. */
bool box_config_allows(struct box_str name, enum box_config_origin origin);

/* Adds the mount roots of the command line; `more` is absolute, NULL-terminated, or NULL. */
int box_config_add_mount_roots(
	struct box_config *config, const char *const *more, struct box_err *err);

/* Whether a default_workspace that does not exist yet may be made: 0, or -EPERM with
 * BOX_ERR_VALIDATION and the reference's text. */
int box_config_may_make_workspace(const struct box_config *config, struct box_err *err);

/* Makes a path absolute and normalised, as text: no `.`, `..`, `//`; relative ones start at `base`. NULL if it would
 * exceed BOX_PATH_MAX. */
const char *box_config_resolve_path(struct box_arena *arena, const char *base, struct box_str path);
