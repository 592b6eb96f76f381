/* A connection is found by its two addresses. IPv4 addresses are looked up as IPv4 even if a program
 * uses them through an IPv6 socket: the kernel finds both, and answers in the family of the socket it
 * found. */
#include "base/sock_diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ANSWER_BYTES 8192
#define DUMP_BYTES 32768 /* the kernel sends at most this much in one message */
#define ANSWER_SEC 1

struct diag_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

int box_sock_diag_open(int *ret_fd)
{
	_cleanup_(box_close_p) int fd = socket(
		AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct timeval wait = {.tv_sec = ANSWER_SEC};
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static uint32_t sequence;

static int send_request(int fd, const struct inet_diag_req_v2 *request, uint16_t flags)
{
	struct diag_request message = {
		.head = {.nlmsg_len = sizeof(message),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | flags,
			.nlmsg_seq = ++sequence},
		.body = *request,
	};
	message.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	message.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return send(fd, &message, sizeof(message), 0) == sizeof(message) ? 0 : -errno;
}

int box_sock_diag_query(
	int fd, const struct inet_diag_req_v2 *request, struct inet_diag_msg *ret_answer)
{
	int r = send_request(fd, request, 0);
	if (r < 0) {
		return r;
	}
	_Alignas(8) unsigned char answer[ANSWER_BYTES];
	struct nlmsghdr *head = (struct nlmsghdr *)answer;
	ssize_t got;
	do {
		got = recv(fd, answer, sizeof(answer), 0);
		if (got < 0) {
			return -errno;
		}
		/* Drops late answers to earlier requests. */
	} while (got >= (ssize_t)sizeof(*head) && head->nlmsg_seq != sequence);
	if (head->nlmsg_type == NLMSG_ERROR &&
		got >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
		const struct nlmsgerr *failure = NLMSG_DATA(head);
		return failure->error < 0 ? failure->error : -EPROTO;
	}
	if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		got < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
		return -EPROTO;
	}
	memcpy(ret_answer, NLMSG_DATA(head), sizeof(*ret_answer));
	return 0;
}

/* Every address in its IPv6 form, so that all forms compare equal. */
static void widen(int family, const void *bytes, struct in6_addr *ret_address)
{
	if (family == AF_INET6) {
		memcpy(ret_address, bytes, sizeof(*ret_address));
		return;
	}
	*ret_address = (struct in6_addr){0};
	ret_address->s6_addr[10] = ret_address->s6_addr[11] = 0xff;
	memcpy(&ret_address->s6_addr[12], bytes, sizeof(struct in_addr));
}

static void widen_socket(
	const struct sockaddr_storage *address, struct in6_addr *ret_address, in_port_t *ret_port)
{
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
	bool is_ipv6 = address->ss_family == AF_INET6;
	widen(address->ss_family, is_ipv6 ? (const void *)&ipv6->sin6_addr : &ipv4->sin_addr,
		ret_address);
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the callers clear it first */
	*ret_port = is_ipv6 ? ipv6->sin6_port : ipv4->sin_port;
}

static bool is_end(
	int family, const void *bytes, in_port_t port, const struct sockaddr_storage *end)
{
	struct in6_addr address;
	struct in6_addr wanted;
	in_port_t wanted_port;
	widen(family, bytes, &address);
	widen_socket(end, &wanted, &wanted_port);
	return port == wanted_port && memcmp(&address, &wanted, sizeof(address)) == 0;
}

bool box_sock_diag_is_open_pair(const struct inet_diag_msg *answer,
	const struct sockaddr_storage *local, const struct sockaddr_storage *remote)
{
	const struct inet_diag_sockid *id = &answer->id;
	/* A closed socket has no inode and shows uid 0, though it may still hold unread data. */
	return answer->idiag_state == TCP_ESTABLISHED && answer->idiag_inode != 0 &&
		is_end(answer->idiag_family, id->idiag_src, id->idiag_sport, local) &&
		is_end(answer->idiag_family, id->idiag_dst, id->idiag_dport, remote);
}

static void fill_end(
	const struct sockaddr_storage *end, bool ipv4, __be32 address[4], __be16 *ret_port)
{
	struct in6_addr wide;
	widen_socket(end, &wide, ret_port);
	memcpy(address, ipv4 ? &wide.s6_addr[12] : wide.s6_addr,
		ipv4 ? sizeof(struct in_addr) : sizeof(wide));
}

static bool is_ipv4(const struct sockaddr_storage *end)
{
	struct in6_addr wide;
	in_port_t port;
	widen_socket(end, &wide, &port);
	return IN6_IS_ADDR_V4MAPPED(&wide);
}

static bool is_established(int connection)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	return getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
		info.tcpi_state == TCP_ESTABLISHED;
}

int box_sock_diag_peer_owner(int fd, int connection, uint32_t *ret_uid)
{
	struct sockaddr_storage here = {0};
	struct sockaddr_storage there = {0};
	socklen_t here_size = sizeof(here);
	socklen_t there_size = sizeof(there);
	if (getsockname(connection, (struct sockaddr *)&here, &here_size) < 0 ||
		getpeername(connection, (struct sockaddr *)&there, &there_size) < 0) {
		return -errno;
	}
	bool ipv4 = is_ipv4(&there);
	struct inet_diag_req_v2 request = {
		.sdiag_family = ipv4 ? AF_INET : AF_INET6,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = 1U << TCP_ESTABLISHED,
	};
	struct inet_diag_msg answer;
	fill_end(&there, ipv4, request.id.idiag_src, &request.id.idiag_sport);
	fill_end(&here, ipv4, request.id.idiag_dst, &request.id.idiag_dport);
	int r = box_sock_diag_query(fd, &request, &answer);
	if (r < 0) {
		return r == -ENOENT ? -ENOTCONN : r;
	}
	/* No other connection can have these two addresses while our end is open. */
	if (!box_sock_diag_is_open_pair(&answer, &there, &here) || !is_established(connection)) {
		return -ENOTCONN;
	}
	*ret_uid = answer.idiag_uid;
	return 0;
}

static int failure_of(const struct nlmsghdr *head, const unsigned char *body, size_t len)
{
	int error = -EPROTO;
	if (len < sizeof(error)) {
		return error;
	}
	memcpy(&error, body, sizeof(error));
	return error == 0 && head->nlmsg_type == NLMSG_ERROR ? -EPROTO : error;
}

static uint32_t rmem_of(const unsigned char *body, size_t len)
{
	uint32_t rmem = 0; /* the first value is SK_MEMINFO_RMEM_ALLOC */
	struct rtattr head;
	size_t at = NLMSG_ALIGN(sizeof(struct inet_diag_msg));
	while (at <= len && len - at >= sizeof(head)) {
		memcpy(&head, body + at, sizeof(head));
		if (head.rta_len < sizeof(head) || head.rta_len > len - at) {
			break;
		}
		if (head.rta_type == INET_DIAG_SKMEMINFO &&
			head.rta_len >= sizeof(head) + sizeof(rmem)) {
			memcpy(&rmem, body + at + sizeof(head), sizeof(rmem));
			break;
		}
		at += RTA_ALIGN(head.rta_len);
	}
	return rmem;
}

/* A socket without an inode: not accepted yet, or closed by its process. */
static uint32_t unaccepted(const unsigned char *body, size_t len)
{
	struct inet_diag_msg answer;
	if (len < sizeof(answer)) {
		return 0;
	}
	memcpy(&answer, body, sizeof(answer));
	return answer.idiag_inode == 0 ? BOX_SOCK_DIAG_UNACCEPTED_BYTES : 0;
}

int box_sock_diag_add_answer(
	const void *packet, size_t len, uint32_t wanted, struct box_sock_diag_sum *sum)
{
	const unsigned char *bytes = packet;
	struct nlmsghdr head;
	size_t at = 0;
	while (at <= len && len - at >= sizeof(head)) {
		memcpy(&head, bytes + at, sizeof(head));
		if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > len - at) {
			break;
		}
		const unsigned char *body = bytes + at + sizeof(head);
		size_t body_len = head.nlmsg_len - sizeof(head);
		at += NLMSG_ALIGN(head.nlmsg_len);
		if (head.nlmsg_seq != wanted) {
			continue;
		}
		if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_type == NLMSG_DONE) {
			return failure_of(&head, body, body_len);
		}
		if (head.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
			sum->sockets++;
			sum->bytes += rmem_of(body, body_len) + unaccepted(body, body_len);
		}
	}
	return 1;
}

int box_sock_diag_add_tcp(int fd, int family, uint64_t enough_bytes, uint64_t enough_sockets,
	struct box_sock_diag_sum *sum)
{
	const struct inet_diag_req_v2 request = {
		.sdiag_family = (uint8_t)family,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 1U << (INET_DIAG_SKMEMINFO - 1),
		/* Sockets in these states hold no data and are skipped. A listening socket may have
		 * held data before. */
		.idiag_states = ~(1U << TCP_TIME_WAIT | 1U << TCP_SYN_RECV),
	};
	_Alignas(8) unsigned char packet[DUMP_BYTES];
	int r = send_request(fd, &request, NLM_F_DUMP);
	if (r < 0) {
		return r;
	}
	do {
		/* Does not fail with EAGAIN: each read makes the kernel prepare the next part. */
		ssize_t got = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (got <= 0) {
			return got < 0 ? -errno : -EPROTO;
		}
		r = box_sock_diag_add_answer(packet, (size_t)got, sequence, sum);
	} while (r > 0 && sum->bytes <= enough_bytes && sum->sockets < enough_sockets);
	return r < 0 ? r : 0;
}
