/* A file or folder of the host as an archive, read piece by piece. Links stay links and are not
 * followed; what is no file, folder or link is left out and told. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_pack;

/* `path` is the file or folder; in the archive it is called `name`, and with NULL only what is in the
 * folder is there. With `follow` a link at `path` itself is followed. */
int box_pack_open(const char *path, const char *name, bool follow,
	void (*complain)(void *arg, const char *line), void *arg, struct box_pack **ret_pack,
	struct box_err *err);
/* NULL is fine. */
void box_pack_close(struct box_pack *pack);

/* The next bytes of the archive, as many as fit; 0 at its end; or a negative errno with err. */
ssize_t box_pack_read(struct box_pack *pack, char *to, size_t max, struct box_err *err);

/* What was left out, and how many bytes of files went in. */
uint64_t box_pack_refused(const struct box_pack *pack);
uint64_t box_pack_bytes(const struct box_pack *pack);
