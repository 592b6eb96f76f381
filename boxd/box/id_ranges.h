/* Ranges of user and group ids of the host, one for each box, never shared.
 *
 * A block of ranges is ours while we hold an abstract socket whose name has the block's number: the
 * kernel releases it when boxd ends, and nothing is left on disk. Two runtimes never have the same
 * block.
 */
#pragma once

#include <stdint.h>

struct box_id_ranges;

struct box_id_ranges *box_id_ranges_new(void);
void box_id_ranges_free(struct box_id_ranges *ids);

/* Takes a range of BOX_PLAN_ID_COUNT ids and returns its first id. 0, or -EAGAIN when all are taken. */
int box_id_ranges_take(struct box_id_ranges *ids, uint32_t *ret_first);
void box_id_ranges_release(struct box_id_ranges *ids, uint32_t first);
