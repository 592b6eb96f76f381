/* Owns who waits to look at a managed process. It has no part in who follows it: nothing is freed, and
 * what was freed is shown as long as it is there. */
#include "init/process/peeks.h"

#include <string.h>

#include "init/control.h"

static void remove_at(struct box_peeks *peeks, uint32_t at)
{
	peeks->count--;
	memmove(&peeks->waiting[at], &peeks->waiting[at + 1],
		(peeks->count - at) * sizeof(peeks->waiting[0]));
}

void box_peeks_put(struct box_peeks *peeks, const char *bytes)
{
	struct box_init_peek peek;
	memcpy(&peek, bytes, sizeof(peek));
	for (uint32_t i = 0; i < peeks->count; i++) {
		if (peeks->waiting[i].token == peek.token) {
			peeks->waiting[i] = peek;
			return;
		}
	}
	if (peeks->count == BOX_INIT_PEEKS_MAX) {
		remove_at(peeks, 0);
	}
	peeks->waiting[peeks->count++] = peek;
}

static bool is_due(const struct box_init_peek *peek, const struct box_peeks_seen *seen)
{
	bool err = peek->stream == BOX_INIT_PEEK_STDERR;
	uint64_t end = err ? seen->err->total : seen->out->end;
	return !peek->wait || end > peek->offset || (err ? seen->err_ended : seen->out_ended);
}

static void answer(const struct box_init_peek *peek, uint32_t id, const struct box_peeks_seen *seen)
{
	bool err = peek->stream == BOX_INIT_PEEK_STDERR;
	struct box_init_peek_answer peeked = {
		.token = peek->token,
		.end = err ? seen->err->total : seen->out->end,
		.ended = err ? seen->err_ended : seen->out_ended,
	};
	char *room = box_control_buffer();
	char *to = room + sizeof(peeked);
	size_t size = err
		? box_tail_peek(seen->err, peek->offset, to, peek->max_bytes, &peeked.offset)
		: box_ring_peek(seen->out, peek->offset, to, peek->max_bytes, &peeked.offset);
	memcpy(room, &peeked, sizeof(peeked));
	box_control_send_buffer(BOX_INIT_PEEK_ANSWER, id, sizeof(peeked) + size);
}

void box_peeks_answer(struct box_peeks *peeks, uint32_t id, const struct box_peeks_seen *seen)
{
	for (uint32_t i = 0; i < peeks->count && !box_control_blocked();) {
		const struct box_init_peek peek = peeks->waiting[i];
		if (!is_due(&peek, seen)) {
			i++;
			continue;
		}
		remove_at(peeks, i);
		answer(&peek, id, seen);
	}
}
