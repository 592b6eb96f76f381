/* The microVM process: it runs libkrun, without any privilege that libkrun does not need. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "vmm/libkrun.h"

struct box_microvm_process {
	struct box_libkrun *krun;
	struct box_libkrun_guest guest; /* console_path and log_fd are set here */
	int console_fd; /* write end of the guest's console, also its stdout and stderr */
	bool same_uid;  /* it keeps our ids */
	uint32_t uid;
	uint32_t gid;
	uint32_t landlock_abi;
};

/* Forks it. It ends with the guest. If it cannot start the guest, it prints the reason on the console. 0, or -errno
 * with err. */
int box_microvm_process_start(
	const struct box_microvm_process *microvm, pid_t *ret_pid, struct box_err *err);
