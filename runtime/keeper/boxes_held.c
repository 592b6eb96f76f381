/* Looks at boxes with a network, one after the other, for what no cgroup counts. */
#include "base/clock.h"
#include "base/limits.h"
#include "runtime/keeper/boxes_state.h"
#include "runtime/keeper/netlink_held.h"

static bool is_looked_at(const struct box_boxes_entry *entry)
{
	/* A microVM's guest has a kernel of its own. */
	return entry->state == BOX_BOXES_LIVE && entry->living.has_seat &&
		entry->promised_bytes == 0;
}

static bool holds_too_much(const struct box_boxes_entry *entry)
{
	struct box_netlink_held held;
	/* One that has just died tells nothing, and holds nothing. */
	return box_netlink_held_look(entry->living.pid, entry->memory_bytes, &held) == 0 &&
		box_netlink_held_is_over(&held, entry->memory_bytes);
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
		if (!is_looked_at(entry)) {
			continue;
		}
		any = true;
		if (holds_too_much(entry)) {
			return entry; /* and the others in the next call */
		}
	}
	boxes->look_ms = any ? now_ms + BOX_NETLINK_LOOK_MS : UINT64_MAX;
	return NULL;
}
