/* A listening socket belongs to the one interface that is the box's cable: whatever the rules say,
 * no other box can be heard by it. */
#include "boxd/net/host_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "boxd/net/host_ports_address.h"
#include "boxd/net/port_proxy.h"
#include "boxd/net/router.h"

#define BACKLOG 64
#define GOOD_RUN_MS 1000

struct offer {
	struct box_list links;
	uint32_t seat;
	int lock; /* of the address */
	int pidfd;
	uint64_t started_ms;
	struct box_port_proxy ferry;
};

struct box_host_ports {
	const struct box_router *router;
	int epoll;
	struct box_list all;
};

struct box_host_ports *box_host_ports_new(const struct box_router *router, int epoll)
{
	struct box_host_ports *offers = box_alloc(sizeof(*offers));
	offers->router = router;
	offers->epoll = epoll;
	box_list_init(&offers->all);
	return offers;
}

/* --- sockets in the router --- */

struct wanted {
	const char *cable;
	const struct box_egress *egress;
};

static int open_listener(const char *cable, uint16_t port)
{
	const int on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = inet_addr(BOX_EGRESS_HOST)};
	_cleanup_(box_close_p) int fd = socket(
		AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, cable, (socklen_t)strlen(cable) + 1) <
			0 ||
		bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0) {
		return -errno;
	}
	return TAKE_FD(fd);
}

static int open_listeners(
	const struct box_router *router, const void *arg, pid_t parent, int fds[BOX_ROUTER_FDS_MAX])
{
	const struct wanted *wanted = arg;
	(void)parent;
	if (setns(router->netns, CLONE_NEWNET) < 0) {
		return -errno;
	}
	for (uint32_t i = 0; i < wanted->egress->host_port_count; i++) {
		fds[i] = open_listener(wanted->cable, wanted->egress->host_ports[i]);
		if (fds[i] < 0) {
			return fds[i];
		}
	}
	return 0;
}

_Static_assert(BOX_EGRESS_HOST_PORTS_MAX <= BOX_ROUTER_FDS_MAX, "all come in one packet");

static int listen_in_router(struct box_host_ports *offers, struct offer *offer,
	const struct box_egress *egress, struct box_err *err)
{
	char cable[IFNAMSIZ];
	int fds[BOX_ROUTER_FDS_MAX];
	const struct wanted wanted = {cable, egress};
	const struct box_router_opener opener = {.name = "egress.host_ports",
		.run = open_listeners,
		.arg = &wanted,
		.fd_count = egress->host_port_count};
	(void)snprintf(cable, sizeof(cable), "b%" PRIu32, offer->seat);
	int r = box_router_open(&opener, offers->router, fds, err);
	for (uint32_t i = 0; r == 0 && i < egress->host_port_count; i++) {
		offer->ferry.listeners[i] = fds[i];
		offer->ferry.ports[i] = egress->host_ports[i];
		offer->ferry.port_count++;
	}
	return r;
}

/* --- ferries --- */

static int start_ferry(struct box_host_ports *offers, struct offer *offer, struct box_err *err)
{
	pid_t pid = -1;
	int r = box_port_proxy_start(&offer->ferry, offers->router, &pid, err);
	if (r < 0) {
		return r;
	}
	offer->pidfd = pidfd_open(pid, 0);
	struct epoll_event event = {.events = EPOLLIN};
	event.data.fd = offer->pidfd;
	if (offer->pidfd < 0 || epoll_ctl(offers->epoll, EPOLL_CTL_ADD, offer->pidfd, &event) < 0) {
		r = -errno;
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		box_close_p(&offer->pidfd);
		return box_err_set(
			err, BOX_ERR_OS, -r, "egress.host_ports: %s", box_err_strerror(-r));
	}
	offer->started_ms = box_clock_ms();
	return 0;
}

static void end_ferry(struct box_host_ports *offers, struct offer *offer)
{
	if (offer->pidfd < 0) {
		return;
	}
	(void)pidfd_send_signal(offer->pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)offer->pidfd, &(siginfo_t){0}, WEXITED) < 0 &&
		errno == EINTR) {
	}
	/* By hand: a box that is being made may hold a copy of the fd. */
	(void)epoll_ctl(offers->epoll, EPOLL_CTL_DEL, offer->pidfd, NULL);
	box_close_p(&offer->pidfd);
}

static bool has_ended(const struct offer *offer, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){0};
	return offer->pidfd >= 0 &&
		waitid(P_PIDFD, (id_t)offer->pidfd, ret_info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
		ret_info->si_pid != 0;
}

void box_host_ports_step(struct box_host_ports *offers)
{
	for (struct box_list *at = offers->all.next; at != &offers->all; at = at->next) {
		struct offer *offer = BOX_CONTAINER_OF(at, struct offer, links);
		struct box_err err = {0};
		siginfo_t info;
		if (!has_ended(offer, &info)) {
			continue;
		}
		bool again = box_clock_ms() - offer->started_ms > GOOD_RUN_MS;
		end_ferry(offers, offer);
		if (again) {
			again = start_ferry(offers, offer, &err) == 0;
		}
		BOX_LOG(again ? BOX_LOG_WARNING : BOX_LOG_ERROR, "network.ferry_ended",
			box_log_int("seat", offer->seat),
			box_log_str("by", info.si_code == CLD_EXITED ? "exit" : "signal"),
			box_log_int("status", info.si_status),
			box_log_str("then", again ? "started again" : "the box has no host ports"));
	}
}

/* --- offers --- */

static void offer_free(struct box_host_ports *offers, struct offer *offer)
{
	end_ferry(offers, offer);
	for (size_t i = 0; i < BOX_EGRESS_HOST_PORTS_MAX; i++) {
		box_close_p(&offer->ferry.listeners[i]);
	}
	box_close_p(&offer->lock);
	box_list_drop(&offer->links);
	free(offer);
}

int box_host_ports_open(struct box_host_ports *offers, uint32_t seat,
	const struct box_egress *egress, uint32_t *ret_address, struct box_err *err)
{
	struct offer *offer = box_alloc(sizeof(*offer));
	offer->seat = seat;
	offer->lock = -1;
	offer->pidfd = -1;
	memset(offer->ferry.listeners, 0xff, sizeof(offer->ferry.listeners)); /* -1 each */
	box_list_init(&offer->links);
	box_list_push(&offers->all, &offer->links);
	int r = box_host_ports_take_address(&offer->ferry.address, &offer->lock, err);
	r = r < 0 ? r : listen_in_router(offers, offer, egress, err);
	r = r < 0 ? r : start_ferry(offers, offer, err);
	if (r < 0) {
		offer_free(offers, offer);
		return r;
	}
	*ret_address = offer->ferry.address;
	return 0;
}

void box_host_ports_close(struct box_host_ports *offers, uint32_t seat)
{
	for (struct box_list *at = offers->all.next; at != &offers->all; at = at->next) {
		struct offer *offer = BOX_CONTAINER_OF(at, struct offer, links);
		if (offer->seat == seat) {
			offer_free(offers, offer);
			return;
		}
	}
}

void box_host_ports_free(struct box_host_ports *offers)
{
	if (!offers) {
		return;
	}
	while (!box_list_empty(&offers->all)) {
		offer_free(offers, BOX_CONTAINER_OF(offers->all.next, struct offer, links));
	}
	free(offers);
}
