/* Reads the settings that decide how strong boxes are, which only the operator's own file may set. */
#include "runtime/config/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "runtime/runtime.h"
#include "runtime/spec/fields.h"

static const struct box_value *local_of(const struct box_value *file)
{
	const struct box_value *local = file ? box_map_get(file, "local") : NULL;
	return local && local->type == BOX_MAP ? local : NULL;
}

/* A text member, NUL-terminated in the arena; NULL when it is not set. */
static int read_text(struct box_arena *arena, const struct box_value *local, const char *name,
	const char **ret_text, struct box_err *err)
{
	const struct box_value *value = local ? box_map_get(local, name) : NULL;
	*ret_text = NULL;
	if (!value || value->type == BOX_NULL) {
		return 0;
	}
	if (value->type != BOX_STR || box_str_has_nul(value->str)) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.local.%s must be a string", name);
	}
	struct box_str text = box_str_strip(value->str);
	*ret_text = text.len > 0 ? box_arena_strndup(arena, text.bytes, text.len) : NULL;
	return 0;
}

static int read_rootfs(struct box_arena *arena, const char *working_folder,
	const struct box_value *local, struct box_policy *policy, struct box_err *err)
{
	const char *text = NULL;
	int r = read_text(arena, local, "rootfs", &text, err);
	if (r < 0 || !text) {
		return r;
	}
	const char *path = box_config_resolve_path(arena, working_folder, box_str(text));
	if (!path || strcmp(path, "/") == 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.local.rootfs is not a usable path");
	}
	(void)snprintf(policy->rootfs, sizeof(policy->rootfs), "%s", path);
	return 0;
}

static int read_profile(struct box_arena *arena, const struct box_value *local,
	struct box_policy *policy, struct box_err *err)
{
	const char *text = NULL;
	int r = read_text(arena, local, "seccomp", &text, err);
	if (r < 0 || !text) {
		return r;
	}
	int profile = box_filter_find(text);
	if (profile < 0) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.local.seccomp must be \"default\" or \"strict\"");
	}
	policy->profile = (uint32_t)profile;
	return 0;
}

static int read_degraded(
	const struct box_value *local, struct box_policy *policy, struct box_err *err)
{
	const struct box_value *value = local ? box_map_get(local, "degraded") : NULL;
	bool degraded = false;
	if (value && value->type != BOX_NULL && box_fields_to_bool(value, &degraded)) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.local.degraded must be a boolean");
	}
	policy->degraded = degraded;
	return 0;
}

/* Names appear in logs and on command lines, and must not look like a path. */
static bool is_image_name(struct box_str name)
{
	bool good = name.len > 0 && name.len <= BOX_IMAGE_NAME_MAX && name.bytes[0] != '/' &&
		name.bytes[0] != '.';
	for (size_t i = 0; good && i < name.len; i++) {
		good = name.bytes[i] > ' ' && name.bytes[i] < 0x7f;
	}
	return good;
}

static int read_image(struct box_arena *arena, const char *working_folder,
	const struct box_pair *pair, struct box_policy_image *image, struct box_err *err)
{
	const char *shown = box_fields_echo(arena, pair->key);
	if (!is_image_name(pair->key)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.images: \"%s\" is not a valid image name: up to %d visible ASCII "
			"characters, the first neither / nor .",
			shown, BOX_IMAGE_NAME_MAX);
	}
	const char *path = pair->value.type == BOX_STR && pair->value.str.len > 0
		? box_config_resolve_path(arena, working_folder, pair->value.str)
		: NULL;
	if (!path || strcmp(path, "/") == 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.images.%s is not a usable path", shown);
	}
	(void)snprintf(
		image->name, sizeof(image->name), "%.*s", (int)pair->key.len, pair->key.bytes);
	(void)snprintf(image->path, sizeof(image->path), "%s", path);
	return 0;
}

static int read_images(struct box_arena *arena, const char *working_folder,
	const struct box_value *file, struct box_policy *policy, struct box_err *err)
{
	const struct box_value *images = file ? box_map_get(file, "images") : NULL;
	int r = 0;
	if (!images || images->type == BOX_NULL) {
		return 0;
	}
	if (images->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.images must be an object of names and paths");
	}
	if (images->count > BOX_IMAGES_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.images must have at most %d members", BOX_IMAGES_MAX);
	}
	for (uint32_t i = 0; r == 0 && i < images->count; i++) {
		r = read_image(arena, working_folder, &images->pairs[i], &policy->images[i], err);
		policy->image_count += r == 0;
	}
	return r;
}

static int read_file(struct box_arena *arena, const struct box_value *file,
	const char *working_folder, struct box_policy *policy, struct box_err *err)
{
	const struct box_value *local = local_of(file);
	int r = read_rootfs(arena, working_folder, local, policy, err);
	if (r < 0) {
		return r;
	}
	r = read_profile(arena, local, policy, err);
	if (r < 0) {
		return r;
	}
	r = read_images(arena, working_folder, file, policy, err);
	if (r < 0) {
		return r;
	}
	return read_degraded(local, policy, err);
}

/* --- the layout of folders --- */

static bool is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* A mount root "/" contains every tree: then each mount is checked by itself. */
static int check_tree(const char *name, const char *path, const char *const *roots,
	struct box_arena *arena, struct box_err *err)
{
	for (; *roots; roots++) {
		const char *root = *roots;
		bool below = is_in(path, root);
		if (strcmp(root, "/") == 0 || (!below && !is_in(root, path))) {
			continue;
		}
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.%s: %s %s the mount root %s, so that boxes could change it: move it "
			"out of there, or have other local.allowed_mount_roots (host_root by "
			"default)",
			name, box_fields_echo(arena, box_str(path)), below ? "is in" : "contains",
			box_fields_echo(arena, box_str(root)));
	}
	return 0;
}

/* The skill store may be in a mount root, since boxes mount packages of it; but with a mount root inside the store
 * all mounts would be refused. */
static int check_store(
	const struct box_config *config, struct box_arena *arena, struct box_err *err)
{
	for (const char *const *root = config->mount_roots; *root; root++) {
		if (strcmp(*root, "/") != 0 && is_in(*root, config->skills_root)) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.local.skills_root: %s contains the mount root %s, so that "
				"nothing could be mounted: have another skills_root",
				box_fields_echo(arena, box_str(config->skills_root)),
				box_fields_echo(arena, box_str(*root)));
		}
	}
	return 0;
}

/* Compares the paths as texts, so that the error can name the wrong member; boxd checks the folders that they lead
 * to. */
static int check_layout(const struct box_policy *policy, const struct box_config *config,
	struct box_arena *arena, struct box_err *err)
{
	const char *const *roots = config->mount_roots;
	int r = policy->rootfs[0] ? check_tree("local.rootfs", policy->rootfs, roots, arena, err)
				  : 0;
	for (uint32_t i = 0; r == 0 && i < policy->image_count; i++) {
		const struct box_policy_image *image = &policy->images[i];
		r = check_tree(box_arena_printf(arena, "images.%s", image->name), image->path,
			roots, arena, err);
	}
	if (r < 0) {
		return r;
	}
	return check_store(config, arena, err);
}

/* --- the whole policy --- */

int box_policy_check(const struct box_value *file, const struct box_config *config,
	const char *working_folder, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_policy *policy = box_arena_alloc(arena, sizeof(*policy));
	int r = read_file(arena, file, working_folder, policy, err);
	if (r < 0) {
		return r;
	}
	return check_layout(policy, config, arena, err);
}

static void fill_roots(struct box_policy_roots *roots, const char *const *paths)
{
	for (size_t i = 0; paths[i] && i < BOX_MOUNT_ROOTS_MAX; i++) {
		(void)snprintf(roots->paths[i], sizeof(roots->paths[i]), "%s", paths[i]);
		roots->count++;
	}
}

static void fill_memory(const struct box_runtime *runtime, struct box_policy *policy)
{
	const struct box_limits *limits = &runtime->config->limits;
	int64_t share_mb = runtime->session_rules.ceilings.workspace_artifact_mb;
	policy->artifact_bytes = (uint64_t)limits->max_artifact_memory_mb * BOX_MIB;
	policy->artifact_share_bytes = (uint64_t)share_mb * BOX_MIB;
	policy->reserve_bytes = (uint64_t)limits->reserve_memory_mb * BOX_MIB;
}

static void fill_path(char out[BOX_PATH_MAX], const char *path)
{
	(void)snprintf(out, BOX_PATH_MAX, "%s", path ? path : "");
}

int box_policy_read(const struct box_runtime *runtime, const struct box_config *config,
	struct box_policy *ret_policy, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_policy *policy = box_arena_alloc(arena, sizeof(*policy));
	const struct box_runtime_layer *file = &runtime->layers[BOX_RUNTIME_LAYER_FILE];
	fill_roots(&policy->roots, config->mount_roots);
	fill_roots(&policy->narrower, config->narrower_roots);
	fill_path(policy->skills_root, config->skills_root);
	fill_path(policy->client_skills, config->client_skills);
	fill_memory(runtime, policy);
	int r = read_file(
		arena, file->arena ? &file->map : NULL, runtime->setup.working_folder, policy, err);
	if (r < 0) {
		return r;
	}
	r = check_layout(policy, config, arena, err);
	if (r < 0) {
		return r;
	}
	*ret_policy = *policy;
	return 0;
}
