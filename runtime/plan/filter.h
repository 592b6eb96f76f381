/* What a command in a box may ask of the kernel, as data, and as the program that says so.
 *
 * The tables say for each call whether it is answered; box_filter_compile makes a BPF program of
 * them with libseccomp, which besides only the fence of a ferry includes in boxd. The program is
 * installed by box-init, which links nothing: it gets the instructions as bytes.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

enum box_filter_profile {
	BOX_FILTER_DEFAULT, /* what build tools, languages and shells need */
	BOX_FILTER_STRICT,  /* a shell, coreutils, Python: less of the kernel */
	BOX_FILTERS_
};

struct box_filter {
	struct sock_filter *instructions;
	size_t count;
};

/* 0, or -errno with err. */
int box_filter_compile(
	enum box_filter_profile profile, struct box_filter *ret_filter, struct box_err *err);
void box_filter_free(struct box_filter *filter);

/* "default", "strict"; and back: negative for an unknown name. */
const char *box_filter_name(enum box_filter_profile profile);
int box_filter_find(const char *name);
