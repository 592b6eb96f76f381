/* Sockets whose two ends are on this host. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* True for 127.0.0.0/8, also as IPv6 writes it, and for ::1. */
bool box_loopback_is(const struct sockaddr *address);

/* For a TCP socket to such an address: what is sent goes out at once. Many hosts pace what they send
 * (bbr), by a timer for every few segments; where there is no line to share that is only work. */
void box_loopback_disable_pacing(int fd);
