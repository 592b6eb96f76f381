/* Decides which paths are sent to a box at all, and which error an errno from a box becomes. Only the box can know
 * what a path leads to. */
#include "runtime/session/file_text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/config/config.h"
#include "runtime/session/output.h"
#include "runtime/spec/fields.h"

#define NAME_MAX_BYTES 255

/* --- paths --- */

static int check_text(struct box_str path, const char *field, struct box_err *err)
{
	if (path.len == 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s must not be empty", field);
	}
	if (box_str_has_nul(path)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s has a NUL in it", field);
	}
	if (path.len >= BOX_PATH_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG,
			"%s is longer than %d bytes", field, BOX_PATH_MAX - 1);
	}
	size_t len = 0;
	for (size_t i = 0; i < path.len; i++) {
		len = path.bytes[i] == '/' ? 0 : len + 1;
		if (len > NAME_MAX_BYTES) {
			return box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG,
				"a name in %s is longer than %d bytes", field, NAME_MAX_BYTES);
		}
	}
	return 0;
}

static const char *skip_slashes(const char *text)
{
	return text + strspn(text, "/");
}

/* The rest of an absolute path after a normalised folder, or NULL. Slashes may be doubled and components may be ".";
 * ".." is left to the box. */
static const char *behind(const char *path, const char *folder)
{
	for (;;) {
		folder = skip_slashes(folder);
		path = skip_slashes(path);
		while (path[0] == '.' && (path[1] == '/' || path[1] == '\0')) {
			path = skip_slashes(path + 1);
		}
		if (*folder == '\0') {
			return path;
		}
		size_t len = strcspn(folder, "/");
		if (strcspn(path, "/") != len || memcmp(path, folder, len) != 0) {
			return NULL;
		}
		folder += len;
		path += len;
	}
}

int box_file_text_parse_path(struct box_arena *arena, const char *mount_path, struct box_str path,
	const char *field, struct box_file_path *ret_path, struct box_err *err)
{
	int r = check_text(path, field, err);
	if (r < 0) {
		return r;
	}
	const char *mount = box_config_resolve_path(arena, "/", box_str(mount_path));
	if (!mount) {
		return box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG, "mount_path is too long");
	}
	const char *text = box_arena_strndup(arena, path.bytes, path.len);
	if (text[0] != '/') {
		*ret_path = (struct box_file_path){mount, text};
		return 0;
	}
	const char *const roots[] = {mount, "/tmp", "/"};
	for (size_t i = 0; i < BOX_COUNT_OF(roots); i++) {
		const char *below = behind(text, roots[i]);
		if (below) {
			*ret_path = (struct box_file_path){roots[i], below};
			break;
		}
	}
	return 0;
}

struct box_str box_file_text_join_path(
	struct box_arena *arena, const struct box_file_path *path, struct box_str below)
{
	size_t root_len = strcmp(path->root, "/") == 0 ? 0 : strlen(path->root);
	size_t own_len = strlen(path->below);
	while (own_len > 0 && path->below[own_len - 1] == '/') {
		own_len--;
	}
	char *text = box_arena_bytes(arena, root_len + own_len + below.len + 3);
	size_t len = root_len;
	memcpy(text, path->root, root_len);
	if (own_len > 0 || (len == 0 && below.len == 0)) {
		text[len++] = '/';
	}
	memcpy(text + len, path->below, own_len);
	len += own_len;
	if (below.len > 0) {
		text[len++] = '/';
		memcpy(text + len, below.bytes, below.len);
		len += below.len;
	}
	return (struct box_str){text, len};
}

/* --- errors --- */

const char *box_file_text_type(enum box_file_type type)
{
	static const char *const names[] = {
		[BOX_FILE_TYPE_FILE] = "file",
		[BOX_FILE_TYPE_FOLDER] = "folder",
		[BOX_FILE_TYPE_LINK] = "link",
		[BOX_FILE_TYPE_FIFO] = "fifo",
		[BOX_FILE_TYPE_SOCKET] = "socket",
		[BOX_FILE_TYPE_DEVICE] = "device",
	};
	size_t at = (size_t)type;
	return at < BOX_COUNT_OF(names) && names[at] ? names[at] : "unknown";
}

static enum box_code code_of(const struct box_file_outcome *outcome)
{
	switch (outcome->why) {
	case BOX_FILE_REFUSAL_OUTSIDE:
	case BOX_FILE_REFUSAL_KERNEL_FS:
	case BOX_FILE_REFUSAL_ROOT:
		return BOX_ERR_PERMISSION;
	case BOX_FILE_REFUSAL_TYPE:
		return BOX_ERR_OS;
	case BOX_FILE_REFUSAL_INOTIFY:
		return BOX_ERR_BACKEND_UNAVAILABLE;
	case BOX_FILE_REFUSAL_FOLDERS:
		return BOX_ERR_CAPACITY;
	case BOX_FILE_REFUSAL_NONE:
		break;
	}
	return outcome->errnum == EACCES || outcome->errnum == EPERM ? BOX_ERR_PERMISSION
								     : BOX_ERR_OS;
}

static const char *reason(struct box_arena *arena, const struct box_backend_file_request *ask,
	const struct box_file_outcome *outcome)
{
	const struct box_file_path *path = outcome->of_to ? &ask->to : &ask->path;
	const char *text;
	switch (outcome->why) {
	case BOX_FILE_REFUSAL_OUTSIDE:
		return box_arena_printf(arena, "leads out of %s", path->root);
	case BOX_FILE_REFUSAL_KERNEL_FS:
		return "is in a file system of the kernel or of devices";
	case BOX_FILE_REFUSAL_TYPE:
		return box_arena_printf(
			arena, "is a %s, not a file", box_file_text_type(outcome->facts.type));
	case BOX_FILE_REFUSAL_ROOT:
		return "is where the file system is mounted";
	case BOX_FILE_REFUSAL_INOTIFY:
		return "cannot be watched: the filter of this box has no inotify";
	case BOX_FILE_REFUSAL_FOLDERS:
		return "has too many folders to be watched";
	case BOX_FILE_REFUSAL_NONE:
		break;
	}
	switch (outcome->errnum) {
	case ETIMEDOUT:
		return box_arena_printf(arena, "it took longer than %d s", BOX_FILE_OP_MS / 1000);
	case EXDEV:
		return "to is on another file system: copy it and remove it here";
	case EAGAIN:
		return "it changes all the time";
	default:
		text = box_err_strerror(outcome->errnum);
		return text ? text : "unknown error";
	}
}

void box_file_text_explain(struct box_arena *arena, const struct box_backend_file_request *ask,
	const struct box_file_outcome *outcome, struct box_err *err)
{
	const struct box_file_path *path = outcome->of_to ? &ask->to : &ask->path;
	const char *name = strerrorname_np(outcome->errnum);
	struct box_str whole = box_file_text_join_path(arena, path, box_str(""));
	const char *text = box_fields_echo(arena, box_output_repair(arena, whole));
	const char *why = reason(arena, ask, outcome);
	const char *done = "";
	if (outcome->written > 0) {
		done = box_arena_printf(arena, "; %" PRIu64 " of %zu bytes were written",
			outcome->written, ask->data.len);
	}
	(void)box_err_set(err, code_of(outcome), outcome->errnum, "[%s] %s: %s%s",
		name ? name : "EUNKNOWN", text, why, done);
}
