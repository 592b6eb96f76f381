/* Warm boxes that are made before anyone asks for a box, in the shape of the last request: the next
 * request for the same shape waits for little more than an order. Owned by boxes.c; the loop
 * (rpc/supervise.c) adds to the pool when it has nothing else to do. */
#pragma once

#include <stdbool.h>

#include "boxd/box/make.h"

struct box_warm_pool;

#define BOX_WARM_POOL_EVENT 0 /* what the epoll set yields when a warm box has failed */

/* `discard` takes a warm box that nobody wants any more, or what there is of one that failed. */
struct box_warm_pool *box_warm_pool_new(struct box_host_state *host_state, int epoll,
	void (*discard)(void *arg, struct box_warm_box *warm), void *arg);
/* Discards all that are left. */
void box_warm_pool_free(struct box_warm_pool *pool);

/* A warm box of this plan: one of the pool that fits, or a new one. `root` is that of its image, or
 * NULL for the default root. Negative: err. */
int box_warm_pool_take(struct box_warm_pool *pool, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *ret_warm, struct box_err *err);

/* Whether the pool wants another box. */
bool box_warm_pool_wants_box(const struct box_warm_pool *pool);
void box_warm_pool_add(struct box_warm_pool *pool);

/* After BOX_WARM_POOL_EVENT. */
void box_warm_pool_on_failure(struct box_warm_pool *pool);
