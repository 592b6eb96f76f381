/* The paths of the configuration, resolved as text.
 *
 * Nothing is opened: boxd checks what a path really leads to when it opens it. `~` is not expanded, because the home
 * folder of a daemon is rarely the intended one.
 */
#include "runtime/config/config_paths.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "runtime/spec/fields.h"

/* The default host_root of mounts and of the skill store: LangBot's own. */
#define DEFAULT_HOST_ROOT "data/box"

/* Appends the components of a path to the normalised one in `out`; false if it gets too long. */
static bool append_components(char *out, size_t *len, struct box_str path)
{
	const char *p = path.bytes;
	const char *end = p + path.len;
	while (p < end) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		const char *stop = slash ? slash : end;
		size_t size = (size_t)(stop - p);
		if (size == 2 && p[0] == '.' && p[1] == '.') {
			while (*len > 0 && out[--*len] != '/') {
			}
		} else if (size > 0 && !(size == 1 && p[0] == '.')) {
			if (*len + 1 + size >= BOX_PATH_MAX) {
				return false;
			}
			out[(*len)++] = '/';
			memcpy(out + *len, p, size);
			*len += size;
		}
		p = slash ? slash + 1 : end;
	}
	return true;
}

const char *box_config_resolve_path(struct box_arena *arena, const char *base, struct box_str path)
{
	char out[BOX_PATH_MAX];
	size_t len = 0;
	bool absolute = path.len > 0 && path.bytes[0] == '/';
	/* A NUL would end the path early for everyone who uses it. */
	if (box_str_has_nul(path)) {
		return NULL;
	}
	if (!absolute && base && !append_components(out, &len, box_str(base))) {
		return NULL;
	}
	if (!append_components(out, &len, path)) {
		return NULL;
	}
	return len == 0 ? "/" : box_arena_strndup(arena, out, len);
}

static int add_item(struct box_arena *arena, const char *name, struct box_str item,
	struct box_value *list, struct box_err *err)
{
	if (box_str_has_nul(item)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s must not contain NUL", name);
	}
	item = box_str_strip(item);
	if (item.len > 0) {
		box_list_add(arena, list, box_text(item));
	}
	return 0;
}

int box_config_paths_read_list(struct box_arena *arena, const char *name,
	const struct box_value *value, struct box_value *ret_list, struct box_err *err)
{
	struct box_value list = box_list_value();
	int result = 0;
	if (value->type == BOX_STR) {
		struct box_str rest = value->str;
		while (result == 0 && rest.len > 0) {
			const char *comma = memchr(rest.bytes, ',', rest.len);
			size_t len = comma ? (size_t)(comma - rest.bytes) : rest.len;
			result = add_item(
				arena, name, (struct box_str){rest.bytes, len}, &list, err);
			size_t taken = comma ? len + 1 : len;
			rest = (struct box_str){rest.bytes + taken, rest.len - taken};
		}
	} else if (value->type == BOX_LIST) {
		for (uint32_t i = 0; result == 0 && i < value->count; i++) {
			const struct box_value *item = &value->items[i];
			if (item->type == BOX_STR) {
				result = add_item(arena, name, item->str, &list, err);
			} else if (item->type != BOX_NULL) {
				result = box_err_set(err, BOX_ERR_VALUE, EINVAL,
					"%s must be a list of strings", name);
			}
		}
	} else if (value->type != BOX_NULL) {
		result = box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "%s must be a list of strings", name);
	}
	if (result == 0) {
		*ret_list = list;
	}
	return result;
}

/* A text member of `local` without white space at its ends; empty if it is not set. */
static int read_text(const struct box_value *local, const char *name, struct box_str *ret_text,
	struct box_err *err)
{
	const struct box_value *value = box_map_get(local, name);
	struct box_str text = {"", 0};
	if (value && value->type != BOX_NULL) {
		if (value->type != BOX_STR) {
			return box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "box.local.%s must be a string", name);
		}
		text = box_str_strip(value->str);
	}
	*ret_text = text;
	return 0;
}

static const char *copied(struct box_arena *arena, const char *text)
{
	return text ? box_arena_strndup(arena, text, strlen(text)) : NULL;
}

static int resolve(struct box_arena *arena, const char *name, const char *base, struct box_str path,
	const char **ret_path, struct box_err *err)
{
	const char *resolved = box_config_resolve_path(arena, base, path);
	if (!resolved) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "box.local.%s is not a usable path", name);
	}
	*ret_path = resolved;
	return 0;
}

static int read_host_root(struct box_config *config, const struct box_value *local,
	const char *working_folder, struct box_err *err)
{
	struct box_str text = {"", 0};
	int result = read_text(local, "host_root", &text, err);
	if (result < 0 || text.len == 0) {
		return result;
	}
	return resolve(config->arena, "host_root", working_folder, text, &config->host_root, err);
}

static int read_default_workspace(struct box_config *config, const struct box_value *local,
	const char *working_folder, struct box_err *err)
{
	struct box_str text = {"", 0};
	int result = read_text(local, "default_workspace", &text, err);
	if (result < 0 || (text.len == 0 && !config->host_root)) {
		return result;
	}
	return resolve(config->arena, "default_workspace",
		config->host_root ? config->host_root : working_folder,
		text.len > 0 ? text : box_str("default"), &config->default_workspace, err);
}

/* The skill store, and the skill folder of a client. Only the file, or the process that started this one, sets where
 * the store is: boxd makes that folder and gives it to box-skills. */
static int read_skills_root(const struct box_config *config, const struct box_value *local,
	const char *working_folder, const char **ret_root, struct box_err *err)
{
	struct box_str text = {"", 0};
	const char *base = config->host_root;
	int result = read_text(local, "skills_root", &text, err);
	if (result == 0 && !base) {
		result = resolve(config->arena, "skills_root", working_folder,
			box_str(DEFAULT_HOST_ROOT), &base, err);
	}
	if (result < 0) {
		return result;
	}
	return resolve(config->arena, "skills_root", base, text.len > 0 ? text : box_str("skills"),
		ret_root, err);
}

static bool is_set(const struct box_value *local, const char *name)
{
	const struct box_value *value = local ? box_map_get(local, name) : NULL;
	return value && value->type != BOX_NULL &&
		(value->type != BOX_STR || box_str_strip(value->str).len > 0);
}

static void copy_roots(
	struct box_arena *arena, const char *const *from, const char *to[BOX_MOUNT_ROOTS_MAX + 1])
{
	for (size_t i = 0; i <= BOX_MOUNT_ROOTS_MAX; i++) {
		to[i] = from[i] ? box_arena_strndup(arena, from[i], strlen(from[i])) : NULL;
	}
}

/* Reads the list into allowed_mount_roots. */
static int read_list(struct box_config *config, const struct box_value *local,
	const struct box_config_paths *paths, bool *ret_all_absolute, struct box_err *err)
{
	const struct box_value *value = box_map_get(local, "allowed_mount_roots");
	struct box_value items = box_list_value();
	int result = value ? box_config_paths_read_list(config->arena,
				     "box.local.allowed_mount_roots", value, &items, err)
			   : 0;
	if (result < 0) {
		return result;
	}
	if (items.count > BOX_MOUNT_ROOTS_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"box.local.allowed_mount_roots must have at most %d entries",
			BOX_MOUNT_ROOTS_MAX);
	}
	*ret_all_absolute = true;
	for (uint32_t i = 0; i < items.count; i++) {
		struct box_str root = items.items[i].str;
		result = resolve(config->arena, "allowed_mount_roots", paths->working_folder, root,
			&config->allowed_mount_roots[i], err);
		if (result < 0) {
			return result;
		}
		*ret_all_absolute = *ret_all_absolute && root.bytes[0] == '/';
	}
	return 0;
}

/* What the file, or the process that started this one, sets about mounts. An empty list in the file means no mounts;
 * in a client's configuration it means the client's host_root, as in the reference. */
static int settle(struct box_config *config, const struct box_value *local,
	const struct box_config_paths *paths, struct box_err *err)
{
	bool file = paths->origin == BOX_CONFIG_OPERATOR;
	bool listed = config->allowed_mount_roots[0] ||
		(file && is_set(local, "allowed_mount_roots"));
	int result = read_skills_root(
		config, local, paths->working_folder, &config->skills_root, err);
	if (result < 0) {
		return result;
	}
	if (listed) {
		copy_roots(config->arena, config->allowed_mount_roots, config->mount_roots);
	} else if (config->host_root) {
		config->mount_roots[0] = config->host_root;
	} else {
		result = resolve(config->arena, "host_root", paths->working_folder,
			box_str(DEFAULT_HOST_ROOT), &config->mount_roots[0], err);
	}
	config->file_settled = file &&
		(is_set(local, "host_root") || is_set(local, "skills_root") ||
			is_set(local, "allowed_mount_roots"));
	return result;
}

/* The defaults, before anyone has set anything. */
static int settle_default(
	struct box_config *config, const struct box_config_paths *paths, struct box_err *err)
{
	int result = resolve(config->arena, "host_root", paths->working_folder,
		box_str(DEFAULT_HOST_ROOT), &config->mount_roots[0], err);
	return result < 0 ? result
			  : resolve(config->arena, "skills_root", config->mount_roots[0],
				    box_str("skills"), &config->skills_root, err);
}

/* A client can only narrow the mounts. Relative roots have no known meaning here; ignoring only those would leave a
 * list that refuses what it was to allow, so the whole list is ignored. */
static int narrow(struct box_config *config, const struct box_value *local,
	const struct box_config_paths *paths, bool all_absolute, struct box_err *err)
{
	struct box_str host_root = {"", 0};
	if (all_absolute) {
		copy_roots(config->arena, config->allowed_mount_roots, config->narrower_roots);
	}
	int result = read_text(local, "host_root", &host_root, err);
	return result < 0 || host_root.len == 0 || host_root.bytes[0] != '/'
		? result
		: read_skills_root(
			  config, local, paths->working_folder, &config->client_skills, err);
}

static void keep_settled(struct box_config *config, const struct box_config *present)
{
	copy_roots(config->arena, present->mount_roots, config->mount_roots);
	config->skills_root = copied(config->arena, present->skills_root);
	config->file_settled = present->file_settled;
}

static void keep_narrowed(struct box_config *config, const struct box_config *present)
{
	copy_roots(config->arena, present->narrower_roots, config->narrower_roots);
	config->client_skills = copied(config->arena, present->client_skills);
}

static int read_mount_roots(struct box_config *config, const struct box_config *present,
	const struct box_value *local, const struct box_config_paths *paths, struct box_err *err)
{
	bool all_absolute = true;
	bool settles = paths->origin == BOX_CONFIG_OPERATOR ||
		(paths->origin == BOX_CONFIG_PARENT && paths->local_is_new &&
			!present->file_settled);
	bool narrows = !settles && paths->local_is_new;
	int result = read_list(config, local, paths, &all_absolute, err);
	if (result == 0 && settles) {
		result = settle(config, local, paths, err);
	} else if (result == 0 && !present->skills_root) {
		result = settle_default(config, paths, err);
	} else {
		keep_settled(config, present);
	}
	if (result == 0 && narrows) {
		result = narrow(config, local, paths, all_absolute, err);
	} else {
		keep_narrowed(config, present);
	}
	/* For the workspace that box_init makes. */
	if (result == 0 && !config->allowed_mount_roots[0]) {
		config->allowed_mount_roots[0] = config->host_root;
	}
	return result;
}

int box_config_add_mount_roots(
	struct box_config *config, const char *const *more, struct box_err *err)
{
	size_t count = 0;
	while (config->mount_roots[count]) {
		count++;
	}
	for (; more && *more; more++) {
		bool known = false;
		for (size_t i = 0; i < count; i++) {
			known = known || strcmp(config->mount_roots[i], *more) == 0;
		}
		if (known) {
			continue;
		}
		if (count == BOX_MOUNT_ROOTS_MAX) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"box.local.allowed_mount_roots and --mount-root must have at most "
				"%d entries together",
				BOX_MOUNT_ROOTS_MAX);
		}
		config->mount_roots[count++] = copied(config->arena, *more);
	}
	return 0;
}

int box_config_paths_read(struct box_config *config, const struct box_config *present,
	const struct box_value *local, const struct box_config_paths *paths, struct box_err *err)
{
	int result = read_host_root(config, local, paths->working_folder, err);
	if (result == 0) {
		result = read_default_workspace(config, local, paths->working_folder, err);
	}
	return result < 0 ? result : read_mount_roots(config, present, local, paths, err);
}

static bool is_inside(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
	return strncmp(path, root, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

int box_config_may_make_workspace(const struct box_config *config, struct box_err *err)
{
	if (!config->default_workspace) {
		return 0;
	}
	if (!config->allowed_mount_roots[0]) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"box.local.default_workspace cannot be created because no "
			"allowed_mount_roots are configured");
	}
	struct box_buf roots = box_buf(BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; config->allowed_mount_roots[i]; i++) {
		const char *root = config->allowed_mount_roots[i];
		if (is_inside(config->default_workspace, root)) {
			box_buf_free(&roots);
			return 0;
		}
		/* Text beyond the limit is cut from the message in any case. */
		(void)box_buf_append_str(&roots, i > 0 ? ", " : "");
		(void)box_buf_append_str(&roots, box_fields_echo(config->arena, box_str(root)));
	}
	int result = box_err_set(err, BOX_ERR_VALIDATION, EPERM,
		"box.local.default_workspace is outside allowed_mount_roots: %.*s", (int)roots.len,
		roots.bytes);
	box_buf_free(&roots);
	return result;
}
