/* From exec to the loop: what box-init does to itself, in order. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

/* Points into the boot file, which stays mapped. */
struct box_boot {
	struct box_init_boot facts;
	const struct box_init_path_rule *rules;
	const struct sock_filter *filter;
	const struct sock_filter *mounter_filter;
	size_t mapped_size;
};

/* 0, or -errno with the step that failed. */
int box_boot_run(uint32_t *ret_step);

/* Tells the one who waits, and closes the report fd. */
void box_boot_report(uint32_t step, int errnum);

/* What is known of the box; the mounter fences single commands with it. */
const struct box_boot *box_boot_facts(void);

/* Landlock by the rules of the box and, for writing, below `fds`. Does nothing on an ABI of 0. */
int box_boot_enter_landlock(const int *fds, size_t fd_count);
/* The filter of commands, and that of the mounter. Each does nothing where there is none. */
int box_boot_install_filter(void);
int box_boot_install_mounter_filter(void);
