/* Blanks that are made before anyone asks for a box, in the shape of the last request: who asks for
 * the same again waits for little more than an order. */
#pragma once

#include <stdbool.h>

#include "runtime/keeper/blank.h"

struct box_ahead;

#define BOX_AHEAD_EVENT 0 /* what the epoll set tells when one has failed */

/* `let_go` takes a blank that nobody wants any more, or what there is of one that failed. */
struct box_ahead *box_ahead_new(struct box_ground *ground, int epoll,
	void (*let_go)(void *arg, struct box_blank *blank), void *arg);
/* Lets all of them go. */
void box_ahead_free(struct box_ahead *ahead);

/* A blank that fits: one that is there, or a new one. `root` is that of its image, or NULL for the
 * usual one. Negative: err. */
int box_ahead_take(struct box_ahead *ahead, const struct box_plan *plan,
	const struct box_root *root, struct box_blank *blank, struct box_err *err);

/* Whether there is something to make, when nothing else is to be done. */
bool box_ahead_wanted(const struct box_ahead *ahead);
void box_ahead_make(struct box_ahead *ahead);

/* After BOX_AHEAD_EVENT. */
void box_ahead_failed(struct box_ahead *ahead);
