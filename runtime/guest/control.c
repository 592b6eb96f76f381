/* Owns both packet buffers of box-init. There is one for answers: what does not fit into the socket
 * stays there, and then nobody reads pipes, so that nothing needs a queue. Of a stream the front of
 * an answer may have gone already. */
#include "runtime/guest/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/guest/frame.h"
#include "runtime/guest/wire_kept.h"

/* More than one is wrong, and the kernel closes what does not fit; some room tells them apart. */
#define FDS_MAX 4

/* One more byte: a text without its NUL gets one in place. */
static _Alignas(16) char incoming[BOX_GUEST_PACKET_MAX + 1];
static _Alignas(16) char outgoing[BOX_GUEST_PACKET_MAX];
static size_t waiting; /* bytes in outgoing */
static size_t gone;    /* of them, in a stream */
static bool framed;

union ancillary {
	struct cmsghdr header; /* for its alignment */
	char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

void box_control_open(void)
{
	int type = SOCK_SEQPACKET;
	socklen_t size = sizeof(type);
	(void)getsockopt(BOX_GUEST_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size);
	framed = type == SOCK_STREAM;
}

/* The first fd; the others are closed, and their number is returned. */
static size_t take_fds(struct msghdr *message, int *ret_fd)
{
	size_t count = 0;
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	for (; header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (count++ == 0) {
				*ret_fd = fd;
			} else {
				(void)close(fd);
			}
		}
	}
	return count;
}

static int judge(const struct msghdr *message, size_t got, size_t fd_count,
	struct box_control_request *request)
{
	if (got >= sizeof(request->header)) {
		memcpy(&request->header, incoming, sizeof(request->header));
	}
	if ((message->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
		box_guest_check_request(incoming, got) < 0) {
		return -EBADMSG;
	}
	uint32_t kind = request->header.kind;
	return fd_count == (kind == BOX_GUEST_MOUNT || kind == BOX_GUEST_KEEP_IN) ? 0 : -EBADMSG;
}

int box_control_receive(struct box_control_request *ret_request)
{
	if (framed) {
		return box_frame_receive(incoming, ret_request);
	}
	struct box_control_request request = {.fd = -1};
	struct iovec part = {.iov_base = incoming, .iov_len = BOX_GUEST_PACKET_MAX};
	union ancillary ancillary;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = sizeof(ancillary.bytes),
	};
	ssize_t got;
	do {
		got = recvmsg(BOX_GUEST_CONTROL_FD, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		/* An empty packet looks like the end, and is treated as one. */
		return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	size_t fd_count = take_fds(&message, &request.fd);
	int r = judge(&message, (size_t)got, fd_count, &request);
	if (r < 0 && request.fd >= 0) {
		(void)close(request.fd);
		request.fd = -1;
	}
	request.bytes = incoming + sizeof(request.header);
	request.size = r < 0 ? 0 : (size_t)got - sizeof(request.header);
	*ret_request = request;
	return r;
}

bool box_control_blocked(void)
{
	return waiting > 0;
}

void box_control_drop(void)
{
	/* Half a packet would take the next one for its end. */
	waiting = gone > 0 ? waiting : 0;
}

int box_control_flush(void)
{
	if (waiting == 0) {
		return 0;
	}
	ssize_t sent;
	do {
		sent = send(BOX_GUEST_CONTROL_FD, outgoing + gone, waiting - gone,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
		return 0;
	}
	gone += sent < 0 ? 0 : (size_t)sent;
	if (sent >= 0 && gone < waiting) {
		return 0;
	}
	waiting = 0;
	gone = 0;
	return sent < 0 ? -EPIPE : 0;
}

char *box_control_room(void)
{
	return outgoing + sizeof(struct box_guest_header);
}

void box_control_send_room(uint32_t kind, uint32_t id, size_t size)
{
	struct box_guest_header header = {
		.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
	};
	memcpy(outgoing, &header, sizeof(header));
	waiting = sizeof(header) + size;
	/* The end of the socket is noticed by the next receive. */
	(void)box_control_flush();
}

void box_control_send(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	if (size > 0) {
		memcpy(box_control_room(), bytes, size);
	}
	box_control_send_room(kind, id, size);
}
