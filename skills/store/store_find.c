/* The actions that read skills (list, get, scan), and the lookup by name that the other actions use. */
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
#include "skills/store/names.h"
#include "skills/store/package.h"
#include "skills/store/store_request.h"
#include "skills/store/subtree.h"
#include "skills/text/pytext.h"

int box_store_request_list(struct box_store_request *request)
{
	struct box_skill_tree *tree = request->tenant->tree;
	int r = box_skill_tree_walk(tree, request->root_fd, BOX_SKILL_LIST_DEPTH, request->err);
	if (r < 0) {
		return r;
	}
	return box_skill_tree_load(tree, request->root_fd, request->err);
}

/* <0 if `a` is older than `b`: times are compared as text, as the reference does. */
static int compare_times(struct box_str a, struct box_str b)
{
	size_t shorter = BOX_MIN(a.len, b.len);
	int order = memcmp(a.bytes, b.bytes, shorter);
	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

const struct box_package *box_store_request_find(
	struct box_store_request *request, const struct box_value *name, struct box_str *ret_path)
{
	const struct box_package *newest = NULL;
	if (name->type != BOX_STR) {
		return NULL;
	}
	for (size_t i = 0; i < box_skill_tree_count(request->tenant->tree); i++) {
		struct box_skill_tree_found found = box_skill_tree_at(request->tenant->tree, i);
		if (found.skill && box_str_same(found.skill->name, name->str) &&
			(!newest ||
				compare_times(newest->updated_at, found.skill->updated_at) < 0)) {
			newest = found.skill;
			*ret_path = box_str(found.path);
		}
	}
	return newest;
}

/* Why the package in the folder of that name is not listed, or NULL. */
static const char *why_left_out(struct box_store_request *request, const struct box_value *name)
{
	for (size_t i = 0; name->type == BOX_STR && i < box_skill_tree_count(request->tenant->tree);
		i++) {
		struct box_skill_tree_found found = box_skill_tree_at(request->tenant->tree, i);
		if (!found.skill && box_str_same(box_names_leaf(box_str(found.path)), name->str)) {
			return found.why;
		}
	}
	return NULL;
}

int box_store_request_require(struct box_store_request *request, const struct box_value *name,
	const struct box_package **ret_skill, char **ret_path)
{
	struct box_str path = {NULL, 0};
	int r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	const struct box_package *skill = box_store_request_find(request, name, &path);
	if (!skill) {
		struct box_str said = box_store_request_str(request, name);
		const char *why = why_left_out(request, name);
		return box_store_request_refuse(request, "Skill \"%.*s\" not found%s%s",
			(int)said.len, said.bytes, why ? ": " : "", why ? why : "");
	}
	*ret_skill = skill;
	*ret_path = box_arena_strndup(request->arena, path.bytes, path.len);
	return 0;
}

int box_store_request_scoped(
	struct box_store_request *request, struct box_str path, const char *label, char **ret_path)
{
	char resolved[BOX_PATH_MAX];
	const char *root = request->tenant->root_path;
	path = box_pytext_strip(path);
	if (box_str_has_nul(path)) {
		return box_store_request_refuse(request, "embedded null byte");
	}
	const char *below = box_names_below(request->arena, path, root);
	if (!below ||
		(request->root_fd >= 0 &&
			box_subtree_resolve(request->root_fd, root, below, resolved) < 0)) {
		return box_store_request_refuse(
			request, "%s must stay within the Workspace skill root", label);
	}
	const char *found = request->root_fd >= 0 ? resolved : below;
	*ret_path = box_arena_strndup(request->arena, found, strlen(found));
	return 0;
}

/* -- answers ---------------------------------------------------------------------------------- */

struct box_value box_store_request_skill(
	struct box_store_request *request, const struct box_package *skill)
{
	struct box_value map = box_map_value();
	for (size_t i = 0; i < skill->map.count; i++) {
		(void)box_map_add_str(
			request->arena, &map, skill->map.pairs[i].key, skill->map.pairs[i].value);
	}
	if (skill->warnings.count > 0) {
		(void)box_map_add(request->arena, &map, "warnings", skill->warnings);
	}
	return map;
}

struct listed {
	const struct box_package *skill;
	size_t place;
};

static int newest_first(const void *a, const void *b)
{
	const struct listed *left = a;
	const struct listed *right = b;
	int order = compare_times(right->skill->updated_at, left->skill->updated_at);
	return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

/* {path, message} for the folders whose package could not be loaded. */
static void add_left_out(struct box_store_request *request, struct box_value *answer)
{
	const struct box_skill_tree *tree = request->tenant->tree;
	struct box_value list = box_list_value();
	for (size_t i = 0; i < box_skill_tree_count(tree); i++) {
		struct box_skill_tree_found found = box_skill_tree_at(tree, i);
		if (found.skill) {
			continue;
		}
		struct box_value item = box_map_value();
		char *path = box_store_request_path(request, found.path);
		char *why = box_arena_strndup(request->arena, found.why, strlen(found.why));
		(void)box_map_add(request->arena, &item, "path", box_cstr(path));
		(void)box_map_add(request->arena, &item, "message", box_cstr(why));
		(void)box_list_add(request->arena, &list, item);
	}
	if (list.count > 0) {
		(void)box_map_add(request->arena, answer, "left_out", list);
	}
}

int box_store_list(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_skill_tree *tree = request->tenant->tree;
	int r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	size_t count = box_skill_tree_count(tree);
	struct listed *all = box_arena_alloc(request->arena, (count + 1) * sizeof(*all));
	size_t good = 0;
	for (size_t i = 0; i < count; i++) {
		const struct box_package *skill = box_skill_tree_at(tree, i).skill;
		if (skill) {
			all[good++] = (struct listed){skill, i};
		}
	}
	if (good > 1) {
		qsort(all, good, sizeof(*all), newest_first);
	}
	struct box_value list = box_list_value();
	for (size_t i = 0; i < good; i++) {
		(void)box_list_add(request->arena, &list, all[i].skill->map);
	}
	(void)box_map_add(request->arena, ret_answer, "skills", list);
	add_left_out(request, ret_answer);
	return 0;
}

int box_store_get(struct box_store_request *request, struct box_value *ret_answer)
{
	struct box_str path = {NULL, 0};
	const struct box_value *name = box_map_get(request->data, "name");
	if (!name) {
		return box_err_set(request->err, BOX_ERR_KEY, EINVAL, "'name'");
	}
	int r = box_store_request_list(request);
	if (r < 0) {
		return r;
	}
	const struct box_package *skill = box_store_request_find(request, name, &path);
	(void)box_map_add(request->arena, ret_answer, "skill",
		skill ? box_store_request_skill(request, skill) : box_null());
	return 0;
}

/* -- scan ------------------------------------------------------------------------------------- */

static int refuse_many(
	struct box_store_request *request, const struct box_skill_tree *tree, const char *path)
{
	struct box_buf all = box_buf(4 * BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; i < box_skill_tree_count(tree); i++) {
		char *below = box_names_join(request->arena, path, box_skill_tree_at(tree, i).path);
		(void)box_buf_printf(
			&all, "%s%s", i > 0 ? ", " : "", box_store_request_path(request, below));
	}
	int r = box_store_request_refuse(request,
		"Multiple skill directories found in %s. Please choose a more specific path: %.*s",
		box_store_request_path(request, path), (int)all.len, all.bytes);
	box_buf_free(&all);
	return r;
}

int box_store_request_scan(
	struct box_store_request *request, const char *path, struct box_skill_tree **ret_tree)
{
	char *client_path = box_store_request_path(request, path);
	_cleanup_(box_close_p) int fd = request->root_fd < 0
		? -ENOENT
		: box_subtree_open(request->root_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_refuse(
			request, "Directory does not exist: %s", client_path);
	}
	struct box_skill_tree *tree = box_skill_tree_new(client_path);
	int r = box_skill_tree_walk(tree, fd, BOX_SKILL_SCAN_DEPTH, request->err);
	if (r == 0 && box_skill_tree_count(tree) == 0) {
		r = box_store_request_refuse(request,
			"No SKILL.md found in %s or its subdirectories (max depth: %d)",
			client_path, BOX_SKILL_SCAN_DEPTH);
	} else if (r == 0 && box_skill_tree_count(tree) > 1) {
		r = refuse_many(request, tree, path);
	}
	if (r == 0) {
		r = box_skill_tree_load(tree, fd, request->err);
	}
	if (r == 0 && !box_skill_tree_at(tree, 0).skill) {
		r = box_store_request_refuse(request, "%s", box_skill_tree_at(tree, 0).why);
	}
	if (r < 0) {
		box_skill_tree_free(tree);
		return r;
	}
	*ret_tree = tree;
	return 0;
}

int box_store_scan(struct box_store_request *request, struct box_value *ret_answer)
{
	const struct box_value *path = NULL;
	char *below = NULL;
	struct box_skill_tree *tree = NULL;
	int r = box_store_request_need(request, "path", &path);
	if (r < 0) {
		return r;
	}
	r = box_store_request_scoped(
		request, box_store_request_str(request, path), "scan path", &below);
	if (r < 0) {
		return r;
	}
	r = box_store_request_scan(request, below, &tree);
	if (r < 0) {
		return r;
	}
	struct box_value map = box_store_request_skill(request, box_skill_tree_at(tree, 0).skill);
	*ret_answer = box_value_copy(request->arena, &map);
	box_skill_tree_free(tree);
	return 0;
}
