/* Admission: a pure decision over a request head, called by the acceptor.
 *
 * Takes the head and the policy, and returns a verdict as data: a plain HTTP page, a WebSocket to
 * hand over, or a refusal with its status. It keeps no state: the caller pins the instance.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "runtime/tenant.h"
#include "transport/http_head.h"

/* Room for a physical session id: the placement's prefix, the longest logical id, a NUL. */
#define BOX_GATE_SESSION_SIZE (64 + BOX_SESSION_ID_MAX)

struct box_gate_policy {
	const char *token;          /* NULL: none is required */
	const char *other_token;    /* equally valid; NULL: there is only one */
	const char *peer_refusal;   /* without a token: why the peer is refused, or NULL */
	const char *instance;       /* the pinned instance, NULL while there is none */
	const char *const *origins; /* NULL-terminated list of allowed Origin values, or NULL */
	bool is_operator;           /* it came over the operator's own socket */
	bool metrics_open;          /* everyone may read /metrics */
	bool unnamed;               /* a caller without an instance id is BOX_INSTANCE_UNNAMED */
	bool loopback_names_only;   /* Host must name this machine (no explicit --host) */
};

enum box_gate_kind {
	BOX_GATE_REFUSED, /* answer `status` with `body` */
	BOX_GATE_HEALTHZ,
	BOX_GATE_READYZ,
	BOX_GATE_METRICS,
	BOX_GATE_RPC,   /* a WebSocket for /rpc/ws */
	BOX_GATE_RELAY, /* a WebSocket for a managed process */
};

struct box_gate_verdict {
	enum box_gate_kind kind;
	int status;        /* of a refusal */
	const char *body;  /* of a refusal, text/plain; static, or the policy's `peer_refusal` */
	const char *why;   /* for the log, static */
	const char *allow; /* for 405: the allowed methods, static */
	bool head_only;    /* HEAD: the answer has no body */
	bool is_operator;  /* as in the policy */
	bool details;      /* for a page: the caller may see more than that the runtime is alive */
	char instance[BOX_INSTANCE_ID_MAX + 1];
	char websocket_key[25];
	bool offers_mcp; /* subprotocols the client offered */
	bool offers_box_v1;
	/* BOX_GATE_RELAY */
	char session_id[BOX_GATE_SESSION_SIZE]; /* physical; for BOX_INSTANCE_UNNAMED logical */
	char process_id[BOX_SESSION_ID_MAX + 1];
	char workspace[BOX_WORKSPACE_ID_MAX + 1];
	int64_t generation;
};

void box_gate_decide(const struct box_gate_policy *policy, const struct box_http_head *head,
	struct box_gate_verdict *ret_verdict);

/* Whether both are equal, in a time that depends on neither content nor length of the secret. */
bool box_gate_secret_equal(const char *secret, struct box_str given);

/* The standard phrase of a status, "Unauthorized" for 401. */
const char *box_gate_status_phrase(int status);
