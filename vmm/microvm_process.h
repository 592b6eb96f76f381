/* The process that is the machine: libkrun, and nothing that it does not need. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "vmm/libkrun.h"

struct box_microvm_process {
	struct box_libkrun *krun;
	struct box_libkrun_guest guest; /* console_path and log_fd are set here */
	int console_fd;                 /* its stdout and stderr, and the guest's console */
	bool same_uid;                  /* it stays who we are */
	uint32_t uid;
	uint32_t gid;
	uint32_t landlock_abi;
};

/* Forks it. Its end is that of the guest; why there was none it says on its console. */
int box_microvm_process_start(
	const struct box_microvm_process *machine, pid_t *ret_pid, struct box_err *err);
