/* Whether a silent peer is still there: when to ask it, and what the kernel knows of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In seconds since it was heard last. */
struct box_alive_times {
	uint16_t ping_sec;
	uint16_t hangup_sec;
};

struct box_alive {
	uint64_t since_ms;    /* it was heard or asked last */
	uint64_t taken_bytes; /* of what was sent, when that was looked at last */
};

void box_alive_heard(struct box_alive *alive, uint64_t now_ms);
/* Whether to ask it now. It is asked again after as long, also if it was not heard: some answer with
 * nothing in it, of which we are not told. */
bool box_alive_ask(struct box_alive *alive, const struct box_alive_times *times, uint64_t now_ms);

/* Has the kernel give up a peer whose kernel does not answer. */
void box_alive_watch_by_kernel(int fd, const struct box_alive_times *times);
/* Whether the peer's kernel has answered in that time. That is all there is to know of one that is not
 * read, and it is known also while something sent waits for its answer: no probe is sent then. */
bool box_alive_kernel_answered(int fd, uint64_t since_ms);
/* Whether it has taken more of what was sent since the last look. */
bool box_alive_takes(struct box_alive *alive, int fd);
