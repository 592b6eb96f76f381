/* Confines box-skills before it reads anything that others wrote. Called by main.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define BOX_SKILLS_CONFINE_FOLDERS_MAX 2

/* A folder that stays accessible. */
struct box_skills_confine_folder {
	int fd;
	bool writes; /* files and folders in it may be created and written; otherwise it is read-only */
	bool moves; /* they may also be removed, and moved between folders */
};

/* After this call only these folders can be opened, and no program can be started and no socket created.
 * Children may confine themselves further. 0, or negative with err: also for root where the kernel's Landlock
 * is missing or too old, because then nothing would stand between untrusted bytes and root's files.
 */
int box_skills_confine(
	const struct box_skills_confine_folder *folders, size_t count, struct box_err *err);

/* The allowed system calls, NULL-terminated; for tests. */
extern const char *const box_skills_confine_calls[];
