/* Unpacks an archive that comes from a box into a folder of the host, and nowhere else.
 *
 * The archive is untrusted. Every name is walked part by part from the opened folder, and no link is ever
 * followed: an entry whose path goes through one is refused, as are absolute names, "..", devices, FIFOs,
 * sparse files and hard links to anything but a file below the folder. A file is written under a temporary
 * name, and gets its own when it is complete. Modes lose setuid, setgid and the sticky bit. Existing folders
 * stay as they are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_unpack;

/* `folder` is an fd, which stays the caller's. With `name` the first part of every path is replaced by it: the
 * archive has one root then. `complain` gets a line for each entry that is refused or failed. */
struct box_unpack *box_unpack_new(
	int folder, const char *name, void (*complain)(void *arg, const char *line), void *arg);
/* Removes an incomplete file. NULL is fine. */
void box_unpack_free(struct box_unpack *unpack);

/* Feeds more of the archive. 0, or negative when it cannot go on: it is invalid, or the disk is full. */
int box_unpack_feed(struct box_unpack *unpack, struct box_str bytes, struct box_err *err);
/* Ends the archive: negative when it is incomplete. */
int box_unpack_end(struct box_unpack *unpack, struct box_err *err);

/* How many entries were refused or failed. */
uint64_t box_unpack_refused(const struct box_unpack *unpack);
/* Bytes of files that were written. */
uint64_t box_unpack_bytes(const struct box_unpack *unpack);

/* --- one file, under a temporary name until it is complete --- */

struct box_unpack_file {
	int folder; /* the caller's */
	int fd;     /* -1: none */
	char temporary[32];
};

int box_unpack_file_begin(struct box_unpack_file *file, int folder);
/* Gives it its mode, time and name. */
int box_unpack_file_finish(struct box_unpack_file *file, const char *name, unsigned mode,
	int64_t mtime_sec, uint32_t mtime_nsec);
void box_unpack_file_drop(struct box_unpack_file *file);
