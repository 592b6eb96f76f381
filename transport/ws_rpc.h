/* RPC over a WebSocket: messages decoded and given to the dispatcher, answers encoded. */
#pragma once

#include "transport/ws.h"

struct box_dispatch;
struct box_runtime;
struct box_peer_identity;

/* Takes over an upgrade that the gate let through. */
void box_ws_rpc_accept(struct box_ws *ws, struct box_dispatch *dispatch,
	struct box_runtime *runtime, const struct box_peer_identity *speaker,
	const struct box_ws_upgrade *upgrade);
