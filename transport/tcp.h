/* What the kernel knows of the other end of a connection that is not read, whose pongs would not be
 * seen. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Has the kernel probe the peer when nothing comes, and give the connection up as pings would. */
void box_tcp_watch(int fd);

/* Whether the peer's kernel has answered within the last `since_ms`. That is all there is to know
 * of one that is not read, and it is known also while something sent waits for its answer: no probe
 * is sent then. */
bool box_tcp_answered(int fd, uint64_t since_ms);
