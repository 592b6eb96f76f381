/* A guest that is started to see whether one starts. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "runtime/guest/machine.h"
#include "runtime/vmm/libkrun.h"

struct box_probe_boot {
	uint32_t took_ms;
	char text[BOX_MACHINE_TEXT_MAX]; /* of its console, when it failed */
};

/* 0 when box-init in it has spoken; whether it was content does not matter: it has nothing to be
 * content with. -ETIMEDOUT, or another -errno, with err. Nothing is left behind. */
int box_probe_boot(struct box_krun *krun, struct box_probe_boot *ret_boot, struct box_err *err);
