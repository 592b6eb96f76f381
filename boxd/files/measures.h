/* Measures the size of folders of the host and of boxes, in child processes.
 *
 * A walk can take long, and can hang in a file system: a child does it that has only the privilege to
 * read, is killed after BOX_MEASURE_MS and dies with boxd. Further requests wait in a bounded fair
 * queue. Owned by rpc/serve.c.
 */
#pragma once

#include <stdint.h>

#include "boxd/event_source.h"
#include "protocol/boxd.h"

struct box_boxes;
struct box_measures;
struct box_mount_roots;

/* The answer to one request, ready to be sent; may be called from inside the request. */
typedef void box_measures_done(void *arg, const struct box_boxd_measured *answer);

/* The mount roots must outlive it. */
struct box_measures *box_measures_new(struct box_boxes *boxes, struct box_mount_roots *mount_roots,
	box_measures_done *done, void *arg);
void box_measures_free(struct box_measures *measures);

void box_measures_folder(struct box_measures *measures, uint32_t id, const char *tenant,
	const char *path, const char *below);
void box_measures_box(struct box_measures *measures, uint32_t id, uint64_t box);
/* box-rpc is gone: its requests get no answers. */
void box_measures_drop_requests(struct box_measures *measures);

struct box_event_source box_measures_event_source(struct box_measures *measures);
