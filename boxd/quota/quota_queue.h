/* What stands before a box whose workspace is a folder of the host: its quota.
 *
 * Most requests go on at once. Where an image is to be made, grown or mounted, a process does it,
 * which is ended after BOX_QUOTA_MS and dies with boxd; others go on meanwhile.
 */
#pragma once

#include "boxd/host_state.h"

struct box_boxes;
struct box_quota_queue;

/* Once for each request, maybe from inside the call that asked: the box may be made, or err. The
 * ask may lack the quota that nobody can hold. */
typedef void box_quota_queue_done(
	void *arg, uint32_t request, const struct box_plan_request *ask, const struct box_err *err);

struct box_quota_queue *box_quota_queue_new(const struct box_host_state *ground,
	struct box_boxes *boxes, box_quota_queue_done *done, void *arg);
void box_quota_queue_free(struct box_quota_queue *quotas);

void box_quota_queue_request(
	struct box_quota_queue *quotas, uint32_t request, const struct box_plan_request *ask);
/* Whoever asked is gone: nothing of it is answered. What has begun is finished. */
void box_quota_queue_drop_requests(struct box_quota_queue *quotas);

/* For the loop: an fd that wants POLLIN, how long it may wait, and what to do then. */
int box_quota_queue_fd(const struct box_quota_queue *quotas);
int box_quota_queue_timeout_ms(const struct box_quota_queue *quotas);
void box_quota_queue_step(struct box_quota_queue *quotas);
