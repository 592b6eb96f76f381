/* Looks at boxes, one after the other, for what their sockets hold that no cgroup counts. */
#include "base/clock.h"
#include "base/limits.h"
#include "runtime/keeper/boxes_state.h"
#include "runtime/keeper/sockets_held.h"

#define SHARE 20 /* of boxd's time, at the most: one part in so many */

bool box_boxes_is_looked_at(const struct box_boxes_entry *entry)
{
	/* A microVM's guest has a kernel of its own. */
	return entry->state == BOX_BOXES_LIVE && entry->promised_bytes == 0 &&
		entry->memory_bytes > 0;
}

static bool holds_too_much(const struct box_boxes_entry *entry)
{
	struct box_sockets_held held;
	/* One that has just died tells nothing, and holds nothing. */
	return box_sockets_held_look(entry->living.pid, entry->living.has_seat, entry->memory_bytes,
		       &held) == 0 &&
		box_sockets_held_is_over(&held, entry->memory_bytes);
}

struct box_boxes_entry *box_boxes_find_greedy(struct box_boxes *boxes)
{
	uint64_t now_ms = box_clock_ms();
	bool any = false;
	if (now_ms < boxes->look_ms) {
		return NULL;
	}
	for (struct box_list *at = boxes->live.next; at != &boxes->live; at = at->next) {
		struct box_boxes_entry *entry = box_boxes_entry_at(at);
		if (!box_boxes_is_looked_at(entry)) {
			continue;
		}
		any = true;
		if (holds_too_much(entry)) {
			return entry; /* and the others in the next call */
		}
	}
	uint64_t pause_ms = (box_clock_ms() - now_ms) * SHARE;
	pause_ms = pause_ms > BOX_SOCKETS_LOOK_MS ? pause_ms : BOX_SOCKETS_LOOK_MS;
	boxes->look_ms = any ? box_clock_ms() + pause_ms : UINT64_MAX;
	return NULL;
}
