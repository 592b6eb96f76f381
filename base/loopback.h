/* Sockets with both ends on this host. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* True for 127.0.0.0/8, its IPv4-mapped form, and ::1. */
bool box_loopback_is(const struct sockaddr *address);

/* Turns off pacing on a TCP socket to such an address. Many hosts pace what is sent (bbr) with a timer
 * every few segments, which is wasted work where there is no network to share. */
void box_loopback_disable_pacing(int fd);
