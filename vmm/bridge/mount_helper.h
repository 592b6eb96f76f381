/* The mounts of single commands in the share of a microVM: their numbers, and the mount helper, a process
 * that attaches and detaches them.
 *
 * The mount helper keeps CAP_SYS_ADMIN over the box's own user namespace. It receives packets from the bridge
 * only, and never sees a byte that a guest has sent: only numbers that the bridge chose, and fds from boxd. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

/* Forks it. `folder` is an fd of BOX_MICROVM_MOUNTS, the only one that the child keeps besides its socket.
 * Returns our end of that and its pid. 0, or -errno with err. */
int box_mount_helper_start(int folder, int *ret_socket, pid_t *ret_pid, struct box_err *err);

/* Requests that a detached mount is attached; the fd stays the caller's. The next request only after the
 * answer. 0 or -EPIPE. */
int box_mount_helper_attach(int socket, uint32_t number, int mount_fd);
/* 0 if it was attached; 1 if not, then nothing has this number; -EAGAIN; -EPIPE. */
int box_mount_helper_answer(int socket);
/* Requests that a mount is detached, if it exists. 0 or -EPIPE. */
int box_mount_helper_detach(int socket, uint32_t number);

/* What the child does with one packet, exported for tests: 0, or -EPIPE at the end. */
int box_mount_helper_serve(int socket, int folder);

/* --- numbers --- */

#define BOX_MOUNT_NUMBERS_NONE UINT32_MAX /* no mount ever has this number */

/* Which mounts are attached, and for which command. A number is used once only, so that a guest that
 * remembers it finds nothing, or what it had before. Pure. */
struct box_mount_numbers {
	uint32_t last; /* the last number that was used */
	size_t count;
	struct {
		uint32_t number;
		uint32_t id; /* of the command */
	} list[BOX_VMM_MOUNTS_MAX];
};

/* A new number for a mount of the command; BOX_MOUNT_NUMBERS_NONE if all were used or too many mounts are
 * attached. */
uint32_t box_mount_helper_take_number(struct box_mount_numbers *mounts, uint32_t id);
/* Removes one mount of the command; 0 if it has none. */
uint32_t box_mount_helper_drop_number(struct box_mount_numbers *mounts, uint32_t id);
/* Removes one mount with a number up to `last` that is not a managed process's; 0 if there is none. */
uint32_t box_mount_helper_drop_number_upto(struct box_mount_numbers *mounts, uint32_t last);
