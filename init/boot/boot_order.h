/* The order: the packet that assigns a warm box to a session, with its workspace. Until then box-init waits.
 * A client waits for the boot steps after it, so they are few. */
#pragma once

#include <stdbool.h>

/* A boot step: waits for the order. -EOWNERDEAD if boxd has closed the socket. */
int box_boot_await_order(void);

/* Whether the order announced a quota for the workspace. */
bool box_boot_wants_quota(void);

/* For a forked process that does not wait for the order. */
void box_boot_close_order(void);

/* A boot step: attaches the workspace that arrived with the order, if the boot file announced one. */
int box_boot_attach_workspace(void);
