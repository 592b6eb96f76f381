/* The cutting of output into messages. */
#include "transport/relay_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "runtime/session/output.h"

#define OFFSET_HEAD 9 /* a byte for the kind, eight for the offset */
#define OUTPUT_KIND 1
/* Each byte that is no UTF-8 becomes three: what is longer must be measured. */
#define SURE_BYTES (BOX_MESSAGE_BYTES_MAX / 3)

void box_relay_output_init(struct box_relay_output *pieces, enum box_relay_output_kind kind)
{
	*pieces = (struct box_relay_output){.kind = kind, .rest = box_buf(BOX_MESSAGE_BYTES_MAX)};
	box_list_init(&pieces->ready);
}

static void piece_free(struct box_relay_output_chunk *piece)
{
	box_list_drop(&piece->links);
	box_buf_free(&piece->run);
	box_buf_free(&piece->text);
	free(piece);
}

void box_relay_output_free(struct box_relay_output *pieces)
{
	struct box_list *item;
	while ((item = box_list_pop(&pieces->ready))) {
		piece_free(BOX_CONTAINER_OF(item, struct box_relay_output_chunk, links));
	}
	box_buf_free(&pieces->rest);
}

/* --- messages out of runs --- */

/* A text message must be UTF-8. */
static void repair(struct box_relay_output_chunk *piece)
{
	if (box_utf8_valid(piece->bytes, piece->len)) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_str text = box_output_repair(arena, (struct box_str){piece->bytes, piece->len});
	piece->text = box_buf(text.len);
	(void)box_buf_append(&piece->text, text.bytes, text.len);
	piece->bytes = piece->text.bytes;
	piece->len = text.len;
}

/* Where the next line that is not empty begins. */
static size_t skip_empty(const struct box_buf *run, size_t at)
{
	while (at < run->len && run->bytes[at] == '\n') {
		at++;
	}
	return at;
}

/* The message that begins at run_next is the present one. */
static void settle(const struct box_relay_output *pieces, struct box_relay_output_chunk *piece)
{
	const struct box_buf *run = &piece->run;
	size_t at = piece->run_next;
	size_t len = run->len - at;
	size_t next = run->len;
	if (pieces->kind == BOX_RELAY_OUTPUT_LINES) {
		const char *newline = memchr(run->bytes + at, '\n', len);
		len = newline ? (size_t)(newline - run->bytes) - at : len;
		next = newline ? at + len + 1 : next;
	}
	piece->bytes = run->bytes + at;
	piece->len = len;
	piece->sent = 0;
	piece->run_next = next;
	piece->end = piece->run_offset + next;
	if (pieces->kind == BOX_RELAY_OUTPUT_BYTES) {
		piece->end -= OFFSET_HEAD;
	} else {
		repair(piece);
	}
}

struct box_relay_output_chunk *box_relay_output_first(const struct box_relay_output *pieces)
{
	if (box_list_empty(&pieces->ready)) {
		return NULL;
	}
	struct box_relay_output_chunk *piece = BOX_CONTAINER_OF(
		pieces->ready.next, struct box_relay_output_chunk, links);
	if (!piece->bytes) {
		settle(pieces, piece);
	}
	return piece;
}

void box_relay_output_drop_first(struct box_relay_output *pieces)
{
	struct box_relay_output_chunk *piece = box_relay_output_first(pieces);
	size_t next = skip_empty(&piece->run, piece->run_next);
	if (piece->len > pieces->longest_len) {
		pieces->longest_len = piece->len;
		pieces->longest_end = piece->end;
	}
	box_buf_free(&piece->text);
	piece->bytes = NULL;
	if (next == piece->run.len) {
		pieces->ready_bytes -= piece->run.len;
		piece_free(piece);
	} else {
		piece->run_next = next;
	}
}

uint64_t box_relay_output_longest_end(const struct box_relay_output *pieces)
{
	const struct box_relay_output_chunk *piece = box_relay_output_first(pieces);
	bool begun = piece && piece->sent > 0;
	return begun && piece->len > pieces->longest_len ? piece->end : pieces->longest_end;
}

/* Behind what is there and was not begun, as far as that follows and is not long. */
static bool join(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	struct box_relay_output_chunk *last = BOX_CONTAINER_OF(
		pieces->ready.prev, struct box_relay_output_chunk, links);
	size_t head = pieces->kind == BOX_RELAY_OUTPUT_BYTES ? OFFSET_HEAD : 0;
	if (box_list_empty(&pieces->ready) || last->bytes ||
		last->run.len + bytes.len > BOX_WS_FRAME_BYTES ||
		last->run_offset + last->run.len - head != offset) {
		return false;
	}
	last->run.limit = BOX_WS_FRAME_BYTES;
	(void)box_buf_append(&last->run, bytes.bytes, bytes.len);
	pieces->ready_bytes += bytes.len;
	return true;
}

/* `run` begins at this offset; it is empty afterwards. */
static void push(struct box_relay_output *pieces, struct box_buf *run, uint64_t offset)
{
	size_t first = pieces->kind == BOX_RELAY_OUTPUT_LINES ? skip_empty(run, 0) : 0;
	if (join(pieces, offset, (struct box_str){run->bytes, run->len}) || first == run->len) {
		box_buf_free(run);
		return;
	}
	struct box_relay_output_chunk *piece = box_alloc(sizeof(*piece));
	piece->run = *run;
	piece->run_offset = offset;
	piece->run_next = first;
	box_list_init(&piece->links);
	box_list_push(&pieces->ready, &piece->links);
	pieces->ready_bytes += run->len;
	*run = box_buf(0);
}

static struct box_buf take_rest(struct box_relay_output *pieces)
{
	struct box_buf rest = pieces->rest;
	pieces->rest = box_buf(BOX_MESSAGE_BYTES_MAX);
	pieces->measured = 0;
	pieces->text_size = 0;
	return rest;
}

/* --- lines --- */

/* The rest and these bytes behind it, which end with a line. */
static void push_lines(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	struct box_buf run = take_rest(pieces);
	offset -= run.len;
	run.limit = run.len + bytes.len;
	(void)box_buf_append(&run, bytes.bytes, bytes.len);
	push(pieces, &run, offset);
}

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

/* Whether the rest, all of which is of one line, makes a message. Each byte is looked at once; a
 * character that is not whole yet counts when the line ends. */
static bool rest_fits(struct box_relay_output *pieces, bool ends)
{
	const struct box_buf *rest = &pieces->rest;
	size_t end = whole_characters(rest->bytes, rest->len);
	pieces->text_size += box_output_repaired_size(
		(struct box_str){rest->bytes + pieces->measured, end - pieces->measured});
	pieces->measured = end;
	const struct box_str broken = {rest->bytes + end, rest->len - end};
	return pieces->text_size + (ends ? box_output_repaired_size(broken) : 0) <=
		BOX_MESSAGE_BYTES_MAX;
}

/* Bytes with their offset, lines up to `whole`. */
struct added {
	uint64_t offset;
	struct box_str bytes;
	size_t whole;
};

/* Whether the next `len` bytes belong to no line that is too long. Those of one that has begun and
 * is long go to the rest, to be measured there. */
static bool line_fits(struct box_relay_output *pieces, struct added *added, size_t len, bool ends)
{
	struct box_str line = {added->bytes.bytes + added->whole, len};
	if (added->whole > 0 || pieces->rest.len == 0) {
		return len <= SURE_BYTES ||
			(len <= BOX_MESSAGE_BYTES_MAX &&
				box_output_repaired_size(line) <= BOX_MESSAGE_BYTES_MAX);
	}
	if (pieces->rest.len + len <= SURE_BYTES) {
		return true;
	}
	if (box_buf_append(&pieces->rest, line.bytes, line.len) < 0) {
		return false;
	}
	added->offset += len;
	added->bytes = (struct box_str){line.bytes + len, added->bytes.len - len};
	return rest_fits(pieces, ends);
}

/* Goes through the lines; false at one that is too long. */
static bool walk_lines(struct box_relay_output *pieces, struct added *added)
{
	while (added->whole < added->bytes.len) {
		const char *at = added->bytes.bytes + added->whole;
		size_t left = added->bytes.len - added->whole;
		const char *newline = memchr(at, '\n', left);
		if (!line_fits(pieces, added, newline ? (size_t)(newline - at) : left, newline)) {
			return false;
		}
		if (!newline) {
			break;
		}
		added->whole = (size_t)(newline - added->bytes.bytes) + 1;
	}
	return true;
}

static int add_lines(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	if (pieces->skip) {
		const char *newline = memchr(bytes.bytes, '\n', bytes.len);
		size_t skipped = newline ? (size_t)(newline - bytes.bytes) + 1 : bytes.len;
		pieces->skip = !newline;
		offset += skipped;
		bytes = (struct box_str){bytes.bytes + skipped, bytes.len - skipped};
	}
	struct added added = {.offset = offset, .bytes = bytes};
	pieces->rest_end = offset + bytes.len;
	bool fits = walk_lines(pieces, &added);
	if (added.whole > 0) {
		push_lines(pieces, added.offset, (struct box_str){added.bytes.bytes, added.whole});
	}
	if (!fits) {
		struct box_buf rest = take_rest(pieces);
		box_buf_free(&rest);
		pieces->skip = true;
		pieces->rest_end = added.offset + added.whole;
		return -EMSGSIZE;
	}
	if (added.whole < added.bytes.len) {
		(void)box_buf_append(&pieces->rest, added.bytes.bytes + added.whole,
			added.bytes.len - added.whole);
	}
	return 0;
}

/* --- pieces of text and of bytes --- */

static void add_text(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	struct box_buf text = take_rest(pieces);
	offset -= text.len;
	(void)box_buf_append(&text, bytes.bytes, bytes.len);
	size_t whole = whole_characters(text.bytes, text.len);
	(void)box_buf_append(&pieces->rest, text.bytes + whole, text.len - whole);
	pieces->rest_end = offset + text.len;
	text.len = whole;
	push(pieces, &text, offset);
}

static void add_bytes(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	unsigned char head[OFFSET_HEAD] = {OUTPUT_KIND};
	if (join(pieces, offset, bytes)) {
		return;
	}
	struct box_buf run = box_buf(OFFSET_HEAD + bytes.len);
	for (int i = 0; i < 8; i++) {
		head[1 + i] = (unsigned char)(offset >> (56 - 8 * i));
	}
	(void)box_buf_append(&run, head, sizeof(head));
	(void)box_buf_append(&run, bytes.bytes, bytes.len);
	push(pieces, &run, offset);
}

int box_relay_output_add(struct box_relay_output *pieces, uint64_t offset, struct box_str bytes)
{
	switch (pieces->kind) {
	case BOX_RELAY_OUTPUT_LINES:
		return add_lines(pieces, offset, bytes);
	case BOX_RELAY_OUTPUT_TEXT:
		add_text(pieces, offset, bytes);
		return 0;
	case BOX_RELAY_OUTPUT_BYTES:
		add_bytes(pieces, offset, bytes);
		return 0;
	}
	return 0;
}

void box_relay_output_drop_rest(struct box_relay_output *pieces)
{
	struct box_buf rest = take_rest(pieces);
	box_buf_free(&rest);
}

void box_relay_output_end(struct box_relay_output *pieces)
{
	if (pieces->rest.len > SURE_BYTES && !rest_fits(pieces, true)) {
		pieces->rest.len = pieces->measured; /* no room for the rest of a character */
	}
	if (pieces->rest.len > 0 && !pieces->skip) {
		struct box_buf rest = take_rest(pieces);
		push(pieces, &rest, pieces->rest_end - rest.len);
	}
}
