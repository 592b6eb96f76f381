/* Puts what an archive of a box says into a folder of the host, and nowhere else.
 *
 * The archive is hostile. Every name is walked part by part from the opened folder, and no link is ever
 * followed: an entry whose way leads through one is refused by its name, as are absolute names, "..",
 * devices, FIFOs, sparse files and hard links to anything but a file below the folder. A file is
 * written under another name, and gets its own when it is whole. Modes lose setuid, setgid and the
 * sticky bit. Folders that are there already stay as they are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_unpack;

/* `folder` is the fd of the folder, and stays the caller's. With `name` what the archive's first part
 * is called becomes this one: the archive then has one root. `complain` hears of each entry that is
 * refused or failed, as one line. */
struct box_unpack *box_unpack_new(
	int folder, const char *name, void (*complain)(void *arg, const char *line), void *arg);
/* Nothing that is not whole stays. NULL is fine. */
void box_unpack_free(struct box_unpack *unpack);

/* More of the archive. 0, or negative when it cannot go on: it is no archive, or there is no room. */
int box_unpack_feed(struct box_unpack *unpack, struct box_str bytes, struct box_err *err);
/* No more comes: negative when something is missing. */
int box_unpack_end(struct box_unpack *unpack, struct box_err *err);

/* How many entries were refused or failed. */
uint64_t box_unpack_refused(const struct box_unpack *unpack);
/* Bytes of files that were written. */
uint64_t box_unpack_bytes(const struct box_unpack *unpack);

/* --- one file, written under another name until it is whole --- */

struct box_unpack_file {
	int folder; /* the caller's */
	int fd;     /* -1: none is begun */
	char temporary[32];
};

int box_unpack_file_begin(struct box_unpack_file *file, int folder);
/* Gives it its mode, time and name. */
int box_unpack_file_finish(struct box_unpack_file *file, const char *name, unsigned mode,
	int64_t mtime_sec, uint32_t mtime_nsec);
void box_unpack_file_drop(struct box_unpack_file *file);
