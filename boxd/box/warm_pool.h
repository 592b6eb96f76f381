/* Blanks that are made before anyone asks for a box, in the shape of the last request: who asks for
 * the same again waits for little more than an order. */
#pragma once

#include <stdbool.h>

#include "boxd/box/make.h"

struct box_warm_pool;

#define BOX_WARM_POOL_EVENT 0 /* what the epoll set tells when one has failed */

/* `let_go` takes a blank that nobody wants any more, or what there is of one that failed. */
struct box_warm_pool *box_warm_pool_new(struct box_host_state *ground, int epoll,
	void (*let_go)(void *arg, struct box_warm_box *blank), void *arg);
/* Lets all of them go. */
void box_warm_pool_free(struct box_warm_pool *ahead);

/* A blank that fits: one that is there, or a new one. `root` is that of its image, or NULL for the
 * usual one. Negative: err. */
int box_warm_pool_take(struct box_warm_pool *ahead, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *blank, struct box_err *err);

/* Whether there is something to make, when nothing else is to be done. */
bool box_warm_pool_wants_box(const struct box_warm_pool *ahead);
void box_warm_pool_add(struct box_warm_pool *ahead);

/* After BOX_WARM_POOL_EVENT. */
void box_warm_pool_on_failure(struct box_warm_pool *ahead);
