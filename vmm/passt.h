/* passt: connects a guest's network card to sockets in the box's own network namespace. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "protocol/microvm.h"

struct box_passt {
	const struct box_microvm_boot *facts; /* address, prefix, gateway */
	bool same_uid;
	int log_fd; /* for its error messages */
};

/* Starts it; it ends when its socket is closed or we die. 0 with the guest's end of the socket, or -errno with
 * err. */
int box_passt_start(
	const struct box_passt *passt, int *ret_fd, pid_t *ret_pid, struct box_err *err);
