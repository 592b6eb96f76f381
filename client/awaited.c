/* An answer outlives the message that it came in: it is copied. */
#include "client/awaited.h"

#include "base/arena.h"

void box_awaited_take(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_awaited *awaited = arg;
	(void)last;
	awaited->done = true;
	if (err) {
		awaited->result = box_err_set(
			awaited->err, err->code, err->errnum, "%s", err->text);
	} else {
		awaited->data = box_value_copy(awaited->arena, data);
	}
}
