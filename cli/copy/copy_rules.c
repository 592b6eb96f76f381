/* Decides where a copy goes, by the type of the source and what exists at the destination. */
#include "cli/copy/copy_rules.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/value.h"

bool box_copy_rules_split(
	struct box_arena *arena, const char *text, const char **ret_session, const char **ret_path)
{
	size_t len = strcspn(text, ":");
	/* With a slash before the colon, or a first character of a path, it is a path of the host. */
	if (text[len] != ':' || len == 0 || text[0] == '/' || text[0] == '.' ||
		memchr(text, '/', len)) {
		return false;
	}
	*ret_session = box_arena_strndup(arena, text, len);
	*ret_path = text + len + 1;
	return true;
}

bool box_copy_rules_split_qualified(
	struct box_arena *arena, const char *text, const char **ret_name, const char **ret_path)
{
	size_t len = strcspn(text, ":");
	size_t slash = strcspn(text, "/");
	if (text[len] != ':' || slash >= len || text[0] == '.' || text[len - 1] == '/' ||
		(slash == 0 && memchr(text + 1, '/', len - 1))) {
		return false;
	}
	*ret_name = box_arena_strndup(arena, text, len);
	*ret_path = text + len + 1;
	return true;
}

static size_t bare_len(const char *path)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/') {
		len--;
	}
	return len;
}

const char *box_copy_rules_base(struct box_arena *arena, const char *path)
{
	size_t len = bare_len(path);
	size_t at = len;
	while (at > 0 && path[at - 1] != '/') {
		at--;
	}
	return box_arena_strndup(arena, path + at, len - at);
}

const char *box_copy_rules_parent(struct box_arena *arena, const char *path)
{
	size_t len = bare_len(path);
	while (len > 0 && path[len - 1] != '/') {
		len--;
	}
	if (len == 0) {
		return ".";
	}
	while (len > 1 && path[len - 1] == '/') {
		len--;
	}
	return box_arena_strndup(arena, path, len);
}

bool box_copy_rules_ends_with_slash(const char *path)
{
	size_t len = strlen(path);
	return len > 0 && path[len - 1] == '/';
}

/* A name that can be given to something: not "", ".", ".." or "/". */
static bool is_name(const char *name)
{
	return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		strcmp(name, "/") != 0;
}

static int wrong(struct box_err *err, int errnum, const char *path, const char *why)
{
	return box_err_set(err, BOX_ERR_VALUE, errnum, "%.3000s: %s", path, why);
}

static int into_new(struct box_arena *arena, const struct box_copy_rules_end *from,
	const struct box_copy_rules_end *to, struct box_copy_rules_target *ret_way,
	struct box_err *err)
{
	const char *name = box_copy_rules_base(arena, to->path);
	if (!to->has_parent || !is_name(name)) {
		return wrong(err, ENOENT, to->path, "no such folder");
	}
	if (from->kind == BOX_COPY_FILE && box_copy_rules_ends_with_slash(to->path)) {
		return wrong(err, ENOENT, to->path, "no such folder");
	}
	*ret_way = (struct box_copy_rules_target){box_copy_rules_parent(arena, to->path), name};
	return 0;
}

static int choose(struct box_arena *arena, const struct box_copy_rules_end *from,
	const struct box_copy_rules_end *to, struct box_copy_rules_target *ret_way,
	struct box_err *err)
{
	const char *name = box_copy_rules_base(arena, from->path);
	if (from->kind == BOX_COPY_NOTHING) {
		return wrong(err, ENOENT, from->path, "no such file or folder");
	}
	/* Only a folder can be called "..", whatever the box answers. */
	if (from->kind == BOX_COPY_FILE &&
		(box_copy_rules_ends_with_slash(from->path) || !is_name(name))) {
		return wrong(err, ENOTDIR, from->path, "not a folder");
	}
	if (from->kind == BOX_COPY_STREAM) {
		*ret_way = (struct box_copy_rules_target){to->path, NULL};
		return to->kind == BOX_COPY_FOLDER
			? 0
			: wrong(err, ENOTDIR, to->path,
				  "an archive can only be unpacked into an existing folder");
	}
	if (to->kind == BOX_COPY_NOTHING) {
		return into_new(arena, from, to, ret_way, err);
	}
	if (to->kind == BOX_COPY_FOLDER) {
		*ret_way = (struct box_copy_rules_target){to->path, is_name(name) ? name : NULL};
		return 0;
	}
	if (from->kind == BOX_COPY_FOLDER || box_copy_rules_ends_with_slash(to->path)) {
		return wrong(err, ENOTDIR, to->path, "not a folder");
	}
	*ret_way = (struct box_copy_rules_target){
		box_copy_rules_parent(arena, to->path), box_copy_rules_base(arena, to->path)};
	return 0;
}

int box_copy_rules_resolve(struct box_arena *arena, const struct box_copy_rules_end *from,
	const struct box_copy_rules_end *to, struct box_copy_rules_target *ret_way,
	struct box_err *err)
{
	int r = choose(arena, from, to, ret_way, err);
	if (r == 0 && ret_way->name && strlen(ret_way->name) > NAME_MAX) {
		return wrong(err, ENAMETOOLONG, ret_way->name, "the name is too long");
	}
	return r;
}
