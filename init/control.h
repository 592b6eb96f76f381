/* The control socket, seen from box-init: requests come in, answers go out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

struct box_control_request {
	struct box_init_header header;
	char *bytes; /* with one more byte behind them; good until the next receive */
	size_t size;
	int fd;     /* of MOUNT, PIPE, DRAIN and KEEP_IN: the receiver's to close; else -1 */
	int lack;   /* of a KEEP_IN without its fd: -errno; else 0 */
	int events; /* of a KEEP_IN in a microVM: of its group; the receiver's to close; else -1 */
};

/* Finds out once whether packets come whole or in a stream. */
void box_control_open(void);

/* 0; -EAGAIN when there is none; -EPIPE at the end; -EBADMSG for a malformed one, of which the
 * header is set, or all zero. */
int box_control_receive(struct box_control_request *ret_request);

/* Whether an answer waits to go out. Until it has gone nothing else may be sent. */
bool box_control_blocked(void);
/* Tries again. -EPIPE at the end. */
int box_control_flush(void);
/* Forgets the answer that waits. */
void box_control_drop(void);

/* Where BOX_INIT_BYTES_MAX bytes of the next answer can be put. */
char *box_control_buffer(void);
/* Sends an answer with the first `size` bytes of the room. */
void box_control_send_buffer(uint32_t kind, uint32_t id, size_t size);
void box_control_send(uint32_t kind, uint32_t id, const void *bytes, size_t size);
