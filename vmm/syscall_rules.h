/* The seccomp allowlist of each process of box-vmm, as tables and as BPF programs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum box_syscall_rules_process {
	BOX_SYSCALL_RULES_MICROVM, /* libkrun and its threads: exposed to the guest */
	BOX_SYSCALL_RULES_BRIDGE,
	BOX_SYSCALL_RULES_MOUNT_HELPER,
	BOX_SYSCALL_RULES_END_
};

/* A system call may have several rows; one that matches is enough. A call without a matching row fails with EPERM.
 * Only the low 32 bits of arguments are compared, because the kernel uses no more of them. */
struct box_syscall_rules_row {
	const char *name; /* NULL: the end of a table */
	int refused;      /* not 0: fails with this errno, whatever its arguments are */
	unsigned arg;     /* index of the argument that is compared */
	uint32_t mask;    /* of the bits that are compared; 0: any arguments are allowed */
	uint32_t value;   /* of these bits */
	int own;          /* not 0: instead, the argument must be our own pid */
};

extern const struct box_syscall_rules_row *const box_syscall_rules_tables[BOX_SYSCALL_RULES_END_];

/* Writes the BPF program for a process with this pid to a file. 0, or -errno with err. */
int box_syscall_rules_export(
	enum box_syscall_rules_process which, uint32_t pid, int fd, struct box_err *err);

/* Installs the filter in this process, which has no_new_privs already. 0, or -errno with err. */
int box_syscall_rules_enter(enum box_syscall_rules_process which, struct box_err *err);
