/* A growing byte buffer with room in front for a frame header.
 *
 * Used to assemble input and to encode output. The limit is set at creation and checked before memory
 * is allocated: an append beyond it fails and changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

#pragma GCC visibility push(default)

#define BOX_BUF_HEADROOM 32 /* writable bytes before `bytes`, to write a frame header in place */

struct box_buf {
	char *bytes; /* NULL until something is appended */
	size_t len;
	size_t room;
	size_t limit;
	bool overflowed; /* an append failed: the content is incomplete */
};

static inline struct box_buf box_buf(size_t limit)
{
	return (struct box_buf){.limit = limit};
}
void box_buf_free(struct box_buf *buf);

/* 0, or -EMSGSIZE when the limit would be exceeded. The buffer grows by doubling. */
int box_buf_append(struct box_buf *buf, const void *bytes, size_t len);
static inline int box_buf_append_str(struct box_buf *buf, const char *text)
{
	return box_buf_append(buf, text, strlen(text));
}
int box_buf_printf(struct box_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes room for len more bytes and returns where they go (NULL above the limit); the caller writes
 * them and adds their number to buf->len. */
char *box_buf_reserve(struct box_buf *buf, size_t len);

#pragma GCC visibility pop
