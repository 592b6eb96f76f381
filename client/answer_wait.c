/* An answer outlives the message that it came in: it is copied. */
#include "client/answer_wait.h"

#include "base/arena.h"

void box_answer_wait_take(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_answer_wait *awaited = arg;
	(void)last;
	awaited->done = true;
	if (err) {
		awaited->result = box_err_set(
			awaited->err, err->code, err->errnum, "%s", err->text);
	} else {
		awaited->data = box_value_copy(awaited->arena, data);
	}
}
