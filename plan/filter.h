/* Which system calls a command in a box may make: as tables, and as the compiled BPF program.
 *
 * For each call, and depending on its arguments, the tables say whether it is allowed;
 * box_filter_compile makes a BPF program of them. libseccomp is used only for the numbers of the calls.
 * box-init installs the program; it is linked with no library and gets the instructions as bytes.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum box_filter_profile {
	BOX_FILTER_DEFAULT, /* what build tools, languages and shells need */
	BOX_FILTER_STRICT,  /* a shell, coreutils, Python: fewer system calls */
	BOX_FILTERS_
};

/* One of the programs of a profile. */
struct box_filter_kind {
	enum box_filter_profile profile;
	bool network; /* for boxes with a network, which may read its interfaces by netlink */
	bool mounter; /* of the process that attaches mounts: what its commands have, and the calls
			 that attach a mount and install their filter */
};

struct box_filter {
	struct sock_filter *instructions;
	size_t count;
};

/* 0, or -errno with err. */
int box_filter_compile(
	struct box_filter_kind kind, struct box_filter *ret_filter, struct box_err *err);
void box_filter_free(struct box_filter *filter);

/* "default", "strict"; and back: negative for an unknown name. */
const char *box_filter_name(enum box_filter_profile profile);
int box_filter_find(const char *name);
