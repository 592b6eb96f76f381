/* What box-vmm does in a box that boxd has prepared. */
#pragma once

/* Returns when the box has ended: 0, or 1 if it never was ready. */
int box_vmm_run(void);
