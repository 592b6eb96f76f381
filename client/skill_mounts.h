/* Makes the mounts that show skills in a box: /workspace/.skills/NAME, read-only.
 *
 *   box_line_call(line, "box_list_skills", NULL, 15000, arena, &answer, &err);
 *   box_skill_mounts_for_line(line, arena, &answer, &mounts, &warnings);
 *   box_map_add(arena, &spec, "extra_mounts", mounts);
 */
#pragma once

#include "client/line.h"

#pragma GCC visibility push(default)

#define BOX_SKILLS_MOUNT_PATH "/workspace/.skills"

/* Whether a folder exists on this machine. */
typedef bool box_skill_is_here(void *arg, const char *package_root);

struct box_skill_mounts_options {
	/* True: paths are the same for both sides, so a package that does not exist here is dropped with a
	 * warning. False: paths are the runtime's, and are returned unchanged. */
	bool shares_filesystem;
	box_skill_is_here *is_here; /* not called if that is false */
	void *arg;
};

/* Builds the list of extra_mounts. `skills` is the runtime's answer ({skills: [...]}) or the list itself; only
 * `name` and `package_root` of a skill are used. *ret_warnings is a list of texts for people, one for each
 * skill that is left out: its name is invalid or occurred before, or its path is empty, invalid or does not
 * exist here. Without skills there are no mounts. Everything is built in the arena; texts of `skills` are not
 * copied. */
void box_skill_mounts(struct box_arena *arena, const struct box_value *skills,
	const struct box_skill_mounts_options *options, struct box_value *ret_mounts,
	struct box_value *ret_warnings);

/* The same for a line's runtime, checking packages on the local disk if that is shared. */
void box_skill_mounts_for_line(const struct box_line *line, struct box_arena *arena,
	const struct box_value *skills, struct box_value *ret_mounts,
	struct box_value *ret_warnings);

#pragma GCC visibility pop
