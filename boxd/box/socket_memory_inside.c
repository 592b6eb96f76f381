/* By a child that shares our memory and our fds and goes into the namespace in our place: boxd itself
 * would have to come back, which a plain user's cannot always do. */
#include "boxd/box/socket_memory_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sock_diag.h"

#define STACK_BYTES 65536
#define CORE_BYTES 212992 /* the kernel's own, where it does not tell */
#define TCP_BYTES 6291456
/* SO_RCVLOWAT makes it 1.2 times the most of tcp_rmem: that much more than the data an skb takes. */
#define TCP_TIMES 2

struct visit {
	int netns;
	int result;
	int diag;
	char tcp[64];
};

static void read_text(const char *path, char *text, size_t size)
{
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
	text[got > 0 ? got : 0] = '\0';
}

/* "MIN DEFAULT MAX" */
uint64_t box_socket_memory_buffer_bytes(const char *core, const char *tcp)
{
	unsigned long long max = 0;
	unsigned long long most = strtoull(core, NULL, 10);
	if (sscanf(tcp, "%*u %*u %llu", &max) != 1) {
		max = TCP_BYTES;
	}
	most = most > 0 ? most : CORE_BYTES;
	return most > TCP_TIMES * max ? most : TCP_TIMES * max;
}

/* With our memory and our fds, while we wait. */
static int run(void *arg)
{
	struct visit *visit = arg;
	if (setns(visit->netns, CLONE_NEWNET) < 0) {
		visit->result = -errno;
		return 0;
	}
	read_text("/proc/sys/net/ipv4/tcp_rmem", visit->tcp, sizeof(visit->tcp));
	visit->result = box_sock_diag_open(&visit->diag);
	return 0;
}

int box_socket_memory_open_inside(int netns, struct box_socket_memory_inside *ret_inside)
{
	_Alignas(16) char stack[STACK_BYTES];
	char core[64];
	struct visit visit = {.netns = netns, .diag = -1, .result = -EPROTO};
	/* SO_RCVBUF does nothing in a box. The kernel shows this only in its first namespace. */
	read_text("/proc/sys/net/core/rmem_default", core, sizeof(core));
	pid_t visitor = clone(
		run, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES, &visit);
	if (visitor < 0) {
		return -errno;
	}
	while (waitpid(visitor, NULL, __WALL) < 0 && errno == EINTR) {
	}
	if (visit.result < 0) {
		return visit.result;
	}
	ret_inside->diag = visit.diag;
	ret_inside->buffer_bytes = box_socket_memory_buffer_bytes(core, visit.tcp);
	return 0;
}
