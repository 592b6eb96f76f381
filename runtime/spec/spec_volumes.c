/* The volumes of a session: folders and files of the host that every command of it sees. They are
 * mounts of each command, opened and judged for each anew; here is what makes them the session's.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "runtime/spec/spec_lists.h"

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
		/* What passes the limit is cut from the message in any case. */
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
