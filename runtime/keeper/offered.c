/* By sock_diag: the kernel looks up the listener that a connection would find, and shows where it is
 * bound. */
#include "runtime/keeper/offered.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ANSWER_BYTES 8192
#define ANSWER_SEC 1

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

int box_offered_open(int *ret_fd)
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

/* Also one that a program of IPv6 has bound to the address alone. */
static int judge(const struct inet_diag_msg *listener, uint32_t address)
{
	const uint32_t mapped[] = {0, 0, htonl(0xffff), address};
	const uint32_t *at = listener->id.idiag_src;
	bool exact = listener->idiag_family == AF_INET
		? at[0] == address
		: listener->idiag_family == AF_INET6 && memcmp(at, mapped, sizeof(mapped)) == 0;
	return exact && listener->idiag_state == TCP_LISTEN ? 0 : -ENOENT;
}

int box_offered_look(int fd, uint32_t address, uint16_t port)
{
	static uint32_t sequence;
	struct question question = {
		.head = {.nlmsg_len = sizeof(question),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = ++sequence},
		.body = {.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = 1U << TCP_LISTEN},
	};
	question.body.id.idiag_sport = htons(port);
	question.body.id.idiag_src[0] = address;
	question.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (send(fd, &question, sizeof(question), 0) != sizeof(question)) {
		return -errno;
	}
	_Alignas(8) unsigned char answer[ANSWER_BYTES];
	struct nlmsghdr *head = (struct nlmsghdr *)answer;
	ssize_t got;
	do {
		got = recv(fd, answer, sizeof(answer), 0);
		if (got < 0) {
			return -errno;
		}
		/* What is of an earlier question came too late for it. */
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
	return judge(NLMSG_DATA(head), address);
}
