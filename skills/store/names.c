/* Checks and converts names and paths of skills as text, without touching the disk. */
#include "skills/store/names.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "skills/text/pytext.h"

bool box_names_is_folder(struct box_str name)
{
	return name.len > 0 && name.len <= NAME_MAX && !box_str_has_nul(name) &&
		!memchr(name.bytes, '/', name.len) && !box_str_eq(name, ".") &&
		!box_str_eq(name, "..");
}

bool box_names_is_namespace(const char *namespace)
{
	return box_names_is_folder(box_str(namespace)) && !strchr(namespace, '\\');
}

int box_names_check(struct box_str name, struct box_str *ret_name, struct box_err *err)
{
	name = box_pytext_strip(name);
	if (name.len == 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "Skill name is required");
	}
	bool any = false;
	bool good = true;
	for (struct box_str rest = name; rest.len > 0;) {
		uint32_t c = box_pytext_next(&rest);
		any = any || (c != '-' && c != '_');
		good = good && (c == '-' || c == '_' || box_pytext_is_letter_or_digit(c));
	}
	if (!any || !good) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Skill name can only contain letters, numbers, hyphens and underscores");
	}
	if (box_pytext_length(name) > BOX_SKILL_NAME_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Skill name cannot exceed %d characters", BOX_SKILL_NAME_MAX);
	}
	*ret_name = name;
	return 0;
}

/* The next part of a path, without empty ones; false at the end. */
static bool next_part(struct box_str *rest, struct box_str *ret_part)
{
	while (rest->len > 0 && rest->bytes[0] == '/') {
		rest->bytes++;
		rest->len--;
	}
	const char *slash = rest->len > 0 ? memchr(rest->bytes, '/', rest->len) : NULL;
	ret_part->bytes = rest->bytes;
	ret_part->len = slash ? (size_t)(slash - rest->bytes) : rest->len;
	rest->bytes += ret_part->len;
	rest->len -= ret_part->len;
	return ret_part->len > 0;
}

struct box_str box_names_leaf(struct box_str path)
{
	const char *slash = path.len > 0 ? memrchr(path.bytes, '/', path.len) : NULL;
	size_t before = slash ? (size_t)(slash - path.bytes) + 1 : 0;
	return (struct box_str){path.bytes + before, path.len - before};
}

char *box_names_join(struct box_arena *arena, const char *a, const char *b)
{
	return box_arena_printf(arena, "%s%s%s", a, *a && *b ? "/" : "", b);
}

char *box_names_normpath(struct box_arena *arena, struct box_str path)
{
	size_t slashes = 0;
	while (slashes < path.len && path.bytes[slashes] == '/') {
		slashes++;
	}
	/* POSIX gives two leading slashes a meaning of their own, but not three. */
	slashes = slashes > 2 ? 1 : slashes;
	char *out = box_arena_bytes(arena, path.len + 2);
	memset(out, '/', slashes);
	size_t len = slashes;
	size_t floor = slashes; /* ".." does not remove anything before it */
	struct box_str part;
	for (struct box_str rest = path; next_part(&rest, &part);) {
		if (box_str_eq(part, ".") ||
			(box_str_eq(part, "..") && slashes > 0 && len == slashes)) {
			continue;
		}
		if (box_str_eq(part, "..") && len > floor) {
			while (len > floor && out[len - 1] != '/') {
				len--;
			}
			len -= len > floor;
			continue;
		}
		if (len > slashes) {
			out[len++] = '/';
		}
		memcpy(out + len, part.bytes, part.len);
		len += part.len;
		floor = box_str_eq(part, "..") ? len : floor;
	}
	if (len == 0) {
		out[len++] = '.';
	}
	out[len] = '\0';
	return out;
}

char *box_names_below(struct box_arena *arena, struct box_str path, const char *root)
{
	if (path.len == 0 || path.bytes[0] != '/' || box_str_has_nul(path)) {
		return NULL;
	}
	char *normal = box_names_normpath(arena, path);
	size_t len = strlen(root);
	/* Here "//a" is "/a". */
	normal += normal[0] == '/' && normal[1] == '/';
	if (strncmp(normal, root, len) != 0 || (normal[len] != '/' && normal[len] != '\0')) {
		return NULL;
	}
	return normal + len + (normal[len] == '/');
}

struct box_str box_names_source_path(struct box_arena *arena, struct box_str path)
{
	path = box_pytext_strip(path);
	char *copy = box_arena_strndup(arena, path.bytes, path.len);
	for (size_t i = 0; i < path.len; i++) {
		if (copy[i] == '\\') {
			copy[i] = '/';
		}
	}
	size_t end = path.len;
	size_t start = 0;
	while (start < end && copy[start] == '/') {
		start++;
	}
	while (end > start && copy[end - 1] == '/') {
		end--;
	}
	copy[end] = '\0';
	return (struct box_str){copy + start, end - start};
}

/* os.path.splitext(...)[0]: leading dots do not begin an extension. */
static struct box_str without_extension(struct box_str name)
{
	size_t dots = 0;
	while (dots < name.len && name.bytes[dots] == '.') {
		dots++;
	}
	const char *dot = name.len > dots ? memrchr(name.bytes + dots, '.', name.len - dots) : NULL;
	return dot ? (struct box_str){name.bytes, (size_t)(dot - name.bytes)} : name;
}

struct box_str box_names_stem(struct box_arena *arena, struct box_str filename)
{
	struct box_str rest = without_extension(box_names_leaf(box_pytext_strip(filename)));
	char *out = box_arena_bytes(arena, rest.len + 1);
	size_t len = 0;
	while (rest.len > 0) {
		const char *start = rest.bytes;
		uint32_t c = box_pytext_next(&rest);
		if (box_pytext_is_letter_or_digit(c) || c == '-' || c == '_') {
			memcpy(out + len, start, (size_t)(rest.bytes - start));
			len += (size_t)(rest.bytes - start);
		} else {
			out[len++] = '-';
		}
	}
	size_t from = 0;
	while (from < len && (out[from] == '-' || out[from] == '_')) {
		from++;
	}
	while (len > from && (out[len - 1] == '-' || out[len - 1] == '_')) {
		len--;
	}
	return len > from ? (struct box_str){out + from, len - from} : box_str("uploaded-skill");
}

struct box_str box_names_target(
	struct box_arena *arena, struct box_str stem, struct box_str source, struct box_str suffix)
{
	struct box_str leaf = box_names_leaf(box_names_source_path(arena, source));
	struct box_buf out = box_buf(stem.len + leaf.len + suffix.len + 2);
	(void)box_buf_append(&out, stem.bytes, stem.len);
	if (leaf.len > 0 && !box_str_same(leaf, stem)) {
		(void)box_buf_append(&out, "-", 1);
		(void)box_buf_append(&out, leaf.bytes, leaf.len);
	}
	if (suffix.len > 0) {
		(void)box_buf_append(&out, "-", 1);
		(void)box_buf_append(&out, suffix.bytes, suffix.len);
	}
	struct box_str target = {box_arena_strndup(arena, out.bytes, out.len), out.len};
	box_buf_free(&out);
	return target;
}
