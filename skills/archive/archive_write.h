/* Writes the files of an archive that zip.h has accepted. Runs in the confined child. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct box_zip;

/* Zeroed memory, in large pages if possible, or NULL. Most of the time that megabytes take is page
 * faults. */
void *box_archive_write_alloc(size_t size);
void box_archive_write_free(void *memory, size_t size);

/* Creates the folders and files of the archive below the empty folder out_fd. Headers are not trusted:
 * an entry whose data do not have the declared size and checksum is refused before any file is written. */
int box_archive_write(const struct box_zip *zip, int out_fd, struct box_err *err);
