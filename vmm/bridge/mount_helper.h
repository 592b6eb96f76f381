/* The process that hangs the mounts of single commands into the share, and takes them away. It keeps
 * CAP_SYS_ADMIN over the box's own user namespace, hears nobody but the bridge, and never sees a byte
 * that a guest has sent: only numbers that the bridge has given, and fds that came from boxd. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Forks it. `folder` is an fd of BOX_MICROVM_MOUNTS; it is the child's only one besides its socket.
 * 0 with our end of that and its pid. */
int box_mount_helper_start(int folder, int *ret_socket, pid_t *ret_pid, struct box_err *err);

/* Wants a detached mount hung; the fd stays the caller's. One at a time, then the answer. */
int box_mount_helper_attach(int socket, uint32_t number, int mount_fd);
/* 0 when it hangs, 1 when it does not (nothing is there then), or -EAGAIN or -EPIPE. */
int box_mount_helper_answer(int socket);
/* Wants one taken away, if it is there. */
int box_mount_helper_detach(int socket, uint32_t number);

/* What the child does with one packet of its socket, for tests: 0, or -EPIPE at the end. */
int box_mount_helper_serve(int socket, int folder);
