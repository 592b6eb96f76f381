/* One allocation per buffer, doubled as needed, with headroom in front. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define FIRST_ROOM 512

void box_buf_free(struct box_buf *buf)
{
	if (buf->bytes) {
		free(buf->bytes - BOX_BUF_HEADROOM);
	}
	*buf = box_buf(buf->limit);
}

char *box_buf_reserve(struct box_buf *buf, size_t len)
{
	if (len > buf->limit || buf->len > buf->limit - len) {
		buf->overflowed = true;
		return NULL;
	}
	size_t needed = buf->len + len;
	if (needed > buf->room || !buf->bytes) {
		size_t room = buf->room ? buf->room : FIRST_ROOM;
		while (room < needed) {
			room *= 2;
		}
		char *old = buf->bytes ? buf->bytes - BOX_BUF_HEADROOM : NULL;
		buf->bytes = (char *)box_realloc(old, room + BOX_BUF_HEADROOM) + BOX_BUF_HEADROOM;
		buf->room = room;
	}
	return buf->bytes + buf->len;
}

int box_buf_append(struct box_buf *buf, const void *bytes, size_t len)
{
	char *place = box_buf_reserve(buf, len);
	if (!place) {
		return -EMSGSIZE;
	}
	if (len > 0) {
		memcpy(place, bytes, len);
		buf->len += len;
	}
	return 0;
}

int box_buf_printf(struct box_buf *buf, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	va_list again;
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	/* vsnprintf appends a NUL that is not part of the text, so allow one byte above the limit. */
	buf->limit++;
	char *place = len < 0 ? NULL : box_buf_reserve(buf, (size_t)len + 1);
	buf->limit--;
	if (place) {
		(void)vsnprintf(place, (size_t)len + 1, format, again);
		buf->len += (size_t)len;
	}
	va_end(again);
	return place ? 0 : -EMSGSIZE;
}
