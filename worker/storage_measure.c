/* What is asked of whom, in this order. */
#include "worker/storage_measure.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "protocol/boxd_client.h"
#include "runtime/backend/local.h"
#include "runtime/storage.h"

struct asked {
	struct box_local *native;
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

static void box_told(void *arg, const struct box_local_measured_parts *parts, int result)
{
	struct asked asked = *(struct asked *)arg;
	struct box_storage_measured measured = {.result = result};
	free(arg);
	measured.parts[BOX_STORAGE_WORKSPACE] = part_of(&parts->workspace);
	measured.parts[BOX_STORAGE_CACHE] = part_of(&parts->cache);
	measured.parts[BOX_STORAGE_TEMP] = part_of(&parts->temp);
	asked.done(asked.arg, &measured);
}

static void boxd_told(void *arg, const struct box_storage_measured *measured)
{
	struct asked *asked = arg;
	if (asked->box != 0 && measured->result == -EOPNOTSUPP) {
		box_local_measure(asked->native, asked->box, box_told, asked);
		return;
	}
	struct asked last = *asked;
	free(asked);
	last.done(last.arg, measured);
}

void box_storage_measure_start(struct box_boxd_client *link, struct box_local *native,
	const struct box_storage_measure *what, box_storage_measure_done *done, void *arg)
{
	struct asked *asked = box_alloc(sizeof(*asked));
	*asked = (struct asked){native, what->box, done, arg};
	box_boxd_client_measure(link, what, boxd_told, asked);
}
