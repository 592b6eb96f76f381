/* Which resources of the host a box can use, and what limits each, for people to read. Pure.
 *
 * `box doctor` and box_status list the rows without a limit. The numbers are in base/limits.h, the
 * reasons in docs/security.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was found on this host. */
struct box_bounds_facts {
	bool limits;    /* there are cgroups */
	bool sockets;   /* and they count the buffers of TCP and UDP */
	bool id_ranges; /* each box has ids of its own */
	bool files;     /* fs.file-max has room for the share of an ordinary box */
};

enum box_bound {
	BOX_BOUND_PER_BOX,
	BOX_BOUND_SHARED, /* each box has a part of one user's limit: many boxes together exhaust it */
	BOX_BOUND_NONE,
};

struct box_bounds_row {
	const char *resource;
	const char *by; /* what limits it, or why nothing does */
	enum box_bound held;
};

#define BOX_BOUNDS_ROWS_MAX 16

/* Writes every row, in the order of the document, and returns how many. */
size_t box_bounds_list(
	const struct box_bounds_facts *facts, struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX]);
/* The resources limited in this way, separated by commas, cut to the room. */
void box_bounds_name(
	const struct box_bounds_facts *facts, enum box_bound held, char *text, size_t size);

/* Whether an ordinary box gets its share of fs.file-max (0: unknown). */
bool box_bounds_has_files(uint64_t files_max);
