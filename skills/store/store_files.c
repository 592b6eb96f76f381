/* The actions on files of one package. Paths must stay inside the package after links are resolved. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "skills/store/names.h"
#include "skills/store/package.h"
#include "skills/store/store_request.h"
#include "skills/store/subtree.h"
#include "skills/text/pytext.h"

/* A file or folder in a package. */
struct target {
	const struct box_package *skill;
	const char *package; /* its folder, below the tenant's root */
	struct box_str asked;
	const char *relative; /* normalised, for answers */
	const char *path; /* below the tenant's root, without links; NULL if it does not exist */
};

static bool is_inside(const char *path, const char *package)
{
	size_t len = strlen(package);
	return len == 0 ||
		(strncmp(path, package, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

static int resolve(struct box_store_request *request, const struct box_value *path, bool is_folder,
	struct target *target)
{
	char resolved[BOX_PATH_MAX];
	struct box_str text = box_pytext_strip(box_store_request_str_or(request, path, "."));
	text = text.len > 0 ? text : box_str(".");
	if (text.bytes[0] == '/') {
		return box_store_request_refuse(
			request, "path must be relative to the skill package root");
	}
	if (box_str_has_nul(text)) {
		return box_store_request_refuse(request, "embedded null byte");
	}
	target->asked = text;
	target->relative = box_names_normpath(request->arena, text);
	if (strncmp(target->relative, "..", 2) == 0) {
		return box_store_request_refuse(
			request, "path must stay within the skill package root");
	}
	int r = box_subtree_resolve(request->root_fd, request->tenant->root_path,
		box_names_join(request->arena, target->package, target->relative), resolved);
	bool inside = r == 0 && is_inside(resolved, target->package) &&
		(is_folder || strcmp(resolved, target->package) != 0);
	if (r == -EXDEV || (r == 0 && !inside)) {
		return box_store_request_refuse(
			request, "path must stay within the skill package root");
	}
	target->path = r == 0 ? box_arena_strndup(request->arena, resolved, strlen(resolved))
			      : NULL;
	return 0;
}

static int find_target(struct box_store_request *request, const struct box_value *name,
	const struct box_value *path, bool is_folder, struct target *ret_target)
{
	char *package = NULL;
	*ret_target = (struct target){0};
	int r = box_store_request_require(request, name, &ret_target->skill, &package);
	if (r < 0) {
		return r;
	}
	ret_target->package = package;
	return resolve(request, path, is_folder, ret_target);
}

static void begin_answer(
	struct box_store_request *request, const struct target *target, struct box_value *answer)
{
	struct box_value skill = box_map_value();
	(void)box_map_add(request->arena, &skill, "name", box_text(target->skill->name));
	(void)box_map_add(request->arena, answer, "skill", skill);
}

/* -- list ------------------------------------------------------------------------------------- */

struct listing {
	struct box_arena *arena;
	const char **names;
	size_t count, room;
	size_t entries;
	bool hidden;
};

static int list_entry(void *context, const char *name, int d_type)
{
	struct listing *listing = context;
	(void)d_type;
	if (++listing->entries > BOX_SKILL_ENTRIES_MAX) {
		return -E2BIG;
	}
	size_t len = strlen(name);
	if ((name[0] == '.' && !listing->hidden) || !box_utf8_valid(name, len)) {
		return 0;
	}
	if (listing->count == listing->room) {
		listing->room = listing->room ? 2 * listing->room : 64;
		listing->names = box_realloc(
			listing->names, listing->room * sizeof(*listing->names));
	}
	listing->names[listing->count++] = box_arena_strndup(listing->arena, name, len);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The type of an entry, following a link as long as it stays in the package; otherwise the link's own. */
static int look_at(struct box_store_request *request, const struct target *target, int dir_fd,
	const char *name, struct stat *ret_st)
{
	char resolved[BOX_PATH_MAX];
	if (fstatat(dir_fd, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0) {
		return -errno;
	}
	if (!S_ISLNK(ret_st->st_mode) ||
		box_subtree_resolve(request->root_fd, request->tenant->root_path,
			box_names_join(request->arena, target->path, name), resolved) < 0 ||
		!is_inside(resolved, target->package)) {
		return 0;
	}
	struct stat st;
	_cleanup_(box_close_p) int fd = box_subtree_open(request->root_fd, resolved, O_PATH, 0);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		*ret_st = st;
	}
	return 0;
}

static struct box_value list_entries(struct box_store_request *request, const struct target *target,
	int dir_fd, const struct listing *listing, size_t max)
{
	struct box_value entries = box_list_value();
	bool at_root = strcmp(target->relative, ".") == 0;
	for (size_t i = 0; i < listing->count && i < max; i++) {
		const char *name = listing->names[i];
		struct box_value entry = box_map_value();
		struct stat st;
		if (look_at(request, target, dir_fd, name, &st) < 0) {
			continue; /* it was removed meanwhile */
		}
		bool is_dir = S_ISDIR(st.st_mode);
		const char *path = at_root ? name
					   : box_names_join(request->arena, target->relative, name);
		(void)box_map_add(request->arena, &entry, "path", box_cstr(path));
		(void)box_map_add(request->arena, &entry, "name", box_cstr(name));
		(void)box_map_add(request->arena, &entry, "is_dir", box_bool(is_dir));
		(void)box_map_add(
			request->arena, &entry, "size", is_dir ? box_null() : box_int(st.st_size));
		(void)box_list_add(request->arena, &entries, entry);
	}
	return entries;
}

static int list_files(struct box_store_request *request, const struct target *target, size_t max,
	bool hidden, struct box_value *ret_answer)
{
	struct listing listing = {.arena = request->arena, .hidden = hidden};
	_cleanup_(box_close_p) int fd = target->path
		? box_subtree_open(request->root_fd, target->path, O_RDONLY | O_DIRECTORY, 0)
		: -ENOENT;
	if (fd < 0) {
		return box_store_request_refuse(request, "Skill directory not found: %.*s",
			(int)target->asked.len, target->asked.bytes);
	}
	int r = box_subtree_each(fd, list_entry, &listing);
	if (r < 0) {
		free(listing.names);
		return r == -E2BIG ? box_store_request_refuse(request,
					     "Skill directory exceeds the configured entry limit")
				   : box_store_request_os_error(request, -r, target->path);
	}
	if (listing.count > 1) {
		qsort(listing.names, listing.count, sizeof(*listing.names), by_text);
	}
	begin_answer(request, target, ret_answer);
	(void)box_map_add(request->arena, ret_answer, "base_path", box_cstr(target->relative));
	(void)box_map_add(request->arena, ret_answer, "entries",
		list_entries(request, target, fd, &listing, max));
	(void)box_map_add(request->arena, ret_answer, "truncated", box_bool(listing.count > max));
	free(listing.names);
	return 0;
}

int box_store_list_files(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *name = NULL;
	const struct box_value *asked = box_map_get(request->data, "max_entries");
	const struct box_value *hidden = box_map_get(request->data, "include_hidden");
	struct target target = {0};
	int64_t max = BOX_SKILL_FILES_DEFAULT;
	int r = box_store_request_need(request, "name", &name);
	if (r < 0) {
		return r;
	}
	if (asked) {
		max = asked->type == BOX_INT ? asked->integer : 0;
	}
	if (max <= 0) {
		return box_store_request_refuse(request, "max_entries must be a positive integer");
	}
	r = find_target(request, name, box_map_get(request->data, "path"), true, &target);
	if (r < 0) {
		return r;
	}
	max = BOX_MIN(max, BOX_SKILL_FILES_MAX);
	return list_files(
		request, &target, (size_t)max, hidden && box_pytext_is_true(hidden), ret_answer);
}

/* -- read ------------------------------------------------------------------------------------- */

static int refuse_size(struct box_store_request *request, const struct target *target)
{
	return box_store_request_refuse(request, "Skill file %s exceeds the %lu-byte limit",
		target->relative, BOX_SKILL_TEXT_BYTES_MAX);
}

static int read_content(
	struct box_store_request *request, const struct target *target, struct box_str *ret_content)
{
	struct stat st;
	_cleanup_(box_close_p) int look = target->path
		? box_subtree_open(request->root_fd, target->path, O_PATH, 0)
		: -ENOENT;
	bool is_file = look >= 0 && fstat(look, &st) == 0 && S_ISREG(st.st_mode);
	_cleanup_(box_close_p) int fd = is_file ? box_subtree_open(request->root_fd, target->path,
							  O_RDONLY | O_NONBLOCK | O_NOCTTY, 0)
						: -ENOENT;
	if (is_file && (fd == -EACCES || fd == -EPERM)) {
		return box_store_request_os_error(request, -fd, target->path);
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		return box_store_request_refuse(
			request, "Skill file not found: %s", target->relative);
	}
	if ((uint64_t)st.st_size > BOX_SKILL_TEXT_BYTES_MAX) {
		return refuse_size(request, target);
	}
	struct box_buf content = box_buf(BOX_SKILL_TEXT_BYTES_MAX);
	int r = box_subtree_read(fd, &content);
	if (r == -EFBIG) {
		r = refuse_size(request, target);
	} else if (r < 0) {
		r = box_store_request_os_error(request, -r, target->path);
	} else if (!box_utf8_valid(content.bytes, content.len)) {
		r = box_store_request_refuse(
			request, "Skill file %s is not valid UTF-8 text", target->relative);
	} else {
		ret_content->bytes = box_arena_strndup(
			request->arena, content.len ? content.bytes : "", content.len);
		ret_content->len = content.len;
	}
	box_buf_free(&content);
	return r;
}

int box_store_read_file(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *name = NULL;
	const struct box_value *path = NULL;
	struct box_str content = {NULL, 0};
	struct target target = {0};
	int r = box_store_request_need(request, "name", &name);
	if (r < 0) {
		return r;
	}
	r = box_store_request_need(request, "path", &path);
	if (r < 0) {
		return r;
	}
	r = find_target(request, name, path, false, &target);
	if (r < 0) {
		return r;
	}
	r = read_content(request, &target, &content);
	if (r < 0) {
		return r;
	}
	begin_answer(request, &target, ret_answer);
	(void)box_map_add(request->arena, ret_answer, "path", box_cstr(target.relative));
	(void)box_map_add(request->arena, ret_answer, "content", box_text(content));
	return 0;
}

/* -- write ------------------------------------------------------------------------------------ */

/* Opens the parent folder of the file, created if it is missing. */
static int open_parent(struct box_store_request *request, char *parent)
{
	size_t good = 0;
	int fd = box_subtree_make_folders(request->root_fd, parent, &good);
	if (fd >= 0) {
		return fd;
	}
	/* Python says "File exists" for a file in the place of the last folder, and "Not a directory" below
	 * a file; it names the first folder that it could not create. */
	size_t start = good + (parent[good] == '/');
	size_t end = start + strcspn(parent + start, "/");
	if (fd == -ENOTDIR || fd == -ELOOP) {
		bool is_last = parent[end] == '\0';
		if (!is_last) {
			end += 1 + strcspn(parent + end + 1, "/");
		}
		fd = is_last ? -EEXIST : -ENOTDIR;
	}
	parent[end] = '\0';
	return box_store_request_os_error(request, -fd, parent);
}

static int write_content(
	struct box_store_request *request, const struct target *target, struct box_str content)
{
	_cleanup_(box_stage_close_p) struct box_stage stage = {-1, -1};
	struct stat st;
	if (!target->path) {
		return box_store_request_refuse(
			request, "Skill file not found: %s", target->relative);
	}
	char *parent = box_arena_strndup(request->arena, target->path, strlen(target->path));
	char *slash = strrchr(parent, '/');
	const char *leaf = target->path + (slash ? slash - parent + 1 : 0);
	parent[slash ? slash - parent : 0] = '\0';
	_cleanup_(box_close_p) int dir_fd = open_parent(request, parent);
	if (dir_fd < 0) {
		return dir_fd;
	}
	bool is_there = fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (is_there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		return box_store_request_refuse(
			request, "Skill file is not a regular file: %s", target->relative);
	}
	int r = is_there && S_ISDIR(st.st_mode) ? -EISDIR
						: box_stage_open(request->root_fd, &stage);
	if (r == 0) {
		r = box_stage_put(&stage, dir_fd, leaf, content.bytes, content.len,
			is_there ? st.st_mode & 0777 : 0);
	}
	return r < 0 ? box_store_request_os_error(request, -r, target->path) : 0;
}

int box_store_write_file(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *name = NULL;
	const struct box_value *path = NULL;
	const struct box_value *raw = box_map_get(request->data, "content");
	struct box_str content = raw && raw->type == BOX_STR ? raw->str : box_str("");
	struct target target = {0};
	int r = box_store_request_need(request, "name", &name);
	if (r < 0) {
		return r;
	}
	r = box_store_request_need(request, "path", &path);
	if (r < 0) {
		return r;
	}
	r = find_target(request, name, path, false, &target);
	if (r < 0) {
		return r;
	}
	if (raw && raw->type != BOX_STR) {
		return box_store_request_refuse(request, "'%s' object has no attribute 'encode'",
			box_pytext_type_name(raw->type));
	}
	if (content.len > BOX_SKILL_TEXT_BYTES_MAX) {
		return refuse_size(request, &target);
	}
	r = write_content(request, &target, content);
	if (r < 0) {
		return r;
	}
	begin_answer(request, &target, ret_answer);
	(void)box_map_add(request->arena, ret_answer, "path", box_cstr(target.relative));
	(void)box_map_add(
		request->arena, ret_answer, "bytes_written", box_int((int64_t)content.len));
	return 0;
}
