/* The rules of calls that are many calls in one: setsockopt, prctl, fcntl and ioctl. For
 * filter_table.c alone. */
#pragma once

#include "plan/filter_table.h"

extern const struct box_filter_rule box_filter_setsockopt;
extern const struct box_filter_rule box_filter_setsockopt_strict;
extern const struct box_filter_rule box_filter_prctl;
extern const struct box_filter_rule box_filter_fcntl;
extern const struct box_filter_rule box_filter_ioctl;
