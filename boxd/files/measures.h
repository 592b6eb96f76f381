/* Folders of the host and boxes, measured by processes that boxd starts for that.
 *
 * A walk can take long and can hang in a file system: it is done by a child without privileges but
 * that to read, which is ended after BOX_MEASURE_MS and dies with boxd. What must wait waits in a
 * bounded queue, in which tenants take turns.
 */
#pragma once

#include <stdint.h>

#include "boxd/event_source.h"
#include "protocol/boxd.h"

struct box_boxes;
struct box_measures;
struct box_mount_roots;

/* The answer to one request, ready to be sent; may come from inside the call that asked. */
typedef void box_measures_done(void *arg, const struct box_boxd_measured *answer);

/* The roots must outlive it. */
struct box_measures *box_measures_new(struct box_boxes *boxes, struct box_mount_roots *mount_roots,
	box_measures_done *done, void *arg);
void box_measures_free(struct box_measures *measures);

void box_measures_folder(struct box_measures *measures, uint32_t id, const char *tenant,
	const char *path, const char *below);
void box_measures_box(struct box_measures *measures, uint32_t id, uint64_t box);
/* Whoever asked is gone: nothing of it is answered. */
void box_measures_drop_requests(struct box_measures *measures);

struct box_event_source box_measures_event_source(struct box_measures *measures);
