/* Connects to an endpoint without blocking: its name is resolved, and its addresses are tried one after
 * the other. getaddrinfo blocks, so it is called in a thread that shares one struct with us and nothing
 * else; whichever of the two is done last frees it. */
#include "client/connection/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"

#define ADDRESSES_MAX 16

/* --- names --- */

struct lookup {
	atomic_int users; /* we and the thread: the last one frees the struct */
	int done_fd;      /* readable when the result is there */
	int failed;       /* the error of getaddrinfo */
	struct addrinfo *found;
	char host[BOX_ENDPOINT_HOST_MAX + 1];
	char port[6];
};

static void leave(struct lookup *lookup)
{
	if (lookup && atomic_fetch_sub(&lookup->users, 1) == 1) {
		if (lookup->found) {
			freeaddrinfo(lookup->found);
		}
		(void)close(lookup->done_fd);
		free(lookup);
	}
}

static int look_up(struct lookup *lookup, int flags)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
	lookup->failed = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
	return lookup->failed;
}

static void *look_up_apart(void *arg)
{
	struct lookup *lookup = arg;
	(void)look_up(lookup, 0);
	(void)eventfd_write(lookup->done_fd, 1);
	leave(lookup);
	return NULL;
}

/* The thread must not get signals that are meant for the program. */
static int start_thread(struct lookup *lookup)
{
	sigset_t all;
	sigset_t before;
	pthread_t thread;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, NULL, look_up_apart, lookup);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0) {
		(void)pthread_detach(thread);
	}
	return -r;
}

/* A numeric address needs no thread. Where a thread cannot be started, this blocks. */
static struct lookup *start_lookup(const struct box_endpoint *endpoint)
{
	struct lookup *lookup = box_alloc(sizeof(*lookup));
	lookup->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memcpy(lookup->host, endpoint->host, sizeof(lookup->host));
	memcpy(lookup->port, endpoint->port, sizeof(lookup->port));
	atomic_init(&lookup->users, 1);
	if (look_up(lookup, AI_NUMERICHOST) == 0) {
		(void)eventfd_write(lookup->done_fd, 1);
		return lookup;
	}
	atomic_init(&lookup->users, 2);
	if (lookup->done_fd < 0 || start_thread(lookup) < 0) {
		atomic_init(&lookup->users, 1);
		(void)look_up(lookup, 0);
		(void)eventfd_write(lookup->done_fd, 1);
	}
	return lookup;
}

/* Without an eventfd the lookup has blocked, and is done. */
static bool lookup_done(const struct lookup *lookup)
{
	eventfd_t done;
	return lookup->done_fd < 0 || eventfd_read(lookup->done_fd, &done) == 0;
}

/* --- addresses --- */

struct box_dial {
	struct box_endpoint endpoint;
	struct lookup *lookup;
	bool looked_up;
	const struct addrinfo *next;
	int tried;
	int fd;     /* -1, or connecting */
	int failed; /* negative: there is no address to try */
};

/* A host that is gone does not close its connections. Keepalive finds that out while nothing is sent, and a
 * timeout for unacknowledged data while something is: otherwise a terminal would hang for ever. */
static void set_keepalive(int fd)
{
	const int on = 1;
	const int idle_sec = BOX_PING_INTERVAL_SEC;
	const int between_sec = (BOX_PING_HANGUP_SEC - BOX_PING_INTERVAL_SEC) / 3;
	const int probes = 3;
	const unsigned unsent_ms = BOX_PING_HANGUP_SEC * 1000;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof(idle_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_sec, sizeof(between_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof(unsent_ms));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* 1: connected. 0: connecting. */
static int dial_address(const struct addrinfo *address, int *ret_fd)
{
	const int on = 1;
	_cleanup_(box_close_p) int fd = socket(address->ai_family,
		address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
	if (fd < 0) {
		return -errno;
	}
	/* Small requests must not wait for each other (Nagle). */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	set_keepalive(fd);
	int r = connect(fd, address->ai_addr, address->ai_addrlen) < 0 ? -errno : 1;
	if (r < 0 && r != -EINPROGRESS) {
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return r == 1 ? 1 : 0;
}

/* A Unix socket connects at once, or not at all. *ret_fd is set in both cases. */
static int dial_socket(const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, path, sizeof(address.sun_path));
	*ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*ret_fd < 0 || connect(*ret_fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		return -errno;
	}
	return 0;
}

/* XDG_RUNTIME_DIR may be a folder that others can write, such as /tmp, so that anybody may have made a socket
 * there; and the server gets our token, our files and our input. Only root can make one in /run. */
static bool is_trusted(const char *path, int fd)
{
	struct ucred server;
	socklen_t size = sizeof(server);
	return strcmp(path, BOX_OPERATOR_SOCKET) == 0 ||
		(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) == 0 &&
			(server.uid == 0 || server.uid == geteuid()));
}

/* A socket whose queue is full has a server: do not fall back to TCP, where we would not be the operator. The
 * owner of the server is only known once connected, so this applies only to the path in /run. */
static bool is_busy(const char *path, int r)
{
	return r == -EAGAIN && strcmp(path, BOX_OPERATOR_SOCKET) == 0;
}

bool box_dial_find_operator(struct box_endpoint *ret_endpoint, int *ret_fd)
{
	char own[BOX_SOCKET_PATH_SIZE];
	if (box_operator_socket_path(geteuid(), getenv("XDG_RUNTIME_DIR"), own) < 0) {
		own[0] = '\0';
	}
	const char *const paths[] = {own, BOX_OPERATOR_SOCKET};
	for (size_t i = 0; i < BOX_COUNT_OF(paths); i++) {
		char url[BOX_SOCKET_PATH_SIZE + sizeof("unix:")];
		(void)snprintf(url, sizeof(url), "unix:%s", paths[i]);
		_cleanup_(box_close_p) int fd = -1;
		if (box_endpoint_parse(url, ret_endpoint, NULL) < 0) {
			continue;
		}
		int r = dial_socket(ret_endpoint->socket_path, &fd);
		if (r == 0 && is_trusted(paths[i], fd)) {
			*ret_fd = TAKE_FD(fd);
			return true;
		}
		if (is_busy(paths[i], r)) {
			*ret_fd = -1;
			return true;
		}
	}
	return false;
}

struct box_dial *box_dial_start(const struct box_endpoint *endpoint)
{
	struct box_dial *dial = box_alloc(sizeof(*dial));
	dial->endpoint = *endpoint;
	dial->fd = -1;
	if (endpoint->socket_path[0]) {
		dial->looked_up = true;
		dial->failed = dial_socket(endpoint->socket_path, &dial->fd);
	} else {
		dial->lookup = start_lookup(endpoint);
	}
	return dial;
}

struct box_dial *box_dial_adopt(const struct box_endpoint *endpoint, int fd)
{
	struct box_dial *dial = box_alloc(sizeof(*dial));
	dial->endpoint = *endpoint;
	dial->looked_up = true;
	dial->fd = fd;
	return dial;
}

void box_dial_free(struct box_dial *dial)
{
	if (dial) {
		box_close_p(&dial->fd);
		leave(dial->lookup);
		free(dial);
	}
}

int box_dial_fd(const struct box_dial *dial)
{
	return dial->looked_up ? dial->fd : dial->lookup->done_fd;
}

short box_dial_events(const struct box_dial *dial)
{
	return dial->looked_up ? POLLOUT : POLLIN;
}

/* 1: connected. 0: still connecting. */
static int check_connected(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int failed = 0;
	socklen_t size = sizeof(failed);
	if (poll(&ready, 1, 0) <= 0) {
		return 0;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0) {
		return -errno;
	}
	return failed ? -failed : 1;
}

int box_dial_step(struct box_dial *dial, int *ret_fd, struct box_err *err)
{
	if (!dial->looked_up) {
		if (!lookup_done(dial->lookup)) {
			return 0;
		}
		dial->looked_up = true;
		dial->next = dial->lookup->found;
		if (dial->lookup->failed) {
			return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EHOSTUNREACH, "%s: %s",
				dial->endpoint.authority, gai_strerror(dial->lookup->failed));
		}
	}
	int r = dial->failed    ? dial->failed
		: dial->fd >= 0 ? check_connected(dial->fd)
				: -EHOSTUNREACH;
	for (; r < 0 && dial->next && dial->tried < ADDRESSES_MAX; dial->tried++) {
		box_close_p(&dial->fd);
		r = dial_address(dial->next, &dial->fd);
		dial->next = dial->next->ai_next;
	}
	if (r < 0) {
		bool not_allowed = r == -EACCES && dial->endpoint.socket_path[0];
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, -r, "%s: %s%s",
			dial->endpoint.authority, box_err_strerror(-r),
			not_allowed ? ": only root, the user that runs boxd and the group of its "
				      "--socket-group may connect"
				    : "");
	}
	if (r == 1) {
		*ret_fd = TAKE_FD(dial->fd);
	}
	return r;
}

/* --- blocking --- */

int box_dial_wait(
	const struct box_endpoint *endpoint, int timeout_ms, int *ret_fd, struct box_err *err)
{
	uint64_t until_ms = box_clock_ms() + (uint64_t)timeout_ms;
	struct box_dial *dial = box_dial_start(endpoint);
	int r;
	while ((r = box_dial_step(dial, ret_fd, err)) == 0) {
		uint64_t now = box_clock_ms();
		if (now >= until_ms) {
			r = box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT, "%s: %s",
				endpoint->authority, box_err_strerror(ETIMEDOUT));
			break;
		}
		struct pollfd ready = {.fd = box_dial_fd(dial), .events = box_dial_events(dial)};
		(void)poll(&ready, 1, (int)(until_ms - now));
	}
	box_dial_free(dial);
	return r < 0 ? r : 0;
}
