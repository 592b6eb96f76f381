/* Whether microVMs can be had here. boxd finds it out, once, and says it again with every microVM that
 * it makes or refuses: what was missing may be there later. */
#include <stdio.h>

#include "runtime/backend/native_box.h"

struct box_backend *box_native_machines(struct box_native *native)
{
	return &native->machines.base;
}

void box_native_machine_told(struct box_native *native, const struct box_err *err)
{
	if (!err) {
		native->machines_state = BOX_NATIVE_MACHINES_WORK;
	} else if (err->code == BOX_ERR_BACKEND_UNAVAILABLE) {
		native->machines_state = BOX_NATIVE_MACHINES_MISSING;
		(void)snprintf(native->machines_missing, sizeof(native->machines_missing), "%.*s",
			(int)sizeof(native->machines_missing) - 1, err->text);
	}
}

static void tried(void *arg, const struct box_err *err)
{
	struct box_native *native = arg;
	if (native->machines_state == BOX_NATIVE_MACHINES_ASKED) {
		native->machines_state = BOX_NATIVE_MACHINES_UNASKED;
	}
	box_native_machine_told(native, err);
}

void box_native_try_machines(struct box_native *native)
{
	if (native->machines_state == BOX_NATIVE_MACHINES_UNASKED) {
		native->machines_state = BOX_NATIVE_MACHINES_ASKED;
		native->keeper->try_machines(native->keeper_arg, tried, native);
	}
}

static void looked(void *arg, const struct box_err *err)
{
	struct box_native *native = arg;
	native->machines_looking = false;
	box_native_machine_told(native, err);
}

void box_native_look_at_machines(struct box_native *native)
{
	bool known = native->machines_state == BOX_NATIVE_MACHINES_WORK ||
		native->machines_state == BOX_NATIVE_MACHINES_MISSING;
	if (known && !native->machines_looking) {
		native->machines_looking = true;
		native->keeper->try_machines(native->keeper_arg, looked, native);
	}
}
