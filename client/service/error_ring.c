/* A ring of the last errors; each is one allocation. */
#include "client/service/error_ring.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/utf8.h"

struct box_error_entry {
	int64_t utc_us;
	enum box_code code;
	size_t text_len;
	size_t query_len;
	char bytes[]; /* the text, then the query id */
};

void box_error_ring_free(struct box_error_ring *ring)
{
	for (size_t i = 0; i < BOX_SERVICE_ERRORS_KEPT; i++) {
		free(ring->entries[i]);
		ring->entries[i] = NULL;
	}
	ring->first = ring->count = 0;
}

void box_error_ring_add(struct box_error_ring *ring, int64_t utc_us, const struct box_err *err,
	struct box_str query_id)
{
	size_t text_len = box_utf8_prefix(
		err->text, strlen(err->text), BOX_SERVICE_ERROR_CHARS_MAX);
	size_t query_len = box_utf8_prefix(query_id.bytes, query_id.len, BOX_SESSION_ID_MAX);
	struct box_error_entry *entry = box_alloc(sizeof(*entry) + text_len + query_len);
	entry->utc_us = utc_us;
	entry->code = err->code;
	entry->text_len = text_len;
	entry->query_len = query_len;
	memcpy(entry->bytes, err->text, text_len);
	if (query_len > 0) {
		memcpy(entry->bytes + text_len, query_id.bytes, query_len);
	}
	size_t at = (ring->first + ring->count) % BOX_SERVICE_ERRORS_KEPT;
	if (ring->count == BOX_SERVICE_ERRORS_KEPT) {
		free(ring->entries[at]);
		ring->first = (ring->first + 1) % BOX_SERVICE_ERRORS_KEPT;
	} else {
		ring->count++;
	}
	ring->entries[at] = entry;
}

struct box_value box_error_ring_list(const struct box_error_ring *ring, struct box_arena *arena)
{
	struct box_value list = box_list_value();
	for (size_t i = 0; i < ring->count; i++) {
		const struct box_error_entry *entry =
			ring->entries[(ring->first + i) % BOX_SERVICE_ERRORS_KEPT];
		struct box_value one = box_map_value();
		char time[BOX_CLOCK_TEXT_SIZE];
		const char *bytes = box_arena_strndup(
			arena, entry->bytes, entry->text_len + entry->query_len);
		const char *kind = box_code_name(entry->code);
		box_clock_format(entry->utc_us, time);
		box_map_add(arena, &one, "timestamp",
			box_cstr(box_arena_strndup(arena, time, strlen(time))));
		box_map_add(arena, &one, "type", box_cstr(kind ? kind : "BoxError"));
		box_map_add(
			arena, &one, "message", box_text((struct box_str){bytes, entry->text_len}));
		box_map_add(arena, &one, "query_id",
			box_text((struct box_str){bytes + entry->text_len, entry->query_len}));
		box_list_add(arena, &list, one);
	}
	return list;
}
