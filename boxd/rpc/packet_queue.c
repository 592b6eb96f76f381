/* In order: while one waits, all that come after it do. */
#include "boxd/rpc/packet_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "protocol/packet.h"

#define WAITING_MAX 8192
_Static_assert(WAITING_MAX > BOX_BOXES_MAX, "every box can be told of at once");

struct waiting {
	struct box_list links;
	size_t size;
	size_t fd_count;
	int fds[BOX_PACKET_FDS_MAX];
	char bytes[];
};

static void waiting_free(struct waiting *waiting)
{
	for (size_t i = 0; i < waiting->fd_count; i++) {
		(void)close(waiting->fds[i]);
	}
	free(waiting);
}

void box_packet_queue_init(struct box_packet_queue *outbox)
{
	box_list_init(&outbox->queue);
	outbox->count = 0;
}

void box_packet_queue_clear(struct box_packet_queue *outbox)
{
	struct box_list *item;
	while ((item = box_list_pop(&outbox->queue))) {
		waiting_free(BOX_CONTAINER_OF(item, struct waiting, links));
	}
	outbox->count = 0;
}

static int keep(struct box_packet_queue *outbox, const void *body, size_t size, const int *fds,
	size_t fd_count)
{
	if (outbox->count >= WAITING_MAX) {
		return -ENOBUFS;
	}
	struct waiting *waiting = box_alloc(sizeof(*waiting) + size);
	waiting->size = size;
	memcpy(waiting->bytes, body, size);
	for (size_t i = 0; i < fd_count; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (copy < 0) {
			int r = -errno;
			waiting_free(waiting);
			return r;
		}
		waiting->fds[waiting->fd_count++] = copy;
	}
	box_list_push(&outbox->queue, &waiting->links);
	outbox->count++;
	return 0;
}

/* Too many fds under way count as not now, too. */
static bool is_not_now(int r)
{
	return r == -EAGAIN || r == -ETOOMANYREFS;
}

int box_packet_queue_send(struct box_packet_queue *outbox, int socket, const void *body,
	size_t size, const int *fds, size_t fd_count)
{
	int r = outbox->count > 0 ? -EAGAIN : box_packet_send(socket, body, size, fds, fd_count);
	return is_not_now(r) ? keep(outbox, body, size, fds, fd_count) : r;
}

static int send_one(int socket, const struct waiting *one)
{
	return box_packet_send(socket, one->bytes, one->size, one->fds, one->fd_count);
}

int box_packet_queue_flush(struct box_packet_queue *outbox, int socket)
{
	while (outbox->count > 0) {
		struct waiting *first = BOX_CONTAINER_OF(outbox->queue.next, struct waiting, links);
		/* The analyzer loses track of which items a list still holds.
		 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		int r = send_one(socket, first);
		if (r < 0) {
			return is_not_now(r) ? 0 : r;
		}
		(void)box_list_pop(&outbox->queue);
		outbox->count--;
		waiting_free(first);
	}
	return 0;
}
