/* The dispatcher: all peers of this process and their pending requests.
 *
 * There is one dispatcher in a process. Transports make peers for it (peer.h); when the runtime shuts down, it
 * ends all requests. It knows no transport and no codec.
 */
#pragma once

#include <stddef.h>

struct box_dispatch;
struct box_runtime;

struct box_dispatch *box_dispatch_new(struct box_runtime *runtime);
void box_dispatch_free(struct box_dispatch *dispatch);

/* The number of requests, of all peers, that are not answered yet. */
size_t box_dispatch_request_count(const struct box_dispatch *dispatch);

/* Ends every pending request with BoxRuntimeUnavailableError. */
void box_dispatch_cancel_all(struct box_dispatch *dispatch);
