/* What is asked of whom, in this order. */
#include "worker/measure.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "runtime/backend/native.h"
#include "runtime/storage.h"
#include "worker/link.h"

struct asked {
	struct box_native *native;
	uint64_t box; /* 0: a folder */
	box_measured_done *done;
	void *arg;
};

static struct box_measured_part part_of(const struct box_native_part *part)
{
	return (struct box_measured_part){
		.exists = part->exists,
		.size_bytes = part->size_bytes,
		.file_count = part->file_count,
	};
}

static void box_told(void *arg, const struct box_native_parts *parts, int result)
{
	struct asked asked = *(struct asked *)arg;
	struct box_measured measured = {.result = result};
	free(arg);
	measured.parts[BOX_MEASURED_WORKSPACE] = part_of(&parts->workspace);
	measured.parts[BOX_MEASURED_CACHE] = part_of(&parts->cache);
	measured.parts[BOX_MEASURED_TEMP] = part_of(&parts->temp);
	asked.done(asked.arg, &measured);
}

static void boxd_told(void *arg, const struct box_measured *measured)
{
	struct asked *asked = arg;
	if (asked->box != 0 && measured->result == -EOPNOTSUPP) {
		box_native_measure(asked->native, asked->box, box_told, asked);
		return;
	}
	struct asked last = *asked;
	free(asked);
	last.done(last.arg, measured);
}

void box_measure_ask(struct box_link *link, struct box_native *native,
	const struct box_measure *what, box_measured_done *done, void *arg)
{
	struct asked *asked = box_alloc(sizeof(*asked));
	*asked = (struct asked){native, what->box, done, arg};
	box_link_measure(link, what, boxd_told, asked);
}
