/* Which box has which address on the host's loopback, and the start and end of its port proxy.
 *
 * Addresses are shared with every other boxd of the host. An address is locked by an abstract socket
 * with its name, in the network namespace of the host's loopback. The kernel releases the lock when its
 * holder ends in any way; it needs no privilege and no file.
 *
 * A listening socket is bound to the veth of its box: whatever the router's rules say, no other box can
 * connect to it. Called by network.c only. */
#include "boxd/net/host_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "boxd/net/port_proxy.h"
#include "boxd/net/router.h"
#include "boxd/net/router_child.h"

#define BACKLOG 64
#define GOOD_RUN_MS 1000
#define ADDRESS_FIRST UINT32_C(0x7f420001) /* 127.66.0.1 */
#define LOCK_NAME "box-host/"

/* The address and the port proxy of one slot's box. */
struct slot_ports {
	struct box_list links;
	uint32_t slot;
	int lock; /* of the address */
	int pidfd;
	uint64_t started_ms;
	struct box_port_proxy proxy;
};

struct box_host_ports {
	const struct box_router *router;
	int epoll;
	struct box_list all;
};

struct box_host_ports *box_host_ports_new(const struct box_router *router, int epoll)
{
	struct box_host_ports *ports = box_alloc(sizeof(*ports));
	ports->router = router;
	ports->epoll = epoll;
	box_list_init(&ports->all);
	return ports;
}

/* --- addresses --- */

/* 0; 1 when another process has it; or -errno. */
static int lock_address(uint32_t address, int *ret_lock)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char text[INET_ADDRSTRLEN];
	(void)inet_ntop(AF_INET, &address, text, sizeof(text));
	int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, LOCK_NAME "%s", text);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	_cleanup_(box_close_p) int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (lock < 0) {
		return -errno;
	}
	if (bind(lock, (const struct sockaddr *)&name, size) < 0) {
		return errno == EADDRINUSE ? 1 : -errno;
	}
	/* Nothing is received on it, since anyone on the host can find the name. */
	(void)shutdown(lock, SHUT_RDWR);
	*ret_lock = TAKE_FD(lock);
	return 0;
}

int box_host_ports_take_address(uint32_t *ret_address, int *ret_lock, struct box_err *err)
{
	for (uint32_t i = 0; i < BOX_HOST_ADDRESSES_MAX; i++) {
		uint32_t address = htonl(ADDRESS_FIRST + i);
		int r = lock_address(address, ret_lock);
		if (r < 0) {
			return box_err_set(err, BOX_ERR_OS, -r,
				"egress.host_ports: an address on the host's loopback: %s",
				box_err_strerror(-r));
		}
		if (r == 0) {
			*ret_address = address;
			return 0;
		}
	}
	return box_err_set(err, BOX_ERR_CAPACITY, EUSERS,
		"egress.host_ports: all %d addresses of the host's loopback are taken",
		BOX_HOST_ADDRESSES_MAX);
}

/* --- sockets in the router --- */

struct listeners {
	const char *veth;
	const struct box_egress *egress;
};

static int open_listener(const char *veth, uint16_t port)
{
	const int on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = inet_addr(BOX_EGRESS_HOST)};
	_cleanup_(box_close_p) int fd = socket(
		AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, veth, (socklen_t)strlen(veth) + 1) <
			0 ||
		bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0) {
		return -errno;
	}
	return TAKE_FD(fd);
}

static int open_listeners(const struct box_router *router, const void *arg, pid_t parent,
	int fds[BOX_ROUTER_CHILD_FDS_MAX])
{
	const struct listeners *wanted = arg;
	(void)parent;
	if (setns(router->netns, CLONE_NEWNET) < 0) {
		return -errno;
	}
	for (uint32_t i = 0; i < wanted->egress->host_port_count; i++) {
		fds[i] = open_listener(wanted->veth, wanted->egress->host_ports[i]);
		if (fds[i] < 0) {
			return fds[i];
		}
	}
	return 0;
}

_Static_assert(BOX_EGRESS_HOST_PORTS_MAX <= BOX_ROUTER_CHILD_FDS_MAX, "all come in one packet");

static int listen_in_router(struct box_host_ports *ports, struct slot_ports *box,
	const struct box_egress *egress, struct box_err *err)
{
	char veth[IFNAMSIZ];
	int fds[BOX_ROUTER_CHILD_FDS_MAX];
	const struct listeners wanted = {veth, egress};
	const struct box_router_child_opener opener = {.name = "egress.host_ports",
		.run = open_listeners,
		.arg = &wanted,
		.fd_count = egress->host_port_count};
	(void)snprintf(veth, sizeof(veth), BOX_ROUTER_VETH, box->slot);
	int r = box_router_child_open(&opener, ports->router, fds, err);
	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		box->proxy.listeners[i] = fds[i];
		box->proxy.ports[i] = egress->host_ports[i];
		box->proxy.port_count++;
	}
	return 0;
}

/* --- proxies --- */

static int start_proxy(struct box_host_ports *ports, struct slot_ports *box, struct box_err *err)
{
	pid_t pid = -1;
	int r = box_port_proxy_start(&box->proxy, ports->router, &pid, err);
	if (r < 0) {
		return r;
	}
	box->pidfd = pidfd_open(pid, 0);
	struct epoll_event event = {.events = EPOLLIN};
	event.data.fd = box->pidfd;
	if (box->pidfd < 0 || epoll_ctl(ports->epoll, EPOLL_CTL_ADD, box->pidfd, &event) < 0) {
		r = -errno;
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		box_close_p(&box->pidfd);
		return box_err_set(
			err, BOX_ERR_OS, -r, "egress.host_ports: %s", box_err_strerror(-r));
	}
	box->started_ms = box_clock_ms();
	return 0;
}

static void end_proxy(struct box_host_ports *ports, struct slot_ports *box)
{
	if (box->pidfd < 0) {
		return;
	}
	box_router_child_end(box->pidfd);
	/* Removed from the epoll set explicitly, before close(): a box that is being made may hold a
	 * copy of the fd. */
	(void)epoll_ctl(ports->epoll, EPOLL_CTL_DEL, box->pidfd, NULL);
	box_close_p(&box->pidfd);
}

static bool has_ended(const struct slot_ports *box, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){0};
	return box->pidfd >= 0 &&
		waitid(P_PIDFD, (id_t)box->pidfd, ret_info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
		ret_info->si_pid != 0;
}

void box_host_ports_step(struct box_host_ports *ports)
{
	for (struct box_list *at = ports->all.next; at != &ports->all; at = at->next) {
		struct slot_ports *box = BOX_CONTAINER_OF(at, struct slot_ports, links);
		struct box_err err = {0};
		siginfo_t info;
		if (!has_ended(box, &info)) {
			continue;
		}
		bool again = box_clock_ms() - box->started_ms > GOOD_RUN_MS;
		end_proxy(ports, box);
		if (again) {
			again = start_proxy(ports, box, &err) == 0;
		}
		BOX_LOG(again ? BOX_LOG_WARNING : BOX_LOG_ERROR, "network.port_proxy_ended",
			box_log_int("slot", box->slot),
			box_log_str("by", info.si_code == CLD_EXITED ? "exit" : "signal"),
			box_log_int("status", info.si_status),
			box_log_str("then", again ? "started again" : "the box has no host ports"));
	}
}

/* --- boxes --- */

static void free_box(struct box_host_ports *ports, struct slot_ports *box)
{
	end_proxy(ports, box);
	for (size_t i = 0; i < BOX_EGRESS_HOST_PORTS_MAX; i++) {
		box_close_p(&box->proxy.listeners[i]);
	}
	box_close_p(&box->lock);
	box_list_drop(&box->links);
	free(box);
}

static int set_up(struct box_host_ports *ports, struct slot_ports *box,
	const struct box_egress *egress, struct box_err *err)
{
	int r = box_host_ports_take_address(&box->proxy.address, &box->lock, err);
	if (r < 0) {
		return r;
	}
	r = listen_in_router(ports, box, egress, err);
	if (r < 0) {
		return r;
	}
	return start_proxy(ports, box, err);
}

int box_host_ports_open(struct box_host_ports *ports, uint32_t slot,
	const struct box_egress *egress, uint32_t *ret_address, struct box_err *err)
{
	struct slot_ports *box = box_alloc(sizeof(*box));
	box->slot = slot;
	box->lock = -1;
	box->pidfd = -1;
	memset(box->proxy.listeners, 0xff, sizeof(box->proxy.listeners)); /* -1 each */
	box_list_init(&box->links);
	box_list_push(&ports->all, &box->links);
	int r = set_up(ports, box, egress, err);
	if (r < 0) {
		free_box(ports, box);
		return r;
	}
	*ret_address = box->proxy.address;
	return 0;
}

void box_host_ports_close(struct box_host_ports *ports, uint32_t slot)
{
	for (struct box_list *at = ports->all.next; at != &ports->all; at = at->next) {
		struct slot_ports *box = BOX_CONTAINER_OF(at, struct slot_ports, links);
		if (box->slot == slot) {
			free_box(ports, box);
			return;
		}
	}
}

void box_host_ports_free(struct box_host_ports *ports)
{
	if (!ports) {
		return;
	}
	while (!box_list_empty(&ports->all)) {
		free_box(ports, BOX_CONTAINER_OF(ports->all.next, struct slot_ports, links));
	}
	free(ports);
}
