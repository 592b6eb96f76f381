/* A text in a temporary file while a person edits it. */
#pragma once

#include <limits.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/value.h"

struct box_draft {
	char folder[PATH_MAX]; /* only for this file */
	char path[PATH_MAX];   /* of the file in it */
	int folder_fd;
};

/* Writes the text to a new file, with the name `leaf` if possible. */
int box_draft_open(
	struct box_draft *draft, const char *leaf, struct box_str text, struct box_err *err);
/* Runs $VISUAL, $EDITOR or vi on it, and waits. */
int box_draft_edit(const struct box_draft *draft, struct box_err *err);
/* Reads it again; the caller frees the text. -EFBIG when it is larger. */
int box_draft_read(const struct box_draft *draft, size_t bytes_max, struct box_buf *ret_text,
	struct box_err *err);
/* Removes it, with other files of the editor; or keeps it. */
void box_draft_close(struct box_draft *draft, bool keep);
