/* Peers and their requests: which messages are accepted, in which order a request is checked, how it is
 * answered, and what ends it early.
 *
 * Called by transports (peer.h), handlers (request.h) and the program (dispatch.h). Knows the runtime, no
 * transport and no codec. */
#include "handlers/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/operator.h"
#include "base/table.h"
#include "handlers/actions.h"
#include "handlers/envelope.h"
#include "handlers/peer.h"
#include "handlers/read_queue.h"
#include "handlers/request.h"
#include "handlers/transfers.h"
#include "runtime/runtime.h"
#include "runtime/session/output.h"
#include "runtime/spec/fields.h"

struct box_dispatch {
	struct box_runtime *runtime;
	struct box_list peers;
	struct box_table streams;
	/* The request whose handler is running and has not ended it; or NULL. */
	const struct box_request *handled;
};

struct box_peer {
	struct box_list links;
	struct box_dispatch *dispatch;
	const struct box_peer_ops *ops;
	bool parent;
	void *connection;
	bool is_operator;
	char *instance; /* the instance it speaks for; NULL: the trusted one */
	struct box_list requests;
	size_t under_way[BOX_LANE_COUNT];
	struct box_transfers *files;
	struct box_read_queue reads;
};

static const size_t lane_limits[BOX_LANE_COUNT] = {
	[BOX_LANE_REQUEST] = BOX_REQUESTS_MAX,
	[BOX_LANE_CANCEL] = BOX_CANCELS_MAX,
	[BOX_LANE_ACK] = BOX_ACKS_MAX,
};

struct box_dispatch *box_dispatch_new(struct box_runtime *runtime)
{
	struct box_dispatch *dispatch = box_alloc(sizeof(*dispatch));
	dispatch->runtime = runtime;
	box_list_init(&dispatch->peers);
	for (size_t i = 0; i < box_actions_count && i < BOX_METRICS_ACTIONS_MAX; i++) {
		runtime->metrics.actions[i].name = box_actions[i].name;
	}
	return dispatch;
}

void box_dispatch_free(struct box_dispatch *dispatch)
{
	if (dispatch) {
		box_table_free(&dispatch->streams);
	}
	free(dispatch);
}

struct box_peer *box_peer_new(struct box_dispatch *dispatch, const struct box_peer_ops *ops,
	void *connection, const struct box_peer_identity *identity)
{
	struct box_peer *peer = box_alloc(sizeof(*peer));
	peer->dispatch = dispatch;
	peer->ops = ops;
	peer->connection = connection;
	peer->parent = identity->parent;
	peer->is_operator = identity->is_operator;
	peer->instance = identity->instance ? box_strdup(identity->instance) : NULL;
	peer->files = box_transfers_new(&dispatch->runtime->files_total_bytes);
	box_read_queue_init(&peer->reads, ops->congested, connection);
	box_list_init(&peer->requests);
	box_list_push(&dispatch->peers, &peer->links);
	return peer;
}

bool box_peer_is_parent(const struct box_peer *peer)
{
	return peer->parent;
}

struct box_transfers *box_peer_transfers(struct box_peer *peer)
{
	return peer->files;
}

struct box_read_queue *box_peer_read_queue(struct box_peer *peer)
{
	return &peer->reads;
}

/* --- answers --- */

static struct box_value answer_envelope(struct box_arena *arena, struct box_value seq, int code,
	struct box_value message, struct box_value data)
{
	struct box_value answer = box_map_value();
	box_map_add(arena, &answer, "seq_id", seq);
	box_map_add(arena, &answer, "code", box_int(code));
	box_map_add(arena, &answer, "message", message);
	box_map_add(arena, &answer, "data", data);
	box_map_add(arena, &answer, "chunk_status", box_cstr("continue"));
	return answer;
}

/* Clients look for `Name:` anywhere in the message. The name goes in front; the rest of the text may quote
 * the client, so whatever looks like a name in it is changed. Texts that came from boxd and box-skills were
 * cut at a number of bytes, possibly inside a character, and a message that is not valid UTF-8 would cost
 * the client its connection. */
static struct box_value error_message(struct box_arena *arena, const struct box_err *err)
{
	const char *name = box_code_name(err->code);
	struct box_str whole = box_output_repair(arena, box_str(err->text));
	char *text = box_arena_strndup(arena, whole.bytes, whole.len);
	for (char *at = text; (at = strstr(at, "Error:")); at++) {
		at[strlen("Error")] = ';';
	}
	return box_cstr(name ? box_arena_printf(arena, "%s: %s", name, text) : text);
}

static int send_error(struct box_peer *peer, struct box_arena *arena, struct box_value seq,
	int codec, const struct box_err *err)
{
	struct box_value answer = answer_envelope(
		arena, seq, 1, error_message(arena, err), box_map_value());
	return peer->ops->send(peer->connection, codec, &answer);
}

/* The instance that a connection speaks for. */
static const char *instance_of(const struct box_peer *peer)
{
	return peer->instance ? peer->instance : peer->dispatch->runtime->instance;
}

/* The first request that changes something makes its instance the trusted one. A refused request changes
 * nothing. */
static void claim(const struct box_request *request)
{
	if (request->action->claims && !request->is_operator) {
		box_runtime_pin_instance(request->runtime, box_str(instance_of(request->peer)));
	}
}

static void request_end(struct box_request *request, enum box_metrics_result result)
{
	struct box_runtime *runtime = request->runtime;
	struct box_dispatch *dispatch = request->peer->dispatch;
	if (dispatch->handled == request) {
		dispatch->handled = NULL;
		if (result == BOX_RESULT_OK) {
			claim(request);
		}
	}
	size_t row = (size_t)(request->action - box_actions);
	box_metrics_count(
		&runtime->metrics.actions[row], result, box_clock_us() - request->started_us);
	runtime->requests_under_way--;
	request->peer->under_way[request->action->lane]--;
	box_list_drop(&request->links);
	box_arena_free(request->arena);
}

/* A request whose generation has become stale gets no answer. */
static int check_still_current(const struct box_request *request, struct box_err *err)
{
	if (request->action->scope != BOX_SCOPE_TENANT) {
		return 0;
	}
	return box_generations_require_current(
		request->runtime->generations, &request->context, err);
}

int box_request_try_reply(struct box_request *request, const struct box_value *data)
{
	struct box_err err;
	if (check_still_current(request, &err) < 0) {
		box_request_fail(request, &err);
		return 0;
	}
	struct box_value answer = answer_envelope(
		request->arena, request->seq, 0, box_cstr("success"), *data);
	int r = request->peer->ops->send(request->peer->connection, request->codec, &answer);
	if (r == -EMSGSIZE) {
		return r;
	}
	request_end(request, BOX_RESULT_OK);
	return 0;
}

void box_request_reply(struct box_request *request, const struct box_value *data)
{
	if (box_request_try_reply(request, data) < 0) {
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_BOX, EMSGSIZE,
			"the answer does not fit a message of %lu bytes", BOX_MESSAGE_BYTES_MAX);
		box_request_fail(request, &err);
	}
}

/* Uses an arena of its own: a stream may never end, and neither may its request's arena. */
static int send_part(struct box_request *request, const struct box_value *data, int64_t index,
	const char *chunk_status)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value answer = answer_envelope(
		arena, request->seq, 0, box_cstr("success"), *data);
	box_map_set(arena, &answer, box_str("chunk_status"), box_cstr(chunk_status));
	if (index > 0) {
		box_map_add(arena, &answer, "stream_index", box_int(index));
	}
	return request->peer->ops->send(request->peer->connection, request->codec, &answer);
}

int box_request_send_part(struct box_request *request, const struct box_value *data, int64_t index)
{
	return send_part(request, data, index, "continue");
}

void box_request_end_parts(struct box_request *request)
{
	struct box_value nothing = box_map_value();
	(void)send_part(request, &nothing, 0, "end");
	request_end(request, BOX_RESULT_OK);
}

bool box_request_is_congested(const struct box_request *request)
{
	const struct box_peer *peer = request->peer;
	return peer->ops->congested && peer->ops->congested(peer->connection);
}

bool box_request_has_bytes(const struct box_request *request)
{
	const struct box_peer_ops *ops = request->peer->ops;
	return ops->has_bytes && ops->has_bytes(request->codec);
}

struct box_table *box_request_exec_streams(struct box_request *request)
{
	return &request->peer->dispatch->streams;
}

void box_peer_drained(struct box_peer *peer)
{
	struct box_list *next;
	for (struct box_list *at = peer->requests.next; at != &peer->requests; at = next) {
		struct box_request *request = BOX_CONTAINER_OF(at, struct box_request, links);
		next = at->next;
		if (request->drained) {
			request->drained(request);
		}
	}
	box_read_queue_resume(&peer->reads);
}

void box_request_fail(struct box_request *request, const struct box_err *err)
{
	(void)send_error(request->peer, request->arena, request->seq, request->codec, err);
	BOX_LOG(BOX_LOG_DEBUG, "request.failed", box_log_str("action", request->action->name),
		box_log_str("code", box_code_name(err->code)));
	request_end(request, BOX_RESULT_ERROR);
}

/* --- ending requests --- */

static void request_cancel(struct box_request *request)
{
	if (request->cancel) {
		request->cancel(request);
	}
	request_end(request, BOX_RESULT_CANCELLED);
}

static void cancel_and_fail(struct box_request *request, const struct box_err *err)
{
	if (request->cancel) {
		request->cancel(request);
	}
	box_request_fail(request, err);
}

void box_peer_free(struct box_peer *peer)
{
	if (!peer) {
		return;
	}
	/* The newest first, so that no read that waits for its turn begins now. */
	while (!box_list_empty(&peer->requests)) {
		request_cancel(BOX_CONTAINER_OF(peer->requests.prev, struct box_request, links));
	}
	box_list_drop(&peer->links);
	box_transfers_free(peer->files);
	free(peer->instance);
	free(peer);
}

/* The newest first: of a seq_id that was used twice the last use counts. */
static struct box_request *find_request(struct box_request *asker, int64_t seq_id)
{
	struct box_list *requests = &asker->peer->requests;
	for (struct box_list *at = requests->prev; at != requests; at = at->prev) {
		struct box_request *request = BOX_CONTAINER_OF(at, struct box_request, links);
		if (request != asker && request->action->scope == BOX_SCOPE_TENANT &&
			request->seq.type == BOX_INT && request->seq.integer == seq_id &&
			request->context.generation == asker->context.generation &&
			box_tenant_same_workspace(&request->context, &asker->context)) {
			return request;
		}
	}
	return NULL;
}

bool box_peer_cancel(struct box_request *asker, int64_t seq_id)
{
	struct box_request *request = find_request(asker, seq_id);
	if (request) {
		request_cancel(request);
	}
	return request != NULL;
}

struct box_request *box_request_find_stream(struct box_request *asker, int64_t seq_id)
{
	struct box_request *request = find_request(asker, seq_id);
	return request && request->drained ? request : NULL;
}

static bool is_stale(const struct box_request *request, const struct box_context *newer)
{
	return request->action->scope == BOX_SCOPE_TENANT &&
		request->context.generation < newer->generation &&
		box_tenant_same_workspace(&request->context, newer);
}

/* Fails the requests of older generations of a workspace, or, with `newer` NULL, all requests; the newest
 * first, as above. Requests must be ended before their session is removed. */
static void fail_older(
	struct box_dispatch *dispatch, const struct box_context *newer, const struct box_err *err)
{
	for (struct box_list *p = dispatch->peers.next; p != &dispatch->peers; p = p->next) {
		struct box_peer *peer = BOX_CONTAINER_OF(p, struct box_peer, links);
		struct box_list *prev;
		for (struct box_list *at = peer->requests.prev; at != &peer->requests; at = prev) {
			struct box_request *request = BOX_CONTAINER_OF(
				at, struct box_request, links);
			prev = at->prev;
			if (!newer || is_stale(request, newer)) {
				cancel_and_fail(request, err);
			}
		}
	}
}

void box_dispatch_cancel_all(struct box_dispatch *dispatch)
{
	struct box_err err;
	(void)box_err_set(
		&err, BOX_ERR_RUNTIME_UNAVAILABLE, ECANCELED, "Box runtime is shutting down");
	fail_older(dispatch, NULL, &err);
}

size_t box_dispatch_request_count(const struct box_dispatch *dispatch)
{
	return (size_t)dispatch->runtime->requests_under_way;
}

/* --- messages --- */

/* Since this connection was accepted, another instance may have become the trusted one. */
static int check_claim(const struct box_peer *peer, struct box_err *err)
{
	const char *trusted = peer->dispatch->runtime->instance;
	if (peer->is_operator || !trusted || strcmp(instance_of(peer), trusted) == 0) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_PERMISSION, EPERM,
		"Box runtime was claimed by another instance than %s, for which this connection "
		"speaks; it serves one instance until it is started again",
		instance_of(peer));
}

static int check_instance(const struct box_peer *peer, struct box_str instance, struct box_err *err)
{
	if (box_str_eq(instance, instance_of(peer)) ||
		(peer->is_operator &&
			(box_tenant_instance_id_valid(instance) ||
				box_str_eq(instance, BOX_INSTANCE_UNNAMED)))) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_PERMISSION, EPERM,
		"Box action context does not match the trusted instance%s",
		strcmp(instance_of(peer), BOX_INSTANCE_UNNAMED) == 0
			? ": none was named, by LANGBOT_BOX_TRUSTED_INSTANCE_UUID or when the "
			  "connection was made"
			: "");
}

static int check_context(const struct box_peer *peer, const struct box_action *action,
	struct box_envelope *envelope, struct box_err *err)
{
	const struct box_runtime *runtime = peer->dispatch->runtime;
	bool tenant = action->scope == BOX_SCOPE_TENANT;
	if (envelope->has_context) {
		return check_instance(peer, envelope->context.instance, err);
	}
	if (tenant && (runtime->config->require_context || runtime->config->admission.required)) {
		return box_err_set(err, BOX_ERR_PERMISSION, EPERM,
			"Box tenant action requires a trusted Workspace context");
	}
	envelope->context = (struct box_context){
		box_str(instance_of(peer)), box_str(""), .generation = 1};
	return 0;
}

static int check_fields(
	const struct box_action *action, const struct box_value *data, struct box_err *err)
{
	for (const struct box_action_field *field = action->fields; field->name; field++) {
		const struct box_value *value = box_map_get(data, field->name);
		if (!value || (value->type == BOX_NULL && !field->required)) {
			if (field->required) {
				return box_err_set(err, BOX_ERR_KEY, EINVAL, "'%s'", field->name);
			}
			continue;
		}
		if (value->type != field->type) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s must be %s, not %s",
				field->name, box_type_name(field->type),
				box_type_name(value->type));
		}
	}
	return 0;
}

/* Refuses a stale generation; a newer one ends the requests and sessions of the older ones. */
static int enter_generation(struct box_request *request, struct box_err *err)
{
	bool advanced = false;
	struct box_err stale;
	int r = box_runtime_enter_generation(request->runtime, &request->context, &advanced, err);
	if (r < 0 || !advanced) {
		return r;
	}
	(void)box_err_set(&stale, BOX_ERR_PERMISSION, EPERM, "Stale Box placement generation");
	fail_older(request->peer->dispatch, &request->context, &stale);
	box_sessions_retire(request->runtime->sessions, &request->context);
	return 0;
}

/* Everything that can refuse a request before its handler sees it, in order. */
static int admit(struct box_request *request, struct box_envelope *envelope, struct box_err *err)
{
	struct box_runtime *runtime = request->runtime;
	int r = check_claim(request->peer, err);
	if (r < 0) {
		return r;
	}
	r = check_context(request->peer, request->action, envelope, err);
	if (r < 0) {
		return r;
	}
	request->context = envelope->context;
	request->data = envelope->data;
	request->flow_control = envelope->flow_control;
	if (runtime->stopping) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECANCELED,
			"Box runtime is shutting down");
	}
	if (request->action->sandbox) {
		r = box_runtime_require_ready(runtime, err);
		if (r < 0) {
			return r;
		}
	}
	if (request->action->scope == BOX_SCOPE_TENANT) {
		r = enter_generation(request, err);
		if (r < 0) {
			return r;
		}
	}
	return check_fields(request->action, request->data, err);
}

static struct box_request *request_new(struct box_peer *peer, struct box_arena *arena,
	const struct box_action *action, struct box_value seq, int codec)
{
	struct box_request *request = box_arena_alloc(arena, sizeof(*request));
	request->peer = peer;
	request->runtime = peer->dispatch->runtime;
	request->action = action;
	request->arena = arena;
	request->seq = seq;
	request->codec = codec;
	request->is_operator = peer->is_operator;
	request->started_us = box_clock_us();
	box_list_push(&peer->requests, &request->links);
	peer->under_way[action->lane]++;
	request->runtime->requests_under_way++;
	return request;
}

/* Answers a message that is not accepted as a request. */
static void refuse(struct box_peer *peer, struct box_arena *arena, struct box_value seq, int codec,
	const struct box_err *err)
{
	(void)send_error(peer, arena, seq, codec, err);
	box_arena_free(arena);
}

static enum box_action_lane lane_of(const struct box_action *action)
{
	return action ? action->lane : BOX_LANE_REQUEST;
}

/* Makes a request of the message and checks it. NULL: it was refused, and the refusal was sent. */
static struct box_request *take_request(
	struct box_peer *peer, struct box_arena *arena, const struct box_value *message, int codec)
{
	struct box_value seq = box_envelope_seq(message);
	const struct box_value *name = box_map_get(message, "action");
	const struct box_action *action = name->type == BOX_STR ? box_action_find(name->str) : NULL;
	struct box_envelope envelope;
	struct box_err err;
	size_t max = lane_limits[lane_of(action)];
	if (peer->under_way[lane_of(action)] >= max) {
		(void)box_err_set(&err, BOX_ERR_BUSY, EBUSY,
			"Runtime connection is busy (max %zu concurrent actions)", max);
		refuse(peer, arena, seq, codec, &err);
		return NULL;
	}
	if (box_envelope_parse(arena, message, &envelope, &err) < 0) {
		refuse(peer, arena, seq, codec, &err);
		return NULL;
	}
	if (!action) {
		peer->dispatch->runtime->metrics.unknown_actions++;
		(void)box_err_set(&err, BOX_ERR_VALUE, ENOENT, "Action %s not found",
			box_fields_echo(arena, envelope.action));
		refuse(peer, arena, seq, codec, &err);
		return NULL;
	}
	struct box_request *request = request_new(peer, arena, action, seq, codec);
	if (admit(request, &envelope, &err) < 0) {
		box_request_fail(request, &err);
		return NULL;
	}
	return request;
}

void box_peer_receive(
	struct box_peer *peer, struct box_arena *arena, const struct box_value *message, int codec)
{
	const char *why = NULL;
	if (box_envelope_classify(message, &why) == BOX_ENVELOPE_IGNORED) {
		box_log_limit_warn(&peer->dispatch->runtime->ignored, 0, why);
		peer->dispatch->runtime->metrics.ignored_messages++;
		box_arena_free(arena);
		return;
	}
	struct box_request *request = take_request(peer, arena, message, codec);
	if (!request) {
		return;
	}
	struct box_dispatch *dispatch = peer->dispatch;
	dispatch->handled = request;
	request->action->handle(request);
	if (dispatch->handled) {
		claim(request); /* the work has begun */
		dispatch->handled = NULL;
	}
}

/* --- for handlers --- */

const struct box_value *box_request_field(const struct box_request *request, const char *name)
{
	const struct box_value *value = box_map_get(request->data, name);
	return value && value->type != BOX_NULL ? value : NULL;
}

int box_request_session_id(
	const struct box_request *request, char out[BOX_PHYSICAL_ID_SIZE], struct box_err *err)
{
	return box_tenant_physical_id(
		&request->context, box_request_field(request, "session_id")->str, out, err);
}
