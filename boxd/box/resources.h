/* What boxd holds of a box from its clone to its end. make.c fills it in step by step, boxes.c frees
 * all of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boxd/host_state.h"
#include "boxd/net/network.h"

struct box_cgroup;

/* Fds are -1 and pointers NULL if absent. */
struct box_resources {
	pid_t pid;   /* of its first process */
	int pidfd;   /* of the same */
	int control; /* box-rpc's end of the socket to box-init */
	int report;  /* the first process's report about the start */
	int netns;   /* its network namespace */
	struct box_cgroup *cgroup;
	bool has_ids;
	uint32_t first_id; /* of its range of user and group ids */
	bool has_slot;
	struct box_network_slot slot;
	uint32_t host_address; /* its address on the host's loopback (network order), or 0 */
};

#define BOX_RESOURCES_NONE \
	((struct box_resources){.pidfd = -1, .control = -1, .report = -1, .netns = -1})

/* Kills the first process, and with it the box; its end shows at the pidfd. */
void box_resources_kill(const struct box_resources *resources);
/* Reaps the first process if it has ended, and returns whether it has. The pidfd is useless after that. */
bool box_resources_reap(const struct box_resources *resources);
/* Frees everything else, once the first process is reaped and the pidfd closed. 0, or -EBUSY while
 * something in the cgroup is still dying: try again. */
int box_resources_release(struct box_host_state *host_state, struct box_resources *resources);
