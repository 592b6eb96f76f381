/* Requests are kept in order of arrival; the next one is searched for when a slot is free. */
#include "base/fair_queue.h"

#include <stdio.h>
#include <string.h>

#define WAITING_PARTS 8 /* one tenant may fill 7 of 8 parts of the queue */

size_t box_fair_queue_bucket(const char *tenant)
{
	uint32_t hash = 2166136261U;
	for (; *tenant; tenant++) {
		hash = (hash ^ (unsigned char)*tenant) * 16777619U;
	}
	return hash % BOX_FAIR_QUEUE_BUCKETS;
}

uint64_t box_fair_queue_last_served(const struct box_fair_queue_history *turns, const char *tenant)
{
	return turns->served[box_fair_queue_bucket(tenant)];
}

void box_fair_queue_mark_served(struct box_fair_queue_history *turns, const char *tenant)
{
	turns->served[box_fair_queue_bucket(tenant)] = ++turns->count;
}

void box_fair_queue_init(struct box_fair_queue *queue, size_t places, size_t waiting_max)
{
	*queue = (struct box_fair_queue){.places = places,
		.per_tenant = box_fair_queue_tenant_share(places),
		.waiting_max = waiting_max};
	box_list_init(&queue->waiting);
	box_list_init(&queue->running);
}

static struct box_fair_queue_item *turn_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct box_fair_queue_item, links);
}

static size_t count_of(struct box_list *list, const char *tenant)
{
	size_t count = 0;
	for (struct box_list *at = list->next; at != list; at = at->next) {
		count += strcmp(turn_at(at)->tenant, tenant) == 0;
	}
	return count;
}

size_t box_fair_queue_tenant_share(size_t places)
{
	return places > 1 ? places - 1 : places;
}

bool box_fair_queue_put(
	struct box_fair_queue *queue, struct box_fair_queue_item *turn, const char *tenant)
{
	size_t share = queue->waiting_max - queue->waiting_max / WAITING_PARTS;
	if (queue->waiting_count >= queue->waiting_max ||
		count_of(&queue->waiting, tenant) >= share) {
		return false;
	}
	(void)snprintf(turn->tenant, sizeof(turn->tenant), "%s", tenant);
	turn->running = false;
	box_list_init(&turn->links);
	box_list_push(&queue->waiting, &turn->links);
	queue->waiting_count++;
	return true;
}

struct box_fair_queue_item *box_fair_queue_take(struct box_fair_queue *queue)
{
	struct box_fair_queue_item *best = NULL;
	if (queue->running_count >= queue->places) {
		return NULL;
	}
	for (struct box_list *at = queue->waiting.next; at != &queue->waiting; at = at->next) {
		struct box_fair_queue_item *turn = turn_at(at);
		bool sooner = !best ||
			box_fair_queue_last_served(&queue->turns, turn->tenant) <
				box_fair_queue_last_served(&queue->turns, best->tenant);
		if (sooner && count_of(&queue->running, turn->tenant) < queue->per_tenant) {
			best = turn;
		}
	}
	if (best) {
		box_fair_queue_mark_served(&queue->turns, best->tenant);
		box_list_drop(&best->links);
		box_list_push(&queue->running, &best->links);
		best->running = true;
		queue->waiting_count--;
		queue->running_count++;
	}
	return best;
}

void box_fair_queue_leave(struct box_fair_queue *queue, struct box_fair_queue_item *turn)
{
	box_list_drop(&turn->links);
	*(turn->running ? &queue->running_count : &queue->waiting_count) -= 1;
	turn->running = false;
}
