/* Trying things in a process of its own, which may enter namespaces, hang or die. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Runs `work` in a child and gives what it wrote to `result`, `size` bytes that begin as they are
 * here. 0, -ETIMEDOUT when it took longer, -ECHILD when it ended without a result. After it nothing
 * of the child is left. Its stderr is ours when `verbose`, else nowhere. */
int box_probe_child_run(void (*work)(void *arg, void *result), void *arg, void *result, size_t size,
	int timeout_ms, bool verbose);

/* For a child: a user namespace of its own in which we are root, without any other id. */
int box_probe_child_enter_userns(void);
/* The same, and a mount namespace in which nothing that we mount is seen by others. */
int box_probe_child_enter_mounts(void);

/* Runs a step in a child of the child, which ends with it: what it returned, 0 or negative. */
int box_probe_child_step(int (*step)(void *arg), void *arg);
