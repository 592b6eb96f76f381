/* A text in a file of its own while a person edits it. */
#pragma once

#include <limits.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/value.h"

struct box_draft {
	char folder[PATH_MAX]; /* nobody else's */
	char path[PATH_MAX];   /* of the file in it */
	int folder_fd;
};

/* Writes the text to a new file, which is called as `leaf` if that can be. */
int box_draft_open(
	struct box_draft *draft, const char *leaf, struct box_str text, struct box_err *err);
/* Has it edited by $VISUAL, $EDITOR or vi, and waits. */
int box_draft_edit(const struct box_draft *draft, struct box_err *err);
/* Reads it again; the caller frees what is read. */
int box_draft_read(
	const struct box_draft *draft, size_t most, struct box_buf *ret_text, struct box_err *err);
/* Removes it, with what the editor has left beside it; or leaves it there. */
void box_draft_close(struct box_draft *draft, bool keep);
