/* Whether a silent peer is still there: when to ping it, and what the kernel knows about it. For ws.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In seconds since anything was received. */
struct box_keepalive_times {
	uint16_t ping_sec;
	uint16_t hangup_sec;
};

struct box_keepalive {
	uint64_t since_ms;    /* when the peer was last heard or pinged */
	uint64_t taken_bytes; /* acknowledged by the peer at the last check */
};

void box_keepalive_heard(struct box_keepalive *alive, uint64_t now_ms);
/* Whether to ping the peer now. The next ping is due after the same time even without an answer: an empty
 * pong is not reported to us. */
bool box_keepalive_ping_due(
	struct box_keepalive *alive, const struct box_keepalive_times *times, uint64_t now_ms);

/* Lets the kernel close the connection to a peer whose kernel does not answer. */
void box_keepalive_set_tcp_options(int fd, const struct box_keepalive_times *times);
/* Whether the peer's kernel has answered in that time. For a peer that we do not read this is all there
 * is to know, also while sent data is unacknowledged: the kernel sends no probes then. */
bool box_keepalive_kernel_answered(int fd, uint64_t since_ms);
/* Whether the peer has acknowledged more data since the last check. */
bool box_keepalive_peer_reads(struct box_keepalive *alive, int fd);
