/* One box from its plan to the clone that becomes it, seen from boxd. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/keeper/ground.h"
#include "runtime/keeper/network.h"

struct box_cgroup;

/* What boxd holds of a living box. Fds are -1 and pointers NULL where there is none. */
struct box_living {
	pid_t pid;
	int pidfd;
	int control; /* box-rpc's end */
	int report;
	struct box_cgroup *cgroup;
	bool has_ids;
	uint32_t first_id;
	bool has_seat;
	struct box_network_seat seat;
};

/* Makes everything up to the clone and lets the clone go on. What comes to the report fd tells how
 * it went. Negative: err, and nothing of it remains. */
int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, const char *name,
	struct box_living *ret_living, struct box_err *err);

/* Kills it; the end shows at the pidfd. */
void box_birth_kill(const struct box_living *living);
/* After its end: gives everything back. 0, or -EBUSY when something is not dead yet: try again. */
int box_birth_bury(struct box_ground *ground, struct box_living *living);

/* A mount of the host for a command in it. */
int box_birth_mount(struct box_ground *ground, const struct box_living *living, const char *path,
	bool read_only, int *ret_mount, struct box_err *err);
