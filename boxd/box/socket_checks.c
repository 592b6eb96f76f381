/* To list the netlink sockets of one box, the kernel walks those of all boxes: with many boxes and many
 * sockets a check is so slow that boxd, which has one thread, must do other work in between. */
#include "boxd/box/socket_checks.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/box/resources.h"
#include "boxd/box/socket_memory.h"

#define SPEND_MS 4     /* for checks, per turn of the event loop */
#define REST_FACTOR 19 /* then no checks for this many times as long as they took */
#define SUSPECT_CHECKS_MAX 3

void box_socket_checks_init(struct box_socket_checks *checks)
{
	box_list_init(&checks->list);
	checks->next_ms = UINT64_MAX;
}

void box_socket_checks_prepare(struct box_socket_check *check)
{
	box_list_init(&check->links);
}

void box_socket_checks_add(struct box_socket_checks *checks, struct box_socket_check *check,
	const struct box_resources *resources, uint64_t limit_bytes)
{
	check->resources = resources;
	check->limit_bytes = limit_bytes;
	check->checked_ms = box_clock_ms();
	check->suspect_checks = 0;
	box_list_push(&checks->list, &check->links);
	if (checks->next_ms == UINT64_MAX) {
		checks->next_ms = check->checked_ms + BOX_SOCKETS_CHECK_MS;
	}
}

void box_socket_checks_remove(struct box_socket_check *check)
{
	box_list_drop(&check->links);
}

static bool exceeds_limit(struct box_socket_check *check)
{
	struct box_socket_memory held;
	const struct box_resources *resources = check->resources;
	uint64_t limit = check->limit_bytes;
	/* A box that has just died cannot be read, and holds nothing. */
	if (box_socket_memory_read(
		    resources->pid, resources->netns, resources->has_slot, limit, &held) < 0) {
		return false;
	}
	bool suspect = box_socket_memory_may_be_over(&held, limit);
	check->suspect_checks = suspect ? check->suspect_checks + 1 : 0;
	return box_socket_memory_is_over(&held, limit) ||
		check->suspect_checks >= SUSPECT_CHECKS_MAX;
}

static struct box_socket_check *first_of(const struct box_socket_checks *checks)
{
	return BOX_CONTAINER_OF(checks->list.next, struct box_socket_check, links);
}

struct box_socket_check *box_socket_checks_find_over(struct box_socket_checks *checks)
{
	uint64_t begin_ms = box_clock_ms();
	if (begin_ms < checks->next_ms) {
		return NULL;
	}
	checks->next_ms = UINT64_MAX;
	while (!box_list_empty(&checks->list)) {
		struct box_socket_check *check = first_of(checks);
		uint64_t now_ms = box_clock_ms();
		if (check->checked_ms + BOX_SOCKETS_CHECK_MS > now_ms) {
			checks->next_ms = check->checked_ms + BOX_SOCKETS_CHECK_MS;
			return NULL;
		}
		if (now_ms - begin_ms >= SPEND_MS) {
			checks->next_ms = now_ms + REST_FACTOR * (now_ms - begin_ms);
			return NULL;
		}
		check->checked_ms = now_ms;
		box_list_drop(&check->links);
		box_list_push(&checks->list, &check->links);
		if (exceeds_limit(check)) {
			checks->next_ms = begin_ms; /* the others are checked in the next call */
			return check;
		}
	}
	return NULL;
}
