/* The only code that touches control messages. The room for fds is bounded: the kernel itself drops
 * what does not fit and says so, so a sender cannot fill the receiver's fd table. */
#include "runtime/keeper/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr header; /* for its alignment */
	char bytes[CMSG_SPACE(BOX_PACKET_FDS_MAX * sizeof(int))];
};

static void attach_fds(
	struct msghdr *message, union control *control, const int *fds, size_t fd_count)
{
	message->msg_control = control->bytes;
	message->msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
	memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
}

int box_packet_send(int socket, const void *body, size_t size, const int *fds, size_t fd_count)
{
	if (fd_count > BOX_PACKET_FDS_MAX) {
		return -EMSGSIZE;
	}
	/* sendmsg only reads through iov_base. */
	struct iovec part = {.iov_base = (void *)(uintptr_t)body, .iov_len = size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union control control = {0};
	if (fd_count > 0) {
		attach_fds(&message, &control, fds, fd_count);
	}
	ssize_t sent;
	do {
		sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0) {
		return errno == ECONNRESET ? -EPIPE : -errno;
	}
	return 0;
}

static void take_fds(struct msghdr *message, struct box_packet *packet)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	for (; header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		size_t left = BOX_PACKET_FDS_MAX - packet->fd_count;
		count = count < left ? count : left;
		memcpy(packet->fds + packet->fd_count, CMSG_DATA(header), count * sizeof(int));
		packet->fd_count += count;
	}
}

int box_packet_recv(int socket, struct box_packet *ret_packet)
{
	struct box_packet *packet = ret_packet;
	memset(packet, 0, sizeof(*packet));
	struct iovec part = {.iov_base = &packet->start, .iov_len = sizeof(packet->start)};
	union control control = {0};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got;
	do {
		got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return errno == ECONNRESET ? -EPIPE : -errno;
	}
	take_fds(&message, packet);
	if (got == 0) {
		/* An empty packet looks like the end, and is treated as one. */
		box_packet_close_fds(packet);
		return -EPIPE;
	}
	/* Fewer than there is room for: it was our own table that had none. */
	if ((message.msg_flags & MSG_CTRUNC) && packet->fd_count < BOX_PACKET_FDS_MAX) {
		box_packet_close_fds(packet);
		return -EMFILE;
	}
	if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)got < sizeof(packet->kind)) {
		box_packet_close_fds(packet);
		return -EMSGSIZE;
	}
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
