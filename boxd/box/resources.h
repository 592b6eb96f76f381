/* What boxd holds of a box from its clone to its end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boxd/host_state.h"
#include "boxd/net/network.h"

struct box_cgroup;

/* Fds are -1 and pointers NULL where there is none. */
struct box_resources {
	pid_t pid;
	int pidfd;
	int control; /* box-rpc's end */
	int report;
	int netns; /* its network namespace */
	struct box_cgroup *cgroup;
	bool has_ids;
	uint32_t first_id;
	bool has_seat;
	struct box_network_slot seat;
	uint32_t host_address; /* its own on the host's loopback (network order), or 0 */
};

#define BOX_RESOURCES_NONE \
	((struct box_resources){.pidfd = -1, .control = -1, .report = -1, .netns = -1})

/* Kills it; the end shows at the pidfd. */
void box_resources_kill(const struct box_resources *living);
/* Whether its first process has ended; then it has been waited for, and the pidfd is good for
 * nothing any more. */
bool box_resources_reap(const struct box_resources *living);
/* After that, and when the pidfd is closed: gives everything else back. 0, or -EBUSY when something
 * is not dead yet: try again. */
int box_resources_release(struct box_host_state *ground, struct box_resources *living);
