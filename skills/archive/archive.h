/* Unpacks uploaded ZIPs, which are treated as hostile. Called by the store.
 *
 * The work is done by a forked child that has nothing but the archive and the output folder, with a
 * confinement of its own. The caller must have one thread.
 */
#pragma once

#include "base/err.h"

/* The system calls, by name, that the caller's own seccomp filter must allow so that it can fork and confine
 * the child, and the child can work; NULL ends the list. */
extern const char *const box_archive_calls[];

/* Unpacks a ZIP (a regular file or memfd; not taken over) into the empty folder out_fd. On return all of it
 * is on disk, so that the folder is complete after any crash once it is renamed: for installs where boots
 * cannot be told apart (skills/store/deferred_sync.h). On failure negative, with BOX_ERR_VALIDATION, which
 * names the entry, or BOX_ERR_OS; the caller removes what was written. */
int box_archive_unpack(int archive_fd, int out_fd, struct box_err *err);

/* The same without waiting for the disk: for previews, and for installs that are synced after their
 * answer. */
int box_archive_peek(int archive_fd, int out_fd, struct box_err *err);
