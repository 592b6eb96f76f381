/* Owns the three queues in which a request waits, and the order of the stages. */
#include "boxd/making.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "boxd/box/boxes.h"
#include "boxd/image/caller_roots.h"
#include "boxd/image/images.h"
#include "boxd/microvm/microvm_probe.h"
#include "boxd/quota/quota_queue.h"

struct box_making_chain {
	struct box_boxes *boxes;
	struct box_quota_queue *quotas;
	struct box_microvm_probe *microvms;
	struct box_caller_roots *caller_roots;
	const struct box_making_events *events;
	void *arg;
};

void box_making_free(struct box_making *making)
{
	if (making) {
		box_images_release(making->root);
		free(making);
	}
}

/* --- the stages --- */

static void enter_stage(struct box_making_chain *chain, struct box_making *making)
{
	switch (making->stage) {
	case BOX_MAKING_QUOTA:
		box_quota_queue_request(chain->quotas, making);
		return;
	case BOX_MAKING_MICROVM:
		box_microvm_probe_request(chain->microvms, making);
		return;
	case BOX_MAKING_ROOT:
		box_caller_roots_request(chain->caller_roots, making);
		return;
	case BOX_MAKING_BEGIN:
		box_boxes_make(chain->boxes, making->request, &making->ask, TAKE_PTR(making->root));
		box_making_free(making);
		return;
	}
}

static void stage_done(void *arg, struct box_making *making, const struct box_err *err)
{
	struct box_making_chain *chain = arg;
	if (err) {
		chain->events->failed(chain->arg, making->request, err);
		box_making_free(making);
		return;
	}
	making->stage++;
	enter_stage(chain, making);
}

void box_making_chain_request(
	struct box_making_chain *chain, uint32_t request, const struct box_plan_request *ask)
{
	struct box_making *making = box_alloc(sizeof(*making));
	box_list_init(&making->links);
	making->request = request;
	making->stage = BOX_MAKING_QUOTA;
	making->ask = *ask;
	enter_stage(chain, making);
}

void box_making_chain_drop_requests(struct box_making_chain *chain)
{
	box_quota_queue_drop_requests(chain->quotas);
	box_microvm_probe_drop_requests(chain->microvms);
	box_caller_roots_drop_requests(chain->caller_roots);
}

/* --- the probe alone --- */

static void probed(void *arg, uint32_t request, const struct box_err *err)
{
	struct box_making_chain *chain = arg;
	chain->events->probed(chain->arg, request, err);
}

void box_making_chain_probe_microvms(struct box_making_chain *chain, uint32_t request)
{
	box_microvm_probe_ask(chain->microvms, request);
}

/* --- the whole --- */

struct box_making_chain *box_making_chain_new(struct box_host_state *host_state,
	struct box_boxes *boxes, struct box_jobs *jobs, const struct box_identity *ids,
	const struct box_making_events *events, void *arg)
{
	struct box_making_chain *chain = box_alloc(sizeof(*chain));
	chain->boxes = boxes;
	chain->quotas = box_quota_queue_new(host_state, boxes, stage_done, chain);
	chain->microvms = box_microvm_probe_new(host_state, jobs, ids, stage_done, probed, chain);
	chain->caller_roots = box_caller_roots_new(host_state, stage_done, chain);
	chain->events = events;
	chain->arg = arg;
	return chain;
}

void box_making_chain_add_event_sources(
	struct box_making_chain *chain, struct box_event_sources *sources)
{
	box_event_source_add(sources, box_quota_queue_event_source(chain->quotas));
	box_event_source_add(sources, box_caller_roots_event_source(chain->caller_roots));
}

void box_making_chain_free(struct box_making_chain *chain)
{
	box_quota_queue_free(chain->quotas);
	box_caller_roots_free(chain->caller_roots);
	box_microvm_probe_free(chain->microvms);
	free(chain);
}
