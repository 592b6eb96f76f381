/* The relay: a WebSocket that is the stdin and stdout of a managed process. */
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

/* Whether a relay that the gate let through may come in, by the order of the protocol: fence,
 * admission, placement, session, process. */
enum box_ws_relay_decision box_ws_relay_decide(struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, struct box_process **ret_process,
	struct box_err *err);

/* The subprotocol for one that is welcome; NULL for none. */
const char *box_ws_relay_protocol(const struct box_gate_verdict *verdict);

/* Takes the upgrade of one that was welcome; if it is not any more, the socket is closed. */
void box_ws_relay_accept(struct box_ws *ws, struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, const struct box_ws_upgrade *upgrade);
