/* Preview and install of uploaded archives. They are unpacked in staging; an installed package is moved from
 * there to its place atomically.
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

/* The name that the reference gives the folder it unpacks to. Previews show it for a package without a name
 * at the top of an archive. */
#define UNPACKED "extracted"

struct preview {
	const struct box_package *skill;
	struct box_str source; /* below the chosen folder of the archive */
	struct box_str target; /* the name of its folder when installed */
};

struct unpacked {
	struct box_stage stage;
	char item[BOX_STAGE_ITEM_SIZE]; /* empty if there is none */
	char marks
		[BOX_DEFERRED_SYNC_NAME_SIZE]; /* of packages that are synced later; empty if there are none */
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

/* The folder of the archive that the client chose; "" for all of it. */
static int choose_folder(struct box_store_request *request, struct unpacked *unpacked)
{
	struct box_str asked = box_names_source_path(request->arena,
		box_store_request_str_or(request, box_map_get(request->data, "source_subdir"), ""));
	struct only only = {.count = 0};
	(void)box_subtree_each(unpacked->fd, count_entry, &only);
	unpacked->top = only.count == 1 && only.is_dir
		? box_arena_strndup(request->arena, only.name, strlen(only.name))
		: box_arena_strndup(request->arena, "", 0);
	if (asked.len == 0) {
		return 0;
	}
	if (box_str_has_nul(asked)) {
		return box_store_request_refuse(request, "embedded null byte");
	}
	char *normal = box_names_normpath(request->arena, asked);
	if (strncmp(normal, "..", 2) == 0) {
		return box_store_request_refuse(
			request, "source_subdir must stay within the uploaded archive");
	}
	unpacked->top = box_names_join(
		request->arena, unpacked->top, strcmp(normal, ".") == 0 ? "" : normal);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, unpacked->top, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_refuse(request,
			"source_subdir does not exist in the uploaded archive: %.*s",
			(int)asked.len, asked.bytes);
	}
	return 0;
}

static int unpack(struct box_store_request *request, bool to_keep, struct unpacked *unpacked)
{
	struct stat st;
	if (request->archive_fd < 0 || fstat(request->archive_fd, &st) < 0 || st.st_size == 0) {
		return box_store_request_refuse(request, "Uploaded file is empty");
	}
	int r = box_stage_open(request->root_fd, &unpacked->stage);
	if (r == 0) {
		unpacked->fd = box_stage_folder(&unpacked->stage, unpacked->item);
		r = unpacked->fd < 0 ? unpacked->fd : 0;
	}
	if (r < 0) {
		unpacked->item[0] = '\0';
		return box_store_request_os_error(request, -r, BOX_STAGE_NAME);
	}
	bool lasts = to_keep && !box_deferred_sync_is_possible();
	return lasts ? box_archive_unpack(request->archive_fd, unpacked->fd, request->err)
		     : box_archive_peek(request->archive_fd, unpacked->fd, request->err);
}

/* -- previews --------------------------------------------------------------------------------- */

static int by_source(const void *a, const void *b)
{
	const struct preview *left = a;
	const struct preview *right = b;
	return strcmp(left->source.bytes, right->source.bytes);
}

/* Every package must be loadable. */
static int make_previews(struct box_store_request *request, struct unpacked *unpacked)
{
	const struct box_value *suffix_raw = box_map_get(request->data, "target_suffix");
	const struct box_value *file_raw = box_map_get(request->data, "filename");
	struct box_str suffix = suffix_raw ? box_store_request_str_or(request, suffix_raw, "")
					   : box_str("upload");
	struct box_str stem = box_names_stem(request->arena,
		file_raw ? box_store_request_str_or(request, file_raw, "") : box_str("skill.zip"));
	size_t count = box_skill_tree_count(unpacked->tree);
	unpacked->previews = box_arena_alloc(request->arena, count * sizeof(*unpacked->previews));
	for (size_t i = 0; i < count; i++) {
		struct box_skill_tree_found found = box_skill_tree_at(unpacked->tree, i);
		if (!found.skill) {
			return box_store_request_refuse(request, "%s", found.why);
		}
		struct box_str source = box_str(found.path);
		unpacked->previews[unpacked->count++] = (struct preview){found.skill, source,
			box_names_target(request->arena, stem, source, suffix)};
	}
	qsort(unpacked->previews, count, sizeof(*unpacked->previews), by_source);
	return 0;
}

static int find_packages(struct box_store_request *request, struct unpacked *unpacked)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, unpacked->top, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return box_store_request_os_error(request, -fd, BOX_STAGE_NAME);
	}
	unpacked->tree = box_skill_tree_new(
		box_names_join(request->arena, "/" UNPACKED, unpacked->top));
	int r = box_skill_tree_walk(unpacked->tree, fd, BOX_SKILL_SCAN_DEPTH, request->err);
	if (r == 0 && box_skill_tree_count(unpacked->tree) == 0) {
		r = box_store_request_refuse(request,
			"No SKILL.md found in the uploaded archive or its subdirectories "
			"(max depth: %d)",
			BOX_SKILL_SCAN_DEPTH);
	}
	if (r < 0) {
		return r;
	}
	r = box_skill_tree_load(unpacked->tree, fd, request->err);
	if (r < 0) {
		return r;
	}
	return make_previews(request, unpacked);
}

/* The caller closes, even on failure. */
static int open_archive(struct box_store_request *request, bool to_keep, struct unpacked *unpacked)
{
	*unpacked = (struct unpacked){.stage = {-1, -1}, .fd = -1};
	int r = unpack(request, to_keep, unpacked);
	if (r < 0) {
		return r;
	}
	r = choose_folder(request, unpacked);
	if (r < 0) {
		return r;
	}
	return find_packages(request, unpacked);
}

static char *target_path(struct box_store_request *request, const struct preview *preview)
{
	return box_store_request_path(request,
		box_arena_strndup(request->arena, preview->target.bytes, preview->target.len));
}

/* A package at the top of its archive has no folder yet whose name could be wrong. */
static struct box_value preview_value(
	struct box_store_request *request, const struct preview *preview, bool has_folder)
{
	struct box_value shown = box_store_request_skill(request, preview->skill);
	struct box_value map = box_map_value();
	for (size_t i = 0; i < shown.count; i++) {
		struct box_value value = shown.pairs[i].value;
		if (box_str_eq(shown.pairs[i].key, "package_root")) {
			value = box_cstr(target_path(request, preview));
		} else if (box_str_eq(shown.pairs[i].key, "warnings") && !has_folder) {
			value = preview->skill->content_warnings;
			if (value.count == 0) {
				continue;
			}
		}
		(void)box_map_add_str(request->arena, &map, shown.pairs[i].key, value);
	}
	(void)box_map_add(request->arena, &map, "source_path", box_text(preview->source));
	/* The packages are freed before the answer is sent. */
	return box_value_copy(request->arena, &map);
}

int box_store_preview(struct box_store_request *request, struct box_value *ret_answer)
{
	struct unpacked unpacked;
	int r = open_archive(request, false, &unpacked);
	if (r == 0) {
		struct box_value list = box_list_value();
		for (size_t i = 0; i < unpacked.count; i++) {
			const struct preview *preview = &unpacked.previews[i];
			bool has_folder = *unpacked.top || preview->source.len > 0;
			(void)box_list_add(
				request->arena, &list, preview_value(request, preview, has_folder));
		}
		(void)box_map_add(request->arena, ret_answer, "skills", list);
	}
	unpacked_close(&unpacked);
	return r;
}

/* -- choosing among several ------------------------------------------------------------------- */

struct choice {
	struct box_str *paths;
	size_t count;
};

static void choose(struct box_store_request *request, struct choice *choice, struct box_str path)
{
	path = box_names_source_path(request->arena, path);
	for (size_t i = 0; i < choice->count; i++) {
		if (box_str_same(choice->paths[i], path)) {
			return;
		}
	}
	choice->paths[choice->count++] = path;
}

static void read_choice(struct box_store_request *request, struct choice *choice)
{
	const struct box_value *list = box_map_get(request->data, "source_paths");
	size_t count = list && list->type == BOX_LIST ? list->count : 0;
	choice->paths = box_arena_alloc(request->arena, (count + 1) * sizeof(*choice->paths));
	for (size_t i = 0; i < count; i++) {
		choose(request, choice, box_store_request_str_or(request, &list->items[i], ""));
	}
	struct box_str single = box_store_request_str_or(
		request, box_map_get(request->data, "source_path"), "");
	if (box_names_source_path(request->arena, single).len > 0) {
		choose(request, choice, single);
	}
}

static struct box_str candidates(struct box_store_request *request, const struct unpacked *unpacked)
{
	struct box_buf all = box_buf(4 * BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; i < unpacked->count; i++) {
		const char *source = unpacked->previews[i].source.bytes;
		(void)box_buf_printf(&all, "%s%s", i > 0 ? ", " : "", *source ? source : ".");
	}
	struct box_str text = {box_arena_strndup(request->arena, all.bytes, all.len), all.len};
	box_buf_free(&all);
	return text;
}

static int select_previews(struct box_store_request *request, const struct unpacked *unpacked,
	const struct preview ***ret_selected, size_t *ret_count)
{
	struct choice choice = {0};
	read_choice(request, &choice);
	bool all = choice.count == 0 && unpacked->count == 1;
	size_t count = all ? 1 : choice.count;
	if (count == 0) {
		return box_store_request_refuse(request,
			"Multiple skills found. Please choose one or more source_paths: %s",
			candidates(request, unpacked).bytes);
	}
	const struct preview **selected = box_arena_alloc(
		request->arena, count * sizeof(struct preview *));
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < unpacked->count && !selected[i]; k++) {
			const struct preview *preview = &unpacked->previews[k];
			if (all || box_str_same(preview->source, choice.paths[i])) {
				selected[i] = preview;
			}
		}
		if (!selected[i]) {
			return box_store_request_refuse(request,
				"Invalid source_path \"%.*s\". Available: %s",
				(int)choice.paths[i].len, choice.paths[i].bytes,
				candidates(request, unpacked).bytes);
		}
	}
	*ret_selected = selected;
	*ret_count = count;
	return 0;
}

/* -- install ---------------------------------------------------------------------------------- */

static int check_targets(
	struct box_store_request *request, const struct preview **selected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct box_str target = selected[i]->target;
		char *path = target_path(request, selected[i]);
		struct stat st;
		if (!box_names_is_folder(target)) {
			return box_store_request_refuse(request,
				"package_root must stay within the Workspace skill root, "
				"in a folder of its own: %s",
				path);
		}
		for (size_t k = 0; k < i; k++) {
			if (box_str_same(selected[k]->target, target)) {
				return box_store_request_refuse(
					request, "Duplicate target directory selected: %s", path);
			}
		}
		if (fstatat(request->root_fd, target.bytes, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			return box_store_request_refuse(
				request, "Skill directory already exists: %s", path);
		}
	}
	return 0;
}

/* Moves one package from staging to its place. */
static int move_package(
	struct box_store_request *request, struct unpacked *unpacked, const struct preview *preview)
{
	char *source = box_names_join(request->arena, unpacked->top, preview->source.bytes);
	char *slash = strrchr(source, '/');
	const char *leaf = slash ? slash + 1 : source;
	if (!*source) {
		int r = renameat2(unpacked->stage.fd, unpacked->item, request->root_fd,
			preview->target.bytes, RENAME_NOREPLACE);
		if (r == 0) {
			unpacked->item[0] = '\0';
		}
		return r < 0 ? -errno : 0;
	}
	char *parent = box_arena_strndup(
		request->arena, source, slash ? (size_t)(slash - source) : 0);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		unpacked->fd, parent, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return fd;
	}
	return renameat2(fd, leaf, request->root_fd, preview->target.bytes, RENAME_NOREPLACE) < 0
		? -errno
		: 0;
}

static int move_all(struct box_store_request *request, struct unpacked *unpacked,
	const struct preview **selected, size_t count, size_t *ret_moved)
{
	for (*ret_moved = 0; *ret_moved < count; ++*ret_moved) {
		const struct preview *preview = selected[*ret_moved];
		int r = move_package(request, unpacked, preview);
		if (r == -EEXIST) {
			return box_store_request_refuse(request,
				"Skill directory already exists: %s",
				target_path(request, preview));
		}
		if (r < 0) {
			return box_store_request_os_error(request, -r, preview->target.bytes);
		}
	}
	int r = unpacked->marks[0] ? 0 : box_subtree_sync(request->root_fd);
	return r < 0 ? box_store_request_os_error(request, -r, "") : 0;
}

/* Marks all packages, before the first one is moved to its place. */
static int mark_all(struct box_store_request *request, struct unpacked *unpacked,
	const struct preview **selected, size_t count)
{
	if (!box_deferred_sync_is_possible()) {
		return 0; /* open_archive has synced everything already */
	}
	int r = box_deferred_sync_begin(&unpacked->stage, unpacked->marks);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = box_deferred_sync_mark(
			&unpacked->stage, unpacked->marks, selected[i]->target.bytes);
	}
	return r < 0 ? box_store_request_os_error(request, -r, BOX_STAGE_NAME) : 0;
}

/* Hands the marks over to the deferred sync. */
static int defer_sync(struct box_store_request *request, struct unpacked *unpacked)
{
	if (!unpacked->marks[0]) {
		return 0;
	}
	int r = box_deferred_sync_hand_over(&unpacked->stage, unpacked->marks, request->deferred);
	if (r < 0) {
		return box_store_request_os_error(request, -r, BOX_STAGE_NAME);
	}
	unpacked->marks[0] = '\0';
	return 0;
}

/* Adds the package as the list shows it; or as it was installed, if another of its name hides it there. */
static int add_installed(
	struct box_store_request *request, const struct preview *preview, struct box_value *list)
{
	struct box_skill_tree *tree = NULL;
	struct box_str path = {NULL, 0};
	int r = box_store_request_scan(request, preview->target.bytes, &tree);
	if (r < 0) {
		return r;
	}
	const struct box_package *scanned = box_skill_tree_at(tree, 0).skill;
	struct box_value name = box_text(scanned->name);
	const struct box_package *listed = box_store_request_find(request, &name, &path);
	struct box_value map = box_store_request_skill(request, listed ? listed : scanned);
	(void)box_list_add(request->arena, list, box_value_copy(request->arena, &map));
	box_skill_tree_free(tree);
	return 0;
}

static int install(
	struct box_store_request *request, struct unpacked *unpacked, struct box_value *ret_list)
{
	const struct preview **selected = NULL;
	size_t count = 0;
	size_t moved = 0;
	int r = select_previews(request, unpacked, &selected, &count);
	if (r < 0) {
		return r;
	}
	r = check_targets(request, selected, count);
	if (r < 0) {
		return r;
	}
	r = mark_all(request, unpacked, selected, count);
	if (r < 0) {
		return r;
	}
	r = move_all(request, unpacked, selected, count, &moved);
	if (r == 0) {
		r = box_store_request_list(request);
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		r = add_installed(request, selected[i], ret_list);
	}
	if (r == 0) {
		r = defer_sync(request, unpacked);
	}
	/* All packages are installed, or none. */
	for (size_t i = 0; selected && i < moved && r < 0; i++) {
		(void)box_stage_discard(
			&unpacked->stage, request->root_fd, selected[i]->target.bytes);
	}
	return r;
}

int box_store_install(struct box_store_request *request, struct box_value *ret_answer)
{
	struct unpacked unpacked;
	struct box_value list = box_list_value();
	int r = open_archive(request, true, &unpacked);
	if (r == 0) {
		r = install(request, &unpacked, &list);
	}
	if (r == 0) {
		(void)box_map_add(request->arena, ret_answer, "skills", list);
	}
	unpacked_close(&unpacked);
	return r;
}
