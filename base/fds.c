/* The only code that handles control messages and closes ranges of fds. */
#include "base/fds.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"

union control {
	struct cmsghdr header; /* for the alignment */
	char bytes[CMSG_SPACE(BOX_FDS_MAX * sizeof(int))];
};

void box_fds_close(struct box_fds *fds)
{
	for (size_t i = 0; i < fds->count; i++) {
		box_close_p(&fds->list[i]);
	}
	fds->count = 0;
}

/* At most `max` fds can be there: the buffer had no room for more. */
static void take(struct msghdr *message, struct box_fds *fds)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	for (; header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		size_t left = fds->max - fds->count;
		count = BOX_MIN(count, left);
		memcpy(fds->list + fds->count, CMSG_DATA(header), count * sizeof(int));
		fds->count += count;
	}
}

ssize_t box_fds_receive(int socket, void *bytes, size_t size, struct box_fds *fds, int flags)
{
	union control control = {0};
	struct iovec part = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	fds->count = 0;
	fds->cut = false;
	fds->table_full = false;
	fds->max = BOX_MIN(fds->max, BOX_FDS_MAX);
	if (fds->max > 0) {
		/* CMSG_SPACE of an odd number has room for one more fd, which nobody would close. */
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_LEN(fds->max * sizeof(int));
	}
	ssize_t got;
	do {
		got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	take(&message, fds);
	fds->cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	fds->table_full = (message.msg_flags & MSG_CTRUNC) && fds->count < fds->max;
	return got;
}

int box_fds_receive_one(int socket, void *bytes, size_t size, int *ret_fd, int flags)
{
	int fd = -1;
	struct box_fds fds = {.list = &fd, .max = 1};
	ssize_t got = box_fds_receive(socket, bytes, size, &fds, flags);
	if (got < 0) {
		return (int)got;
	}
	if ((size_t)got != size || fds.cut) {
		box_fds_close(&fds);
		return got == 0 ? -EPIPE : -EMSGSIZE;
	}
	*ret_fd = fd;
	return 0;
}

ssize_t box_fds_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
	size_t fd_count, int flags)
{
	union control control = {0};
	/* sendmsg does not write to the parts. */
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)parts,
		.msg_iovlen = part_count,
	};
	if (fd_count > BOX_FDS_MAX) {
		return -E2BIG;
	}
	if (fd_count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	ssize_t sent;
	do {
		sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

int box_fds_send_one(int socket, const void *bytes, size_t size, int fd, int flags)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	ssize_t sent = box_fds_send(socket, &part, 1, &fd, fd >= 0, flags);
	return sent < 0 ? (int)sent : 0;
}

int box_fds_close_but(unsigned from, const int *kept, size_t count)
{
	for (;;) {
		unsigned next = ~0U; /* the lowest fd that is kept */
		for (size_t i = 0; i < count; i++) {
			unsigned fd = (unsigned)kept[i];
			next = fd >= from && fd < next ? fd : next;
		}
		unsigned last = next == ~0U ? next : next - 1;
		if (next > from && syscall(SYS_close_range, from, last, 0) < 0) {
			return -errno;
		}
		if (next == ~0U) {
			return 0;
		}
		from = next + 1;
	}
}
