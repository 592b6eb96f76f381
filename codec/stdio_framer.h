/* The stdio byte stream <-> messages: JSON lines with the chunk form, or self-delimiting msgpack.
 *
 * Pure: bytes in, messages out; who reads and writes the fds is stdio.c. The first byte of the
 * stream decides the codec for good: `{` or white space is JSON, a msgpack map header is msgpack,
 * anything else is refused.
 */
#pragma once

#include <stddef.h>

#include "codec/message.h"

struct box_buf;
struct box_stdio_framer;

struct box_stdio_framer *box_stdio_framer_new(void);
void box_stdio_framer_free(struct box_stdio_framer *framer);

/* Where the next read(2) goes, and how much it may bring (at least 1 byte). */
char *box_stdio_framer_space(struct box_stdio_framer *framer, size_t *ret_len);
void box_stdio_framer_filled(struct box_stdio_framer *framer, size_t len);

enum box_stdio_framer_result {
	BOX_STDIO_FRAMER_MORE,    /* nothing whole is here: read on */
	BOX_STDIO_FRAMER_MESSAGE, /* *ret_message is the caller's; box_arena_free its arena */
	BOX_STDIO_FRAMER_IGNORED, /* a line that is no message was dropped, *ret_why says why: log, go on */
	BOX_STDIO_FRAMER_BROKEN, /* the stream cannot go on, *ret_why says why: close */
};

/* The next message of what has been filled in. Call until it says MORE. */
enum box_stdio_framer_result box_stdio_framer_next(
	struct box_stdio_framer *framer, struct box_message *ret_message, const char **ret_why);

/* BOX_CODECS_ while no byte has come. */
enum box_codec box_stdio_framer_codec(const struct box_stdio_framer *framer);

/* Appends an encoded JSON message as it goes over stdio: a line, or the lines of the chunk form.
 * 0 or -EMSGSIZE (out->limit). */
int box_stdio_framer_encode_json(struct box_buf *out, const char *text, size_t len);
