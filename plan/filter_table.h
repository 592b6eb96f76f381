/* The rows behind filter.h: each call's name and what each profile answers to it.
 *
 * Only filter.c and the tests look at them. All compared arguments are taken by their low 32 bits,
 * because that is all the kernel looks at in them: whoever sets the high ones gains nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/filter.h"

#define BOX_FILTER_MATCHES_MAX 2
#define BOX_FILTER_DONE (-1) /* a verdict: as if it had been done */

/* True when (argument & mask) == value; a mask of 0 ends the list. */
struct box_filter_match {
	unsigned arg;
	uint32_t mask;
	uint32_t value;
};

/* True when (argument & mask) is one of the values, in any order. */
struct box_filter_list {
	unsigned arg;
	uint32_t mask;
	const uint32_t *values;
	size_t count; /* 0: true */
};

/* True when all of its matches are and its list is. */
struct box_filter_case {
	struct box_filter_match all[BOX_FILTER_MATCHES_MAX];
	struct box_filter_list list;
	int verdict;
	bool network; /* only there where the box has a network */
};

/* The verdict of the first case that is true, else `otherwise`: 0 lets the call through,
 * BOX_FILTER_DONE answers it with 0, anything else is the errno it fails with. */
struct box_filter_rule {
	const struct box_filter_case *cases;
	size_t count;
	int otherwise;
};

struct box_filter_row {
	const char *name;
	int number; /* for calls younger than the libseccomp of old distributions; 0: none needed */
	const struct box_filter_rule *rules[BOX_FILTERS_];
};

extern const struct box_filter_row box_filter_rows[];
extern const size_t box_filter_rows_count;

/* What the mounter is answered instead, by name. */
extern const struct box_filter_row box_filter_mounter_rows[];
extern const size_t box_filter_mounter_rows_count;

/* The row's number on the machine this was built for, negative when there is no such call on it
 * (-ENOENT: nobody knows the name, which is a mistake in the row). */
int box_filter_number(const struct box_filter_row *row);
