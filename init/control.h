/* The control socket as box-init sees it: requests from box-rpc come in, answers go out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

struct box_control_request {
	struct box_init_header header;
	char *bytes; /* after the header, with one more byte at the end; valid until the next receive */
	size_t size; /* of bytes */
	int fd; /* of MOUNT, PIPE, DRAIN and START_PROCESS_IN, owned by the receiver; else -1 */
	int fd_error;  /* why a START_PROCESS_IN in a microVM has no fd: -errno; else 0 */
	int events_fd; /* of START_PROCESS_IN in a microVM: memory.events of the cgroup, owned by the
			* receiver; else -1 */
};

/* To be called once: finds out whether the socket is a stream, as in a microVM, or keeps packets apart. */
void box_control_open(void);

/* 0; -EAGAIN if there is no request; -EPIPE at the end; -EBADMSG for a malformed request, of which
 * the header is set or all zero. */
int box_control_receive(struct box_control_request *ret_request);

/* Whether an answer waits to be sent. Nothing else may be sent until then. */
bool box_control_blocked(void);
/* Tries again to send it. -EPIPE at the end. */
int box_control_flush(void);
/* Forgets it, unless part of it was sent. */
void box_control_drop(void);

/* A buffer of BOX_INIT_BYTES_MAX bytes for the next answer. */
char *box_control_buffer(void);
/* Sends an answer with the first `size` bytes of that buffer. */
void box_control_send_buffer(uint32_t kind, uint32_t id, size_t size);
/* Sends an answer with a copy of `bytes`. */
void box_control_send(uint32_t kind, uint32_t id, const void *bytes, size_t size);
