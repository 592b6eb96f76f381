/* Checks host folders before they are sent. The runtime checks them again on the opened folders: this is only
 * for an early and clear answer. */
#include "client/service/mount_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/spec/fields.h"

#define FOLDER_MODE 0755

bool box_mount_rules_is_inside(const char *path, const char *const *roots)
{
	for (; *roots; roots++) {
		size_t len = strcmp(*roots, "/") == 0 ? 0 : strlen(*roots);
		if (strncmp(path, *roots, len) == 0 && (path[len] == '\0' || path[len] == '/')) {
			return true;
		}
	}
	return false;
}

static const char *name_roots(struct box_arena *arena, const char *const *roots)
{
	struct box_buf names = box_buf(BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; roots[i]; i++) {
		/* Text beyond the limit is cut from the message in any case. */
		(void)box_buf_printf(&names, "%s%s", i > 0 ? ", " : "", roots[i]);
	}
	const char *text = box_arena_strndup(arena, names.len ? names.bytes : "", names.len);
	box_buf_free(&names);
	return text;
}

const char *box_mount_rules_real(struct box_arena *arena, const char *path)
{
	char *front = box_arena_strndup(arena, path, strlen(path));
	for (char *end = front + strlen(front);;) {
		_cleanup_(box_free_p) char *real = realpath(front, NULL);
		if (real) {
			const char *rest = path + (end - front);
			const char *base = strcmp(real, "/") == 0 && rest[0] ? "" : real;
			return box_arena_printf(arena, "%s%s", base, rest);
		}
		char *slash = strrchr(front, '/');
		if (!slash || slash == front) {
			return path;
		}
		*slash = '\0';
		end = slash;
	}
}

int box_mount_rules_make_folder(
	struct box_arena *arena, const char *path, const char *const *roots, struct box_err *err)
{
	struct stat about;
	if (stat(path, &about) == 0) {
		return S_ISDIR(about.st_mode)
			? 0
			: box_err_set(err, BOX_ERR_VALIDATION, ENOTDIR,
				  "box.local.default_workspace must point to a directory on the "
				  "host");
	}
	if (!roots[0]) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"box.local.default_workspace cannot be created because no "
			"allowed_mount_roots are configured");
	}
	if (!box_mount_rules_is_inside(path, roots)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"box.local.default_workspace is outside allowed_mount_roots: %s",
			name_roots(arena, roots));
	}
	char *part = box_arena_strndup(arena, path, strlen(path));
	for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash) {
			*slash = '\0';
		}
		if (mkdir(part, FOLDER_MODE) < 0 && errno != EEXIST) {
			return box_err_set(err, BOX_ERR_OS, errno,
				"box.local.default_workspace: %s: %s", part,
				box_err_strerror(errno));
		}
		if (!slash) {
			return 0;
		}
		*slash = '/';
	}
}

/* The real path of a member; *ret_real is NULL if there is none. */
static int check_path(struct box_arena *arena, const struct box_value *map,
	const char *const *roots, const char **ret_real, struct box_err *err)
{
	const struct box_value *value = box_map_get(map, "host_path");
	struct box_str text;
	struct stat about;
	*ret_real = NULL;
	/* The runtime refuses a value that is not a text, in its own words. */
	if (!value || value->type == BOX_NULL || box_fields_to_str(value, &text)) {
		return 0;
	}
	text = box_str_strip(text);
	if (text.len == 0) {
		return 0;
	}
	if (text.bytes[0] != '/' || box_str_has_nul(text)) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "host_path must be an absolute host path");
	}
	const char *path = box_arena_strndup(arena, text.bytes, text.len);
	_cleanup_(box_free_p) char *real = realpath(path, NULL);
	if (!real || stat(real, &about) < 0 || !S_ISDIR(about.st_mode)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"host_path must point to an existing directory on the host");
	}
	if (!roots[0]) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"host_path mounting is disabled because no allowed_mount_roots are "
			"configured");
	}
	if (!box_mount_rules_is_inside(real, roots)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"host_path is outside allowed_mount_roots: %s", name_roots(arena, roots));
	}
	*ret_real = box_arena_strndup(arena, real, strlen(real));
	return 0;
}

int box_mount_rules_check_spec(struct box_arena *arena, struct box_value *spec,
	const char *const *roots, struct box_err *err)
{
	const struct box_value *mounts = box_map_get(spec, "extra_mounts");
	const char *real;
	int r = check_path(arena, spec, roots, &real, err);
	if (r == 0 && real) {
		box_map_set(arena, spec, box_str("host_path"), box_cstr(real));
		mounts = box_map_get(spec, "extra_mounts");
	}
	if (r < 0 || !mounts || mounts->type != BOX_LIST) {
		return r;
	}
	struct box_value checked = box_list_value();
	for (uint32_t i = 0; i < mounts->count; i++) {
		struct box_value one = box_value_copy(arena, &mounts->items[i]);
		r = check_path(arena, &one, roots, &real, err);
		if (r < 0) {
			return r;
		}
		if (real) {
			box_map_set(arena, &one, box_str("host_path"), box_cstr(real));
		}
		box_list_add(arena, &checked, one);
	}
	box_map_set(arena, spec, box_str("extra_mounts"), checked);
	return 0;
}
