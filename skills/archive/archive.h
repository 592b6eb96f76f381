/* Unpacking of uploaded ZIPs, which are taken for hostile.
 *
 * The work is done by a forked child that has nothing but the archive and the output folder, behind
 * a fence of its own. The caller must have one thread.
 */
#pragma once

#include "base/err.h"

/* The system calls that a fence around the caller must leave for it to fork and fence the child in,
 * and for the child to work, by name; NULL ends the list. */
extern const char *const box_archive_calls[];

/* Unpacks a ZIP (a regular file or memfd; not taken over) into the empty folder out_fd. On return
 * all of it is on disk, so that a rename of the folder leaves the whole of it after any crash: for
 * installs where boots cannot be told apart (skills/store/deferred_sync.h). Negative with BOX_ERR_VALIDATION, which
 * names the entry, or BOX_ERR_OS; what was written is the caller's to remove then. */
int box_archive_unpack(int archive_fd, int out_fd, struct box_err *err);

/* The same without waiting for the disk: for a look at what is in it, and for installs, which are made
 * to last after their answer. */
int box_archive_peek(int archive_fd, int out_fd, struct box_err *err);
