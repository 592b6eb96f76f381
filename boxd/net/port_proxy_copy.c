/* The loop of a ferry. A trip is one connection of the box with its other half to the host: what
 * comes in on one side goes out on the other, and is read again when it has. The end of one
 * direction is passed on by itself; a failure of either side ends both at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "boxd/net/host_ports_listener.h"
#include "boxd/net/port_proxy.h"

#define EVENTS_AT_ONCE 64
#define PIECES_AT_ONCE 16 /* of one direction, then the others have their turn */

enum side {
	BOX,
	HOST,
	SIDES,
};

struct trip;

struct end {
	struct trip *trip;
	int fd;
	bool watched;
	uint32_t events;
};

/* What has come from one side and not gone out on the other. */
struct load {
	size_t from;
	size_t until;
	bool ended;  /* nothing more comes */
	bool passed; /* and the other side has been told */
	char bytes[BOX_PORT_PROXY_BYTES];
};

struct trip {
	struct box_list links;
	uint16_t port;
	bool connecting;
	struct end ends[SIDES];
	struct load loads[SIDES]; /* by where it came from */
};

struct ferrying {
	const struct box_port_proxy *ferry;
	int look;
	int epoll;
	size_t trip_count;
	bool full; /* nobody is let in */
	struct box_list dead;
};

static void watch(struct ferrying *all, struct end *end, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = end};
	if (events == 0 && end->watched) {
		/* What hangs up is told even when nothing is asked for, again and again. */
		(void)epoll_ctl(all->epoll, EPOLL_CTL_DEL, end->fd, NULL);
	} else if (events != 0 && events != end->events) {
		(void)epoll_ctl(
			all->epoll, end->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, end->fd, &event);
	}
	end->watched = events != 0;
	end->events = events;
}

static void watch_listeners(struct ferrying *all)
{
	bool full = all->trip_count >= BOX_HOST_CONNECTIONS_MAX;
	if (full == all->full) {
		return;
	}
	all->full = full;
	for (uint32_t i = 0; i < all->ferry->port_count; i++) {
		int fd = all->ferry->listeners[i];
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
		(void)epoll_ctl(all->epoll, full ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd, &event);
	}
}

/* The memory goes when no event of this turn can name it any more. */
static void end_trip(struct ferrying *all, struct trip *trip, bool failed)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	for (enum side side = BOX; side < SIDES; side++) {
		int fd = TAKE_FD(trip->ends[side].fd);
		if (fd >= 0 && failed) {
			(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		}
		box_close_p(&fd);
	}
	box_list_push(&all->dead, &trip->links);
	all->trip_count--;
}

static void bury(struct ferrying *all)
{
	struct box_list *item;
	while ((item = box_list_pop(&all->dead))) {
		free(BOX_CONTAINER_OF(item, struct trip, links));
	}
}

/* --- carrying --- */

/* As much as goes now: whether the trip goes on. */
static bool carry(struct trip *trip, enum side from)
{
	struct load *load = &trip->loads[from];
	int in = trip->ends[from].fd;
	int out = trip->ends[1 - from].fd;
	for (int i = 0; i < PIECES_AT_ONCE; i++) {
		if (load->from == load->until && !load->ended) {
			ssize_t got = recv(in, load->bytes, sizeof(load->bytes), 0);
			if (got < 0) {
				return errno == EAGAIN || errno == EINTR;
			}
			load->from = 0;
			load->until = (size_t)got;
			load->ended = got == 0;
		}
		if (load->from == load->until) {
			break;
		}
		ssize_t sent = send(
			out, load->bytes + load->from, load->until - load->from, MSG_NOSIGNAL);
		if (sent < 0) {
			return errno == EAGAIN || errno == EINTR;
		}
		load->from += (size_t)sent;
	}
	if (load->ended && load->from == load->until && !load->passed) {
		load->passed = true;
		return shutdown(out, SHUT_WR) == 0;
	}
	return true;
}

static void watch_trip(struct ferrying *all, struct trip *trip)
{
	for (enum side side = BOX; side < SIDES; side++) {
		const struct load *out = &trip->loads[1 - side];
		const struct load *in = &trip->loads[side];
		uint32_t events = in->from == in->until && !in->ended ? EPOLLIN : 0;
		events |= out->from < out->until ? (uint32_t)EPOLLOUT : 0;
		watch(all, &trip->ends[side], events);
	}
}

static bool is_offered(const struct ferrying *all, const struct trip *trip)
{
	return box_host_ports_find_listener(all->look, all->ferry->address, trip->port) == 0;
}

/* Again: whoever listened before the connection may have been replaced by one that listens
 * everywhere. */
static bool has_arrived(const struct ferrying *all, const struct trip *trip)
{
	int failure = 0;
	socklen_t size = sizeof(failure);
	return getsockopt(trip->ends[HOST].fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 &&
		failure == 0 && is_offered(all, trip);
}

static void serve_trip(struct ferrying *all, struct end *end, uint32_t events)
{
	struct trip *trip = end->trip;
	bool well = !(events & EPOLLERR);
	if (end->fd < 0) {
		return; /* ended in this turn */
	}
	if (well && trip->connecting) {
		trip->connecting = false;
		well = has_arrived(all, trip);
	}
	well = well && carry(trip, BOX) && carry(trip, HOST);
	if (!well || (trip->loads[BOX].passed && trip->loads[HOST].passed)) {
		end_trip(all, trip, !well);
		return;
	}
	watch_trip(all, trip);
}

/* --- beginning --- */

/* From the box's own address, so that a service sees whose connection it is. */
static int depart(const struct ferrying *all, const struct trip *trip)
{
	const int on = 1;
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = all->ferry->address};
	struct sockaddr_in to = own;
	to.sin_port = htons(trip->port);
	_cleanup_(box_close_p) int fd = socket(
		AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) < 0 ||
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
		bind(fd, (const struct sockaddr *)&own, sizeof(own)) < 0 ||
		(connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
			errno != EINPROGRESS)) {
		return -errno;
	}
	return TAKE_FD(fd);
}

static void begin_trip(struct ferrying *all, int fd, uint16_t port)
{
	const int on = 1;
	struct trip *trip = calloc(1, sizeof(*trip));
	if (!trip) {
		(void)close(fd);
		return;
	}
	box_list_init(&trip->links);
	all->trip_count++;
	trip->port = port;
	trip->connecting = true;
	trip->ends[BOX] = (struct end){.trip = trip, .fd = fd};
	trip->ends[HOST] = (struct end){.trip = trip, .fd = -1};
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	int host = is_offered(all, trip) ? depart(all, trip) : -ENOENT;
	if (host < 0) {
		end_trip(all, trip, true);
		return;
	}
	trip->ends[HOST].fd = host;
	watch(all, &trip->ends[HOST], EPOLLOUT);
}

static void let_in(struct ferrying *all, uint64_t number)
{
	int listener = all->ferry->listeners[number];
	while (all->trip_count < BOX_HOST_CONNECTIONS_MAX) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			return;
		}
		begin_trip(all, fd, all->ferry->ports[number]);
	}
}

_Noreturn void box_port_proxy_run(const struct box_port_proxy *ferry, int look)
{
	struct ferrying all = {
		.ferry = ferry, .look = look, .epoll = epoll_create1(EPOLL_CLOEXEC), .full = true};
	struct epoll_event events[EVENTS_AT_ONCE];
	box_list_init(&all.dead);
	if (all.epoll < 0) {
		_exit(1);
	}
	for (;;) {
		watch_listeners(&all);
		int count = epoll_wait(all.epoll, events, EVENTS_AT_ONCE, -1);
		for (int i = 0; i < count; i++) {
			/* Numbers of listeners are no addresses of memory. */
			if (events[i].data.u64 < ferry->port_count) {
				let_in(&all, events[i].data.u64);
			} else {
				serve_trip(&all, events[i].data.ptr, events[i].events);
			}
		}
		bury(&all);
	}
}
