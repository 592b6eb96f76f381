/* What box-init does as PID 1 of a microVM before the steps of every box: the work that boxd does for a native
 * box. Afterwards everything is where box_boot_run expects it. Called by main.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether we are PID 1 of a microVM: nothing was handed over, and there is a boot file. */
bool box_microvm_boot_is_due(void);

/* 0; 1 if there is nothing to do but report; or -errno with the step that failed. */
int box_microvm_boot_run(uint32_t *ret_step);

/* Ends the machine. `heard`: only after the host has read our report, or has had time to. */
_Noreturn void box_microvm_boot_end(bool heard);
