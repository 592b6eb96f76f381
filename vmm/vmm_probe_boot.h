/* A guest that is started to see whether one starts. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "protocol/microvm.h"
#include "vmm/libkrun.h"

struct box_vmm_probe_boot {
	uint32_t took_ms;
	char text[BOX_MICROVM_TEXT_MAX]; /* of its console, when it failed */
};

/* 0 when box-init in it has spoken; whether it was content does not matter: it has nothing to be
 * content with. -ETIMEDOUT, or another -errno, with err. Nothing is left behind. */
int box_vmm_probe_boot(
	struct box_libkrun *krun, struct box_vmm_probe_boot *ret_boot, struct box_err *err);
