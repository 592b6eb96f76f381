/* A list in order of arrival, from which the request of the tenant served longest ago is taken. */
#include "worker/skills_queue.h"

#include <string.h>

#include "base/limits.h"
#include "base/value.h"
#include "runtime/skill_store.h"

void box_skills_queue_init(struct box_skills_queue *queue)
{
	*queue = (struct box_skills_queue){0};
	box_list_init(&queue->waiting);
}

/* The bytes of all texts in a message; its depth was limited when it was decoded. */
static size_t text_bytes(const struct box_value *value)
{
	size_t size = value->type == BOX_STR || value->type == BOX_BIN ? value->str.len : 0;
	for (uint32_t i = 0; value->type == BOX_LIST && i < value->count; i++) {
		size += text_bytes(&value->items[i]);
	}
	for (uint32_t i = 0; value->type == BOX_MAP && i < value->count; i++) {
		size += value->pairs[i].key.len + text_bytes(&value->pairs[i].value);
	}
	return size;
}

bool box_skills_queue_put(struct box_skills_queue *queue, struct box_skill_store_request *ask)
{
	size_t size = text_bytes(ask->data);
	if (queue->bytes > 0 && queue->bytes + size > BOX_SKILLS_WAITING_BYTES_MAX) {
		return false;
	}
	queue->bytes += size;
	box_list_push(&queue->waiting, &ask->links);
	return true;
}

void box_skills_queue_drop(struct box_skills_queue *queue, struct box_skill_store_request *ask)
{
	queue->bytes -= text_bytes(ask->data);
	box_list_drop(&ask->links);
}

struct box_skill_store_request *box_skills_queue_take(struct box_skills_queue *queue)
{
	struct box_skill_store_request *best = NULL;
	for (struct box_list *at = queue->waiting.next; at != &queue->waiting; at = at->next) {
		struct box_skill_store_request *ask = BOX_CONTAINER_OF(
			at, struct box_skill_store_request, links);
		if (!best ||
			box_fair_queue_last_served(&queue->turns, ask->namespace) <
				box_fair_queue_last_served(&queue->turns, best->namespace)) {
			best = ask;
		}
	}
	if (best) {
		box_fair_queue_mark_served(&queue->turns, best->namespace);
		box_skills_queue_drop(queue, best);
	}
	return best;
}
