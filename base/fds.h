/* Bytes and the fds that go with them, over a unix socket; and which fds a process keeps.
 *
 * The room for fds is exactly what the receiver wants: the kernel itself drops what does not fit and
 * says so, so a sender cannot fill the receiver's fd table. It allocates nothing: PID 1 of a box and
 * freshly forked children use it too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define BOX_FDS_MAX 64U /* that go with one message */

/* The fds of one message. */
struct box_fds {
	int *list; /* the caller's, room for `max` */
	size_t max;
	size_t count; /* that came, all CLOEXEC; the caller's from now on */
	bool cut; /* there were more fds, or more bytes in the packet, than there was room for */
	bool table_full; /* with `cut`: it was our own table that had no room for an fd */
};

/* How many bytes came, 0 at the end, or -errno; EINTR is not among them. The flags are recvmsg's.
 * Fds come with bytes only. */
ssize_t box_fds_receive(int socket, void *bytes, size_t size, struct box_fds *fds, int flags);
void box_fds_close(struct box_fds *fds);

/* A packet of exactly this size, with one fd or none: 0; -EMSGSIZE when it is another, and -EPIPE at
 * the end. `ret_fd` is -1 for none. Waits for it, unless the flags say otherwise. */
int box_fds_receive_one(int socket, void *bytes, size_t size, int *ret_fd, int flags);

/* How many bytes went, or -errno, -E2BIG for too many fds; EINTR and SIGPIPE are not among what can
 * happen. The fds stay the caller's. */
ssize_t box_fds_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
	size_t fd_count, int flags);
/* One part, and one fd or -1. 0 or -errno. */
int box_fds_send_one(int socket, const void *bytes, size_t size, int fd, int flags);

/* Closes all fds of this process from `from` on but these, in any order; -1 among them is skipped. 0 or
 * -errno. */
int box_fds_close_but(unsigned from, const int *kept, size_t count);
