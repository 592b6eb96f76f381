/* What a command in a box may ask of the kernel, as data, and as the program that says so.
 *
 * The tables say for each call, and by its arguments, whether it is answered; box_filter_compile
 * makes a BPF program of them. Of libseccomp it takes the numbers of the calls. The program is
 * installed by box-init, which links nothing: it gets the instructions as bytes.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum box_filter_profile {
	BOX_FILTER_DEFAULT, /* what build tools, languages and shells need */
	BOX_FILTER_STRICT,  /* a shell, coreutils, Python: less of the kernel */
	BOX_FILTERS_
};

/* One program of those that a profile has. */
struct box_filter_kind {
	enum box_filter_profile profile;
	bool network; /* of a box with a network: its interfaces can be read by netlink */
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
