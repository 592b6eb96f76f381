/* Builds a ZIP in memory, as the skill store accepts it: one entry after the other, deflated where that helps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct box_zip_writer;

/* At most `limit` bytes. */
struct box_zip_writer *box_zip_writer_new(size_t limit);
/* NULL is fine. */
void box_zip_writer_free(struct box_zip_writer *writer);

/* A name that ends with "/" is a folder, without bytes. -EMSGSIZE above the limit. */
int box_zip_writer_add(struct box_zip_writer *writer, const char *name, const void *bytes,
	size_t len, bool is_executable);

/* The complete archive, which the caller frees; the writer is empty then. */
int box_zip_writer_end(struct box_zip_writer *writer, struct box_buf *ret_zip);
