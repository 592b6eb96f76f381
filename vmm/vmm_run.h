/* From exec to the bridge: what box-vmm does in a box that boxd has made. */
#pragma once

/* Returns when the box is over: 0, or 1 when it never was ready. */
int box_vmm_run(void);
