/* The table behind filter.h: each call's name and the answer of each profile.
 *
 * Used by filter.c and tests only. All arguments are compared by their low 32 bits, because the kernel
 * uses no more of these arguments: setting high bits gains nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/filter.h"

#define BOX_FILTER_MATCHES_MAX 2
#define BOX_FILTER_DONE (-1) /* a verdict: succeeds without being done */

/* Matches when (argument & mask) == value; a mask of 0 ends the list. */
struct box_filter_match {
	unsigned arg;
	uint32_t mask;
	uint32_t value;
};

/* Matches when (argument & mask) is one of the values, in any order. */
struct box_filter_list {
	unsigned arg;
	uint32_t mask;
	const uint32_t *values;
	size_t count; /* 0: always matches */
};

/* Applies when all its matches and its list match. */
struct box_filter_case {
	struct box_filter_match all[BOX_FILTER_MATCHES_MAX];
	struct box_filter_list list;
	int verdict;
	bool network; /* only in boxes with a network */
};

/* The verdict of the first case that applies, else `otherwise`: 0 allows the call, BOX_FILTER_DONE
 * returns 0 without doing it, anything else is the errno it fails with. */
struct box_filter_rule {
	const struct box_filter_case *cases;
	size_t count;
	int otherwise;
};

struct box_filter_row {
	const char *name;
	int number; /* for calls newer than the libseccomp of old distributions; 0: not needed */
	const struct box_filter_rule *rules[BOX_FILTERS_];
};

extern const struct box_filter_row box_filter_rows[];
extern const size_t box_filter_rows_count;

/* Different answers for the mounter, by name. */
extern const struct box_filter_row box_filter_mounter_rows[];
extern const size_t box_filter_mounter_rows_count;

/* The row's system call number on the build machine's architecture; negative if that lacks the call
 * (-ENOENT: the name is unknown, which is a mistake in the row). */
int box_filter_number(const struct box_filter_row *row);
