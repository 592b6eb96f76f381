/* The plain HTTP answers, as bytes: pages, refusals, and the errors of relays. For the acceptor. */
#pragma once

#include "base/buf.h"
#include "transport/gate.h"

struct box_err;
struct box_runtime;

/* Appends the whole answer to a verdict that is not a WebSocket. */
void box_http_answer_write(
	struct box_runtime *runtime, const struct box_gate_verdict *verdict, struct box_buf *out);

/* Appends a refusal: status line, headers, `body` as text/plain. */
void box_http_answer_refuse(int status, const char *body, bool head_only, struct box_buf *out);

/* Refuses a relay: 400 with the error as JSON. */
void box_http_answer_refuse_relay(const struct box_err *err, struct box_buf *out);
