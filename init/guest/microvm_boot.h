/* What box-init does as PID 1 of a microVM, before what it does in every box: the work that boxd has
 * done for a native one. Behind it everything is where box_boot_run looks for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether we are PID 1 of a microVM: nobody gave us anything, and there is a boot file. */
bool box_microvm_boot_is_due(void);

/* 0; 1 when there is nothing to do but to report; or -errno with the step that failed. */
int box_microvm_boot_run(uint32_t *ret_step);

/* The end of the machine. `heard`: not before the host has read our report, or has had time to. */
_Noreturn void box_microvm_boot_end(bool heard);
