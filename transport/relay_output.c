/* Cuts output into messages: lines up to the message limit, or pieces of text or bytes as they come. */
#include "transport/relay_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "runtime/session/output.h"

#define OFFSET_HEAD 9 /* one byte for the kind, eight for the offset */
#define OUTPUT_KIND 1
/* Each invalid byte becomes three when repaired: anything longer must be measured. */
#define SURE_BYTES (BOX_MESSAGE_BYTES_MAX / 3)

void box_relay_output_init(struct box_relay_output *output, enum box_relay_output_kind kind)
{
	*output = (struct box_relay_output){.kind = kind, .rest = box_buf(BOX_MESSAGE_BYTES_MAX)};
	box_list_init(&output->ready);
}

static void chunk_free(struct box_relay_output_chunk *chunk)
{
	box_list_drop(&chunk->links);
	box_buf_free(&chunk->run);
	box_buf_free(&chunk->text);
	free(chunk);
}

void box_relay_output_free(struct box_relay_output *output)
{
	struct box_list *item;
	while ((item = box_list_pop(&output->ready))) {
		chunk_free(BOX_CONTAINER_OF(item, struct box_relay_output_chunk, links));
	}
	box_buf_free(&output->rest);
}

/* --- messages out of runs --- */

/* A text message must be valid UTF-8. */
static void repair(struct box_relay_output_chunk *chunk)
{
	if (box_utf8_valid(chunk->bytes, chunk->len)) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_str text = box_output_repair(arena, (struct box_str){chunk->bytes, chunk->len});
	chunk->text = box_buf(text.len);
	(void)box_buf_append(&chunk->text, text.bytes, text.len);
	chunk->bytes = chunk->text.bytes;
	chunk->len = text.len;
}

/* The start of the next line that is not empty. */
static size_t skip_empty(const struct box_buf *run, size_t at)
{
	while (at < run->len && run->bytes[at] == '\n') {
		at++;
	}
	return at;
}

/* Makes the message that begins at run_next the current one. */
static void settle(const struct box_relay_output *output, struct box_relay_output_chunk *chunk)
{
	const struct box_buf *run = &chunk->run;
	size_t at = chunk->run_next;
	size_t len = run->len - at;
	size_t next = run->len;
	if (output->kind == BOX_RELAY_OUTPUT_LINES) {
		const char *newline = memchr(run->bytes + at, '\n', len);
		len = newline ? (size_t)(newline - run->bytes) - at : len;
		next = newline ? at + len + 1 : next;
	}
	chunk->bytes = run->bytes + at;
	chunk->len = len;
	chunk->sent = 0;
	chunk->run_next = next;
	chunk->end = chunk->run_offset + next;
	if (output->kind == BOX_RELAY_OUTPUT_BYTES) {
		chunk->end -= OFFSET_HEAD;
	} else {
		repair(chunk);
	}
}

struct box_relay_output_chunk *box_relay_output_first(const struct box_relay_output *output)
{
	if (box_list_empty(&output->ready)) {
		return NULL;
	}
	struct box_relay_output_chunk *chunk = BOX_CONTAINER_OF(
		output->ready.next, struct box_relay_output_chunk, links);
	if (!chunk->bytes) {
		settle(output, chunk);
	}
	return chunk;
}

void box_relay_output_drop_first(struct box_relay_output *output)
{
	struct box_relay_output_chunk *chunk = box_relay_output_first(output);
	size_t next = skip_empty(&chunk->run, chunk->run_next);
	if (chunk->len > output->longest_len) {
		output->longest_len = chunk->len;
		output->longest_end = chunk->end;
	}
	box_buf_free(&chunk->text);
	chunk->bytes = NULL;
	if (next == chunk->run.len) {
		output->ready_bytes -= chunk->run.len;
		chunk_free(chunk);
	} else {
		chunk->run_next = next;
	}
}

uint64_t box_relay_output_longest_end(const struct box_relay_output *output)
{
	const struct box_relay_output_chunk *chunk = box_relay_output_first(output);
	bool begun = chunk && chunk->sent > 0;
	return begun && chunk->len > output->longest_len ? chunk->end : output->longest_end;
}

/* Appends the bytes to the last run, if they follow it, its first message is not current, and it stays
 * within one frame. */
static bool join(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	struct box_relay_output_chunk *last = BOX_CONTAINER_OF(
		output->ready.prev, struct box_relay_output_chunk, links);
	size_t head = output->kind == BOX_RELAY_OUTPUT_BYTES ? OFFSET_HEAD : 0;
	if (box_list_empty(&output->ready) || last->bytes ||
		last->run.len + bytes.len > BOX_WS_FRAME_BYTES ||
		last->run_offset + last->run.len - head != offset) {
		return false;
	}
	last->run.limit = BOX_WS_FRAME_BYTES;
	(void)box_buf_append(&last->run, bytes.bytes, bytes.len);
	output->ready_bytes += bytes.len;
	return true;
}

/* Queues `run`, which begins at this offset and is empty afterwards. */
static void push(struct box_relay_output *output, struct box_buf *run, uint64_t offset)
{
	size_t first = output->kind == BOX_RELAY_OUTPUT_LINES ? skip_empty(run, 0) : 0;
	if (join(output, offset, (struct box_str){run->bytes, run->len}) || first == run->len) {
		box_buf_free(run);
		return;
	}
	struct box_relay_output_chunk *chunk = box_alloc(sizeof(*chunk));
	chunk->run = *run;
	chunk->run_offset = offset;
	chunk->run_next = first;
	box_list_init(&chunk->links);
	box_list_push(&output->ready, &chunk->links);
	output->ready_bytes += run->len;
	*run = box_buf(0);
}

static struct box_buf take_rest(struct box_relay_output *output)
{
	struct box_buf rest = output->rest;
	output->rest = box_buf(BOX_MESSAGE_BYTES_MAX);
	output->measured = 0;
	output->text_size = 0;
	return rest;
}

/* --- lines --- */

/* Queues the unfinished rest followed by these bytes, which end with a newline. */
static void push_lines(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	struct box_buf run = take_rest(output);
	offset -= run.len;
	run.limit = run.len + bytes.len;
	(void)box_buf_append(&run, bytes.bytes, bytes.len);
	push(output, &run, offset);
}

/* The length without an incomplete character at the end. */
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

/* Whether the unfinished line in `rest` still fits a message. Each byte is measured once; an incomplete
 * character counts when the line ends. */
static bool rest_fits(struct box_relay_output *output, bool ends)
{
	const struct box_buf *rest = &output->rest;
	size_t end = whole_characters(rest->bytes, rest->len);
	output->text_size += box_output_repaired_size(
		(struct box_str){rest->bytes + output->measured, end - output->measured});
	output->measured = end;
	const struct box_str broken = {rest->bytes + end, rest->len - end};
	return output->text_size + (ends ? box_output_repaired_size(broken) : 0) <=
		BOX_MESSAGE_BYTES_MAX;
}

/* New bytes with their offset; the first `whole` of them are complete lines. */
struct added {
	uint64_t offset;
	struct box_str bytes;
	size_t whole;
};

/* Whether the line that the next `len` bytes belong to is still short enough. If it began earlier and is
 * long, the bytes go to the rest, to be measured there. */
static bool line_fits(struct box_relay_output *output, struct added *added, size_t len, bool ends)
{
	struct box_str line = {added->bytes.bytes + added->whole, len};
	if (added->whole > 0 || output->rest.len == 0) {
		return len <= SURE_BYTES ||
			(len <= BOX_MESSAGE_BYTES_MAX &&
				box_output_repaired_size(line) <= BOX_MESSAGE_BYTES_MAX);
	}
	if (output->rest.len + len <= SURE_BYTES) {
		return true;
	}
	if (box_buf_append(&output->rest, line.bytes, line.len) < 0) {
		return false;
	}
	added->offset += len;
	added->bytes = (struct box_str){line.bytes + len, added->bytes.len - len};
	return rest_fits(output, ends);
}

/* Goes through the lines; false if one is too long. */
static bool walk_lines(struct box_relay_output *output, struct added *added)
{
	while (added->whole < added->bytes.len) {
		const char *at = added->bytes.bytes + added->whole;
		size_t left = added->bytes.len - added->whole;
		const char *newline = memchr(at, '\n', left);
		if (!line_fits(output, added, newline ? (size_t)(newline - at) : left, newline)) {
			return false;
		}
		if (!newline) {
			break;
		}
		added->whole = (size_t)(newline - added->bytes.bytes) + 1;
	}
	return true;
}

static int add_lines(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	if (output->skip) {
		const char *newline = memchr(bytes.bytes, '\n', bytes.len);
		size_t skipped = newline ? (size_t)(newline - bytes.bytes) + 1 : bytes.len;
		output->skip = !newline;
		offset += skipped;
		bytes = (struct box_str){bytes.bytes + skipped, bytes.len - skipped};
	}
	struct added added = {.offset = offset, .bytes = bytes};
	output->rest_end = offset + bytes.len;
	bool fits = walk_lines(output, &added);
	if (added.whole > 0) {
		push_lines(output, added.offset, (struct box_str){added.bytes.bytes, added.whole});
	}
	if (!fits) {
		struct box_buf rest = take_rest(output);
		box_buf_free(&rest);
		output->skip = true;
		output->rest_end = added.offset + added.whole;
		return -EMSGSIZE;
	}
	if (added.whole < added.bytes.len) {
		(void)box_buf_append(&output->rest, added.bytes.bytes + added.whole,
			added.bytes.len - added.whole);
	}
	return 0;
}

/* --- pieces of text and of bytes --- */

static void add_text(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	struct box_buf text = take_rest(output);
	offset -= text.len;
	(void)box_buf_append(&text, bytes.bytes, bytes.len);
	size_t whole = whole_characters(text.bytes, text.len);
	(void)box_buf_append(&output->rest, text.bytes + whole, text.len - whole);
	output->rest_end = offset + text.len;
	text.len = whole;
	push(output, &text, offset);
}

static void add_bytes(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	unsigned char head[OFFSET_HEAD] = {OUTPUT_KIND};
	if (join(output, offset, bytes)) {
		return;
	}
	struct box_buf run = box_buf(OFFSET_HEAD + bytes.len);
	for (int i = 0; i < 8; i++) {
		head[1 + i] = (unsigned char)(offset >> (56 - 8 * i));
	}
	(void)box_buf_append(&run, head, sizeof(head));
	(void)box_buf_append(&run, bytes.bytes, bytes.len);
	push(output, &run, offset);
}

int box_relay_output_add(struct box_relay_output *output, uint64_t offset, struct box_str bytes)
{
	switch (output->kind) {
	case BOX_RELAY_OUTPUT_LINES:
		return add_lines(output, offset, bytes);
	case BOX_RELAY_OUTPUT_TEXT:
		add_text(output, offset, bytes);
		return 0;
	case BOX_RELAY_OUTPUT_BYTES:
		add_bytes(output, offset, bytes);
		return 0;
	}
	return 0;
}

void box_relay_output_drop_rest(struct box_relay_output *output)
{
	struct box_buf rest = take_rest(output);
	box_buf_free(&rest);
}

void box_relay_output_end(struct box_relay_output *output)
{
	if (output->rest.len > SURE_BYTES && !rest_fits(output, true)) {
		output->rest.len = output->measured; /* no room for the rest of a character */
	}
	if (output->rest.len > 0 && !output->skip) {
		struct box_buf rest = take_rest(output);
		push(output, &rest, output->rest_end - rest.len);
	}
}
