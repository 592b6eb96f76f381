/* The cutting of output into messages. */
#include "transport/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "runtime/output.h"

#define OFFSET_HEAD 9 /* a byte for the kind, eight for the offset */
#define OUTPUT_KIND 1

void box_pieces_init(struct box_pieces *pieces, enum box_pieces_kind kind)
{
	*pieces = (struct box_pieces){.kind = kind, .rest = box_buf(BOX_MESSAGE_BYTES_MAX)};
	box_list_init(&pieces->ready);
}

void box_pieces_free(struct box_pieces *pieces)
{
	while (box_pieces_first(pieces)) {
		box_pieces_drop_first(pieces);
	}
	box_buf_free(&pieces->rest);
}

struct box_piece *box_pieces_first(const struct box_pieces *pieces)
{
	return box_list_empty(&pieces->ready)
		? NULL
		: BOX_LIST_ITEM(pieces->ready.next, struct box_piece, links);
}

void box_pieces_drop_first(struct box_pieces *pieces)
{
	struct box_piece *piece = box_pieces_first(pieces);
	pieces->ready_bytes -= piece->bytes.len;
	box_list_drop(&piece->links);
	box_buf_free(&piece->bytes);
	free(piece);
}

static void push(struct box_pieces *pieces, struct box_buf bytes, uint64_t end)
{
	struct box_piece *piece = box_alloc(sizeof(*piece));
	piece->bytes = bytes;
	piece->end = end;
	box_list_init(&piece->links);
	box_list_push(&pieces->ready, &piece->links);
	pieces->ready_bytes += bytes.len;
}

/* A text message must be UTF-8. */
static void push_text(struct box_pieces *pieces, struct box_buf raw, uint64_t end)
{
	if (box_utf8_valid(raw.bytes, raw.len)) {
		push(pieces, raw, end);
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_str text = box_output_repair(arena, (struct box_str){raw.bytes, raw.len});
	struct box_buf repaired = box_buf(text.len);
	(void)box_buf_append(&repaired, text.bytes, text.len);
	box_buf_free(&raw);
	push(pieces, repaired, end);
}

static struct box_buf take_rest(struct box_pieces *pieces)
{
	struct box_buf rest = pieces->rest;
	pieces->rest = box_buf(BOX_MESSAGE_BYTES_MAX);
	return rest;
}

/* --- lines --- */

static void end_line(struct box_pieces *pieces, uint64_t end)
{
	struct box_buf line = take_rest(pieces);
	if (pieces->skip || line.len == 0) {
		pieces->skip = false;
		box_buf_free(&line);
		return;
	}
	push_text(pieces, line, end);
}

static int add_lines(struct box_pieces *pieces, uint64_t offset, struct box_str bytes)
{
	int r = 0;
	while (bytes.len > 0) {
		const char *newline = memchr(bytes.bytes, '\n', bytes.len);
		size_t len = newline ? (size_t)(newline - bytes.bytes) : bytes.len;
		if (!pieces->skip && box_buf_append(&pieces->rest, bytes.bytes, len) < 0) {
			pieces->skip = true;
			box_buf_free(&pieces->rest);
			pieces->rest = box_buf(BOX_MESSAGE_BYTES_MAX);
			r = -EMSGSIZE;
		}
		len += newline != NULL;
		offset += len;
		bytes = (struct box_str){bytes.bytes + len, bytes.len - len};
		if (newline) {
			end_line(pieces, offset);
		}
	}
	pieces->rest_end = offset;
	return r;
}

/* --- pieces of text and of bytes --- */

/* Up to the end, or to the beginning of a character that is not whole there. */
static size_t whole_characters(const char *bytes, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)bytes[len - back];
		size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		if (c >= 0xc0) {
			return need > back ? len - back : len;
		}
		if (c < 0x80) {
			break;
		}
	}
	return len;
}

static void add_text(struct box_pieces *pieces, uint64_t offset, struct box_str bytes)
{
	struct box_buf text = take_rest(pieces);
	(void)box_buf_append(&text, bytes.bytes, bytes.len);
	size_t whole = whole_characters(text.bytes, text.len);
	uint64_t end = offset + bytes.len;
	(void)box_buf_append(&pieces->rest, text.bytes + whole, text.len - whole);
	pieces->rest_end = end;
	end -= text.len - whole;
	text.len = whole;
	if (whole == 0) {
		box_buf_free(&text);
		return;
	}
	push_text(pieces, text, end);
}

static void add_bytes(struct box_pieces *pieces, uint64_t offset, struct box_str bytes)
{
	unsigned char head[OFFSET_HEAD] = {OUTPUT_KIND};
	struct box_buf piece = box_buf(OFFSET_HEAD + bytes.len);
	for (int i = 0; i < 8; i++) {
		head[1 + i] = (unsigned char)(offset >> (56 - 8 * i));
	}
	(void)box_buf_append(&piece, head, sizeof(head));
	(void)box_buf_append(&piece, bytes.bytes, bytes.len);
	push(pieces, piece, offset + bytes.len);
}

int box_pieces_add(struct box_pieces *pieces, uint64_t offset, struct box_str bytes)
{
	switch (pieces->kind) {
	case BOX_PIECES_LINES:
		return add_lines(pieces, offset, bytes);
	case BOX_PIECES_TEXT:
		add_text(pieces, offset, bytes);
		return 0;
	case BOX_PIECES_BYTES:
		add_bytes(pieces, offset, bytes);
		return 0;
	}
	return 0;
}

void box_pieces_end(struct box_pieces *pieces)
{
	if (pieces->rest.len > 0 && !pieces->skip) {
		push_text(pieces, take_rest(pieces), pieces->rest_end);
	}
}
