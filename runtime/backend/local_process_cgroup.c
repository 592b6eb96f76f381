/* Processes with a limit of memory of their own: each gets a group from boxd before its box hears
 * of it. What is said about it meanwhile, or while its mounts are opened (local_process_volumes.c), waits
 * here, in order. Without its group and its mounts it is not started. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_internal.h"

/* What waits for a group: few packets, of which only input is large, and that has a bound of its
 * own. */
struct packet {
	struct box_list links;
	uint32_t kind;
	size_t size;
	char bytes[];
};

/* A question to boxd; its box stays until it is answered. */
struct grouping {
	struct box_backend_box *box;
	uint32_t number;
};

static struct packet *pop_packet(struct box_local_process *kept)
{
	struct box_list *item = box_list_pop(&kept->packets);
	return item ? BOX_CONTAINER_OF(item, struct packet, links) : NULL;
}

static void drop_packets(struct box_local_process *kept)
{
	struct packet *packet;
	while ((packet = pop_packet(kept))) {
		free(packet);
	}
}

void box_local_process_free(struct box_local_process *kept)
{
	if (kept) {
		drop_packets(kept);
		box_close_p(&kept->kills);
		box_close_p(&kept->door);
		box_local_process_free_volumes(kept->volumes);
		free(kept);
	}
}

void box_local_process_send(struct box_backend_box *box, struct box_local_process *kept,
	uint32_t kind, const void *first, size_t first_size, struct box_str rest)
{
	if (kept->waits == 0) {
		box_local_control_send(
			box, kind, kept->number, first, first_size, rest.bytes, rest.len, -1);
		return;
	}
	struct packet *packet = box_alloc(sizeof(*packet) + first_size + rest.len);
	packet->kind = kind;
	packet->size = first_size + rest.len;
	if (first_size > 0) {
		memcpy(packet->bytes, first, first_size);
	}
	if (rest.len > 0) {
		memcpy(packet->bytes + first_size, rest.bytes, rest.len);
	}
	box_list_push(&kept->packets, &packet->links);
}

/* The door goes with the packet that begins it, if there is one; nobody else needs it. Where there is
 * no door, a number goes. */
static void send_packets(struct box_backend_box *box, struct box_local_process *kept)
{
	int door = TAKE_FD(kept->door);
	struct packet *packet;
	while ((packet = pop_packet(kept))) {
		bool first = packet->kind == BOX_INIT_START_PROCESS_IN;
		if (first || packet->kind == BOX_INIT_START_PROCESS) {
			box_local_process_send_volumes(box, kept);
		}
		if (first && door < 0) {
			box_local_control_send_number(box, packet->kind, kept->number,
				packet->bytes, packet->size, kept->mebibytes);
		} else {
			box_local_control_send(box, packet->kind, kept->number, packet->bytes,
				packet->size, NULL, 0, first ? TAKE_FD(door) : -1);
		}
		free(packet);
	}
	box_close_p(&door);
}

static bool begins(const struct box_local_process *kept)
{
	if (box_list_empty(&kept->packets)) {
		return false;
	}
	uint32_t kind = BOX_CONTAINER_OF(kept->packets.next, struct packet, links)->kind;
	return kind == BOX_INIT_START_PROCESS_IN || kind == BOX_INIT_START_PROCESS;
}

/* Nothing that was got for it stays: it may be listed for long. */
static void tell_failed(struct box_backend_box *box, struct box_local_process *kept)
{
	char why[512];
	(void)snprintf(why, sizeof(why), "%.500s", kept->failure.text);
	const struct box_backend_process_state failed = {
		.known = true,
		.exit_code = 127,
		.failure = why,
		.out_ended = true,
	};
	kept->told = true;
	kept->ended = true;
	drop_packets(kept);
	box_local_process_free_volumes(TAKE_PTR(kept->volumes));
	box_close_p(&kept->door);
	box_local_process_close_cgroup(box, kept);
	kept->events->state(kept->arg, &failed);
}

void box_local_process_resource_ready(
	struct box_backend_box *box, struct box_local_process *kept, const struct box_err *err)
{
	kept->waits--;
	if (err && !kept->failed) {
		kept->failed = true;
		kept->failure = *err;
	}
	if (kept->waits > 0) {
		return;
	}
	if (kept->failed && begins(kept)) {
		tell_failed(box, kept);
		return;
	}
	/* One that was there before is asked for all the same. */
	send_packets(box, kept);
}

static void take_group(struct box_backend_box *box, uint32_t number,
	const struct box_local_process_cgroup *group, const struct box_err *err)
{
	struct box_local_process *kept = box_local_process_find(box, number);
	int door = group->door;
	int kills = group->events;
	if (!kept) {
		/* Dropped meanwhile, and its group closed. */
		box_close_p(&door);
		box_close_p(&kills);
		return;
	}
	struct box_err why;
	if (err) {
		(void)box_err_set(&why, err->code, err->errnum,
			"its memory limit cannot be set: %.400s", err->text);
	}
	/* Of one with the same number that was dropped, if any. */
	box_close_p(&kept->kills);
	box_close_p(&kept->door);
	kept->kills = kills;
	kept->door = door;
	box_local_process_resource_ready(box, kept, err ? &why : NULL);
}

static void grouped(
	void *arg, const struct box_local_process_cgroup *group, const struct box_err *err)
{
	struct grouping grouping = *(struct grouping *)arg;
	struct box_backend_box *box = grouping.box;
	int rest = group->rest;
	free(arg);
	if (box->rest < 0) {
		box->rest = TAKE_FD(rest);
	}
	box_close_p(&rest);
	take_group(box, grouping.number, group, err);
	box_local_run_ended(box);
}

void box_local_process_open_cgroup(
	struct box_backend_box *box, struct box_local_process *kept, int64_t memory_mb)
{
	const struct box_local *native = box->native;
	struct grouping *grouping = box_alloc(sizeof(*grouping));
	*grouping = (struct grouping){.box = box, .number = kept->number};
	kept->limited = true;
	kept->waits++;
	kept->mebibytes = memory_mb < UINT32_MAX ? (uint32_t)memory_mb : UINT32_MAX;
	box->run_count++;
	native->keeper->open_group(
		native->keeper_arg, box->number, kept->number, kept->mebibytes, grouped, grouping);
}

void box_local_process_close_cgroup(struct box_backend_box *box, struct box_local_process *kept)
{
	if (kept->limited) {
		kept->limited = false;
		box_close_p(&kept->kills);
		box->native->keeper->close_group(
			box->native->keeper_arg, box->number, kept->number);
	}
}
