/* A few warm boxes, all of one shape. A request of another shape discards them, and the next ones are
 * made in its shape. */
#include "boxd/box/warm_pool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/arena.h"
#include "base/log.h"
#include "boxd/image/images.h"

#define WARM_BOXES_MAX 2

struct box_warm_pool {
	struct box_host_state *host_state;
	int epoll;
	void (*discard)(void *arg, struct box_warm_box *warm);
	void *arg;
	struct box_plan_request likely; /* guess of the next request: the same as the last one */
	struct box_plan_host host;      /* including the root of its image */
	struct box_plan plan;           /* of that request */
	struct box_warm_box boxes[WARM_BOXES_MAX];
	unsigned count;
	bool failing;  /* make no more before a request needs one */
	uint64_t made; /* in total */
};

/* The request of a caller that sets nothing: the guess until there was a request. */
static const struct box_plan_request default_request = {
	.name = "default",
	.mount_path = "/workspace",
	.network = 0,
	.writable_root = 0,
	.profile = BOX_FILTER_DEFAULT,
	.memory_bytes = 512 * BOX_MIB,
	.pids = 128,
	.cpu_milli = 1000,
};

struct box_warm_pool *box_warm_pool_new(struct box_host_state *host_state, int epoll,
	void (*discard)(void *arg, struct box_warm_box *warm), void *arg)
{
	struct box_warm_pool *pool = box_alloc(sizeof(*pool));
	pool->host_state = host_state;
	pool->epoll = epoll;
	pool->discard = discard;
	pool->arg = arg;
	pool->likely = default_request;
	return pool;
}

static int make_warm(struct box_warm_pool *pool, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *warm, struct box_err *err)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "b%llu", (unsigned long long)++pool->made);
	int r = box_make_warm(pool->host_state, name, plan, root, warm, err);
	if (r < 0) {
		pool->discard(pool->arg, warm);
	}
	return r;
}

/* Before the order the first process reports nothing but a failure. */
static bool has_failed(const struct box_warm_box *warm)
{
	struct pollfd polled = {.fd = warm->resources.report, .events = POLLIN};
	return poll(&polled, 1, 0) != 0;
}

static int watch(const struct box_warm_pool *pool, const struct box_warm_box *warm)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = BOX_WARM_POOL_EVENT};
	return epoll_ctl(pool->epoll, EPOLL_CTL_ADD, warm->resources.report, &event);
}

/* Removed from the epoll set explicitly: a clone that has a copy of its fd would keep it there. */
static struct box_warm_box *pop(struct box_warm_pool *pool)
{
	struct box_warm_box *warm = &pool->boxes[--pool->count];
	(void)epoll_ctl(pool->epoll, EPOLL_CTL_DEL, warm->resources.report, NULL);
	return warm;
}

static void discard_all(struct box_warm_pool *pool)
{
	while (pool->count > 0) {
		pool->discard(pool->arg, pop(pool));
	}
}

void box_warm_pool_free(struct box_warm_pool *pool)
{
	discard_all(pool);
	free(pool);
}

int box_warm_pool_take(struct box_warm_pool *pool, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *ret_warm, struct box_err *err)
{
	/* A microVM is made on request: no tenant's memory is spent in advance, and the pool stays as
	 * it is for native boxes. A caller's own root is for one box, so no warm box fits it. */
	if (plan->ask->kind != BOX_PLAN_KIND_NATIVE || (root && root->once)) {
		return make_warm(pool, plan, root, ret_warm, err);
	}
	pool->likely = *plan->ask;
	pool->failing = false;
	while (pool->count > 0) {
		struct box_warm_box *last = pop(pool);
		if (box_make_warm_fits(pool->host_state, last, plan->ask) && !has_failed(last)) {
			*ret_warm = *last;
			return 0;
		}
		pool->discard(pool->arg, last);
	}
	return make_warm(pool, plan, root, ret_warm, err);
}

bool box_warm_pool_wants_box(const struct box_warm_pool *pool)
{
	return pool->host_state->possible && pool->host_state->sealed && !pool->failing &&
		pool->count < WARM_BOXES_MAX;
}

static void give_up(struct box_warm_pool *pool, const char *why)
{
	pool->failing = true;
	BOX_LOG(BOX_LOG_WARNING, "boxes.not_warm", box_log_str("why", why));
}

static int make_likely(struct box_warm_pool *pool, struct box_root **ret_root, struct box_err *err)
{
	const struct box_host_state *host_state = pool->host_state;
	pool->host = host_state->host;
	int r = box_images_find(host_state->images, pool->likely.image, &pool->host, ret_root, err);
	if (r < 0) {
		return r;
	}
	r = box_plan_make(&pool->likely, &host_state->policy, &pool->host, &pool->plan, err);
	if (r < 0) {
		return r;
	}
	return make_warm(pool, &pool->plan, *ret_root, &pool->boxes[pool->count], err);
}

void box_warm_pool_add(struct box_warm_pool *pool)
{
	struct box_root *root = NULL;
	struct box_err err;
	int r = make_likely(pool, &root, &err);
	box_images_release(root);
	if (r < 0) {
		give_up(pool, err.text);
		return;
	}
	(void)watch(pool, &pool->boxes[pool->count++]);
}

/* The next request makes its own box, and can report the reason to its caller. */
void box_warm_pool_on_failure(struct box_warm_pool *pool)
{
	give_up(pool, "the first process of a warm box has failed");
	discard_all(pool);
}
