/* Runs tests in a process of their own, which may enter namespaces, hang or crash. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Runs `work` in a child, and gives the `size` bytes of `result` as the child left them; the child begins with a
 * copy. 0, -ETIMEDOUT when it took longer, -ECHILD when it ended without a result. The child and its children
 * are gone then. Its stderr is ours with `verbose`, else /dev/null. */
int box_probe_child_run(void (*work)(void *arg, void *result), void *arg, void *result, size_t size,
	int timeout_ms, bool verbose);

/* For a child: enters a new user namespace as root, with no other id mapped. */
int box_probe_child_enter_userns(void);
/* The same, and a private mount namespace. */
int box_probe_child_enter_mounts(void);

/* Runs a step in a child of the child, and gives what it returned, 0 or negative. */
int box_probe_child_step(int (*step)(void *arg), void *arg);
