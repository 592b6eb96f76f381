/* What the EXIT of a command says about its end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/init.h"

/* Of a command that could not be started. */
struct box_init_exit box_run_exit_failed(uint32_t step, int errnum, uint32_t mount);

/* Of a command that has ended with `status` (of waitpid), or whose timeout has passed. `kills_before`
 * is the count of OOM kills when it began. Includes the usage of the workspace if that has a quota. */
struct box_init_exit box_run_exit_ended(
	int status, bool timed_out, uint64_t begin_ns, uint64_t kills_before);
