/* A request for a box (MAKE_BOX), from the packet to the table of boxes. Every request goes through the
 * stages in order; a stage that has nothing to do for it passes it on at once, others wait for a
 * process.
 *
 *   QUOTA    quota/quota_queue.c       prepares the quota of the workspace folder
 *   MICROVM  microvm/microvm_probe.c   finds out whether this host can run microVMs
 *   ROOT     image/caller_roots.c      prepares an image that is a caller's folder
 *   BEGIN    boxes.c                   makes the box
 *
 * Called by rpc/serve.c. Knows nothing of packets.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "boxd/event_source.h"
#include "plan/plan.h"

struct box_boxes;
struct box_host_state;
struct box_identity;
struct box_jobs;
struct box_root;

enum box_making_stage {
	BOX_MAKING_QUOTA,
	BOX_MAKING_MICROVM,
	BOX_MAKING_ROOT,
	BOX_MAKING_BEGIN,
};

/* Belongs to the stage it is in. */
struct box_making {
	struct box_list links; /* for the stage */
	uint32_t request;      /* 0: nobody waits for the answer any more */
	enum box_making_stage stage;
	struct box_plan_request ask;
	struct box_root *root; /* of a caller's folder; NULL before ROOT, and for other images */
};

/* Takes NULL. */
void box_making_free(struct box_making *making);

/* How a stage hands a request back: once, possibly from inside the call that gave it to the stage. */
typedef void box_making_done(void *arg, struct box_making *making, const struct box_err *err);

/* --- the chain of stages --- */

struct box_making_chain;

struct box_making_events {
	/* A stage before BEGIN has refused the request. */
	void (*failed)(void *arg, uint32_t request, const struct box_err *err);
	/* The answer to box_making_chain_probe_microvms; err NULL: microVMs work here. */
	void (*probed)(void *arg, uint32_t request, const struct box_err *err);
};

/* `ids` are those that box-vmm is probed with. */
struct box_making_chain *box_making_chain_new(struct box_host_state *host_state,
	struct box_boxes *boxes, struct box_jobs *jobs, const struct box_identity *ids,
	const struct box_making_events *events, void *arg);
void box_making_chain_free(struct box_making_chain *chain);

/* The answer comes from `failed`, or from the events of the boxes. */
void box_making_chain_request(
	struct box_making_chain *chain, uint32_t request, const struct box_plan_request *ask);
void box_making_chain_probe_microvms(struct box_making_chain *chain, uint32_t request);
/* box-rpc is gone: no request is answered. What a process has started for one is finished. */
void box_making_chain_drop_requests(struct box_making_chain *chain);

void box_making_chain_add_event_sources(
	struct box_making_chain *chain, struct box_event_sources *sources);
