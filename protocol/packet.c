/* Sends and receives one packet with its fds between box-rpc and boxd. */
#include "protocol/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"

int box_packet_send(int socket, const void *body, size_t size, const int *fds, size_t fd_count)
{
	if (fd_count > BOX_PACKET_FDS_MAX) {
		return -EMSGSIZE;
	}
	const struct iovec part = {.iov_base = (void *)(uintptr_t)body, .iov_len = size};
	ssize_t sent = box_fds_send(socket, &part, 1, fds, fd_count, MSG_DONTWAIT);
	if (sent < 0) {
		return sent == -ECONNRESET ? -EPIPE : (int)sent;
	}
	return 0;
}

int box_packet_recv(int socket, struct box_packet *ret_packet)
{
	struct box_packet *packet = ret_packet;
	memset(packet, 0, sizeof(*packet));
	struct box_fds fds = {.list = packet->fds, .max = BOX_PACKET_FDS_MAX};
	ssize_t got = box_fds_receive(
		socket, &packet->start, sizeof(packet->start), &fds, MSG_DONTWAIT);
	if (got < 0) {
		return got == -ECONNRESET ? -EPIPE : (int)got;
	}
	int r = 0;
	if (got == 0) {
		r = -EPIPE; /* an empty packet looks like the end of the stream */
	} else if (fds.table_full) {
		r = -EMFILE;
	} else if (fds.cut || (size_t)got < sizeof(packet->kind)) {
		r = -EMSGSIZE;
	}
	if (r < 0) {
		box_fds_close(&fds);
		return r;
	}
	packet->fd_count = fds.count;
	packet->size = (size_t)got;
	return 0;
}

void box_packet_close_fds(struct box_packet *packet)
{
	for (size_t i = 0; i < packet->fd_count; i++) {
		if (packet->fds[i] >= 0) {
			(void)close(packet->fds[i]);
		}
	}
	packet->fd_count = 0;
}
