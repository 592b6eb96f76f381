/* Whether microVMs can be had here. boxd finds it out, once, and says it again with every microVM that
 * it makes or refuses: what was missing may be there later. */
#include <stdio.h>

#include "runtime/backend/local_internal.h"

struct box_backend *box_local_microvm_backend(struct box_local *native)
{
	return &native->machines.base;
}

void box_local_microvm_probed(struct box_local *native, const struct box_err *err)
{
	if (!err) {
		native->machines_state = BOX_LOCAL_MICROVM_WORKS;
	} else if (err->code == BOX_ERR_BACKEND_UNAVAILABLE) {
		native->machines_state = BOX_LOCAL_MICROVM_MISSING;
		(void)snprintf(native->machines_missing, sizeof(native->machines_missing), "%.*s",
			(int)sizeof(native->machines_missing) - 1, err->text);
	}
}

static void tried(void *arg, const struct box_err *err)
{
	struct box_local *native = arg;
	if (native->machines_state == BOX_LOCAL_MICROVM_PROBING) {
		native->machines_state = BOX_LOCAL_MICROVM_UNPROBED;
	}
	box_local_microvm_probed(native, err);
}

void box_local_probe_microvm(struct box_local *native)
{
	if (native->machines_state == BOX_LOCAL_MICROVM_UNPROBED) {
		native->machines_state = BOX_LOCAL_MICROVM_PROBING;
		native->keeper->try_machines(native->keeper_arg, tried, native);
	}
}

static void looked(void *arg, const struct box_err *err)
{
	struct box_local *native = arg;
	native->machines_looking = false;
	box_local_microvm_probed(native, err);
}

void box_local_probe_microvm_again(struct box_local *native)
{
	bool known = native->machines_state == BOX_LOCAL_MICROVM_WORKS ||
		native->machines_state == BOX_LOCAL_MICROVM_MISSING;
	if (known && !native->machines_looking) {
		native->machines_looking = true;
		native->keeper->try_machines(native->keeper_arg, looked, native);
	}
}
