/* Whether a silent peer is still there: when to ask it, and what the kernel knows of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In seconds since it was heard last. */
struct box_keepalive_times {
	uint16_t ping_sec;
	uint16_t hangup_sec;
};

struct box_keepalive {
	uint64_t since_ms;    /* it was heard or asked last */
	uint64_t taken_bytes; /* of what was sent, when that was looked at last */
};

void box_keepalive_heard(struct box_keepalive *alive, uint64_t now_ms);
/* Whether to ask it now. It is asked again after as long, also if it was not heard: some answer with
 * nothing in it, of which we are not told. */
bool box_keepalive_ping_due(
	struct box_keepalive *alive, const struct box_keepalive_times *times, uint64_t now_ms);

/* Has the kernel give up a peer whose kernel does not answer. */
void box_keepalive_set_tcp_options(int fd, const struct box_keepalive_times *times);
/* Whether the peer's kernel has answered in that time. That is all there is to know of one that is not
 * read, and it is known also while something sent waits for its answer: no probe is sent then. */
bool box_keepalive_kernel_answered(int fd, uint64_t since_ms);
/* Whether it has taken more of what was sent since the last look. */
bool box_keepalive_peer_reads(struct box_keepalive *alive, int fd);
