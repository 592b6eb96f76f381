/* What makes of a prepared box the one that is wanted. Until then box-init waits, for as long as it
 * takes; what it has to do afterwards is what a caller waits for. */
#pragma once

#include <stdbool.h>

/* Waits for the order. -EOWNERDEAD: there will be none. */
int box_boot_await_order(void);

/* Whether it said that the workspace has a quota. */
bool box_boot_wants_quota(void);

/* In a process that waits for none. */
void box_boot_close_order(void);

/* Attaches the workspace that came with it, if one was to come. */
int box_boot_attach_workspace(void);
