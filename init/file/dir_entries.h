/* The names in an opened folder, one after the other, in the caller's memory: no allocation, since a
 * recursion may have many of them. */
#pragma once

#include <stddef.h>

#define BOX_DIR_ENTRIES_ALIGNED _Alignas(8)

struct box_dir_entries {
	int fd;      /* read from where it stands */
	char *bytes; /* BOX_DIR_ENTRIES_ALIGNED */
	size_t room;
	long size;
	long at;
	int failed; /* when there are no more: 0 or -errno */
};

/* The next one but "." and "..", good until the call after; NULL: there are no more. */
const char *box_dir_entries_next(struct box_dir_entries *folder);
