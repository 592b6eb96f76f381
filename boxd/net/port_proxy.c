/* Port proxies: the start of the process, the rights it drops, and its loop.
 *
 * The process is a copy of boxd that closes boxd's fds, takes the ids of the router's owner, installs a
 * seccomp filter and then reports that it runs. Before it connects to the host, and again when it is
 * connected, it asks the kernel (sock_diag) whether the listener is bound to the box's own address.
 * Called by host_ports.c only; it knows nothing of slots or rules. */
#include "boxd/net/port_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/list.h"
#include "base/macros.h"
#include "base/sock_diag.h"
#include "boxd/net/router.h"
#include "boxd/net/router_child.h"

#define START_TIMEOUT_MS 5000
#define OTHER_FILES 64 /* fds of the process in addition to its connections */
#define EVENTS_MAX 64
#define CHUNKS_MAX 16 /* in one direction, before others get their turn */

/* --- who listens on the host --- */

/* Also finds a socket that an IPv6 program has bound to the IPv4 address. */
static bool is_bound_to(const struct inet_diag_msg *listener, uint32_t address)
{
	const uint32_t mapped[] = {0, 0, htonl(0xffff), address};
	const uint32_t *at = listener->id.idiag_src;
	if (listener->idiag_state != TCP_LISTEN) {
		return false;
	}
	return listener->idiag_family == AF_INET
		? at[0] == address
		: listener->idiag_family == AF_INET6 && memcmp(at, mapped, sizeof(mapped)) == 0;
}

int box_port_proxy_find_listener(int sock_diag, uint32_t address, uint16_t port)
{
	struct inet_diag_req_v2 request = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = 1U << TCP_LISTEN,
	};
	struct inet_diag_msg listener;
	request.id.idiag_sport = htons(port);
	request.id.idiag_src[0] = address;
	/* The kernel finds the same listener that a connection would reach. */
	int r = box_sock_diag_query(sock_diag, &request, &listener);
	if (r < 0) {
		return r;
	}
	return is_bound_to(&listener, address) ? 0 : -ENOENT;
}

/* --- the loop --- */

enum side {
	BOX,
	HOST,
	SIDES,
};

struct connection;

struct end {
	struct connection *connection;
	int fd;
	bool watched;
	uint32_t events;
};

/* Bytes that were received from one side and not yet sent to the other. */
struct buffer {
	size_t from;
	size_t until;
	bool ended;  /* end of input */
	bool passed; /* the end was passed on to the other side */
	char bytes[BOX_PORT_PROXY_BYTES];
};

/* A connection of the box and the connection to the host that it is copied to. The end of one direction
 * is passed on alone; a failure of either side ends both at once. */
struct connection {
	struct box_list links;
	uint16_t port;
	bool connecting;
	struct end ends[SIDES];
	struct buffer buffers[SIDES]; /* by the side that the bytes came from */
};

struct loop {
	const struct box_port_proxy *proxy;
	int sock_diag;
	int epoll;
	size_t connection_count;
	bool full; /* no more connections are accepted */
	struct box_list ended;
};

static void watch(struct loop *loop, struct end *end, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = end};
	if (events == 0 && end->watched) {
		/* With no events requested, epoll would still report a hangup again and again. */
		(void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, end->fd, NULL);
	} else if (events != 0 && events != end->events) {
		(void)epoll_ctl(
			loop->epoll, end->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, end->fd, &event);
	}
	end->watched = events != 0;
	end->events = events;
}

static void watch_listeners(struct loop *loop)
{
	bool full = loop->connection_count >= BOX_HOST_CONNECTIONS_MAX;
	if (full == loop->full) {
		return;
	}
	loop->full = full;
	for (uint32_t i = 0; i < loop->proxy->port_count; i++) {
		int fd = loop->proxy->listeners[i];
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
		(void)epoll_ctl(loop->epoll, full ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd, &event);
	}
}

/* The memory is freed when no event of this round can refer to it any more. */
static void end_connection(struct loop *loop, struct connection *connection, bool failed)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	for (enum side side = BOX; side < SIDES; side++) {
		int fd = TAKE_FD(connection->ends[side].fd);
		if (fd >= 0 && failed) {
			(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		}
		box_close_p(&fd);
	}
	box_list_push(&loop->ended, &connection->links);
	loop->connection_count--;
}

static void free_ended(struct loop *loop)
{
	struct box_list *item;
	while ((item = box_list_pop(&loop->ended))) {
		free(BOX_CONTAINER_OF(item, struct connection, links));
	}
}

/* Copies as much as is possible now: whether the connection continues. */
static bool copy(struct connection *connection, enum side from)
{
	struct buffer *buffer = &connection->buffers[from];
	int in = connection->ends[from].fd;
	int out = connection->ends[1 - from].fd;
	for (int i = 0; i < CHUNKS_MAX; i++) {
		if (buffer->from == buffer->until && !buffer->ended) {
			ssize_t got = recv(in, buffer->bytes, sizeof(buffer->bytes), 0);
			if (got < 0) {
				return errno == EAGAIN || errno == EINTR;
			}
			buffer->from = 0;
			buffer->until = (size_t)got;
			buffer->ended = got == 0;
		}
		if (buffer->from == buffer->until) {
			break;
		}
		ssize_t sent = send(out, buffer->bytes + buffer->from, buffer->until - buffer->from,
			MSG_NOSIGNAL);
		if (sent < 0) {
			return errno == EAGAIN || errno == EINTR;
		}
		buffer->from += (size_t)sent;
	}
	if (buffer->ended && buffer->from == buffer->until && !buffer->passed) {
		buffer->passed = true;
		return shutdown(out, SHUT_WR) == 0;
	}
	return true;
}

static void watch_connection(struct loop *loop, struct connection *connection)
{
	for (enum side side = BOX; side < SIDES; side++) {
		const struct buffer *out = &connection->buffers[1 - side];
		const struct buffer *in = &connection->buffers[side];
		uint32_t events = in->from == in->until && !in->ended ? EPOLLIN : 0;
		events |= out->from < out->until ? (uint32_t)EPOLLOUT : 0;
		watch(loop, &connection->ends[side], events);
	}
}

static bool host_listens(const struct loop *loop, const struct connection *connection)
{
	return box_port_proxy_find_listener(
		       loop->sock_diag, loop->proxy->address, connection->port) == 0;
}

/* Checks again: the listener may have been replaced by one that listens on all addresses. */
static bool is_connected(const struct loop *loop, const struct connection *connection)
{
	int failure = 0;
	socklen_t size = sizeof(failure);
	return getsockopt(connection->ends[HOST].fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 &&
		failure == 0 && host_listens(loop, connection);
}

static void serve_connection(struct loop *loop, struct end *end, uint32_t events)
{
	struct connection *connection = end->connection;
	bool good = !(events & EPOLLERR);
	if (end->fd < 0) {
		return; /* ended in this round */
	}
	if (good && connection->connecting) {
		connection->connecting = false;
		good = is_connected(loop, connection);
	}
	good = good && copy(connection, BOX) && copy(connection, HOST);
	if (!good || (connection->buffers[BOX].passed && connection->buffers[HOST].passed)) {
		end_connection(loop, connection, !good);
		return;
	}
	watch_connection(loop, connection);
}

/* Bound to the box's own address, so that a service of the host can tell which box it is. */
static int connect_to_host(const struct loop *loop, const struct connection *connection)
{
	const int on = 1;
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = loop->proxy->address};
	struct sockaddr_in to = own;
	to.sin_port = htons(connection->port);
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

static void begin_connection(struct loop *loop, int fd, uint16_t port)
{
	const int on = 1;
	struct connection *connection = calloc(1, sizeof(*connection));
	if (!connection) {
		(void)close(fd);
		return;
	}
	box_list_init(&connection->links);
	loop->connection_count++;
	connection->port = port;
	connection->connecting = true;
	connection->ends[BOX] = (struct end){.connection = connection, .fd = fd};
	connection->ends[HOST] = (struct end){.connection = connection, .fd = -1};
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	int host = host_listens(loop, connection) ? connect_to_host(loop, connection) : -ENOENT;
	if (host < 0) {
		end_connection(loop, connection, true);
		return;
	}
	connection->ends[HOST].fd = host;
	watch(loop, &connection->ends[HOST], EPOLLOUT);
}

static void accept_all(struct loop *loop, uint64_t number)
{
	int listener = loop->proxy->listeners[number];
	while (loop->connection_count < BOX_HOST_CONNECTIONS_MAX) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			return;
		}
		begin_connection(loop, fd, loop->proxy->ports[number]);
	}
}

_Noreturn static void run_loop(const struct box_port_proxy *proxy, int sock_diag)
{
	struct loop loop = {.proxy = proxy,
		.sock_diag = sock_diag,
		.epoll = epoll_create1(EPOLL_CLOEXEC),
		.full = true};
	struct epoll_event events[EVENTS_MAX];
	box_list_init(&loop.ended);
	if (loop.epoll < 0) {
		_exit(1);
	}
	for (;;) {
		watch_listeners(&loop);
		int count = epoll_wait(loop.epoll, events, EVENTS_MAX, -1);
		for (int i = 0; i < count; i++) {
			/* Small numbers are listeners: no struct has such an address. */
			if (events[i].data.u64 < proxy->port_count) {
				accept_all(&loop, events[i].data.u64);
			} else {
				serve_connection(&loop, events[i].data.ptr, events[i].events);
			}
		}
		free_ended(&loop);
	}
}

/* --- the seccomp filter: sockets, waiting for them, memory, the end; other calls fail with EPERM --- */

static const int calls[] = {
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(write), /* the report of its start, and reports of sanitizers */
	SCMP_SYS(close),
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(exit_group),
#ifdef BOX_SANITIZED /* it looks up its stack before a call that never returns */
	SCMP_SYS(sigaltstack),
#endif
};

static int add_rules(scmp_filter_ctx filter)
{
	for (size_t i = 0; i < BOX_COUNT_OF(calls); i++) {
		int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
		if (r < 0) {
			return r;
		}
	}
	/* Only IPv4 stream sockets; the sock_diag socket is open already. */
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
		SCMP_A0(SCMP_CMP_EQ, AF_INET),
		SCMP_A1(SCMP_CMP_EQ, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (r < 0) {
		return r;
	}
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
		SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int load_filter(scmp_filter_ctx filter)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r < 0) {
		return r;
	}
	r = add_rules(filter);
	return r < 0 ? r : seccomp_load(filter);
}

static int confine(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!filter) {
		return -ENOMEM;
	}
	int r = load_filter(filter);
	seccomp_release(filter);
	return r;
}

/* --- the process --- */

/* Closes every fd except stderr, the listeners and `report`. */
static int close_others(struct box_port_proxy *proxy, int report)
{
	int kept[BOX_EGRESS_HOST_PORTS_MAX + 1];
	size_t count = proxy->port_count;
	memcpy(kept, proxy->listeners, count * sizeof(kept[0]));
	kept[count++] = report;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) {
		return -errno;
	}
	return box_fds_close_but(STDERR_FILENO + 1, kept, count);
}

static int give_up_rights(void)
{
	struct rlimit core = {0, 0};
	struct rlimit files = {2 * BOX_HOST_CONNECTIONS_MAX + OTHER_FILES,
		2 * BOX_HOST_CONNECTIONS_MAX + OTHER_FILES};
	int r = box_caps_keep(0);
	if (r < 0) {
		return r;
	}
	if (setrlimit(RLIMIT_CORE, &core) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return 0;
}

/* Numbered, because order matters. */
static int become_proxy(struct box_port_proxy *proxy, const struct box_router *router, pid_t parent,
	int report, int *ret_sock_diag)
{
	/* 1. Close boxd's fds. */
	int r = box_router_child_begin(parent);
	if (r < 0) {
		return r;
	}
	r = close_others(proxy, report);
	if (r < 0) {
		return r;
	}
	/* 2. The filter does not allow this socket later. */
	r = box_sock_diag_open(ret_sock_diag);
	if (r < 0) {
		return r;
	}
	/* 3. Drop rights. */
	r = box_router_child_become_owner(router, parent);
	if (r < 0) {
		return r;
	}
	r = give_up_rights();
	if (r < 0) {
		return r;
	}
	/* 4. If the kernel cannot report who listens, boxes get no ports. */
	r = box_port_proxy_find_listener(*ret_sock_diag, proxy->address, proxy->ports[0]);
	if (r < 0 && r != -ENOENT) {
		return r;
	}
	return confine();
}

_Noreturn static void run_child(
	struct box_port_proxy proxy, const struct box_router *router, pid_t parent, int report)
{
	int sock_diag = -1;
	int32_t result = become_proxy(&proxy, router, parent, report, &sock_diag);
	if (write(report, &result, sizeof(result)) != sizeof(result) || result < 0) {
		_exit(1);
	}
	(void)close(report);
	run_loop(&proxy, sock_diag);
}

/* Waits for the report of the child: 0, or -errno. */
static int await_report(int report)
{
	struct pollfd wait = {.fd = report, .events = POLLIN};
	int32_t result = -ECHILD;
	if (poll(&wait, 1, START_TIMEOUT_MS) != 1) {
		return -ETIMEDOUT;
	}
	return read(report, &result, sizeof(result)) == sizeof(result) ? result : -ECHILD;
}

int box_port_proxy_start(const struct box_port_proxy *proxy, const struct box_router *router,
	pid_t *ret_pid, struct box_err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "egress.host_ports: pipe: %s",
			box_err_strerror(errno));
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_child(*proxy, router, parent, ends[1]);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(ends[1]);
	if (r == 0) {
		r = await_report(ends[0]);
	}
	(void)close(ends[0]);
	if (r < 0) {
		if (pid > 0) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
		}
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"egress.host_ports cannot be provided: %s", box_err_strerror(-r));
	}
	*ret_pid = pid;
	return 0;
}
