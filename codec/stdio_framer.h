/* The stdio byte stream <-> messages: JSON lines with the chunked form, or self-delimiting msgpack.
 *
 * Pure: bytes in, messages out; transport/stdio.c reads and writes the fds. The first byte of the
 * stream selects the format for good: `{` or white space is JSON, a msgpack map header is msgpack,
 * anything else is refused.
 */
#pragma once

#include <stddef.h>

#include "codec/message.h"

struct box_buf;
struct box_stdio_framer;

struct box_stdio_framer *box_stdio_framer_new(void);
void box_stdio_framer_free(struct box_stdio_framer *framer);

/* Where the next read(2) goes, and how many bytes it may read (at least 1). */
char *box_stdio_framer_space(struct box_stdio_framer *framer, size_t *ret_len);
void box_stdio_framer_filled(struct box_stdio_framer *framer, size_t len);

enum box_stdio_framer_result {
	BOX_STDIO_FRAMER_MORE, /* no complete message: read on */
	BOX_STDIO_FRAMER_MESSAGE, /* *ret_message is the caller's; free its arena with box_arena_free */
	BOX_STDIO_FRAMER_IGNORED, /* dropped an invalid line, *ret_why is the reason: log it, go on */
	BOX_STDIO_FRAMER_BROKEN, /* the stream cannot continue, *ret_why is the reason: close it */
};

/* The next message of the bytes that were read. Call until it returns MORE. */
enum box_stdio_framer_result box_stdio_framer_next(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why);

/* BOX_CODECS_ before the first byte. */
enum box_codec box_stdio_framer_codec(const struct box_stdio_framer *framer);

/* Appends an encoded JSON message in the form for stdio: a line, or the lines of the chunked form. 0 or
 * -EMSGSIZE (out->limit). */
int box_stdio_framer_encode_json(struct box_buf *out, const char *text, size_t len);
