/* Sends and receives bytes with fds over a Unix socket, and closes the fds that a process must not
 * keep.
 *
 * The room for fds is exactly what the receiver wants: the kernel drops the rest and reports that, so a
 * sender cannot fill the receiver's fd table. Nothing here allocates: box-init and freshly forked
 * children use it too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define BOX_FDS_MAX 64U /* in one message */

/* The fds received with one message. */
struct box_fds {
	int *list; /* the caller's array, with room for `max` */
	size_t max;
	size_t count; /* received fds, all CLOEXEC, owned by the caller */
	bool cut; /* truncated: too many fds, or more bytes in the packet than there was room for */
	bool table_full; /* with `cut`: this process's fd table was full */
};

/* Number of bytes received, 0 at the end of the stream, or -errno but never -EINTR. The flags are those
 * of recvmsg. Fds only come together with bytes. */
ssize_t box_fds_receive(int socket, void *bytes, size_t size, struct box_fds *fds, int flags);
void box_fds_close(struct box_fds *fds);

/* Receives a packet of exactly this size with at most one fd: 0; -EMSGSIZE for another size; -EPIPE at
 * the end. Without an fd `ret_fd` is -1. Waits, unless the flags say otherwise. */
int box_fds_receive_one(int socket, void *bytes, size_t size, int *ret_fd, int flags);

/* Number of bytes sent, or -errno but never -EINTR; -E2BIG for too many fds. Raises no SIGPIPE. The
 * caller keeps its fds. */
ssize_t box_fds_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
	size_t fd_count, int flags);
/* Sends one buffer with one fd, or with none (-1). 0 or -errno. */
int box_fds_send_one(int socket, const void *bytes, size_t size, int fd, int flags);

/* Closes all fds from `from` on except the listed ones, which may be in any order; -1 in the list is
 * ignored. 0 or -errno. */
int box_fds_close_but(unsigned from, const int *kept, size_t count);
