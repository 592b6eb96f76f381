/* The boot of box-init: the steps from exec to the event loop, in order. Called by main.c. */
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

/* Reports the result to the waiting parent, and closes the report fd. */
void box_boot_report(uint32_t step, int errnum);

/* The facts of the boot file; the mounter confines single commands with them. */
const struct box_boot *box_boot_facts(void);

/* Landlock with the rules of the box and, for writing, below `fds`. Does nothing if the ABI is 0. */
int box_boot_enter_landlock(const int *fds, size_t fd_count);
/* The seccomp filter of commands, and the mounter's. Each does nothing if there is none. */
int box_boot_install_filter(void);
int box_boot_install_mounter_filter(void);
