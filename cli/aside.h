/* With version 2 of cgroups, whoever makes groups for boxes first moves all that is in our own
 * group into a leaf below it. A command that only tries must put that back. */
#pragma once

#include <stdbool.h>

#define BOX_ASIDE_LEAF "keeper" /* as runtime/keeper/cgroup_v2.c names it */

struct box_aside {
	int own;            /* our group, or -1 when nothing is to be put back */
	char controls[128]; /* what it gave to groups below at the start */
};

/* Remembers where we are, before anything is tried. */
void box_aside_begin(struct box_aside *aside);
/* Back into our own group, and the leaf removed; if others live from it by now, it stays. */
void box_aside_end(struct box_aside *aside);
