/* What box-skills gives up before it looks at anything that others wrote. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define BOX_SKILLS_CONFINE_FOLDERS_MAX 2

/* A folder that stays reachable. */
struct box_skills_confine_folder {
	int fd;
	bool writes; /* files and folders in it may be made and written; else it is read */
	bool moves;  /* and removed, and moved from folder to folder */
};

/* From here on nothing but these folders can be opened, no program started, no socket made. What is
 * forked may fence itself further. 0, or negative with err: also as root where the kernel has no
 * Landlock that does, because then nothing would stand between a stranger's bytes and root's files.
 */
int box_skills_confine(
	const struct box_skills_confine_folder *rooms, size_t count, struct box_err *err);

/* The calls that are left, NULL-terminated; for tests. */
extern const char *const box_skills_confine_calls[];
