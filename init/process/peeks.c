/* Owns the PEEK requests of a managed process that are not answered yet. A peek does not affect
 * FOLLOW_OUTPUT: it frees no output, and shows freed output as long as it is in memory. Called by mproc.c. */
#include "init/process/peeks.h"

#include <string.h>

#include "init/control.h"

static void remove_at(struct box_peeks *peeks, uint32_t at)
{
	peeks->count--;
	memmove(&peeks->waiting[at], &peeks->waiting[at + 1],
		(peeks->count - at) * sizeof(peeks->waiting[0]));
}

void box_peeks_add(struct box_peeks *peeks, const char *bytes)
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

static bool is_due(const struct box_init_peek *peek, const struct box_peeks_output *output)
{
	bool err = peek->stream == BOX_INIT_PEEK_STDERR;
	uint64_t end = err ? output->err->total : output->out->end;
	return !peek->wait || end > peek->offset || (err ? output->err_ended : output->out_ended);
}

static void answer(
	const struct box_init_peek *peek, uint32_t id, const struct box_peeks_output *output)
{
	bool err = peek->stream == BOX_INIT_PEEK_STDERR;
	struct box_init_peek_answer header = {
		.token = peek->token,
		.end = err ? output->err->total : output->out->end,
		.ended = err ? output->err_ended : output->out_ended,
	};
	char *buffer = box_control_buffer();
	char *to = buffer + sizeof(header);
	size_t size = err
		? box_tail_peek(output->err, peek->offset, to, peek->max_bytes, &header.offset)
		: box_ring_peek(output->out, peek->offset, to, peek->max_bytes, &header.offset);
	memcpy(buffer, &header, sizeof(header));
	box_control_send_buffer(BOX_INIT_PEEK_ANSWER, id, sizeof(header) + size);
}

void box_peeks_answer(struct box_peeks *peeks, uint32_t id, const struct box_peeks_output *output)
{
	for (uint32_t i = 0; i < peeks->count && !box_control_blocked();) {
		const struct box_init_peek peek = peeks->waiting[i];
		if (!is_due(&peek, output)) {
			i++;
			continue;
		}
		remove_at(peeks, i);
		answer(&peek, id, output);
	}
}
