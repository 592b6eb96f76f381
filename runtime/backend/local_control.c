/* The socket of one box. Every packet is checked whole before anyone looks at it; a box that breaks
 * the rules is given up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "base/limits.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_internal.h"

#define PACKETS_AT_ONCE 64     /* of one box, before others get their turn */
#define PACKETS_IN_SOCKET 4096 /* more than it holds */

struct waiting {
	struct box_list links;
	int fd;
	size_t size;
	char bytes[];
};

static void poll_cb(uv_poll_t *poll, int status, int events);

static void waiting_free(struct waiting *waiting)
{
	if (waiting->fd >= 0) {
		(void)close(waiting->fd);
	}
	free(waiting);
}

void box_local_control_drop_queue(struct box_backend_box *box)
{
	struct box_list *item;
	while ((item = box_list_pop(&box->queue))) {
		waiting_free(BOX_CONTAINER_OF(item, struct waiting, links));
	}
	box->queued_bytes = 0;
}

static void watch(struct box_backend_box *box)
{
	int events = UV_READABLE | (box_list_empty(&box->queue) ? 0 : UV_WRITABLE);
	(void)uv_poll_start(&box->poll, events, poll_cb);
}

/* 0, -EAGAIN, or the box is lost. */
static int send_now(int socket, const struct iovec *parts, size_t count, int fd)
{
	ssize_t sent = box_fds_send(socket, parts, count, &fd, fd >= 0, MSG_DONTWAIT);
	return sent < 0 ? (int)sent : 0;
}

static void enqueue(
	struct box_backend_box *box, const struct iovec *parts, size_t count, size_t size, int fd)
{
	struct waiting *waiting = box_alloc(sizeof(*waiting) + size);
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		if (parts[i].iov_len > 0) {
			memcpy(waiting->bytes + at, parts[i].iov_base, parts[i].iov_len);
			at += parts[i].iov_len;
		}
	}
	waiting->size = size;
	waiting->fd = fd;
	box_list_push(&box->queue, &waiting->links);
	box->queued_bytes += sizeof(*waiting) + size;
	watch(box);
}

static void overflow_cb(uv_timer_t *timer)
{
	struct box_backend_box *box = timer->data;
	box->run_count++; /* so that its end is looked at again, whatever has happened */
	box_local_lost(box, "it does not take what it is sent");
	box_local_run_ended(box);
}

static void send_parts(
	struct box_backend_box *box, const struct iovec *parts, size_t count, size_t size, int fd)
{
	if (box->deaf) {
		box_close_p(&fd);
		return;
	}
	if (box->queued_bytes > BOX_INIT_QUEUE_BYTES_MAX) {
		/* Not now: who sends is in the middle of something. */
		(void)uv_timer_start(&box->later, overflow_cb, 0, 0);
		box_close_p(&fd);
		return;
	}
	int r = box_list_empty(&box->queue) ? send_now(box->control, parts, count, fd) : -EAGAIN;
	if (r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS) {
		enqueue(box, parts, count, size, fd);
		return;
	}
	/* Any other failure shows when the socket is read. */
	box_close_p(&fd);
}

void box_local_control_send(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *first, size_t first_size, const void *rest, size_t rest_size, int fd)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + first_size + rest_size),
		.kind = kind,
		.id = id};
	const struct iovec parts[] = {
		{&header, sizeof(header)},
		{(void *)(uintptr_t)first, first_size},
		{(void *)(uintptr_t)rest, rest_size},
	};
	send_parts(box, parts, 3, header.size, fd);
}

void box_local_control_send_number(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, uint32_t number)
{
	struct box_init_header header = {.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
		.reserved = number};
	const struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)bytes, size}};
	send_parts(box, parts, 2, header.size, -1);
}

static void flush(struct box_backend_box *box)
{
	while (!box_list_empty(&box->queue)) {
		struct waiting *first = BOX_CONTAINER_OF(box->queue.next, struct waiting, links);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		struct iovec part = {first->bytes, first->size};
		int r = send_now(box->control, &part, 1, first->fd);
		if (r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS) {
			return;
		}
		box_list_drop(&first->links);
		box->queued_bytes -= sizeof(*first) + first->size;
		waiting_free(first);
	}
	watch(box);
}

static void take(struct box_backend_box *box, const char *packet, size_t size)
{
	struct box_init_header header;
	memcpy(&header, packet, sizeof(header));
	if (header.kind == BOX_INIT_BOX_ENDS) {
		char why[BOX_INIT_BOX_ENDS_MAX + 1] = "";
		memcpy(why, packet + sizeof(header), size - sizeof(header));
		box_local_lost(box, why);
		return;
	}
	if (box->resetting) {
		box->resetting = header.kind != BOX_INIT_RESET_DONE;
		return;
	}
	if (box_init_process_is_answer(header.kind)) {
		box_local_process_take_packet(
			box, &header, packet + sizeof(header), size - sizeof(header));
		return;
	}
	box_local_exec_take_packet(box, &header, packet + sizeof(header), size - sizeof(header));
}

/* 0, -EAGAIN, or the box is lost. */
static int receive_one(struct box_backend_box *box)
{
	static _Alignas(8) char packet[BOX_INIT_PACKET_MAX];
	ssize_t got;
	do {
		got = recv(box->control, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN) {
		return -EAGAIN;
	}
	if (got <= 0) {
		box_local_lost(box, "its first process has ended");
		return -EPIPE;
	}
	if ((size_t)got > sizeof(packet) || box_init_check_answer(packet, (size_t)got) < 0) {
		box_local_lost(box, "it broke the protocol");
		return -EPROTO;
	}
	take(box, packet, (size_t)got);
	return 0;
}

void box_local_control_read(struct box_backend_box *box)
{
	for (int i = 0; i < PACKETS_IN_SOCKET && !box->deaf && receive_one(box) == 0; i++) {
	}
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_backend_box *box = poll->data;
	if (status < 0) {
		box_local_lost(box, "its first process has ended");
		return;
	}
	if (events & UV_WRITABLE) {
		flush(box);
	}
	for (int i = 0; i < PACKETS_AT_ONCE && !box->deaf && receive_one(box) == 0; i++) {
	}
}

int box_local_control_listen(struct box_backend_box *box)
{
	int r = uv_poll_init(box->native->loop, &box->poll, box->control);
	if (r < 0) {
		return r;
	}
	box->poll.data = box;
	watch(box);
	return 0;
}
