/* Where box-vmm looks for its libraries. */
#pragma once

#include "base/limits.h"

#define BOX_VMM_FOLDERS 4

struct box_vmm_folders {
	char paths[BOX_VMM_FOLDERS][BOX_PATH_MAX];
	const char *list[BOX_VMM_FOLDERS + 1]; /* NULL ends them */
};

/* By the path of the program, and of what was configured. Pure. */
void box_vmm_folders_of(
	const char *program, const char *libdir, struct box_vmm_folders *ret_folders);

/* Those of this program. Nothing of the environment counts. */
void box_vmm_folders_find(struct box_vmm_folders *ret_folders);
