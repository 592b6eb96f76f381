/* Readers for the members of a spec that are lists and maps; rows of kind BOX_FIELD_OTHER. */
#pragma once

#include "runtime/spec/fields.h"
#include "runtime/spec/spec.h"

#define BOX_SPEC_MODE_EXPECTED "'none', 'ro' or 'rw'"
#define BOX_SPEC_HOST_PATH_BROKEN "host_path must be an absolute host path"
#define BOX_SPEC_MOUNT_PATH_BROKEN "mount_path must be an absolute path inside the sandbox"

struct box_env_list {
	struct box_env *items;
	size_t count;
};

struct box_arg_list {
	const char **items; /* NULL-terminated, or NULL if not given */
	size_t count;
};

struct box_mount_list {
	struct box_mount *items;
	size_t count;
};

/* By enum box_mount_mode, NULL-terminated. */
extern const char *const box_spec_lists_mount_modes[];

/* Read into struct box_env_list, box_arg_list, box_mount_list. */
int box_spec_lists_read_env(
	const struct box_fields *fields, const struct box_value *value, void *member);
int box_spec_lists_read_args(
	const struct box_fields *fields, const struct box_value *value, void *member);
int box_spec_lists_read_mounts(
	const struct box_fields *fields, const struct box_value *value, void *member);
/* The same for a session's volumes: no artifacts, and not many. */
int box_spec_lists_read_volumes(
	const struct box_fields *fields, const struct box_value *value, void *member);

/* The mounts of a command: the volumes, except those that a mount of its own replaces, and its own mounts. */
struct box_mount_list box_spec_lists_join_mounts(struct box_arena *arena,
	const struct box_mount_list *volumes, const struct box_mount_list *mounts);

/* Whether two lists are equal; and a list as text. */
bool box_spec_lists_same_volumes(const struct box_spec *a, const struct box_spec *b);
const char *box_spec_lists_volumes_text(struct box_arena *arena, const struct box_spec *spec);
/* A deep copy. */
struct box_mount *box_spec_lists_copy_volumes(struct box_arena *arena, const struct box_spec *spec);
