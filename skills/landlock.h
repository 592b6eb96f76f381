/* Landlock: from here on this process reaches no files but those beneath the given folders. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum box_landlock_may {
	BOX_LANDLOCK_READ = 1,  /* read files, list folders */
	BOX_LANDLOCK_WRITE = 2, /* write files that are there */
	BOX_LANDLOCK_MAKE = 4,  /* make files and folders */
	BOX_LANDLOCK_MOVE = 8,  /* remove them, move them from folder to folder, cut files off */
};

struct box_landlock_rule {
	int fd; /* a folder; O_PATH is enough */
	unsigned int may;
};

/* Everything is forbidden that this kernel's Landlock knows and no rule allows. 0, or negative with
 * the step in err; -ENOSYS or -EOPNOTSUPP when the kernel has no Landlock, or one that lets nobody move
 * files from folder to folder where a rule wants that. Needs no_new_privs. */
int box_landlock_enter(const struct box_landlock_rule *rules, size_t count, struct box_err *err);
