/* A file or folder of the host as a tar archive, read piece by piece. Links are not followed; other special
 * files are skipped and reported. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_pack;

/* Packs the file or folder at `path`, as `name` in the archive; with NULL only the contents of the folder. With
 * `follow` a link at `path` itself is followed. */
int box_pack_open(const char *path, const char *name, bool follow,
	void (*complain)(void *arg, const char *line), void *arg, struct box_pack **ret_pack,
	struct box_err *err);
/* NULL is fine. */
void box_pack_close(struct box_pack *pack);

/* The next bytes of the archive, as many as fit; 0 at its end; or a negative errno with err. */
ssize_t box_pack_read(struct box_pack *pack, char *to, size_t max, struct box_err *err);

/* How many entries were skipped, and how many bytes of files were packed. */
uint64_t box_pack_refused(const struct box_pack *pack);
uint64_t box_pack_bytes(const struct box_pack *pack);
