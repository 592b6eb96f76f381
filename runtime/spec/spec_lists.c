/* The members of a spec that are lists and maps: environment, arguments, extra mounts, and volumes.
 *
 * Each may be as long as a message, so nothing here compares every item with every other, except volumes, of
 * which there are few.
 */
#include "runtime/spec/spec_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"

#define PATH_BYTES_MAX (BOX_PATH_MAX - 1) /* the NUL counts in a path's size */
#define DIGEST_PREFIX "sha256:"
#define DIGEST_HEX_LEN 64

const char *const box_spec_lists_mount_modes[] = {
	[BOX_MOUNT_NONE] = "none", [BOX_MOUNT_RO] = "ro", [BOX_MOUNT_RW] = "rw", NULL};

static int refuse_env(
	const struct box_fields *fields, struct box_str name, const char *after, const char *text)
{
	const char *shown = box_fields_echo(fields->arena, name);
	const char *quote = strchr(shown, '.') ? "`" : "";
	return box_fields_refuse(fields,
		box_arena_printf(fields->arena, "env.%s%s%s%s", quote, shown, quote, after), text);
}

int box_spec_lists_read_env(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	if (value->type != BOX_MAP) {
		return box_fields_refuse(fields, "env", "Input should be a valid dictionary");
	}
	struct box_env_list *env = member;
	env->items = box_arena_alloc(fields->arena, value->count * sizeof(*env->items));
	for (uint32_t i = 0; i < value->count; i++) {
		struct box_str name = value->pairs[i].key;
		struct box_str text = {NULL, 0};
		if (name.len == 0 || box_str_has_nul(name) || memchr(name.bytes, '=', name.len)) {
			return refuse_env(fields, name, ".[key]",
				"Value error, env names must not be empty or contain = or NUL");
		}
		const char *why = box_fields_to_str(&value->pairs[i].value, &text);
		if (why) {
			return refuse_env(fields, name, "", why);
		}
		if (box_str_has_nul(text)) {
			return refuse_env(
				fields, name, "", "Value error, env values must not contain NUL");
		}
		env->items[i].name = box_arena_strndup(fields->arena, name.bytes, name.len);
		env->items[i].value = box_arena_strndup(fields->arena, text.bytes, text.len);
	}
	env->count = value->count;
	return 0;
}

/* No empty, `.` or `..` component and no `/` at the end. */
static const char *check_normalized(const char *path)
{
	if (strcmp(path, "/") == 0) {
		return NULL;
	}
	for (const char *at = path; *at == '/';) {
		size_t len = strcspn(++at, "/");
		if (len == 0 || (len == 1 && at[0] == '.') ||
			(len == 2 && at[0] == '.' && at[1] == '.')) {
			return "mount_path must be normalized";
		}
		at += len;
	}
	return NULL;
}

static const char *check_digest(const char *digest)
{
	if (strncmp(digest, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) != 0) {
		return "content_digest must use sha256:<hex>";
	}
	const char *hex = digest + strlen(DIGEST_PREFIX);
	if (strlen(hex) != DIGEST_HEX_LEN || strspn(hex, "0123456789abcdef") != DIGEST_HEX_LEN) {
		return "content_digest must use sha256:<64 lowercase hex>";
	}
	return NULL;
}

static const struct box_field mount_rows[] = {
	{.name = "host_path",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = offsetof(struct box_mount, host_path),
		.max = PATH_BYTES_MAX,
		.broken = BOX_SPEC_HOST_PATH_BROKEN},
	{.name = "mount_path",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = offsetof(struct box_mount, mount_path),
		.max = PATH_BYTES_MAX,
		.broken = BOX_SPEC_MOUNT_PATH_BROKEN,
		.check = check_normalized},
	{.name = "mode",
		.kind = BOX_FIELD_WORD,
		.offset = offsetof(struct box_mount, mode),
		.words = box_spec_lists_mount_modes,
		.expected = BOX_SPEC_MODE_EXPECTED},
	{.name = "content_digest",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_STRIP,
		.offset = offsetof(struct box_mount, content_digest),
		.check = check_digest},
	{.name = "manifest_path",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = offsetof(struct box_mount, manifest_path),
		.max = PATH_BYTES_MAX,
		.broken = "manifest_path must be an absolute host path"},
};

static bool artifact_path_is_right(const struct box_mount *mount)
{
	const size_t root_len = strlen(BOX_ARTIFACT_ROOT);
	if (strncmp(mount->mount_path, BOX_ARTIFACT_ROOT, root_len) != 0) {
		return true;
	}
	const char *below = mount->mount_path + root_len;
	if (*below != '\0' && *below != '/') {
		return true;
	}
	return *below == '/' && mount->mode == BOX_MOUNT_RO && mount->content_digest &&
		mount->manifest_path &&
		strcmp(below + 1, mount->content_digest + strlen(DIGEST_PREFIX)) == 0;
}

static int by_path_and_order(const void *a, const void *b)
{
	const struct box_mount *const *left = a;
	const struct box_mount *const *right = b;
	int order = strcmp((*left)->mount_path, (*right)->mount_path);
	return order != 0 ? order : (*left > *right) - (*left < *right);
}

/* Of several mounts at one path the last wins. Uses sorting, because a list may be as long as a message. */
static void keep_last_of_each_path(struct box_arena *arena, struct box_mount_list *list)
{
	struct box_mount **sorted = box_arena_alloc(
		arena, list->count * sizeof(struct box_mount *));
	for (size_t i = 0; i < list->count; i++) {
		sorted[i] = &list->items[i];
	}
	if (list->count > 1) {
		qsort(sorted, list->count, sizeof(struct box_mount *), by_path_and_order);
	}
	for (size_t i = 1; i < list->count; i++) {
		if (strcmp(sorted[i - 1]->mount_path, sorted[i]->mount_path) == 0) {
			sorted[i - 1]->mode = BOX_MOUNT_NONE;
		}
	}
	size_t count = 0;
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].mode != BOX_MOUNT_NONE) {
			list->items[count++] = list->items[i];
		}
	}
	list->count = count;
}

static int read_mount(const struct box_fields *fields, const char *list, uint32_t at,
	const struct box_value *value, struct box_mount *mount)
{
	const char *member = box_arena_printf(fields->arena, "%s.%u", list, (unsigned)at);
	if (value->type != BOX_MAP) {
		return box_fields_refuse(fields, member,
			"Input should be a valid dictionary or instance of BoxMountSpec");
	}
	struct box_fields inner = *fields;
	inner.within = box_arena_printf(fields->arena, "%s.", member);
	*mount = (struct box_mount){.mode = BOX_MOUNT_RW};
	int result = box_fields_read(&inner, mount_rows, BOX_COUNT_OF(mount_rows), value, mount);
	if (result < 0) {
		return result;
	}
	if (!artifact_path_is_right(mount)) {
		return box_fields_refuse(fields, member,
			"Value error, Artifact paths require a read-only digest-addressed mount "
			"and manifest");
	}
	return 0;
}

static int read_list(const struct box_fields *fields, const char *name,
	const struct box_value *value, struct box_mount_list *list)
{
	if (value->type != BOX_LIST) {
		return box_fields_refuse(fields, name, "Input should be a valid list");
	}
	list->items = box_arena_alloc(fields->arena, value->count * sizeof(*list->items));
	for (uint32_t i = 0; i < value->count; i++) {
		struct box_mount *mount = &list->items[list->count];
		int result = read_mount(fields, name, i, &value->items[i], mount);
		if (result < 0) {
			return result;
		}
		list->count += mount->mode != BOX_MOUNT_NONE;
	}
	keep_last_of_each_path(fields->arena, list);
	return 0;
}

int box_spec_lists_read_mounts(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	return read_list(fields, "extra_mounts", value, member);
}

int box_spec_lists_read_volumes(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	struct box_mount_list *list = member;
	if (value->type == BOX_LIST && value->count > BOX_VOLUMES_MAX) {
		return box_fields_refuse(
			fields, "volumes", "Value error, volumes has more than 64 members");
	}
	int result = read_list(fields, "volumes", value, list);
	for (size_t i = 0; result == 0 && i < list->count; i++) {
		if (list->items[i].content_digest || list->items[i].manifest_path) {
			result = box_fields_refuse(
				fields, "volumes", "Value error, a volume cannot be an artifact");
		}
	}
	return result;
}

int box_spec_lists_read_args(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	if (value->type != BOX_LIST) {
		return box_fields_refuse(fields, "args", "Input should be a valid list");
	}
	struct box_arg_list *args = member;
	args->items = box_arena_alloc(fields->arena, (value->count + 1UL) * sizeof(*args->items));
	for (uint32_t i = 0; i < value->count; i++) {
		struct box_str text = {NULL, 0};
		const char *why = box_fields_to_str(&value->items[i], &text);
		if (!why && box_str_has_nul(text)) {
			why = "Value error, args must not contain NUL";
		}
		if (why) {
			return box_fields_refuse(fields,
				box_arena_printf(fields->arena, "args.%u", (unsigned)i), why);
		}
		args->items[i] = box_arena_strndup(fields->arena, text.bytes, text.len);
	}
	args->count = value->count;
	return 0;
}

/* --- volumes: the mounts that every command of a session has --- */

static bool has_path(const struct box_mount_list *mounts, const char *path)
{
	for (size_t i = 0; i < mounts->count; i++) {
		if (strcmp(mounts->items[i].mount_path, path) == 0) {
			return true;
		}
	}
	return false;
}

struct box_mount_list box_spec_lists_join_mounts(struct box_arena *arena,
	const struct box_mount_list *volumes, const struct box_mount_list *mounts)
{
	struct box_mount_list all = *mounts;
	if (volumes->count == 0) {
		return all;
	}
	all.count = 0;
	all.items = box_arena_alloc(arena, (volumes->count + mounts->count) * sizeof(*all.items));
	for (size_t i = 0; i < volumes->count; i++) {
		if (!has_path(mounts, volumes->items[i].mount_path)) {
			all.items[all.count++] = volumes->items[i];
		}
	}
	for (size_t i = 0; i < mounts->count; i++) {
		all.items[all.count++] = mounts->items[i];
	}
	return all;
}

bool box_spec_lists_same_volumes(const struct box_spec *a, const struct box_spec *b)
{
	bool same = a->volume_count == b->volume_count;
	for (size_t i = 0; same && i < a->volume_count; i++) {
		same = strcmp(a->volumes[i].host_path, b->volumes[i].host_path) == 0 &&
			strcmp(a->volumes[i].mount_path, b->volumes[i].mount_path) == 0 &&
			a->volumes[i].mode == b->volumes[i].mode;
	}
	return same;
}

const char *box_spec_lists_volumes_text(struct box_arena *arena, const struct box_spec *spec)
{
	struct box_buf text = box_buf(BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; i < spec->volume_count; i++) {
		const struct box_mount *volume = &spec->volumes[i];
		/* Text beyond the limit is cut from the message in any case. */
		(void)box_buf_append_str(&text, i > 0 ? "," : "");
		(void)box_buf_append_str(&text, box_fields_echo(arena, box_str(volume->host_path)));
		(void)box_buf_append_str(&text, ":");
		(void)box_buf_append_str(
			&text, box_fields_echo(arena, box_str(volume->mount_path)));
		(void)box_buf_append_str(&text, ":");
		(void)box_buf_append_str(&text, box_spec_mount_mode_name(volume->mode));
	}
	const char *shown = text.len > 0 ? box_arena_strndup(arena, text.bytes, text.len) : "None";
	box_buf_free(&text);
	return shown;
}

struct box_mount *box_spec_lists_copy_volumes(struct box_arena *arena, const struct box_spec *spec)
{
	struct box_mount *copy = box_arena_alloc(arena, (spec->volume_count + 1) * sizeof(*copy));
	for (size_t i = 0; i < spec->volume_count; i++) {
		const struct box_mount *volume = &spec->volumes[i];
		copy[i] = *volume;
		copy[i].content_digest = copy[i].manifest_path = NULL;
		copy[i].host_path = box_arena_strndup(
			arena, volume->host_path, strlen(volume->host_path));
		copy[i].mount_path = box_arena_strndup(
			arena, volume->mount_path, strlen(volume->mount_path));
	}
	return copy;
}
