/* Where box-vmm looks for its libraries. */
#pragma once

#include "base/limits.h"

#define BOX_LIBKRUN_FOLDERS 4

struct box_libkrun_folders {
	char paths[BOX_LIBKRUN_FOLDERS][BOX_PATH_MAX];
	const char *list[BOX_LIBKRUN_FOLDERS + 1]; /* NULL ends them */
};

/* By the path of the program, and of what was configured. Pure. */
void box_libkrun_folders_of(
	const char *program, const char *libdir, struct box_libkrun_folders *ret_folders);

/* Those of this program. Nothing of the environment counts. */
void box_libkrun_find_folders(struct box_libkrun_folders *ret_folders);
