/* WebSocket connections, from an authenticated upgrade on; the only file that knows libwebsockets.
 *
 * Everything before that (heads, tokens, plain HTTP) is the door's. libwebsockets sees a request
 * head that we wrote ourselves, so no byte of a stranger reaches its HTTP parser.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/value.h"

struct box_dispatch;
struct box_runtime;
struct box_ws;

/* NULL when libwebsockets cannot start, usually because its libuv plugin is not installed. */
struct box_ws *box_ws_new(
	uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime);

/* Takes the socket of an upgrade that the gate let through. `key` is its Sec-WebSocket-Key, `rest`
 * what came behind the head. The fd is closed on failure too. */
int box_ws_adopt(struct box_ws *ws, int fd, const char *key, struct box_str rest);

size_t box_ws_count(const struct box_ws *ws);

/* Closes what has announced a message that is too large: libwebsockets tells of a frame only when
 * its first byte is there. To be called about once a second. */
void box_ws_tick(struct box_ws *ws);

/* Closes every connection with 1001 and `reason`. */
void box_ws_close_all(struct box_ws *ws, const char *reason);
