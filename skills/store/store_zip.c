/* Preview and install of uploaded archives. They are unpacked in staging; a package that is installed
 * moves from there to its place in one step.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "skills/archive/archive.h"
#include "skills/store/names.h"
#include "skills/store/package.h"
#include "skills/store/store_request.h"
#include "skills/store/subtree.h"
#include "skills/text/pytext.h"

/* What the reference calls the folder that it unpacks to: a package without a name, at the top of an
 * archive, is called that in previews. */
#define UNPACKED "extracted"

struct preview {
	const struct box_package *skill;
	struct box_str source; /* below the chosen folder of the archive */
	struct box_str target; /* the folder's name that it gets */
};

struct unpacked {
	struct box_stage stage;
	char item[BOX_STAGE_ITEM_SIZE];          /* empty when there is none */
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE]; /* of packages that last later; empty too */
	int fd;
	char *top; /* the chosen folder, below fd */
	struct box_skill_tree *tree;
	struct preview *previews;
	size_t count;
};

static void unpacked_close(struct unpacked *unpacked)
{
	box_skill_tree_free(unpacked->tree);
	if (unpacked->fd >= 0) {
		(void)close(unpacked->fd);
	}
	if (unpacked->item[0]) {
		box_stage_remove(&unpacked->stage, unpacked->item);
	}
	if (unpacked->marks[0]) {
		box_stage_remove(&unpacked->stage, unpacked->marks);
	}
	box_stage_close(&unpacked->stage);
}

/* -- unpacking -------------------------------------------------------------------------------- */

struct only {
	char name[NAME_MAX + 1];
	size_t count;
	bool is_dir;
};

static int count_entry(void *context, const char *name, int d_type)
{
	struct only *only = context;
	(void)snprintf(only->name, sizeof(only->name), "%s", name);
	only->is_dir = d_type == DT_DIR;
	return ++only->count > 1 ? -E2BIG : 0;
}

/* A folder of the archive that was asked for by name; "" for all of it. */
static int choose_folder(struct box_store_request *serving, struct unpacked *unpacked)
{
	struct box_str asked = box_names_source_path(serving->arena,
		box_store_request_str_or(serving, box_map_get(serving->data, "source_subdir"), ""));
	struct only only = {.count = 0};
	(void)box_subtree_each(unpacked->fd, count_entry, &only);
	unpacked->top = only.count == 1 && only.is_dir
		? box_arena_strndup(serving->arena, only.name, strlen(only.name))
		: box_arena_strndup(serving->arena, "", 0);
	if (asked.len == 0) {
		return 0;
	}
	if (box_str_has_nul(asked)) {
		return box_store_request_refuse(serving, "embedded null byte");
	}
	char *normal = box_names_normpath(serving->arena, asked);
	if (strncmp(normal, "..", 2) == 0) {
		return box_store_request_refuse(
			serving, "source_subdir must stay within the uploaded archive");
	}
	unpacked->top = box_names_join(
		serving->arena, unpacked->top, strcmp(normal, ".") == 0 ? "" : normal);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, unpacked->top, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_refuse(serving,
			"source_subdir does not exist in the uploaded archive: %.*s",
			(int)asked.len, asked.bytes);
	}
	return 0;
}

static int unpack(struct box_store_request *serving, bool to_keep, struct unpacked *unpacked)
{
	struct stat st;
	if (serving->archive_fd < 0 || fstat(serving->archive_fd, &st) < 0 || st.st_size == 0) {
		return box_store_request_refuse(serving, "Uploaded file is empty");
	}
	int r = box_stage_open(serving->root_fd, &unpacked->stage);
	if (r == 0) {
		unpacked->fd = box_stage_folder(&unpacked->stage, unpacked->item);
		r = unpacked->fd < 0 ? unpacked->fd : 0;
	}
	if (r < 0) {
		unpacked->item[0] = '\0';
		return box_store_request_os_error(serving, -r, BOX_STAGE_NAME);
	}
	bool lasts = to_keep && !box_deferred_sync_is_possible();
	return lasts ? box_archive_unpack(serving->archive_fd, unpacked->fd, serving->err)
		     : box_archive_peek(serving->archive_fd, unpacked->fd, serving->err);
}

/* -- previews --------------------------------------------------------------------------------- */

static int by_source(const void *a, const void *b)
{
	const struct preview *left = a;
	const struct preview *right = b;
	return strcmp(left->source.bytes, right->source.bytes);
}

/* Every package must be one that can be loaded. */
static int make_previews(struct box_store_request *serving, struct unpacked *unpacked)
{
	const struct box_value *suffix_raw = box_map_get(serving->data, "target_suffix");
	const struct box_value *file_raw = box_map_get(serving->data, "filename");
	struct box_str suffix = suffix_raw ? box_store_request_str_or(serving, suffix_raw, "")
					   : box_str("upload");
	struct box_str stem = box_names_stem(serving->arena,
		file_raw ? box_store_request_str_or(serving, file_raw, "") : box_str("skill.zip"));
	size_t count = box_skill_tree_count(unpacked->tree);
	unpacked->previews = box_arena_alloc(serving->arena, count * sizeof(*unpacked->previews));
	for (size_t i = 0; i < count; i++) {
		struct box_skill_tree_found found = box_skill_tree_at(unpacked->tree, i);
		if (!found.skill) {
			return box_store_request_refuse(serving, "%s", found.why);
		}
		struct box_str source = box_str(found.path);
		unpacked->previews[unpacked->count++] = (struct preview){found.skill, source,
			box_names_target(serving->arena, stem, source, suffix)};
	}
	qsort(unpacked->previews, count, sizeof(*unpacked->previews), by_source);
	return 0;
}

static int find_packages(struct box_store_request *serving, struct unpacked *unpacked)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, unpacked->top, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_os_error(serving, -fd, BOX_STAGE_NAME);
	}
	unpacked->tree = box_skill_tree_new(
		box_names_join(serving->arena, "/" UNPACKED, unpacked->top));
	int r = box_skill_tree_walk(unpacked->tree, fd, BOX_SKILL_SCAN_DEPTH, serving->err);
	if (r == 0 && box_skill_tree_count(unpacked->tree) == 0) {
		r = box_store_request_refuse(serving,
			"No SKILL.md found in the uploaded archive or its subdirectories "
			"(max depth: %d)",
			BOX_SKILL_SCAN_DEPTH);
	}
	if (r < 0) {
		return r;
	}
	r = box_skill_tree_load(unpacked->tree, fd, serving->err);
	if (r < 0) {
		return r;
	}
	return make_previews(serving, unpacked);
}

/* The caller closes, also on failure. */
static int open_archive(struct box_store_request *serving, bool to_keep, struct unpacked *unpacked)
{
	*unpacked = (struct unpacked){.stage = {-1, -1}, .fd = -1};
	int r = unpack(serving, to_keep, unpacked);
	if (r < 0) {
		return r;
	}
	r = choose_folder(serving, unpacked);
	if (r < 0) {
		return r;
	}
	return find_packages(serving, unpacked);
}

static char *target_path(struct box_store_request *serving, const struct preview *preview)
{
	return box_store_request_path(serving,
		box_arena_strndup(serving->arena, preview->target.bytes, preview->target.len));
}

/* A package at the top of its archive has no folder yet that could have the wrong name. */
static struct box_value preview_value(
	struct box_store_request *serving, const struct preview *preview, bool has_folder)
{
	struct box_value shown = box_store_request_skill(serving, preview->skill);
	struct box_value map = box_map_value();
	for (size_t i = 0; i < shown.count; i++) {
		struct box_value value = shown.pairs[i].value;
		if (box_str_eq(shown.pairs[i].key, "package_root")) {
			value = box_cstr(target_path(serving, preview));
		} else if (box_str_eq(shown.pairs[i].key, "warnings") && !has_folder) {
			value = preview->skill->content_warnings;
			if (value.count == 0) {
				continue;
			}
		}
		(void)box_map_add_str(serving->arena, &map, shown.pairs[i].key, value);
	}
	(void)box_map_add(serving->arena, &map, "source_path", box_text(preview->source));
	/* The packages are gone when the answer is read. */
	return box_value_copy(serving->arena, &map);
}

int box_store_preview(struct box_store_request *serving, struct box_value *ret_answer)
{
	struct unpacked unpacked;
	int r = open_archive(serving, false, &unpacked);
	if (r == 0) {
		struct box_value list = box_list_value();
		for (size_t i = 0; i < unpacked.count; i++) {
			const struct preview *preview = &unpacked.previews[i];
			bool has_folder = *unpacked.top || preview->source.len > 0;
			(void)box_list_add(
				serving->arena, &list, preview_value(serving, preview, has_folder));
		}
		(void)box_map_add(serving->arena, ret_answer, "skills", list);
	}
	unpacked_close(&unpacked);
	return r;
}

/* -- choosing among several ------------------------------------------------------------------- */

struct choice {
	struct box_str *paths;
	size_t count;
};

static void choose(struct box_store_request *serving, struct choice *choice, struct box_str path)
{
	path = box_names_source_path(serving->arena, path);
	for (size_t i = 0; i < choice->count; i++) {
		if (box_str_same(choice->paths[i], path)) {
			return;
		}
	}
	choice->paths[choice->count++] = path;
}

static void read_choice(struct box_store_request *serving, struct choice *choice)
{
	const struct box_value *list = box_map_get(serving->data, "source_paths");
	size_t count = list && list->type == BOX_LIST ? list->count : 0;
	choice->paths = box_arena_alloc(serving->arena, (count + 1) * sizeof(*choice->paths));
	for (size_t i = 0; i < count; i++) {
		choose(serving, choice, box_store_request_str_or(serving, &list->items[i], ""));
	}
	struct box_str single = box_store_request_str_or(
		serving, box_map_get(serving->data, "source_path"), "");
	if (box_names_source_path(serving->arena, single).len > 0) {
		choose(serving, choice, single);
	}
}

static struct box_str candidates(struct box_store_request *serving, const struct unpacked *unpacked)
{
	struct box_buf all = box_buf(4 * BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; i < unpacked->count; i++) {
		const char *source = unpacked->previews[i].source.bytes;
		(void)box_buf_printf(&all, "%s%s", i > 0 ? ", " : "", *source ? source : ".");
	}
	struct box_str text = {box_arena_strndup(serving->arena, all.bytes, all.len), all.len};
	box_buf_free(&all);
	return text;
}

static int select_previews(struct box_store_request *serving, const struct unpacked *unpacked,
	const struct preview ***ret_selected, size_t *ret_count)
{
	struct choice choice = {0};
	read_choice(serving, &choice);
	bool all = choice.count == 0 && unpacked->count == 1;
	size_t count = all ? 1 : choice.count;
	if (count == 0) {
		return box_store_request_refuse(serving,
			"Multiple skills found. Please choose one or more source_paths: %s",
			candidates(serving, unpacked).bytes);
	}
	const struct preview **selected = box_arena_alloc(
		serving->arena, count * sizeof(struct preview *));
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < unpacked->count && !selected[i]; k++) {
			const struct preview *preview = &unpacked->previews[k];
			if (all || box_str_same(preview->source, choice.paths[i])) {
				selected[i] = preview;
			}
		}
		if (!selected[i]) {
			return box_store_request_refuse(serving,
				"Invalid source_path \"%.*s\". Available: %s",
				(int)choice.paths[i].len, choice.paths[i].bytes,
				candidates(serving, unpacked).bytes);
		}
	}
	*ret_selected = selected;
	*ret_count = count;
	return 0;
}

/* -- install ---------------------------------------------------------------------------------- */

static int check_targets(
	struct box_store_request *serving, const struct preview **selected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct box_str target = selected[i]->target;
		char *path = target_path(serving, selected[i]);
		struct stat st;
		if (!box_names_is_folder(target)) {
			return box_store_request_refuse(serving,
				"package_root must stay within the Workspace skill root, "
				"in a folder of its own: %s",
				path);
		}
		for (size_t k = 0; k < i; k++) {
			if (box_str_same(selected[k]->target, target)) {
				return box_store_request_refuse(
					serving, "Duplicate target directory selected: %s", path);
			}
		}
		if (fstatat(serving->root_fd, target.bytes, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			return box_store_request_refuse(
				serving, "Skill directory already exists: %s", path);
		}
	}
	return 0;
}

/* Moves one package from staging to its place. */
static int move_package(
	struct box_store_request *serving, struct unpacked *unpacked, const struct preview *preview)
{
	char *source = box_names_join(serving->arena, unpacked->top, preview->source.bytes);
	char *slash = strrchr(source, '/');
	const char *leaf = slash ? slash + 1 : source;
	if (!*source) {
		int r = renameat2(unpacked->stage.fd, unpacked->item, serving->root_fd,
			preview->target.bytes, RENAME_NOREPLACE);
		if (r == 0) {
			unpacked->item[0] = '\0';
		}
		return r < 0 ? -errno : 0;
	}
	char *parent = box_arena_strndup(
		serving->arena, source, slash ? (size_t)(slash - source) : 0);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, parent, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return fd;
	}
	return renameat2(fd, leaf, serving->root_fd, preview->target.bytes, RENAME_NOREPLACE) < 0
		? -errno
		: 0;
}

static int move_all(struct box_store_request *serving, struct unpacked *unpacked,
	const struct preview **selected, size_t count, size_t *ret_moved)
{
	for (*ret_moved = 0; *ret_moved < count; ++*ret_moved) {
		const struct preview *preview = selected[*ret_moved];
		int r = move_package(serving, unpacked, preview);
		if (r == -EEXIST) {
			return box_store_request_refuse(serving,
				"Skill directory already exists: %s",
				target_path(serving, preview));
		}
		if (r < 0) {
			return box_store_request_os_error(serving, -r, preview->target.bytes);
		}
	}
	int r = unpacked->marks[0] ? 0 : box_subtree_sync(serving->root_fd);
	return r < 0 ? box_store_request_os_error(serving, -r, "") : 0;
}

/* Before the first of them is in its place. */
static int mark_all(struct box_store_request *serving, struct unpacked *unpacked,
	const struct preview **selected, size_t count)
{
	if (!box_deferred_sync_is_possible()) {
		return 0; /* all of it is on the disk */
	}
	int r = box_deferred_sync_begin(&unpacked->stage, unpacked->marks);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = box_deferred_sync_mark(
			&unpacked->stage, unpacked->marks, selected[i]->target.bytes);
	}
	return r < 0 ? box_store_request_os_error(serving, -r, BOX_STAGE_NAME) : 0;
}

/* From now on the marks are the promise's. */
static int promise(struct box_store_request *serving, struct unpacked *unpacked)
{
	if (!unpacked->marks[0]) {
		return 0;
	}
	int r = box_deferred_sync_hand_over(&unpacked->stage, unpacked->marks, serving->later);
	if (r < 0) {
		return box_store_request_os_error(serving, -r, BOX_STAGE_NAME);
	}
	unpacked->marks[0] = '\0';
	return 0;
}

/* As the list has it; else, when another hides it there, as it lies. */
static int add_installed(
	struct box_store_request *serving, const struct preview *preview, struct box_value *list)
{
	struct box_skill_tree *tree = NULL;
	struct box_str path = {NULL, 0};
	int r = box_store_request_scan(serving, preview->target.bytes, &tree);
	if (r < 0) {
		return r;
	}
	const struct box_package *scanned = box_skill_tree_at(tree, 0).skill;
	struct box_value name = box_text(scanned->name);
	const struct box_package *listed = box_store_request_find(serving, &name, &path);
	struct box_value map = box_store_request_skill(serving, listed ? listed : scanned);
	(void)box_list_add(serving->arena, list, box_value_copy(serving->arena, &map));
	box_skill_tree_free(tree);
	return 0;
}

static int install(
	struct box_store_request *serving, struct unpacked *unpacked, struct box_value *ret_list)
{
	const struct preview **selected = NULL;
	size_t count = 0;
	size_t moved = 0;
	int r = select_previews(serving, unpacked, &selected, &count);
	if (r < 0) {
		return r;
	}
	r = check_targets(serving, selected, count);
	if (r < 0) {
		return r;
	}
	r = mark_all(serving, unpacked, selected, count);
	if (r < 0) {
		return r;
	}
	r = move_all(serving, unpacked, selected, count, &moved);
	if (r == 0) {
		r = box_store_request_list(serving);
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		r = add_installed(serving, selected[i], ret_list);
	}
	if (r == 0) {
		r = promise(serving, unpacked);
	}
	/* All of them or none. */
	for (size_t i = 0; selected && i < moved && r < 0; i++) {
		(void)box_stage_discard(
			&unpacked->stage, serving->root_fd, selected[i]->target.bytes);
	}
	return r;
}

int box_store_install(struct box_store_request *serving, struct box_value *ret_answer)
{
	struct unpacked unpacked;
	struct box_value list = box_list_value();
	int r = open_archive(serving, true, &unpacked);
	if (r == 0) {
		r = install(serving, &unpacked, &list);
	}
	if (r == 0) {
		(void)box_map_add(serving->arena, ret_answer, "skills", list);
	}
	unpacked_close(&unpacked);
	return r;
}
