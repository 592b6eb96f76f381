/* How much there is in a box that only its own init can look into, a microVM. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "protocol/init_file.h"
#include "runtime/backend/backend_file.h"
#include "runtime/backend/local_internal.h"

struct measuring {
	struct box_backend_file_request ask;
	box_local_measure_done *done;
	void *arg;
};

static struct box_local_measured_part part_of(const struct box_init_file_part *part)
{
	return (struct box_local_measured_part){
		part->exists != 0, part->size_bytes, part->file_count};
}

static void told(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct measuring measuring = *(struct measuring *)arg;
	struct box_init_file_measured measured;
	struct box_local_measured_parts parts = {0};
	free(arg);
	int r = err ? -ESRCH : -outcome->errnum;
	r = r < 0 ? r : box_init_file_read_measured(outcome->data, &measured);
	if (r == 0) {
		parts.workspace = part_of(&measured.workspace);
		parts.cache = part_of(&measured.cache);
		parts.temp = part_of(&measured.temp);
	}
	measuring.done(measuring.arg, &parts, r);
}

void box_local_measure(
	struct box_local *native, uint64_t number, box_local_measure_done *done, void *arg)
{
	struct box_backend_box *box = box_local_find(native, number);
	struct box_local_measured_parts nothing = {0};
	if (!box) {
		done(arg, &nothing, -ESRCH);
		return;
	}
	struct measuring *measuring = box_alloc(sizeof(*measuring));
	*measuring = (struct measuring){
		.ask = {.kind = BOX_FILE_MEASURE,
			.path = {.place = BOX_PLAN_HOME "/.cache", .below = ""},
			.mode = -1},
		.done = done,
		.arg = arg,
	};
	(void)box_local_file(box, &measuring->ask, NULL, told, measuring);
}
