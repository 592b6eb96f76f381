/* The relay: a WebSocket that is the stdin and stdout of a managed process. Called by the acceptor. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "transport/gate.h"
#include "transport/ws.h"

struct box_process;
struct box_runtime;

enum box_ws_relay_decision {
	BOX_WS_RELAY_ACCEPTED,
	BOX_WS_RELAY_UNAUTHORIZED, /* 401 */
	BOX_WS_RELAY_REFUSED,      /* 400 with err */
};

/* Whether a relay that the gate let through is accepted, checked in the order of the protocol:
 * generation, admission, placement, session, process. */
enum box_ws_relay_decision box_ws_relay_decide(struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, struct box_process **ret_process,
	struct box_err *err);

/* The subprotocol of an accepted relay; NULL for none. */
const char *box_ws_relay_protocol(const struct box_gate_verdict *verdict);

/* Takes over the upgrade of an accepted relay; if it has become invalid since, the socket is closed. */
void box_ws_relay_accept(struct box_ws *ws, struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, const struct box_ws_upgrade *upgrade);
