/* A request under way, as handlers see it.
 *
 * A handler is called once with a request whose envelope, context and fields are checked. It ends
 * the request exactly once, now or later, with a reply or a failure. A handler that waits sets
 * `cancel`, which is called when the request must end without an answer of its own: it stops the
 * work and does not touch the request again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/value.h"
#include "runtime/tenant.h"

struct box_action;
struct box_peer;
struct box_runtime;

struct box_request {
	struct box_list links; /* the peer's requests */
	struct box_peer *peer;
	struct box_runtime *runtime;
	const struct box_action *action;
	struct box_arena *arena; /* of the message; answers are built in it too */
	const struct box_value *data;
	struct box_context context; /* tenant actions only */
	bool is_operator;           /* received over the operator's own socket */
	struct box_value seq;
	int codec; /* the transport's, for the answer */
	uint64_t started_us;
	bool flow_control;  /* the client acknowledges what is streamed to it */
	int64_t parts_sent; /* the index of the last part of a stream */
	int64_t parts_acked;
	void (*cancel)(struct box_request *request);
	/* More may be sent on the connection again; NULL for requests that do not stream. */
	void (*drained)(struct box_request *request);
	void *work; /* the handler's, for these two */
};

/* Sends a part of a streamed answer; `index` 0: not numbered. The request stays pending. 0, or negative if
 * the connection is closing. */
int box_request_send_part(struct box_request *request, const struct box_value *data, int64_t index);
/* Sends the closing part, which is empty, and ends the request. */
void box_request_end_parts(struct box_request *request);
/* Whether so much waits to be sent on the connection that a stream should wait for `drained`. */
bool box_request_is_congested(const struct box_request *request);

/* --- request.c --- */

/* Whether a part of a stream may be sent now, by the state of the connection and the client's
 * acknowledgements. If not, `drained` is called later. */
bool box_request_may_send(const struct box_request *request);
/* Sends an event of a stream as its next part. */
void box_request_send_event(struct box_request *request, const struct box_value *event);
/* Adds bytes as `data` where the codec has bytes or they are text, else as `data_base64`. */
void box_request_add_data(const struct box_request *request, struct box_arena *arena,
	struct box_value *map, struct box_str bytes);
/* The same for an event of a stream, whose message has to be short: text that JSON makes much longer goes as
 * `data_base64` too. */
void box_request_add_part_data(const struct box_request *request, struct box_arena *arena,
	struct box_value *map, struct box_str bytes);
/* The bytes as base64. */
struct box_value box_request_base64(struct box_arena *arena, struct box_str bytes);
/* Reads the member `name` ("data", "path" ...; text or bytes) or NAME_base64; NULL bytes when the request has
 * neither. 0, or negative with err. */
int box_request_read_data(struct box_request *request, const char *name, struct box_str *ret_bytes,
	struct box_err *err);

/* Whether its codec has a type for bytes; if not, they are sent as text or base64. */
bool box_request_has_bytes(const struct box_request *request);

/* The streaming request with this seq_id on the connection of `asker`, of the same workspace and generation,
 * or NULL. */
struct box_request *box_request_find_stream(struct box_request *asker, int64_t seq_id);

/* Commands with live output, of all connections, by their exec_id. */
struct box_table;
struct box_table *box_request_exec_streams(struct box_request *request);

/* Ends the request with data. 0, or -EMSGSIZE when the answer does not fit a message: then the
 * request is still under way. */
int box_request_try_reply(struct box_request *request, const struct box_value *data);

/* As box_request_try_reply, but an answer that does not fit becomes an error. */
void box_request_reply(struct box_request *request, const struct box_value *data);

/* Ends the request with an error. */
void box_request_fail(struct box_request *request, const struct box_err *err);

/* The member of data that the action's table row has checked, or NULL when it was not sent. */
const struct box_value *box_request_field(const struct box_request *request, const char *name);

/* The physical id for data.session_id. 0, or negative with BOX_ERR_VALUE. */
int box_request_session_id(
	const struct box_request *request, char out[BOX_PHYSICAL_ID_SIZE], struct box_err *err);
