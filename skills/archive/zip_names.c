/* Checks the names of entries: which are safe, and which are the same.
 *
 * Two names are the same if they differ only in case or in how characters are composed: a package must
 * mean the same on every file system. utf8proc knows Unicode's rules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "skills/archive/zip_internal.h"

struct node {
	const char *path; /* as it was spelled first */
	bool is_folder;
	bool is_entry; /* not only implied by another entry's name */
};

void box_zip_names_open(struct box_zip_names *names, struct box_arena *arena)
{
	*names = (struct box_zip_names){.arena = arena};
	names->folders = box_arena_alloc(
		arena, BOX_ARCHIVE_FOLDERS_MAX * sizeof(names->folders[0]));
}

void box_zip_names_close(struct box_zip_names *names)
{
	box_table_free(&names->seen);
}

/* The code point at the start of the run, and its length; 0 if there is none. */
static size_t next_character(struct box_zip_run run, int32_t *ret_character)
{
	utf8proc_ssize_t len = utf8proc_iterate(
		run.bytes, (utf8proc_ssize_t)run.len, ret_character);
	return len > 0 ? (size_t)len : 0;
}

static bool is_control(int32_t character)
{
	return utf8proc_category(character) == UTF8PROC_CATEGORY_CC;
}

const char *box_zip_names_show(struct box_arena *arena, struct box_zip_run name, size_t number)
{
	char text[4 * BOX_ARCHIVE_SHOWN_MAX + 8];
	size_t len = 0;
	size_t shown = 0;
	if (name.len == 0) {
		return box_arena_printf(arena, "(entry %zu)", number);
	}
	for (size_t i = 0; i < name.len; shown++) {
		int32_t character;
		struct box_zip_run rest = {name.bytes + i, name.len - i};
		size_t step = next_character(rest, &character);
		if (shown == BOX_ARCHIVE_SHOWN_MAX) {
			return box_arena_printf(arena, "%.*s...", (int)len, text);
		}
		if (step == 0 || is_control(character)) {
			len += (size_t)snprintf(text + len, 5, "\\x%02x", name.bytes[i]);
			i++;
			continue;
		}
		memcpy(text + len, name.bytes + i, step);
		len += step;
		i += step;
	}
	return box_arena_strndup(arena, text, len);
}

/* --- one name --- */

static int refuse(struct box_err *err, const struct box_zip_header *header, const char *why)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "Archive contains an unsafe path: %s%s",
		header->shown, why);
}

static const char *why_not_text(struct box_zip_run name)
{
	if (!box_utf8_valid((const char *)name.bytes, name.len)) {
		return " (not UTF-8)";
	}
	for (size_t i = 0; i < name.len;) {
		int32_t character;
		struct box_zip_run rest = {name.bytes + i, name.len - i};
		size_t step = next_character(rest, &character);
		if (step == 0 || is_control(character)) {
			return " (control character)";
		}
		i += step;
	}
	return memchr(name.bytes, '\\', name.len) ? " (backslash)" : NULL;
}

static const char *why_not_part(const char *part, size_t len, bool is_first)
{
	if (len == 0) {
		return " (empty component)";
	}
	if (len == 2 && memcmp(part, "..", 2) == 0) {
		return "";
	}
	/* Drive letters such as C:. */
	if (is_first && len >= 2 && part[1] == ':') {
		return "";
	}
	return len > BOX_ARCHIVE_PART_BYTES_MAX ? " (component too long)" : NULL;
}

/* Copies a path component by component into out, without the "." that some packers put first. */
static const char *copy_parts(const char *name, size_t len, char *out, size_t *ret_len)
{
	size_t depth = 0;
	size_t at = 0;
	for (const char *part = name; part < name + len;) {
		size_t left = (size_t)(name + len - part);
		const char *slash = memchr(part, '/', left);
		size_t part_len = slash ? (size_t)(slash - part) : left;
		bool is_dot = part_len == 1 && part[0] == '.';
		const char *why = is_dot ? NULL : why_not_part(part, part_len, at == 0);
		if (why) {
			return why;
		}
		if (!is_dot) {
			if (++depth > BOX_ARCHIVE_DEPTH_MAX) {
				return " (too deep)";
			}
			if (at > 0) {
				out[at++] = '/';
			}
			memcpy(out + at, part, part_len);
			at += part_len;
		}
		part += part_len + 1;
	}
	*ret_len = at;
	if (len > 0 && name[len - 1] == '/') {
		return " (empty component)";
	}
	return at == 0 ? "" : at >= BOX_PATH_MAX ? " (too long)" : NULL;
}

int box_zip_names_check(struct box_arena *arena, const struct box_zip_header *header,
	const char **ret_path, bool *ret_is_folder, struct box_err *err)
{
	struct box_zip_run name = header->name;
	if (name.len == 0 || memchr(name.bytes, '\0', name.len)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive contains an unsafe empty or NUL path: %s", header->shown);
	}
	const char *why = why_not_text(name);
	if (why) {
		return refuse(err, header, why);
	}
	if (name.bytes[0] == '/') {
		return refuse(err, header, "");
	}
	bool is_folder = name.bytes[name.len - 1] == '/';
	char *path = box_arena_bytes(arena, name.len + 1);
	size_t path_len = 0;
	why = copy_parts((const char *)name.bytes, name.len - is_folder, path, &path_len);
	if (why) {
		return refuse(err, header, why);
	}
	path[path_len] = '\0';
	*ret_path = path;
	*ret_is_folder = is_folder;
	return 0;
}

/* --- all names together --- */

static int refuse_second(struct box_err *err, const struct box_zip_entry *entry)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "Archive contains a duplicate path: %s",
		entry->name);
}

/* Adds the first `len` bytes of the entry's path, folded to `key`. */
static int add_node(struct box_zip_names *names, const struct box_zip_entry *entry, size_t len,
	struct box_str key, struct box_err *err)
{
	bool is_entry = entry->path[len] == '\0';
	bool is_folder = !is_entry || entry->is_folder;
	struct node *old = box_table_get(&names->seen, key);
	if (old) {
		bool is_same = old->is_folder && is_folder && !(old->is_entry && is_entry) &&
			strncmp(old->path, entry->path, len) == 0 && old->path[len] == '\0';
		old->is_entry = old->is_entry || is_entry;
		return is_same ? 0 : refuse_second(err, entry);
	}
	struct node *node = box_arena_alloc(names->arena, sizeof(*node));
	*node = (struct node){
		.path = box_arena_strndup(names->arena, entry->path, len),
		.is_folder = is_folder,
		.is_entry = is_entry,
	};
	(void)box_table_put(&names->seen, key, node);
	if (!is_folder) {
		return 0;
	}
	if (names->folder_count == BOX_ARCHIVE_FOLDERS_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive contains too many folders (maximum %d): %s",
			BOX_ARCHIVE_FOLDERS_MAX, entry->name);
	}
	names->folders[names->folder_count++] = node->path;
	return 0;
}

int box_zip_names_add(
	struct box_zip_names *names, const struct box_zip_entry *entry, struct box_err *err)
{
	utf8proc_uint8_t *folded = NULL;
	utf8proc_ssize_t folded_len = utf8proc_map((const utf8proc_uint8_t *)entry->path, 0,
		&folded,
		UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD);
	if (folded_len < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive contains an unsafe path: %s (%s)", entry->name,
			utf8proc_errmsg(folded_len));
	}
	/* Folding turns no other character into a slash, so both have the same components. */
	const char *end = entry->path;
	const char *folded_end = (const char *)folded;
	int r = 0;
	while (r == 0 && *end) {
		end = strchrnul(end + 1, '/');
		folded_end = strchrnul(folded_end + 1, '/');
		struct box_str key = {
			(const char *)folded, (size_t)(folded_end - (const char *)folded)};
		r = add_node(names, entry, (size_t)(end - entry->path), key, err);
	}
	free(folded);
	return r;
}
