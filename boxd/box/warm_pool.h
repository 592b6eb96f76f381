/* Warm boxes, made in advance in the shape of the last request: the next request of the same shape only
 * has to wait for an order. Owned by boxes.c; the event loop (rpc/supervise.c) adds to the pool when it
 * is idle. */
#pragma once

#include <stdbool.h>

#include "boxd/box/make.h"

struct box_warm_pool;

#define BOX_WARM_POOL_EVENT 0 /* what the epoll set yields when a warm box has failed */

/* `discard` takes an unwanted warm box, or the parts of one that failed. */
struct box_warm_pool *box_warm_pool_new(struct box_host_state *host_state, int epoll,
	void (*discard)(void *arg, struct box_warm_box *warm), void *arg);
/* Discards all warm boxes. */
void box_warm_pool_free(struct box_warm_pool *pool);

/* Returns a warm box that fits this plan, from the pool or new. `root` is that of its image, or NULL
 * for the default root. Negative: err. */
int box_warm_pool_take(struct box_warm_pool *pool, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *ret_warm, struct box_err *err);

/* Whether the pool wants another box. */
bool box_warm_pool_wants_box(const struct box_warm_pool *pool);
void box_warm_pool_add(struct box_warm_pool *pool);

/* To be called after BOX_WARM_POOL_EVENT. */
void box_warm_pool_on_failure(struct box_warm_pool *pool);
