/* pasta (from passt): the way out of the router. It turns packets into ordinary sockets of the host, so
 * the host's own network is not changed.
 *
 * This module starts the process, with few rights. network.c decides when it runs.
 */
#pragma once

#include <sys/types.h>

struct box_router;

/* Where the program is, or NULL. */
const char *box_pasta_path(void);
/* Why pasta could not use the host's tun device as this user, for the operator; or NULL. */
const char *box_pasta_tun_problem(uid_t uid);

/* Starts it with the ids of the router's owner. It dies with boxd. 0 or -errno. */
int box_pasta_start(const struct box_router *router, pid_t *ret_pid, int *ret_pidfd);
