/* What each process of box-vmm may ask of the kernel, as data, and as the program that says so. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum box_syscall_rules_process {
	BOX_SYSCALL_RULES_MICROVM, /* libkrun and the threads it makes: what a guest can get at */
	BOX_SYSCALL_RULES_BRIDGE,
	BOX_SYSCALL_RULES_MOUNT_HELPER,
	BOX_SYSCALL_RULES_END_
};

/* A call may stand in several rows: one that fits is enough. What is in none fails with EPERM. All
 * compared arguments are taken by their low 32 bits, because that is all the kernel looks at in
 * them. */
struct box_syscall_rules_row {
	const char *name; /* NULL: the end of a table */
	int refused;      /* not 0: fails with this errno instead; then nothing is compared */
	unsigned arg;
	uint32_t mask; /* 0: whatever the arguments are */
	uint32_t value;
	int own; /* not 0: the argument must be our own pid */
};

extern const struct box_syscall_rules_row *const box_syscall_rules_tables[BOX_SYSCALL_RULES_END_];

/* Writes the program for a process with this pid to a file. 0, or -errno with err. */
int box_syscall_rules_export(
	enum box_syscall_rules_process which, uint32_t pid, int fd, struct box_err *err);

/* Goes behind it; no_new_privs is set already. 0, or -errno with err. */
int box_syscall_rules_enter(enum box_syscall_rules_process which, struct box_err *err);
