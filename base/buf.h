/* A growing run of bytes with room in front for a frame header.
 *
 * Used to assemble what comes in and to encode what goes out. The limit is given at creation and
 * holds before memory is taken: an append past it fails and changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

#pragma GCC visibility push(default)

#define BOX_BUF_HEADROOM 32 /* writable bytes before `bytes`, for those who frame in place */

struct box_buf {
	char *bytes; /* NULL while nothing was appended */
	size_t len;
	size_t room;
	size_t limit;
	bool overflowed; /* an append did not fit: what is here is not the whole */
};

static inline struct box_buf box_buf(size_t limit)
{
	return (struct box_buf){.limit = limit};
}
void box_buf_free(struct box_buf *buf);

/* 0, or -EMSGSIZE when the limit would be passed. Memory grows with what has come, by doubling. */
int box_buf_append(struct box_buf *buf, const void *bytes, size_t len);
static inline int box_buf_append_str(struct box_buf *buf, const char *text)
{
	return box_buf_append(buf, text, strlen(text));
}
int box_buf_printf(struct box_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes room for len more bytes and returns where they go (NULL past the limit); the caller writes
 * them and adds what it wrote to buf->len. */
char *box_buf_reserve(struct box_buf *buf, size_t len);

#pragma GCC visibility pop
