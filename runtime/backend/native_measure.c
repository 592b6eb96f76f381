/* How much there is in a box that only its own init can look into, a microVM. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "runtime/backend/file.h"
#include "runtime/backend/native_box.h"
#include "runtime/guest/wire_file.h"

struct measuring {
	struct box_file_ask ask;
	box_native_measured *done;
	void *arg;
};

static struct box_native_part part_of(const struct box_guest_file_part *part)
{
	return (struct box_native_part){part->exists != 0, part->size_bytes, part->file_count};
}

static void told(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct measuring measuring = *(struct measuring *)arg;
	struct box_guest_file_measured measured;
	struct box_native_parts parts = {0};
	free(arg);
	int r = err ? -ESRCH : -outcome->errnum;
	r = r < 0 ? r : box_guest_file_read_measured(outcome->data, &measured);
	if (r == 0) {
		parts.workspace = part_of(&measured.workspace);
		parts.cache = part_of(&measured.cache);
		parts.temp = part_of(&measured.temp);
	}
	measuring.done(measuring.arg, &parts, r);
}

void box_native_measure(
	struct box_native *native, uint64_t number, box_native_measured *done, void *arg)
{
	struct box_backend_box *box = box_native_find(native, number);
	struct box_native_parts nothing = {0};
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
	(void)box_native_file(box, &measuring->ask, NULL, told, measuring);
}
