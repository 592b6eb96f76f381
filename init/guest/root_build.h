/* The root of a microVM's box, built from the root steps of its boot file. What a step does is
 * base/root_builder.c's, as for native boxes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_root_build {
	const char *steps; /* `count` struct box_root_step, the first a TMPFS at "/" */
	uint32_t count;
	uint32_t uid; /* of commands */
	uint32_t gid;
	/* A tree by its name, mounted nowhere: its fd, which is ours then, or -errno. */
	int (*open_tree)(const char *name);
};

/* Over what is "/" now: nobody sees it there before it is moved into. 0, or -errno with the step
 * that failed. `ret_writable` is the root for whoever makes mount points later. */
int box_root_build(
	const struct box_root_build *build, int *ret_root, int *ret_writable, uint32_t *ret_step);
