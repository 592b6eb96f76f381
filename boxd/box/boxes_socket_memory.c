/* Looks at boxes, one after the other, for what their sockets hold that no cgroup counts. The kernel
 * goes through the netlink sockets of all boxes to tell those of one: many boxes with many sockets make
 * a look so slow that boxd, which has one thread, must do something else in between. */
#include "base/clock.h"
#include "base/limits.h"
#include "boxd/box/boxes_state.h"
#include "boxd/box/socket_memory.h"

#define SPEND_MS 4 /* in one go */
#define SUSPECT_LOOKS 3
#define REST 19 /* so many times as long as it took there is no look after that */

bool box_boxes_has_socket_check(const struct box_boxes_entry *entry)
{
	/* A microVM's guest has a kernel of its own. */
	return entry->state == BOX_BOXES_LIVE && entry->promised_bytes == 0 &&
		entry->memory_bytes > 0;
}

static bool holds_too_much(struct box_boxes_entry *entry)
{
	struct box_socket_memory held;
	const struct box_resources *living = &entry->living;
	uint64_t most = entry->memory_bytes;
	/* One that has just died tells nothing, and holds nothing. */
	if (box_socket_memory_read(living->pid, living->netns, living->has_seat, most, &held) < 0) {
		return false;
	}
	bool suspect = box_socket_memory_may_be_over(&held, most);
	entry->suspect_looks = suspect ? entry->suspect_looks + 1 : 0;
	return box_socket_memory_is_over(&held, most) || entry->suspect_looks >= SUSPECT_LOOKS;
}

static uint64_t next_look_ms(const struct box_boxes *boxes)
{
	const struct box_list *live = &boxes->live;
	bool any = false;
	for (struct box_list *at = live->next; at != live && !any; at = at->next) {
		any = box_boxes_has_socket_check(box_boxes_entry_of(at));
	}
	return any ? box_boxes_entry_of(live->next)->looked_ms + BOX_SOCKETS_CHECK_MS : UINT64_MAX;
}

/* The list of living boxes is in the order in which they were looked at last. */
struct box_boxes_entry *box_boxes_find_over_socket_memory(struct box_boxes *boxes)
{
	uint64_t begin_ms = box_clock_ms();
	if (begin_ms < boxes->look_ms) {
		return NULL;
	}
	while (!box_list_empty(&boxes->live)) {
		struct box_boxes_entry *entry = box_boxes_entry_of(boxes->live.next);
		uint64_t now_ms = box_clock_ms();
		if (entry->looked_ms + BOX_SOCKETS_CHECK_MS > now_ms) {
			break;
		}
		if (now_ms - begin_ms >= SPEND_MS) {
			boxes->look_ms = now_ms + REST * (now_ms - begin_ms);
			return NULL;
		}
		entry->looked_ms = now_ms;
		box_list_drop(&entry->links);
		box_list_push(&boxes->live, &entry->links);
		if (box_boxes_has_socket_check(entry) && holds_too_much(entry)) {
			return entry; /* and the others in the next call */
		}
	}
	boxes->look_ms = next_look_ms(boxes);
	return NULL;
}
