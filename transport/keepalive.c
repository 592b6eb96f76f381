/* Detects peers that are gone although their connection was never closed: timers, and TCP_INFO. */
#include "transport/keepalive.h"

#include <linux/tcp.h> /* libc's tcp_info has no tcpi_bytes_acked */
#include <netinet/in.h>
#include <sys/socket.h>

#define PROBES 3
#define ACK_SLACK_MS 100 /* the kernel's clock is coarser than ours */

void box_keepalive_heard(struct box_keepalive *alive, uint64_t now_ms)
{
	alive->since_ms = now_ms;
}

bool box_keepalive_ping_due(
	struct box_keepalive *alive, const struct box_keepalive_times *times, uint64_t now_ms)
{
	if (now_ms - alive->since_ms < times->ping_sec * UINT64_C(1000)) {
		return false;
	}
	alive->since_ms = now_ms;
	return true;
}

void box_keepalive_set_tcp_options(int fd, const struct box_keepalive_times *times)
{
	const int on = 1;
	const int idle_sec = times->ping_sec;
	const int between_sec = (times->hangup_sec - times->ping_sec) / PROBES;
	const int probes = PROBES;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof(idle_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_sec, sizeof(between_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* If a peer on this machine ends, the kernel closes the connection at once. */
static bool is_unix(int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

bool box_keepalive_peer_reads(struct box_keepalive *alive, int fd)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) {
		return is_unix(fd);
	}
	bool takes = info.tcpi_bytes_acked > alive->taken_bytes;
	alive->taken_bytes = info.tcpi_bytes_acked;
	return takes;
}

bool box_keepalive_kernel_answered(int fd, uint64_t since_ms)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
		info.tcpi_last_ack_recv <= since_ms + ACK_SLACK_MS;
}
