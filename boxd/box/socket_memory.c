/* Reads the cheapest sources first. Most boxes need one read of /proc/PID/net/sockstat ("sockets: used
 * N"), because they have no socket. For the others, `protocols` shows how many sockets of each kind are
 * listed ("TCP SIZE SOCKETS ..."). Only a box with many TCP sockets, or many that no list shows, is
 * read from inside its network namespace.
 *
 * The lines of /proc/PID/net/netlink are "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode", those of
 * udp and udp6 "sl: local_address rem_address st tx_queue:rx_queue ...", in hexadecimal. */
#include "boxd/box/socket_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/sock_diag.h"

#define SOCKET_BYTES 2048 /* of an empty socket */
#define RMEM_FIELD 4      /* fields count from 0 */
#define QUEUES_FIELD 4
#define COUNT_FIELD 2
#define TCP_DUMP_MAX 20000 /* TCP sockets, in some 10 ms */
#define IGNORED_MAX 16     /* TCP and unlisted sockets: fewer are not worth a read from inside */

#define STACK_BYTES 65536
#define RMEM_DEFAULT_BYTES 212992 /* the kernel's own default, where it cannot be read */
#define TCP_RMEM_MAX_BYTES 6291456
/* SO_RCVLOWAT raises a buffer to 1.2 times the maximum of tcp_rmem: that much more than the data an skb
 * takes. */
#define TCP_RMEM_FACTOR 2

typedef size_t (*add_fn)(void *sum, const char *text, size_t len);

/* The start of a field, or `end`. */
static const char *find_field(const char *line, const char *end, int wanted)
{
	const char *at = line;
	for (int field = 0; at < end; field++) {
		at += strspn(at, " ");
		if (field == wanted) {
			break;
		}
		at += strcspn(at, " \n");
	}
	return BOX_MIN(at, end);
}

size_t box_socket_memory_add_netlink(struct box_socket_memory *held, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* Skips the heading. */
		if (strncmp(at, "sk ", 3) != 0) {
			const char *rmem = find_field(at, end, RMEM_FIELD);
			held->netlink_sockets++;
			held->netlink_bytes += SOCKET_BYTES + strtoull(rmem, NULL, 10);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

size_t box_socket_memory_add_udp(struct box_socket_memory *held, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* The heading has no colon there. */
		const char *queues = find_field(at, end, QUEUES_FIELD);
		const char *received = memchr(queues, ':', (size_t)(end - queues));
		if (received && memchr(at, ':', (size_t)(queues - at))) {
			held->queued_bytes += strtoull(received + 1, NULL, 16);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

size_t box_socket_memory_count_all(
	struct box_socket_memory_count *count, const char *text, size_t len)
{
	static const char head[] = "sockets: used ";
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		if (strncmp(at, head, sizeof(head) - 1) == 0) {
			count->all = strtoull(at + sizeof(head) - 1, NULL, 10);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

static bool is_kind(const char *line, const char *kind)
{
	size_t len = strlen(kind);
	return strncmp(line, kind, len) == 0 &&
		(line[len] == ' ' || strncmp(line + len, "v6 ", 3) == 0);
}

size_t box_socket_memory_count_listed(
	struct box_socket_memory_count *count, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* In the heading this is a word, and -1 means that a kind is not counted. */
		long long sockets = strtoll(find_field(at, end, COUNT_FIELD), NULL, 10);
		uint64_t some = sockets > 0 ? (uint64_t)sockets : 0;
		count->listed += some;
		count->tcp += is_kind(at, "TCP") ? some : 0;
		count->udp += is_kind(at, "UDP") ? some : 0;
		count->netlink += is_kind(at, "NETLINK") ? some : 0;
		at = end + 1;
	}
	return (size_t)(at - text);
}

/* Ordinary UDP and TCP packets are charged to the cgroup, and reach its limit at most. */
static uint64_t max_queued(uint64_t memory_bytes)
{
	return memory_bytes < UINT64_MAX / 2 ? memory_bytes + memory_bytes / 4 : UINT64_MAX;
}

bool box_socket_memory_is_over(const struct box_socket_memory *held, uint64_t memory_bytes)
{
	return held->netlink_sockets > BOX_NETLINK_SOCKETS_MAX ||
		held->netlink_bytes > memory_bytes || held->queued_bytes > max_queued(memory_bytes);
}

bool box_socket_memory_may_be_over(const struct box_socket_memory *held, uint64_t memory_bytes)
{
	return held->queued_bytes + held->unlisted_bytes > max_queued(memory_bytes);
}

uint64_t box_socket_memory_estimate(uint64_t bytes, uint64_t listed, uint64_t sockets)
{
	return listed < TCP_DUMP_MAX || sockets <= listed ? bytes : bytes / listed * sockets;
}

static size_t add_netlink(void *sum, const char *text, size_t len)
{
	return box_socket_memory_add_netlink(sum, text, len);
}

static size_t add_udp(void *sum, const char *text, size_t len)
{
	return box_socket_memory_add_udp(sum, text, len);
}

static size_t count_all(void *sum, const char *text, size_t len)
{
	return box_socket_memory_count_all(sum, text, len);
}

static size_t count_listed(void *sum, const char *text, size_t len)
{
	return box_socket_memory_count_listed(sum, text, len);
}

/* Stops as soon as `held` is over the limit; by how much does not matter. */
static int read_all(pid_t pid, const char *name, add_fn add, void *sum,
	const struct box_socket_memory *held, uint64_t memory_bytes)
{
	char path[64];
	char text[16384];
	size_t kept = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	while (!box_socket_memory_is_over(held, memory_bytes)) {
		ssize_t got = read(fd, text + kept, sizeof(text) - 1 - kept);
		if (got < 0) {
			return -errno;
		}
		if (got == 0) {
			break;
		}
		size_t len = kept + (size_t)got;
		text[len] = '\0';
		size_t used = add(sum, text, len);
		kept = len - used;
		memmove(text, text + used, kept);
		if (kept == sizeof(text) - 1) {
			return -EPROTO;
		}
	}
	return 0;
}

static int read_udp(pid_t pid, uint64_t memory_bytes, struct box_socket_memory *held)
{
	int r = read_all(pid, "udp", add_udp, held, held, memory_bytes);
	if (r < 0) {
		return r;
	}
	r = read_all(pid, "udp6", add_udp, held, held, memory_bytes);
	return r == -ENOENT ? 0 : r; /* a kernel without IPv6 */
}

/* --- inside the network namespace of a box --- */

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
	unsigned long long tcp_max = 0;
	unsigned long long rmem_default = strtoull(core, NULL, 10);
	if (sscanf(tcp, "%*u %*u %llu", &tcp_max) != 1) {
		tcp_max = TCP_RMEM_MAX_BYTES;
	}
	rmem_default = rmem_default > 0 ? rmem_default : RMEM_DEFAULT_BYTES;
	return BOX_MAX(rmem_default, TCP_RMEM_FACTOR * tcp_max);
}

/* Runs with our memory and our fds, while we wait. */
static int visit_namespace(void *arg)
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
	/* SO_RCVBUF has no effect in a box. The kernel shows this file in its first namespace only. */
	read_text("/proc/sys/net/core/rmem_default", core, sizeof(core));
	pid_t visitor = clone(visit_namespace, stack + sizeof(stack),
		CLONE_VM | CLONE_VFORK | CLONE_FILES, &visit);
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

/* A box cannot predict the order in which the kernel lists sockets: if there are too many to read all,
 * the first ones are a sample. */
static uint64_t dump_tcp(int diag, uint64_t sockets, uint64_t max)
{
	struct box_sock_diag_sum sum = {0};
	(void)box_sock_diag_add_tcp(diag, AF_INET, max, TCP_DUMP_MAX, &sum);
	if (sum.sockets < TCP_DUMP_MAX) {
		(void)box_sock_diag_add_tcp(diag, AF_INET6, max, TCP_DUMP_MAX, &sum);
	}
	return box_socket_memory_estimate(sum.bytes, sum.sockets, sockets);
}

/* If the namespace cannot be entered, nothing is added; the rest still counts. */
static void add_inside(int netns, const struct box_socket_memory_count *count,
	uint64_t memory_bytes, struct box_socket_memory *held)
{
	struct box_socket_memory_inside inside = {.diag = -1};
	uint64_t unlisted = count->all > count->listed ? count->all - count->listed : 0;
	if (unlisted + count->tcp <= IGNORED_MAX ||
		box_socket_memory_open_inside(netns, &inside) < 0) {
		return;
	}
	_cleanup_(box_close_p) int diag = inside.diag;
	uint64_t max = max_queued(memory_bytes);
	held->unlisted_bytes = unlisted * inside.buffer_bytes;
	if (held->queued_bytes + (unlisted + count->tcp) * inside.buffer_bytes > max) {
		held->queued_bytes += dump_tcp(diag, count->tcp, max);
	}
}

int box_socket_memory_read(pid_t pid, int netns, bool netlink, uint64_t memory_bytes,
	struct box_socket_memory *ret_held)
{
	struct box_socket_memory held = {0};
	struct box_socket_memory_count count = {0};
	int r = read_all(pid, "sockstat", count_all, &count, &held, memory_bytes);
	if (r == 0 && count.all > 0) {
		r = read_all(pid, "protocols", count_listed, &count, &held, memory_bytes);
	}
	if (r == 0 && count.udp > 0) {
		r = read_udp(pid, memory_bytes, &held);
	}
	if (r == 0 && netlink && count.netlink > 0) {
		r = read_all(pid, "netlink", add_netlink, &held, &held, memory_bytes);
	}
	if (r < 0) {
		return r;
	}
	add_inside(netns, &count, memory_bytes, &held);
	*ret_held = held;
	return 0;
}
