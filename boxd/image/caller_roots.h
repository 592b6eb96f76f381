/* What stands before a box whose image is a folder of a caller's: a copy of the folder's /etc.
 *
 * The folder is opened and judged here; its files are read by a process that boxd starts for that, which
 * is ended after BOX_CALLERS_ROOT_MS and dies with boxd. What must wait waits in a bounded queue, in
 * which tenants take turns. Requests for any other image go on at once.
 */
#pragma once

#include "boxd/host_state.h"

struct box_caller_roots;
struct box_root;

/* Once for each request, maybe from inside the call that asked: the box may be made, of this root, which
 * is the callee's (NULL: of no caller's folder); or err. */
typedef void box_caller_roots_done(void *arg, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root, const struct box_err *err);

struct box_caller_roots *box_caller_roots_new(
	const struct box_host_state *ground, box_caller_roots_done *done, void *arg);
void box_caller_roots_free(struct box_caller_roots *roots);

void box_caller_roots_request(
	struct box_caller_roots *roots, uint32_t request, const struct box_plan_request *ask);
/* Whoever asked is gone: nothing of it is answered. */
void box_caller_roots_drop_requests(struct box_caller_roots *roots);

/* For the loop: an fd that wants POLLIN, how long it may wait, and what to do then. */
int box_caller_roots_fd(const struct box_caller_roots *roots);
int box_caller_roots_timeout_ms(const struct box_caller_roots *roots);
void box_caller_roots_step(struct box_caller_roots *roots);
