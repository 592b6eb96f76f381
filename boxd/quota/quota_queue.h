/* The stage QUOTA of a request for a box: the quota of a workspace that is a folder of the host.
 *
 * Most requests pass at once. If an image must be made, grown or mounted, a child does it
 * (quota_task.c), which is killed after BOX_QUOTA_MS and dies with boxd; other requests continue
 * meanwhile. Called by making.c.
 */
#pragma once

#include "boxd/event_source.h"
#include "boxd/host_state.h"
#include "boxd/making.h"

struct box_boxes;
struct box_quota_queue;

/* A request that `done` gets back may have lost a quota that cannot be enforced (local.degraded). */
struct box_quota_queue *box_quota_queue_new(const struct box_host_state *host_state,
	struct box_boxes *boxes, box_making_done *done, void *arg);
void box_quota_queue_free(struct box_quota_queue *queue);

void box_quota_queue_request(struct box_quota_queue *queue, struct box_making *making);
/* No request is answered. What a child has begun is finished. */
void box_quota_queue_drop_requests(struct box_quota_queue *queue);

struct box_event_source box_quota_queue_event_source(struct box_quota_queue *queue);
