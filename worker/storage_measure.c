/* Asks boxd to measure; if boxd cannot look into the box, asks the box. */
#include "worker/storage_measure.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "protocol/boxd_client.h"
#include "runtime/backend/local.h"
#include "runtime/storage.h"

struct request {
	struct box_local *local;
	uint64_t box; /* 0: a folder */
	box_storage_measure_done *done;
	void *arg;
};

static struct box_storage_measured_part part_of(const struct box_local_measured_part *part)
{
	return (struct box_storage_measured_part){
		.exists = part->exists,
		.size_bytes = part->size_bytes,
		.file_count = part->file_count,
	};
}

static void box_measured(void *arg, const struct box_local_measured_parts *parts, int result)
{
	struct request request = *(struct request *)arg;
	struct box_storage_measured measured = {.result = result};
	free(arg);
	measured.parts[BOX_STORAGE_WORKSPACE] = part_of(&parts->workspace);
	measured.parts[BOX_STORAGE_CACHE] = part_of(&parts->cache);
	measured.parts[BOX_STORAGE_TEMP] = part_of(&parts->temp);
	request.done(request.arg, &measured);
}

static void boxd_measured(void *arg, const struct box_storage_measured *measured)
{
	struct request *request = arg;
	if (request->box != 0 && measured->result == -EOPNOTSUPP) {
		box_local_measure(request->local, request->box, box_measured, request);
		return;
	}
	struct request last = *request;
	free(request);
	last.done(last.arg, measured);
}

void box_storage_measure_start(struct box_boxd_client *boxd, struct box_local *local,
	const struct box_storage_measure *what, box_storage_measure_done *done, void *arg)
{
	struct request *request = box_alloc(sizeof(*request));
	*request = (struct request){local, what->box, done, arg};
	box_boxd_client_measure(boxd, what, boxd_measured, request);
}
