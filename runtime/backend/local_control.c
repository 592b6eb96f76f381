/* The control socket of a box. Every packet is checked as a whole before any part of it is used; a box that breaks
 * the protocol is closed. */
#include "runtime/backend/local_control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fds.h"
#include "base/limits.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_box.h"
#include "runtime/backend/local_process.h"
#include "runtime/backend/local_run.h"

#define PACKETS_AT_ONCE 64     /* of one box, before others get their turn */
#define PACKETS_IN_SOCKET 4096 /* more than it holds */

static void poll_cb(uv_poll_t *poll, int status, int events);

static void watch(struct box_backend_box *box)
{
	int events = UV_READABLE | (box->queue.count > 0 ? UV_WRITABLE : 0);
	(void)uv_poll_start(&box->poll, events, poll_cb);
}

static void overflow_cb(uv_timer_t *timer)
{
	struct box_backend_box *box = timer->data;
	box_local_hold(box); /* the release frees it if nothing else holds it */
	box_local_lost(box, "it does not read its socket");
	box_local_release(box);
}

static void send_parts(struct box_backend_box *box, const struct iovec *parts, size_t count, int fd)
{
	if (box->closed) {
		box_close_p(&fd);
		return;
	}
	int r = box_packet_queue_send_taking_fd(&box->queue, box->control, parts, count, fd);
	if (r == -ENOBUFS) {
		/* Not now: the caller is in the middle of something. */
		(void)uv_timer_start(&box->later, overflow_cb, 0, 0);
	}
	/* Any other failure is noticed when the socket is read. */
	if (box->queue.count > 0) {
		watch(box);
	}
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
	send_parts(box, parts, 3, fd);
}

void box_local_control_send_number(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, uint32_t number)
{
	struct box_init_header header = {.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
		.reserved = number};
	const struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)bytes, size}};
	send_parts(box, parts, 2, -1);
}

static void flush(struct box_backend_box *box)
{
	(void)box_packet_queue_flush(&box->queue, box->control);
	if (box->queue.count == 0) {
		watch(box);
	}
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
	box_local_run_take_packet(box, &header, packet + sizeof(header), size - sizeof(header));
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
	for (int i = 0; i < PACKETS_IN_SOCKET && !box->closed && receive_one(box) == 0; i++) {
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
	for (int i = 0; i < PACKETS_AT_ONCE && !box->closed && receive_one(box) == 0; i++) {
	}
}

int box_local_control_listen(struct box_backend_box *box)
{
	int r = uv_poll_init(box->local->loop, &box->poll, box->control);
	if (r < 0) {
		return r;
	}
	box->poll.data = box;
	watch(box);
	return 0;
}
