/* Reads the names in an opened folder into the caller's memory: without allocation, because recursive
 * callers may have many folders open. */
#pragma once

#include <stddef.h>

#define BOX_DIR_ENTRIES_ALIGNED _Alignas(8)

struct box_dir_entries {
	int fd;          /* read from its current position */
	char *bytes;     /* BOX_DIR_ENTRIES_ALIGNED */
	size_t capacity; /* of bytes */
	long size;       /* of the entries in bytes */
	long at;         /* the next entry */
	int failed;      /* when there are no more names: 0 or -errno */
};

/* The next name except "." and "..", valid until the next call; NULL: there are no more. */
const char *box_dir_entries_next(struct box_dir_entries *folder);
