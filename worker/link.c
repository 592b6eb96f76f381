/* Packets from and to boxd. Requests carry an id and are answered in any order. */
#include "worker/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"

struct asked_folder {
	struct box_list links;
	uint32_t id;
	int failed; /* why it could not be asked: told from the loop all the same */
	box_folder_done *done;
	void *arg;
};

struct box_link {
	uv_poll_t poll;
	uv_idle_t failures;
	const struct box_link_events *events;
	void *arg;
	struct box_list folders; /* asked and not answered yet */
	struct box_list unsent;  /* could not even be asked */
	uint32_t next_id;
};

int box_link_receive_start(struct box_packet *ret_packet)
{
	struct pollfd wait = {.fd = BOX_KEEPER_FD, .events = POLLIN};
	int r;
	do {
		if (poll(&wait, 1, -1) < 0 && errno != EINTR) {
			return -errno;
		}
		r = box_packet_recv(BOX_KEEPER_FD, ret_packet);
	} while (r == -EAGAIN);
	if (r == 0 &&
		(ret_packet->kind != BOX_KEEPER_START ||
			ret_packet->size != sizeof(struct box_keeper_start))) {
		return -EBADMSG;
	}
	return r;
}

static void folder_finish(struct asked_folder *asked, int result)
{
	struct asked_folder last = *asked;
	free(asked);
	last.done(last.arg, result);
}

static void folder_answered(struct box_link *link, const struct box_keeper_folder *answer)
{
	for (struct box_list *at = link->folders.next; at != &link->folders; at = at->next) {
		struct asked_folder *asked = BOX_LIST_ITEM(at, struct asked_folder, links);
		if (asked->id == answer->id) {
			box_list_drop(&asked->links);
			folder_finish(asked, answer->result);
			return;
		}
	}
}

static void take_packet(struct box_link *link, struct box_packet *packet)
{
	switch (packet->kind) {
	case BOX_KEEPER_LISTEN:
		link->events->listen(link->arg, packet->fds, packet->fd_count);
		packet->fd_count = 0;
		break;
	case BOX_KEEPER_RELOAD:
		if (packet->fd_count == 1) {
			packet->fd_count = 0;
			link->events->reload(link->arg, packet->fds[0]);
		}
		break;
	case BOX_KEEPER_STOP:
		link->events->stop(link->arg);
		break;
	case BOX_KEEPER_FOLDER:
		folder_answered(link, &packet->folder);
		break;
	default:
		BOX_LOG(BOX_LOG_WARNING, "keeper.unknown_packet", box_kv_int("kind", packet->kind));
		break;
	}
	box_packet_close_fds(packet);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_link *link = poll->data;
	struct box_packet packet;
	(void)events;
	int r = status < 0 ? status : box_packet_recv(BOX_KEEPER_FD, &packet);
	if (r == -EAGAIN) {
		return;
	}
	if (r < 0) {
		(void)uv_poll_stop(poll);
		link->events->lost(link->arg);
		return;
	}
	take_packet(link, &packet);
}

int box_link_open(uv_loop_t *loop, const struct box_link_events *events, void *arg,
	struct box_link **ret_link)
{
	struct box_link *link = box_alloc(sizeof(*link));
	int r = uv_poll_init(loop, &link->poll, BOX_KEEPER_FD);
	if (r == 0) {
		link->poll.data = link;
		r = uv_poll_start(&link->poll, UV_READABLE | UV_DISCONNECT, poll_cb);
	}
	if (r < 0) {
		free(link);
		return r;
	}
	(void)uv_idle_init(loop, &link->failures);
	link->failures.data = link;
	link->events = events;
	link->arg = arg;
	box_list_init(&link->folders);
	box_list_init(&link->unsent);
	*ret_link = link;
	return 0;
}

static int send_plain(uint32_t kind, const int *fds, size_t fd_count)
{
	const struct box_keeper_plain packet = {kind};
	return box_packet_send(BOX_KEEPER_FD, &packet, sizeof(packet), fds, fd_count);
}

int box_link_ready(struct box_link *link)
{
	(void)link;
	return send_plain(BOX_KEEPER_READY, NULL, 0);
}

int box_link_taken(struct box_link *link)
{
	(void)link;
	return send_plain(BOX_KEEPER_TAKEN, NULL, 0);
}

int box_link_keep_state(struct box_link *link, int fd)
{
	(void)link;
	return send_plain(BOX_KEEPER_STATE, &fd, 1);
}

static void failures_cb(uv_idle_t *idle)
{
	struct box_link *link = idle->data;
	struct box_list *item;
	(void)uv_idle_stop(idle);
	while ((item = box_list_pop(&link->unsent))) {
		struct asked_folder *asked = BOX_LIST_ITEM(item, struct asked_folder, links);
		folder_finish(asked, asked->failed);
	}
}

void box_link_folder(struct box_link *link, const char *path, enum box_folder_wish wish,
	box_folder_done *done, void *arg)
{
	struct asked_folder *asked = box_alloc(sizeof(*asked));
	struct box_keeper_make_folder packet = {.kind = BOX_KEEPER_MAKE_FOLDER,
		.id = ++link->next_id,
		.look_only = wish == BOX_FOLDER_LOOK};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->id = packet.id;
	asked->done = done;
	asked->arg = arg;
	asked->failed = strlen(path) < sizeof(packet.path)
		? box_packet_send(BOX_KEEPER_FD, &packet, sizeof(packet), NULL, 0)
		: -ENAMETOOLONG;
	box_list_push(asked->failed < 0 ? &link->unsent : &link->folders, &asked->links);
	if (asked->failed < 0) {
		(void)uv_idle_start(&link->failures, failures_cb);
	}
}
