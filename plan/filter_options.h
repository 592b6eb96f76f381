/* Rules for the multiplexed calls setsockopt, prctl, fcntl and ioctl. Used by filter_table.c only. */
#pragma once

#include "plan/filter_table.h"

extern const struct box_filter_rule box_filter_setsockopt;
extern const struct box_filter_rule box_filter_setsockopt_strict;
extern const struct box_filter_rule box_filter_prctl;
extern const struct box_filter_rule box_filter_fcntl;
extern const struct box_filter_rule box_filter_ioctl;
