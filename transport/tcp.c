/* The kernel's own probes and its account of answers, by socket options. */
#include "transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/limits.h"

#define ACK_SLACK_MS 100 /* the kernel's clock is coarser than ours */

void box_tcp_watch(int fd)
{
	static const int on = 1;
	static const int idle_sec = BOX_PING_INTERVAL_SEC;
	static const int between_sec = (BOX_PING_HANGUP_SEC - BOX_PING_INTERVAL_SEC) / 3;
	static const int probes = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof(idle_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_sec, sizeof(between_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

bool box_tcp_answered(int fd, uint64_t since_ms)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
		info.tcpi_last_ack_recv <= since_ms + ACK_SLACK_MS;
}
