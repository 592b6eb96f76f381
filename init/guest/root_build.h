/* Builds the root of a microVM's box from the root steps of its boot file. base/root_builder.c performs the
 * steps, as for native boxes. Called by microvm_boot.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_root_build {
	const char *steps; /* `count` struct box_root_step, the first a TMPFS at "/" */
	uint32_t count;
	uint32_t uid; /* the ids of commands */
	uint32_t gid;
	/* Returns a detached tree by its name as an fd, which becomes ours, or -errno. */
	int (*open_tree)(const char *name);
};

/* Mounts the root over the current "/", where nobody sees it before it is moved into. 0, or -errno with the
 * step that failed. `ret_writable` is the root for later creation of mount points. */
int box_root_build(
	const struct box_root_build *build, int *ret_root, int *ret_writable, uint32_t *ret_step);
