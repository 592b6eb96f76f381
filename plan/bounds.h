/* What a box can take of the host, and what holds it: one row a resource, for people. Pure.
 *
 * `box doctor` and box_status name the rows that are not held here. What each number is stands in
 * base/limits.h, and in docs/security.md why.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was found on this host. */
struct box_bounds_facts {
	bool limits;    /* there are cgroups */
	bool sockets;   /* which count the buffers of TCP and UDP */
	bool id_ranges; /* each box has ids of its own */
	bool files;     /* fs.file-max has room for the share of a usual box */
};

enum box_bound {
	BOX_BOUND_PER_BOX,
	BOX_BOUND_SHARED, /* each box has a part of what one user may have: many boxes use it up */
	BOX_BOUND_NONE,
};

struct box_bounds_row {
	const char *resource;
	const char *by; /* what holds it, or why nothing does */
	enum box_bound held;
};

#define BOX_BOUNDS_ROWS_MAX 16

/* Every row, in the order of the document: how many. */
size_t box_bounds_list(
	const struct box_bounds_facts *facts, struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX]);
/* The resources that are held so, with commas between them, cut off where there is no room. */
void box_bounds_name(
	const struct box_bounds_facts *facts, enum box_bound held, char *text, size_t size);

/* Whether a usual box gets its share of fs.file-max (0: not known). */
bool box_bounds_has_files(uint64_t files_max);
