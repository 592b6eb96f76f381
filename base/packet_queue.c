/* Strictly in order: while one packet waits, all later ones wait behind it. */
#include "base/packet_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "base/macros.h"

struct packet {
	struct box_list links;
	size_t size;
	size_t fd_count;
	int *fds; /* stored behind the bytes */
	char bytes[];
};

void box_packet_queue_init(struct box_packet_queue *queue, size_t count_max, size_t size_bytes_max)
{
	box_list_init(&queue->packets);
	queue->count = 0;
	queue->size_bytes = 0;
	queue->count_max = count_max;
	queue->size_bytes_max = size_bytes_max;
}

static size_t memory_of(const struct packet *packet)
{
	return sizeof(*packet) + packet->size;
}

static void packet_free(struct packet *packet)
{
	for (size_t i = 0; i < packet->fd_count; i++) {
		(void)close(packet->fds[i]);
	}
	free(packet);
}

static struct packet *first_of(const struct box_packet_queue *queue)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is no longer in the list */
	return BOX_CONTAINER_OF(queue->packets.next, struct packet, links);
}

static void drop_first(struct box_packet_queue *queue)
{
	struct packet *packet = first_of(queue);
	box_list_drop(&packet->links);
	queue->count--;
	queue->size_bytes -= memory_of(packet);
	packet_free(packet);
}

void box_packet_queue_clear(struct box_packet_queue *queue)
{
	while (queue->count > 0) {
		drop_first(queue);
	}
}

/* --- what waits --- */

static bool is_full(const struct box_packet_queue *queue)
{
	return queue->count >= queue->count_max || queue->size_bytes > queue->size_bytes_max;
}

/* Allocates a packet and room for its fds, without filling in the fds. */
static struct packet *packet_of(const struct iovec *parts, size_t part_count, size_t fds_max)
{
	size_t size = 0;
	for (size_t i = 0; i < part_count; i++) {
		size += parts[i].iov_len;
	}
	size_t fds_at = (size + sizeof(int) - 1) / sizeof(int) * sizeof(int);
	struct packet *packet = box_alloc(sizeof(*packet) + fds_at + fds_max * sizeof(int));
	packet->size = size;
	packet->fds = (int *)(void *)(packet->bytes + fds_at);
	char *to = packet->bytes;
	for (size_t i = 0; i < part_count; i++) {
		if (parts[i].iov_len > 0) {
			memcpy(to, parts[i].iov_base, parts[i].iov_len);
			to += parts[i].iov_len;
		}
	}
	return packet;
}

static void append(struct box_packet_queue *queue, struct packet *packet)
{
	box_list_push(&queue->packets, &packet->links);
	queue->count++;
	queue->size_bytes += memory_of(packet);
}

static int keep_copy(struct box_packet_queue *queue, const struct iovec *parts, size_t part_count,
	const int *fds, size_t fd_count)
{
	struct packet *packet = packet_of(parts, part_count, fd_count);
	for (size_t i = 0; i < fd_count; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (copy < 0) {
			int r = -errno;
			packet_free(packet);
			return r;
		}
		packet->fds[packet->fd_count++] = copy;
	}
	append(queue, packet);
	return 0;
}

/* --- out --- */

/* The socket has no room at the moment, or the kernel's limit of fds in flight is reached. */
static bool would_block(int r)
{
	return r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS;
}

static int send_now(
	int socket, const struct iovec *parts, size_t part_count, const int *fds, size_t fd_count)
{
	ssize_t sent = box_fds_send(socket, parts, part_count, fds, fd_count, MSG_DONTWAIT);
	if (sent < 0) {
		return sent == -ECONNRESET ? -EPIPE : (int)sent;
	}
	return 0;
}

/* 0 to send now; -EAGAIN when the packet must wait and there is room for it. */
static int try_to_send(const struct box_packet_queue *queue, int socket, const struct iovec *parts,
	size_t part_count, const int *fds, size_t fd_count)
{
	if (is_full(queue)) {
		return -ENOBUFS;
	}
	if (queue->count > 0) {
		return -EAGAIN;
	}
	int r = send_now(socket, parts, part_count, fds, fd_count);
	return would_block(r) ? -EAGAIN : r;
}

int box_packet_queue_send(struct box_packet_queue *queue, int socket, const struct iovec *parts,
	size_t part_count, const int *fds, size_t fd_count)
{
	int r = try_to_send(queue, socket, parts, part_count, fds, fd_count);
	return r == -EAGAIN ? keep_copy(queue, parts, part_count, fds, fd_count) : r;
}

int box_packet_queue_send_taking_fd(struct box_packet_queue *queue, int socket,
	const struct iovec *parts, size_t part_count, int fd)
{
	int r = try_to_send(queue, socket, parts, part_count, &fd, fd >= 0);
	if (r != -EAGAIN) {
		box_close_p(&fd);
		return r;
	}
	struct packet *packet = packet_of(parts, part_count, 1);
	if (fd >= 0) {
		packet->fds[packet->fd_count++] = fd;
	}
	append(queue, packet);
	return 0;
}

int box_packet_queue_flush(struct box_packet_queue *queue, int socket)
{
	int result = 0;
	while (queue->count > 0) {
		struct packet *packet = first_of(queue);
		const struct iovec part = {packet->bytes, packet->size};
		int r = send_now(socket, &part, 1, packet->fds, packet->fd_count);
		if (would_block(r)) {
			break;
		}
		result = result < 0 ? result : r;
		drop_first(queue);
	}
	return result;
}
