/* The dispatcher: all peers of this process and the requests under way.
 *
 * One object serves a process. Peers (peer.h) are made for it; all requests are ended here when the runtime shuts
 * down. It knows no transport and no codec.
 */
#pragma once

#include <stddef.h>

struct box_dispatch;
struct box_runtime;

struct box_dispatch *box_dispatch_new(struct box_runtime *runtime);
void box_dispatch_free(struct box_dispatch *dispatch);

/* Requests of all peers that are not answered yet. */
size_t box_dispatch_request_count(const struct box_dispatch *dispatch);

/* Ends every request under way with BoxRuntimeUnavailableError. */
void box_dispatch_cancel_all(struct box_dispatch *dispatch);
