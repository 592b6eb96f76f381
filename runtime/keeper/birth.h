/* One box from a blank to the process that becomes it, seen from boxd.
 *
 * A blank is everything of a box that does not depend on what is asked for: ids, an empty cgroup, a
 * network namespace, the first process in its namespaces, waiting. Making one is most of making a
 * box, so it is done ahead.
 */
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

struct box_blank {
	struct box_living living;
	int orders; /* where it waits for one */
	int netns;
};

/* `name` is that of its cgroup. Negative: err, and nothing of it remains. */
int box_blank_make(struct box_ground *ground, const char *name, struct box_blank *ret_blank,
	struct box_err *err);
/* Nobody wants it. */
void box_blank_drop(struct box_ground *ground, struct box_blank *blank);

/* Makes of a blank the box of a plan. What comes to the report fd tells how it went. The blank is used
 * up in any case. Negative: err, and nothing of it remains. */
int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, struct box_blank *blank,
	struct box_living *ret_living, struct box_err *err);

/* Kills it; the end shows at the pidfd. */
void box_birth_kill(const struct box_living *living);
/* After its end: gives everything back. 0, or -EBUSY when something is not dead yet: try again. */
int box_birth_bury(struct box_ground *ground, struct box_living *living);

/* A mount of the host for a command in it. */
int box_birth_mount(struct box_ground *ground, const struct box_living *living, const char *path,
	bool read_only, int *ret_mount, struct box_err *err);
