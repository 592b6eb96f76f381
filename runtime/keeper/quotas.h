/* What stands before a box whose workspace is a folder of the host: its quota.
 *
 * Most requests go on at once. Where an image is to be made, grown or mounted, a process does it,
 * which is ended after BOX_QUOTA_MS and dies with boxd; others go on meanwhile.
 */
#pragma once

#include "runtime/keeper/ground.h"

struct box_boxes;
struct box_quotas;

/* Once for each request, maybe from inside the call that asked: the box may be made, or err. The
 * ask may lack the quota that nobody can hold. */
typedef void box_quotas_done(
	void *arg, uint32_t request, const struct box_ask *ask, const struct box_err *err);

struct box_quotas *box_quotas_new(
	const struct box_ground *ground, struct box_boxes *boxes, box_quotas_done *done, void *arg);
void box_quotas_free(struct box_quotas *quotas);

void box_quotas_ask(struct box_quotas *quotas, uint32_t request, const struct box_ask *ask);
/* Whoever asked is gone: nothing of it is answered. What has begun is finished. */
void box_quotas_drop(struct box_quotas *quotas);

/* For the loop: an fd that wants POLLIN, how long it may wait, and what to do then. */
int box_quotas_fd(const struct box_quotas *quotas);
int box_quotas_timeout_ms(const struct box_quotas *quotas);
void box_quotas_step(struct box_quotas *quotas);
