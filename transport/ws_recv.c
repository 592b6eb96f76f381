/* The reads of libwebsockets. It accepts frames of clients that are not masked, and hangs up on other
 * faults without a word when it can: RFC 6455 wants the connection closed with 1002. It offers no place
 * to look at a frame, but it reads by recv, and a program's own definition comes before that of libc.
 * So what it reads passes here. Sockets that are not WebSockets are read as ever. That it really does is
 * looked at when box-rpc starts, and again with every message: one that has not passed here is refused.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "transport/ws_private.h"

#define DRAINS_MAX 64 /* reads of what comes behind a fault, for one call */

static struct box_ws_socket **sockets; /* by fd */
static int sockets_room;

void box_ws_recv_watch(struct box_ws_socket *socket, int fd)
{
	if (fd >= sockets_room) {
		int room = sockets_room > 0 ? sockets_room : 64;
		while (room <= fd) {
			room *= 2;
		}
		struct box_ws_socket **wider = box_alloc((size_t)room * sizeof(*wider));
		if (sockets_room > 0) {
			memcpy(wider, sockets, (size_t)sockets_room * sizeof(*wider));
		}
		free(sockets);
		sockets = wider;
		sockets_room = room;
	}
	sockets[fd] = socket;
	socket->fd = fd;
}

void box_ws_recv_forget(struct box_ws_socket *socket)
{
	if (socket->fd >= 0 && socket->fd < sockets_room && sockets[socket->fd] == socket) {
		sockets[socket->fd] = NULL;
	}
}

static ssize_t read_plain(int fd, void *buffer, size_t len, int flags)
{
	return syscall(SYS_recvfrom, fd, buffer, len, flags, NULL, NULL);
}

/* What comes behind a fault means nothing. What is there of it is taken all the same: unread bytes would
 * make the kernel reset the connection, and the close frame be lost. */
static void drain(int fd)
{
	char waste[4096];
	int i = 0;
	while (i < DRAINS_MAX && read_plain(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) {
		i++;
	}
}

/* The dynamic linker gives libwebsockets the first definition that programs and libraries export. */
bool box_ws_recv_is_hooked(void)
{
	return (uintptr_t)dlsym(RTLD_DEFAULT, "recv") == (uintptr_t)&recv;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's has reserved ones */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *buffer, size_t len, int flags)
{
	struct box_ws_socket *socket = fd >= 0 && fd < sockets_room ? sockets[fd] : NULL;
	if (!socket) {
		return read_plain(fd, buffer, len, flags);
	}
	if (socket->fault) {
		drain(fd);
		errno = EAGAIN;
		return -1;
	}
	ssize_t got = read_plain(fd, buffer, len, flags);
	if (got <= 0) {
		return got;
	}
	size_t good = box_ws_frames_scan(
		&socket->frames, buffer, (size_t)got, &socket->fault, &socket->fault_code);
	if (!socket->fault) {
		return got;
	}
	drain(fd);
	box_ws_close_for_fault(socket);
	if (good == 0) {
		errno = EAGAIN;
		return -1;
	}
	return (ssize_t)good;
}
