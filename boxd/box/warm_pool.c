/* A few blanks, all alike. A request of another shape lets them go and is learned from. */
#include "boxd/box/warm_pool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/arena.h"
#include "base/log.h"
#include "boxd/image/images.h"

#define BLANKS_MAX 2

struct box_warm_pool {
	struct box_host_state *ground;
	int epoll;
	void (*let_go)(void *arg, struct box_warm_box *blank);
	void *arg;
	struct box_plan_request
		likely;            /* what the next request may look like: what the last one did */
	struct box_plan_host host; /* with the root of its image */
	struct box_plan plan;      /* of it */
	struct box_warm_box blanks[BLANKS_MAX];
	unsigned count;
	bool failing;  /* not tried again before a box needs one */
	uint64_t made; /* ever */
};

/* What a caller without wishes asks for: a guess, until there is a request to learn from. */
static const struct box_plan_request usual = {
	.name = "usual",
	.mount_path = "/workspace",
	.network = 0,
	.writable_root = 0,
	.profile = BOX_FILTER_DEFAULT,
	.memory_bytes = 512 * BOX_MIB,
	.pids = 128,
	.cpu_milli = 1000,
};

struct box_warm_pool *box_warm_pool_new(struct box_host_state *ground, int epoll,
	void (*let_go)(void *arg, struct box_warm_box *blank), void *arg)
{
	struct box_warm_pool *ahead = box_alloc(sizeof(*ahead));
	ahead->ground = ground;
	ahead->epoll = epoll;
	ahead->let_go = let_go;
	ahead->arg = arg;
	ahead->likely = usual;
	return ahead;
}

static int make_blank(struct box_warm_pool *ahead, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *blank, struct box_err *err)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "b%llu", (unsigned long long)++ahead->made);
	int r = box_make_warm(ahead->ground, name, plan, root, blank, err);
	if (r < 0) {
		ahead->let_go(ahead->arg, blank);
	}
	return r;
}

/* Something came from its first process, which is silent while all is well. */
static bool has_failed(const struct box_warm_box *blank)
{
	struct pollfd polled = {.fd = blank->living.report, .events = POLLIN};
	return poll(&polled, 1, 0) != 0;
}

static int watch(const struct box_warm_pool *ahead, const struct box_warm_box *blank)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = BOX_WARM_POOL_EVENT};
	return epoll_ctl(ahead->epoll, EPOLL_CTL_ADD, blank->living.report, &event);
}

/* The last one, unwatched: a clone that has a copy of its fd would keep it in the set. */
static struct box_warm_box *pop(struct box_warm_pool *ahead)
{
	struct box_warm_box *blank = &ahead->blanks[--ahead->count];
	(void)epoll_ctl(ahead->epoll, EPOLL_CTL_DEL, blank->living.report, NULL);
	return blank;
}

static void let_all_go(struct box_warm_pool *ahead)
{
	while (ahead->count > 0) {
		ahead->let_go(ahead->arg, pop(ahead));
	}
}

void box_warm_pool_free(struct box_warm_pool *ahead)
{
	let_all_go(ahead);
	free(ahead);
}

int box_warm_pool_take(struct box_warm_pool *ahead, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *blank, struct box_err *err)
{
	/* A microVM is made when it is wanted: nobody's memory is spent ahead, and what waits for
	 * native boxes goes on waiting for them. A caller's root is for this box: there is none like
	 * it to be made ahead. */
	if (plan->ask->kind != BOX_PLAN_KIND_NATIVE || (root && root->once)) {
		return make_blank(ahead, plan, root, blank, err);
	}
	ahead->likely = *plan->ask;
	ahead->failing = false;
	while (ahead->count > 0) {
		struct box_warm_box *last = pop(ahead);
		if (box_make_warm_fits(ahead->ground, last, plan->ask) && !has_failed(last)) {
			*blank = *last;
			return 0;
		}
		ahead->let_go(ahead->arg, last);
	}
	return make_blank(ahead, plan, root, blank, err);
}

bool box_warm_pool_wants_box(const struct box_warm_pool *ahead)
{
	return ahead->ground->possible && ahead->ground->sealed && !ahead->failing &&
		ahead->count < BLANKS_MAX;
}

static void give_up(struct box_warm_pool *ahead, const char *why)
{
	ahead->failing = true;
	BOX_LOG(BOX_LOG_WARNING, "boxes.not_ahead", box_log_str("why", why));
}

void box_warm_pool_add(struct box_warm_pool *ahead)
{
	const struct box_host_state *ground = ahead->ground;
	struct box_warm_box *blank = &ahead->blanks[ahead->count];
	struct box_err err;
	struct box_root *root = NULL;
	ahead->host = ground->host;
	int r = box_images_find(ground->images, ahead->likely.image, &ahead->host, &root, &err);
	r = r < 0
		? r
		: box_plan_make(&ahead->likely, &ground->policy, &ahead->host, &ahead->plan, &err);
	r = r < 0 ? r : make_blank(ahead, &ahead->plan, root, blank, &err);
	box_images_release(root);
	if (r < 0) {
		give_up(ahead, err.text);
		return;
	}
	ahead->count++;
	(void)watch(ahead, blank);
}

/* The next request makes one that can tell its caller why. */
void box_warm_pool_on_failure(struct box_warm_pool *ahead)
{
	give_up(ahead, "the first process of a blank has failed");
	let_all_go(ahead);
}
