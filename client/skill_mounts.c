/* Decides which skills can be mounted, and where. Pure: the caller's function checks which folders exist. */
#include "client/skill_mounts.h"

#include <sys/stat.h>

#include "base/arena.h"
#include "base/table.h"
#include "base/utf8.h"

#define SHOWN_BYTES 200 /* of an untrusted text, in a warning */

static bool name_valid(struct box_str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.bytes[i];
		bool good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			(c >= '0' && c <= '9') || c == '-' || c == '_';
		if (!good) {
			return false;
		}
	}
	return name.len > 0 && name.len <= BOX_SKILL_NAME_MAX;
}

static struct box_str text_of(const struct box_value *skill, const char *key)
{
	const struct box_value *value = box_map_get(skill, key);
	return value && value->type == BOX_STR ? value->str : (struct box_str){"", 0};
}

static int shown_len(struct box_str text)
{
	return (int)(text.len < SHOWN_BYTES ? text.len : box_utf8_floor(text.bytes, SHOWN_BYTES));
}

/* NULL, or why it is not mounted. */
static const char *refusal(struct box_arena *arena, struct box_str root,
	const struct box_skill_mounts_options *options)
{
	if (root.len == 0) {
		return "it has no package folder";
	}
	if (box_str_has_nul(root) || root.len >= BOX_PATH_MAX) {
		return "its package folder is not a valid path";
	}
	if (options->shares_filesystem &&
		!options->is_here(options->arg, box_arena_strndup(arena, root.bytes, root.len))) {
		return "its package folder does not exist here";
	}
	return NULL;
}

static void warn(struct box_arena *arena, struct box_value *warnings, struct box_str name,
	const char *why, struct box_str root)
{
	box_list_add(arena, warnings,
		box_cstr(box_arena_printf(arena, "Skill \"%.*s\" is not mounted: %s%s%.*s",
			shown_len(name), name.bytes, why, root.len > 0 ? ": " : "", shown_len(root),
			root.bytes)));
}

static struct box_value mount_of(struct box_arena *arena, struct box_str name, struct box_str root)
{
	struct box_value mount = box_map_value();
	box_map_add(arena, &mount, "host_path", box_text(root));
	box_map_add(arena, &mount, "mount_path",
		box_cstr(box_arena_printf(
			arena, BOX_SKILLS_MOUNT_PATH "/%.*s", (int)name.len, name.bytes)));
	box_map_add(arena, &mount, "mode", box_cstr("ro"));
	return mount;
}

void box_skill_mounts(struct box_arena *arena, const struct box_value *skills,
	const struct box_skill_mounts_options *options, struct box_value *ret_mounts,
	struct box_value *ret_warnings)
{
	struct box_value mounts = box_list_value();
	struct box_value warnings = box_list_value();
	struct box_table taken = {0};
	const struct box_value *list = skills && skills->type == BOX_MAP
		? box_map_get(skills, "skills")
		: skills;
	uint32_t count = list && list->type == BOX_LIST ? list->count : 0;
	for (uint32_t i = 0; i < count; i++) {
		struct box_str name = text_of(&list->items[i], "name");
		struct box_str root = box_str_strip(text_of(&list->items[i], "package_root"));
		const char *why = !name_valid(name)   ? "not a valid skill name"
			: box_table_get(&taken, name) ? "another skill has that name"
						      : refusal(arena, root, options);
		if (why) {
			warn(arena, &warnings, name, why, root);
		} else {
			(void)box_table_put(&taken, name, &taken);
			box_list_add(arena, &mounts, mount_of(arena, name, root));
		}
	}
	box_table_free(&taken);
	*ret_mounts = mounts;
	*ret_warnings = warnings;
}

/* --- on the local disk --- */

static bool folder_is_here(void *arg, const char *package_root)
{
	struct stat info;
	(void)arg;
	return stat(package_root, &info) == 0 && S_ISDIR(info.st_mode);
}

void box_skill_mounts_for_line(const struct box_line *line, struct box_arena *arena,
	const struct box_value *skills, struct box_value *ret_mounts,
	struct box_value *ret_warnings)
{
	const struct box_skill_mounts_options options = {
		.shares_filesystem = box_line_shares_filesystem(line), .is_here = folder_is_here};
	box_skill_mounts(arena, skills, &options, ret_mounts, ret_warnings);
}
