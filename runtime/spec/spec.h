/* The box spec and the process spec that a client sends, checked and typed.
 *
 * Pure. Takes the value tree of either client generation, accepts the forms that the reference
 * accepts (numeric strings, whole floats, words for booleans), and refuses with its texts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "plan/egress.h"

struct box_arena;

#define BOX_DEFAULT_IMAGE "rockchin/langbot-sandbox:latest"
#define BOX_DEFAULT_MOUNT_PATH "/workspace"
#define BOX_ARTIFACT_ROOT "/opt/langbot-artifacts"

enum box_mount_mode {
	BOX_MOUNT_NONE,
	BOX_MOUNT_RO,
	BOX_MOUNT_RW,
};

struct box_mount {
	const char *host_path;
	const char *mount_path;
	const char *content_digest; /* "sha256:HEX" or NULL */
	const char *manifest_path;  /* or NULL */
	enum box_mount_mode mode;
	bool in_store; /* host_path is relative to the skill store; no client sets this */
	char namespace
		[BOX_TENANT_SIZE]; /* namespace of its tenant, whose skill packages may be mounted */
};

/* Whether it is an artifact: a tree named by its digest. */
static inline bool box_spec_mount_is_artifact(const struct box_mount *mount)
{
	return mount->content_digest && mount->manifest_path;
}

struct box_env {
	const char *name;
	const char *value;
};

/* Strings are NUL-terminated, in the arena given to the parser; cmd points into the data. */
struct box_spec {
	const char *session_id; /* stripped, as the client spelled it */
	struct box_str cmd;     /* stripped; may be megabytes; holds no NUL */
	const char *workdir;
	int64_t timeout_sec;
	bool network_on;
	struct box_env *env;
	size_t env_count;
	const char *image;
	const char *host_path; /* or NULL */
	enum box_mount_mode host_path_mode;
	const char *mount_path;
	struct box_mount *mounts; /* without mode "none"; for each mount_path only the last */
	size_t mount_count;
	const char *skill_name; /* or NULL */
	bool persistent;
	double cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	bool read_only_rootfs;
	int64_t workspace_quota_mb;
	struct box_egress *egress; /* or NULL: everything that boxes may reach */
	/* Of the session: each is also in the `mounts` of every command. */
	struct box_mount *volumes;
	size_t volume_count;
	int64_t idle_timeout_sec; /* 0: the runtime's default */
	int64_t max_duration_sec; /* 0: none */
};

/* 0, or -EINVAL with BOX_ERR_VALIDATION. Whether cmd is empty is checked by exec. */
int box_spec_parse(struct box_arena *arena, const struct box_value *data, struct box_spec *ret_spec,
	struct box_err *err);

/* The first member in which two specs of one session conflict, in the reference's order, with the present value as
 * text in the arena: "memory_mb", "512". NULL if they agree. */
const char *box_spec_conflict(struct box_arena *arena, const struct box_spec *present,
	const struct box_spec *asked, const char **ret_value);

/* Sets the namespace of its mounts, the prefix of every physical id. */
void box_spec_set_owner(struct box_spec *spec, const char *physical_id);

/* A deep copy into another arena, without cmd, env and mounts, which belong to one exec. The volumes stay. */
struct box_spec box_spec_copy_session(struct box_arena *arena, const struct box_spec *spec);

const char *box_spec_mount_mode_name(enum box_mount_mode mode);

struct box_process_spec {
	const char *process_id;
	const char *command;
	const char **args; /* NULL-terminated */
	size_t arg_count;
	struct box_env *env;
	size_t env_count;
	const char *cwd;
	int64_t memory_mb;
	int64_t log_bytes; /* 0: no log, its output waits for a reader */
	/* The volumes of its session; no client sets this. */
	const struct box_mount *mounts;
	size_t mount_count;
};

int box_spec_parse_process(struct box_arena *arena, const struct box_value *data,
	struct box_process_spec *ret_spec, struct box_err *err);
