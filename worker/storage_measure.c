/* Asks boxd to measure; if boxd cannot look into the box, asks the box. */
#include "worker/storage_measure.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "protocol/boxd_client.h"
#include "runtime/backend/local.h"
#include "runtime/storage.h"

struct question {
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
	struct question question = *(struct question *)arg;
	struct box_storage_measured measured = {.result = result};
	free(arg);
	measured.parts[BOX_STORAGE_WORKSPACE] = part_of(&parts->workspace);
	measured.parts[BOX_STORAGE_CACHE] = part_of(&parts->cache);
	measured.parts[BOX_STORAGE_TEMP] = part_of(&parts->temp);
	question.done(question.arg, &measured);
}

static void boxd_measured(void *arg, const struct box_storage_measured *measured)
{
	struct question *question = arg;
	if (question->box != 0 && measured->result == -EOPNOTSUPP) {
		box_local_measure(question->local, question->box, box_measured, question);
		return;
	}
	struct question last = *question;
	free(question);
	last.done(last.arg, measured);
}

void box_storage_measure_start(struct box_boxd_client *boxd, struct box_local *local,
	const struct box_storage_measure *what, box_storage_measure_done *done, void *arg)
{
	struct question *question = box_alloc(sizeof(*question));
	*question = (struct question){local, what->box, done, arg};
	box_boxd_client_measure(boxd, what, boxd_measured, question);
}
