/* Reads one package. SKILL.md is opened without following a link and without blocking, and only a regular
 * file of limited size is read.
 */
#include "skills/store/package.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "skills/store/names.h"
#include "skills/store/subtree.h"
#include "skills/text/conform.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"

#define NS_PER_SEC 1000000000LL
#define SETTLE_NS 50000000LL /* several ticks of the clock for file times */

/* -- stamps ----------------------------------------------------------------------------------- */

static struct box_package_stamp stamp_of(const struct stat *st)
{
	return (struct box_package_stamp){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = st->st_mtim.tv_sec * NS_PER_SEC + st->st_mtim.tv_nsec,
		.ctime_ns = st->st_ctim.tv_sec * NS_PER_SEC + st->st_ctim.tv_nsec,
	};
}

int box_package_stamp_read(
	int dir_fd, const char *path, struct box_package_stamp *ret_stamp, unsigned *ret_mode)
{
	struct stat st;
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0) {
		return -errno;
	}
	*ret_stamp = stamp_of(&st);
	*ret_mode = st.st_mode;
	return 0;
}

int box_package_stamp_of_fd(int fd, struct box_package_stamp *ret_stamp)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	*ret_stamp = stamp_of(&st);
	return 0;
}

bool box_package_stamp_same(const struct box_package_stamp *a, const struct box_package_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
		a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

int64_t box_package_stamp_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

bool box_package_stamp_is_settled(const struct box_package_stamp *stamp, int64_t now_ns)
{
	return stamp->ctime_ns < now_ns - SETTLE_NS;
}

/* -- reading ---------------------------------------------------------------------------------- */

enum box_package_entry_kind box_package_find_entry(int folder_fd, const char **ret_entry_file)
{
	static const char *const names[] = {"SKILL.md", "skill.md"};
	for (size_t i = 0; i < 2; i++) {
		struct stat st;
		if (fstatat(folder_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			S_ISDIR(st.st_mode)) {
			continue;
		}
		*ret_entry_file = names[i];
		return S_ISREG(st.st_mode) ? BOX_PACKAGE_ENTRY_GOOD : BOX_PACKAGE_ENTRY_BAD;
	}
	return BOX_PACKAGE_ENTRY_NONE;
}

static int refuse(struct box_err *err, const char *entry_file, const char *why)
{
	return box_err_set(
		err, BOX_ERR_VALIDATION, EINVAL, "Skill entry file %s %s", entry_file, why);
}

static int refuse_size(struct box_err *err, const char *entry_file)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
		"Skill entry file %s exceeds the %lu-byte limit", entry_file,
		BOX_SKILL_TEXT_BYTES_MAX);
}

/* The file's fd, or -errno. */
static int read_entry(int folder_fd, const char *entry_file, struct box_arena *arena,
	struct box_str *ret_text, struct stat *ret_st, struct box_err *err)
{
	/* Checked before it is opened: opening a device may have side effects. */
	if (fstatat(folder_fd, entry_file, ret_st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!S_ISREG(ret_st->st_mode)) {
		return refuse(err, entry_file,
			S_ISLNK(ret_st->st_mode) ? "is a symbolic link" : "is not a regular file");
	}
	_cleanup_(box_close_p) int fd = box_subtree_open(
		folder_fd, entry_file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0) {
		return refuse(err, entry_file, box_err_strerror(-fd));
	}
	if (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode)) {
		return refuse(err, entry_file, "is not a regular file");
	}
	if ((uint64_t)ret_st->st_size > BOX_SKILL_TEXT_BYTES_MAX) {
		return refuse_size(err, entry_file);
	}
	struct box_buf content = box_buf(BOX_SKILL_TEXT_BYTES_MAX);
	int r = box_subtree_read(fd, &content);
	if (r == -EFBIG) {
		r = refuse_size(err, entry_file);
	} else if (r < 0) {
		r = refuse(err, entry_file, "cannot be read");
	} else if (!box_utf8_valid(content.bytes, content.len)) {
		r = refuse(err, entry_file, "is not valid UTF-8 text");
	} else {
		*ret_text = (struct box_str){
			box_arena_strndup(arena, content.len ? content.bytes : "", content.len),
			content.len};
	}
	box_buf_free(&content);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Whether the package has that file (or folder), possibly through a link that stays inside it. */
static bool has(int folder_fd, const char *name, bool folder, bool *ret_link)
{
	struct stat st;
	if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return false;
	}
	if (S_ISLNK(st.st_mode)) {
		*ret_link = true;
		_cleanup_(box_close_p) int fd = box_subtree_open_linked(folder_fd, name, O_PATH);
		if (fd < 0 || fstat(fd, &st) < 0) {
			return false;
		}
	}
	return folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
}

static bool is_python_project(int folder_fd, bool *ret_link)
{
	static const char *const files[] = {
		"requirements.txt", "pyproject.toml", "setup.py", "setup.cfg"};
	for (size_t i = 0; i < BOX_COUNT_OF(files); i++) {
		if (has(folder_fd, files[i], false, ret_link)) {
			return true;
		}
	}
	return has(folder_fd, ".venv", true, ret_link);
}

/* Copies a text out of the front matter, which is freed, into the skill. */
static struct box_str copy_text(struct box_package *skill, struct box_str text)
{
	return (struct box_str){box_arena_strndup(skill->arena, text.bytes, text.len), text.len};
}

static int read_fields(struct box_package *skill, struct box_arena *scratch,
	const struct box_front_matter *front, const char *folder_name, struct box_err *err)
{
	struct box_str name = {NULL, 0};
	struct box_str display_name = {NULL, 0};
	struct box_str description = {NULL, 0};
	int r = box_front_matter_text(scratch, box_yaml_get(&front->meta, "name"), "name",
		box_str(folder_name), &name, err);
	if (r < 0) {
		return r;
	}
	r = box_names_check(name, &name, err);
	if (r < 0) {
		return r;
	}
	r = box_front_matter_text(scratch, box_yaml_get(&front->meta, "display_name"),
		"display_name", name, &display_name, err);
	if (r < 0) {
		return r;
	}
	r = box_front_matter_text(scratch, box_yaml_get(&front->meta, "description"), "description",
		box_str(""), &description, err);
	if (r < 0) {
		return r;
	}
	struct box_value warnings = box_conform_check(scratch, front, folder_name);
	struct box_value content_warnings = box_conform_check(scratch, front, NULL);
	skill->name = copy_text(skill, name);
	skill->display_name = copy_text(skill, display_name);
	skill->description = copy_text(skill, description);
	skill->instructions = copy_text(skill, front->instructions);
	skill->warnings = box_value_copy(skill->arena, &warnings);
	skill->content_warnings = box_value_copy(skill->arena, &content_warnings);
	return 0;
}

static void add_text(struct box_package *skill, const char *key, struct box_str text)
{
	(void)box_map_add(skill->arena, &skill->map, key, box_text(text));
	skill->text_bytes += text.len;
}

static int fill_map(struct box_package *skill, const char *entry_file, bool python_project,
	const struct stat *st, struct box_err *err)
{
	char created[BOX_PYTEXT_ISOFORMAT_SIZE];
	char updated[BOX_PYTEXT_ISOFORMAT_SIZE];
	if (!box_pytext_isoformat(st->st_ctim.tv_sec, (uint32_t)st->st_ctim.tv_nsec, created) ||
		!box_pytext_isoformat(st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec, updated)) {
		return refuse(err, entry_file, "has a modification time out of range");
	}
	skill->updated_at = box_str(box_arena_strndup(skill->arena, updated, strlen(updated)));
	skill->map = box_map_value();
	add_text(skill, "name", skill->name);
	add_text(skill, "display_name", skill->display_name);
	add_text(skill, "description", skill->description);
	add_text(skill, "instructions", skill->instructions);
	add_text(skill, "package_root", box_str(skill->package_root));
	add_text(skill, "entry_file", box_str(entry_file));
	(void)box_map_add(skill->arena, &skill->map, "python_project", box_bool(python_project));
	add_text(skill, "created_at",
		box_str(box_arena_strndup(skill->arena, created, strlen(created))));
	add_text(skill, "updated_at", skill->updated_at);
	return 0;
}

int box_package_load(int folder_fd, const char *entry_file, const char *root,
	struct box_package **ret_skill, size_t *ret_work, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *scratch = box_arena_new();
	struct box_arena *arena = box_arena_new();
	struct box_package *skill = box_arena_alloc(arena, sizeof(*skill));
	struct box_front_matter front = {.work = 0};
	struct box_str text = {NULL, 0};
	struct stat st;
	int64_t now = box_package_stamp_now_ns();
	skill->arena = arena;
	skill->package_root = box_arena_strndup(arena, root, strlen(root));
	const char *folder = strrchr(skill->package_root, '/') + 1;
	skill->entry_fd = read_entry(folder_fd, entry_file, scratch, &text, &st, err);
	int r = skill->entry_fd < 0 ? skill->entry_fd
				    : box_front_matter_read(scratch, text, &front, err);
	if (ret_work) {
		*ret_work = front.work;
	}
	if (r == 0) {
		r = read_fields(skill, scratch, &front, folder, err);
	}
	if (r == 0) {
		skill->stamp = stamp_of(&st);
		skill->is_settled = box_package_stamp_is_settled(&skill->stamp, now);
		bool python_project = is_python_project(folder_fd, &skill->has_links);
		r = fill_map(skill, entry_file, python_project, &st, err);
	}
	if (r < 0) {
		box_package_free(skill);
		return r;
	}
	*ret_skill = skill;
	return 0;
}

void box_package_free(struct box_package *skill)
{
	if (skill) {
		box_close_p(&skill->entry_fd);
		box_arena_free(skill->arena);
	}
}

size_t box_package_bytes(const struct box_package *skill)
{
	return box_arena_size(skill->arena);
}

void box_package_refresh(struct box_package *skill, int folder_fd)
{
	if (!skill->has_links) {
		return;
	}
	for (size_t i = 0; i < skill->map.count; i++) {
		if (box_str_eq(skill->map.pairs[i].key, "python_project")) {
			skill->map.pairs[i].value = box_bool(
				is_python_project(folder_fd, &skill->has_links));
		}
	}
}
