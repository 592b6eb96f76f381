/* From skills to the mounts that show them in a box: /workspace/.skills/NAME, read-only.
 *
 *   box_line_call(line, "box_list_skills", NULL, 15000, arena, &answer, &err);
 *   box_skill_mounts_for_line(line, arena, &answer, &mounts, &warnings);
 *   box_map_add(arena, &spec, "extra_mounts", mounts);
 */
#pragma once

#include "client/line.h"

#pragma GCC visibility push(default)

#define BOX_SKILLS_MOUNT_PATH "/workspace/.skills"

/* Whether a folder is here. */
typedef bool box_skill_is_here(void *arg, const char *package_root);

struct box_skill_mounts_options {
	/* True: paths are ours too, so a package that is not here is dropped with a warning. False:
	 * paths are the runtime's, and are given back as they came. */
	bool shares_filesystem;
	box_skill_is_here *is_here; /* not called when that is false */
	void *arg;
};

/* Builds the list of extra_mounts. `skills` is what the runtime answered ({skills: [...]}) or
 * the list itself; of a skill `name` and `package_root` count. *ret_warnings is a list of texts
 * for people, one for each skill that is left out because of a name that is none, a name that
 * came before, a path that is empty or is none, or a package that is not here. No skills, no
 * mounts. Everything is built in the arena; texts of `skills` are not copied. */
void box_skill_mounts(struct box_arena *arena, const struct box_value *skills,
	const struct box_skill_mounts_options *options, struct box_value *ret_mounts,
	struct box_value *ret_warnings);

/* The same for the runtime of a line, looking for packages on our own disk where that is shared. */
void box_skill_mounts_for_line(const struct box_line *line, struct box_arena *arena,
	const struct box_value *skills, struct box_value *ret_mounts,
	struct box_value *ret_warnings);

#pragma GCC visibility pop
