/* Unpacks what zip.h has found to be in order. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct box_zip;

/* Zeroed memory in large pages where there are some, or NULL: of the time that megabytes take, most
 * is the faults of small ones. */
void *box_archive_write_alloc(size_t size);
void box_archive_write_free(void *memory, size_t size);

/* Makes the folders and files of the archive beneath the empty folder out_fd. Headers are not
 * trusted: sizes and checksums are those of the data, or the entry is refused before it is there. */
int box_archive_write(const struct box_zip *zip, int out_fd, struct box_err *err);
