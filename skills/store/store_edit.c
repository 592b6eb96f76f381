/* The actions that change packages as a whole: create, update, delete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "skills/store/names.h"
#include "skills/store/package.h"
#include "skills/store/store_request.h"
#include "skills/store/subtree.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"

#define ENTRY_FILE "SKILL.md"

/* The map `skill` of the request. */
static int need_skill_map(struct box_store_request *request, const struct box_value **ret_map)
{
	const struct box_value *map = NULL;
	int r = box_store_request_need(request, "skill", &map);
	if (r == 0 && map->type != BOX_MAP) {
		r = box_store_request_refuse(request, "'%s' object has no attribute 'get'",
			box_pytext_type_name(map->type));
	}
	if (r == 0) {
		*ret_map = map;
	}
	return r;
}

/* The content of a new SKILL.md. The buffer is the caller's to free, also on failure. */
static int build(struct box_store_request *request, const struct box_front_matter_fields *fields,
	struct box_str instructions, struct box_buf *out)
{
	*out = box_buf(BOX_SKILL_TEXT_BYTES_MAX);
	if (box_front_matter_write(out, fields, instructions) < 0) {
		return box_store_request_refuse(request,
			"Skill entry file " ENTRY_FILE " exceeds the %lu-byte limit",
			BOX_SKILL_TEXT_BYTES_MAX);
	}
	return 0;
}

/* Writes the entry file into an existing folder. */
static int put_entry(struct box_store_request *request, int dir_fd, const char *path,
	const struct box_buf *content)
{
	_cleanup_(box_stage_close_p) struct box_stage stage = {-1, -1};
	struct stat st;
	char *entry = box_names_join(request->arena, path, ENTRY_FILE);
	bool is_file = fstatat(dir_fd, ENTRY_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISREG(st.st_mode);
	int r = box_stage_open(request->root_fd, &stage);
	if (r == 0) {
		r = box_stage_put(&stage, dir_fd, ENTRY_FILE, content->len ? content->bytes : "",
			content->len, is_file ? st.st_mode & 0777 : 0);
	}
	return r < 0 ? box_store_request_os_error(request, -r, entry) : 0;
}

/* Creates a folder that appears with its SKILL.md in it. -EEXIST if the name is taken. */
static int put_folder(
	struct box_store_request *request, const char *name, const struct box_buf *content)
{
	_cleanup_(box_stage_close_p) struct box_stage stage = {-1, -1};
	char item[BOX_STAGE_ITEM_SIZE];
	int r = box_stage_open(request->root_fd, &stage);
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int fd = box_stage_folder(&stage, item);
	if (fd < 0) {
		return fd;
	}
	r = box_stage_put(
		&stage, fd, ENTRY_FILE, content->len ? content->bytes : "", content->len, 0);
	if (r == 0 && renameat2(stage.fd, item, request->root_fd, name, RENAME_NOREPLACE) < 0) {
		r = -errno;
	}
	if (r < 0) {
		box_stage_remove(&stage, item);
		return r;
	}
	return box_subtree_sync(request->root_fd);
}

/* -- create ----------------------------------------------------------------------------------- */

static int refuse_failed(struct box_store_request *request, struct box_str name)
{
	return box_store_request_refuse(
		request, "Failed to create skill \"%.*s\"", (int)name.len, name.bytes);
}

/* Reads a package that is adopted in place, below the tenant's root. */
static int read_import(struct box_store_request *request, struct box_str package_root,
	struct box_str name, char **ret_path, struct box_package **ret_skill)
{
	const char *entry = NULL;
	char *path = NULL;
	int r = box_store_request_scoped(request, package_root, "package_root", &path);
	if (r < 0) {
		return r;
	}
	char *client_path = box_store_request_path(request, path);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		request->root_fd, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_refuse(
			request, "Directory does not exist: %s", client_path);
	}
	if (!*path) {
		/* The root itself. The reference copies it into itself, finds no new skill, and leaves the
		 * copy behind; nothing is created here. */
		char *own = box_arena_strndup(request->arena, name.bytes, name.len);
		struct stat st;
		if (fstatat(request->root_fd, own, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			return box_store_request_refuse(request,
				"Skill directory already exists: %s",
				box_store_request_path(request, own));
		}
		return refuse_failed(request, name);
	}
	if (box_package_find_entry(fd, &entry) == BOX_PACKAGE_ENTRY_NONE) {
		return box_store_request_refuse(request, "No SKILL.md found in %s", client_path);
	}
	r = box_package_load(fd, entry, client_path, ret_skill, NULL, request->err);
	if (r == 0) {
		*ret_path = path;
	}
	return r;
}

/* A field of a new skill: the client's, or that of the imported package. */
static struct box_str create_field(struct box_store_request *request, const struct box_value *map,
	const char *field, const struct box_str *imported)
{
	const struct box_value *raw = box_map_get(map, field);
	struct box_str value = box_store_request_str_or(request, raw, "");
	bool missing = !raw || raw->type == BOX_NULL;
	if (imported && (missing || box_pytext_strip(value).len == 0)) {
		return *imported;
	}
	return missing ? box_str("") : value;
}

static int put_created(struct box_store_request *request, struct box_str name, const char *path,
	const struct box_buf *content)
{
	char *own = box_arena_strndup(request->arena, name.bytes, name.len);
	int r = -EEXIST;
	if (!path) {
		r = put_folder(request, own, content);
		path = own;
	}
	if (r != -EEXIST) {
		return r < 0 ? box_store_request_os_error(request, -r, path) : 0;
	}
	_cleanup_(box_close_p) int fd = box_subtree_open(
		request->root_fd, path, O_PATH | O_DIRECTORY, 0);
	struct stat st;
	if (fd < 0 && fstatat(request->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISLNK(st.st_mode)) {
		return refuse_failed(request, name);
	}
	return fd < 0 ? box_store_request_os_error(request, fd == -ENOTDIR ? EEXIST : -fd, path)
		      : put_entry(request, fd, path, content);
}

static int create(struct box_store_request *request, const struct box_value *map,
	struct box_str name, const char *path, const struct box_package *imported)
{
	const struct box_front_matter_fields fields = {
		.name = name,
		.display_name = create_field(
			request, map, "display_name", imported ? &imported->display_name : NULL),
		.description = create_field(
			request, map, "description", imported ? &imported->description : NULL),
	};
	struct box_str instructions = create_field(
		request, map, "instructions", imported ? &imported->instructions : NULL);
	struct box_buf content;
	int r = build(request, &fields, instructions, &content);
	if (r == 0) {
		r = put_created(request, name, path, &content);
	}
	box_buf_free(&content);
	return r;
}

int box_store_create(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *map = NULL;
	struct box_str name = {NULL, 0};
	struct box_str path_found = {NULL, 0};
	struct box_package *imported = NULL;
	char *path = NULL;
	int r = need_skill_map(request, &map);
	if (r < 0) {
		return r;
	}
	r = box_names_check(box_store_request_str_or(request, box_map_get(map, "name"), ""), &name,
		request->err);
	if (r < 0) {
		return r;
	}
	r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	struct box_value asked = box_text(name);
	if (box_store_request_find(request, &asked, &path_found)) {
		return box_store_request_refuse(request, "Skill with name \"%.*s\" already exists",
			(int)name.len, name.bytes);
	}
	const struct box_value *package_root = box_map_get(map, "package_root");
	struct box_str given = package_root ? box_store_request_str(request, package_root)
					    : box_str("");
	if (box_pytext_strip(given).len > 0) {
		r = read_import(request, given, name, &path, &imported);
	}
	if (r == 0) {
		r = create(request, map, name, path, imported);
	}
	box_package_free(imported);
	if (r < 0) {
		return r;
	}
	r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	const struct box_package *created = box_store_request_find(request, &asked, &path_found);
	if (!created) {
		return refuse_failed(request, name);
	}
	(void)box_map_add(
		request->arena, ret_answer, "skill", box_store_request_skill(request, created));
	return 0;
}

/* -- update ----------------------------------------------------------------------------------- */

/* Refuses changes of the name and the folder. */
static int check_fixed(struct box_store_request *request, const struct box_value *map,
	const struct box_package *skill, const char *path)
{
	const struct box_value *name = box_map_get(map, "name");
	const struct box_value *root = box_map_get(map, "package_root");
	struct box_str asked = skill->name;
	if (name && box_pytext_is_true(name)) {
		asked = box_pytext_strip(box_store_request_str(request, name));
	}
	if (!box_str_same(asked, skill->name)) {
		return box_store_request_refuse(request, "Renaming skills is not supported");
	}
	struct box_str place = box_pytext_strip(box_store_request_str_or(request, root, ""));
	char *below = NULL;
	if (place.len > 0 &&
		(box_store_request_scoped(request, place, "package_root", &below) < 0 ||
			strcmp(below, path) != 0)) {
		return box_store_request_refuse(request,
			"Updating package_root is not supported; recreate the skill to import a different package");
	}
	return 0;
}

/* Replaces the text of a field by the client's; null clears it. */
static int update_field(struct box_store_request *request, const struct box_value *map,
	const char *field, struct box_str *field_text)
{
	const struct box_value *raw = box_map_get(map, field);
	if (raw && (raw->type == BOX_LIST || raw->type == BOX_MAP || raw->type == BOX_BIN)) {
		return box_store_request_refuse(
			request, "%s must be text, not %s", field, box_pytext_type_name(raw->type));
	}
	if (raw) {
		*field_text = raw->type == BOX_NULL ? box_str("")
						    : box_store_request_str(request, raw);
	}
	return 0;
}

static int put_updated(struct box_store_request *request, const struct box_value *map,
	const struct box_package *skill, const char *path)
{
	struct box_front_matter_fields fields = {
		.name = skill->name,
		.display_name = skill->display_name,
		.description = skill->description,
	};
	const struct box_value *raw = box_map_get(map, "instructions");
	struct box_str instructions = raw ? box_store_request_str_or(request, raw, "")
					  : skill->instructions;
	int r = update_field(request, map, "display_name", &fields.display_name);
	if (r < 0) {
		return r;
	}
	r = update_field(request, map, "description", &fields.description);
	if (r < 0) {
		return r;
	}
	struct box_buf content;
	r = build(request, &fields, instructions, &content);
	if (r == 0) {
		_cleanup_(box_close_p) int fd = box_subtree_open(
			request->root_fd, path, O_PATH | O_DIRECTORY, 0);
		r = fd < 0 ? box_store_request_os_error(request, -fd, path)
			   : put_entry(request, fd, path, &content);
	}
	box_buf_free(&content);
	return r;
}

int box_store_update(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *name = NULL;
	const struct box_value *map = NULL;
	const struct box_package *skill = NULL;
	struct box_str path_found = {NULL, 0};
	char *path = NULL;
	int r = box_store_request_need(request, "name", &name);
	const struct box_value *any = NULL;
	if (r < 0) {
		return r;
	}
	r = box_store_request_need(request, "skill", &any);
	if (r < 0) {
		return r;
	}
	r = box_store_request_require(request, name, &skill, &path);
	if (r < 0) {
		return r;
	}
	r = need_skill_map(request, &map);
	if (r < 0) {
		return r;
	}
	r = check_fixed(request, map, skill, path);
	if (r < 0) {
		return r;
	}
	r = put_updated(request, map, skill, path);
	if (r < 0) {
		return r;
	}
	r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	skill = box_store_request_find(request, name, &path_found);
	if (!skill) {
		return box_store_request_refuse(request, "Skill \"%.*s\" not found after update",
			(int)name->str.len, name->str.bytes);
	}
	(void)box_map_add(
		request->arena, ret_answer, "skill", box_store_request_skill(request, skill));
	return 0;
}

/* -- delete ----------------------------------------------------------------------------------- */

int box_store_delete(struct box_store_request *request, struct box_value *ret_answer)
{
	_cleanup_(box_stage_close_p) struct box_stage stage = {-1, -1};
	const struct box_value *name = NULL;
	const struct box_package *skill = NULL;
	char *path = NULL;
	int r = box_store_request_need(request, "name", &name);
	if (r < 0) {
		return r;
	}
	r = box_store_request_require(request, name, &skill, &path);
	if (r < 0) {
		return r;
	}
	if (!*path) {
		return box_store_request_refuse(
			request, "Only managed skills under the Box skills root can be deleted");
	}
	/* The whole top folder is removed, whatever else is in it, because that is what was installed. */
	path[strcspn(path, "/")] = '\0';
	r = box_stage_open(request->root_fd, &stage);
	if (r == 0) {
		r = box_stage_discard(&stage, request->root_fd, path);
	}
	if (r < 0 && r != -ENOENT) {
		return box_store_request_os_error(request, -r, path);
	}
	box_deferred_sync_forget(&stage, path);
	(void)box_map_add(request->arena, ret_answer, "deleted", *name);
	return 0;
}
