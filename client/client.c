/* Requests on one connection: sent at once, answered in any order, each to its own callback.
 *
 * At most BOX_REQUESTS_MAX are pending, so a request is found by a linear search. State is changed
 * before a callback is called, because the callback may submit and cancel. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/answer.h"
#include "client/box.h"
#include "client/client_steps.h"
#include "client/connection/connection.h"

/* A child that died closed our socket a moment before waitid(2) can tell how. */
#define CHILD_MOMENT_MS 100

struct request {
	int64_t seq_id;
	bool stream;
	int64_t index;        /* of the last streamed answer */
	int64_t acknowledged; /* up to this index */
	box_client_answered *answered;
	void *arg;
};

struct box_client {
	struct box_connection connection;
	struct request requests[BOX_REQUESTS_MAX]; /* the first `count` of them */
	size_t count;
	int64_t last_seq_id;
	uint64_t answers;     /* that have come */
	bool keeps_child;     /* a child that does not end at once is left to the caller */
	struct box_err *lost; /* why the connection ended; NULL: it has not */
};

/* --- requests --- */

static struct request *find(struct box_client *client, int64_t seq_id)
{
	for (size_t i = 0; i < client->count; i++) {
		if (client->requests[i].seq_id == seq_id) {
			return &client->requests[i];
		}
	}
	return NULL;
}

/* The last one moves into its place. */
static void forget(struct box_client *client, struct request *request)
{
	*request = client->requests[--client->count];
}

static int send_request(struct box_client *client, int64_t seq_id, const char *action,
	const struct box_value *data, bool stream, struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_value context = box_map_value();
	struct box_value message = box_map_value();
	bool has_context = client->connection.workspace[0] != '\0';
	box_map_add(arena, &context, "instance_uuid", box_cstr(client->connection.instance));
	box_map_add(arena, &context, "workspace_uuid", box_cstr(client->connection.workspace));
	box_map_add(
		arena, &context, "placement_generation", box_int(client->connection.generation));
	box_map_add(arena, &message, "seq_id", box_int(seq_id));
	box_map_add(arena, &message, "action", box_cstr(action));
	box_map_add(arena, &message, "data", data ? *data : box_map_value());
	if (has_context) {
		box_map_add(arena, &message, "context", context);
	}
	if (stream) {
		box_map_add(arena, &message, "stream_flow_control", box_int(1));
	}
	int r = box_wire_send(&client->connection.wire, &message, err);
	box_arena_free(arena);
	return r;
}

static int submit(struct box_client *client, const char *action, const struct box_value *data,
	const struct request *form, int64_t *ret_seq_id, struct box_err *err)
{
	if (client->lost) {
		return box_err_set(err, client->lost->code, ENOTCONN, "%s", client->lost->text);
	}
	if (client->count >= BOX_REQUESTS_MAX) {
		return box_err_set(err, BOX_ERR_BUSY, EBUSY, "%d requests are pending already",
			BOX_REQUESTS_MAX);
	}
	int64_t seq_id = ++client->last_seq_id;
	int r = send_request(client, seq_id, action, data, form->stream, err);
	if (r < 0) {
		return r;
	}
	struct request *request = &client->requests[client->count++];
	*request = *form;
	request->seq_id = seq_id;
	if (ret_seq_id) {
		*ret_seq_id = seq_id;
	}
	return 0;
}

int box_client_submit(struct box_client *client, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	const struct request form = {.answered = answered, .arg = arg};
	return submit(client, action, data, &form, ret_seq_id, err);
}

int box_client_submit_stream(struct box_client *client, const char *action,
	const struct box_value *data, box_client_answered *answered, void *arg, int64_t *ret_seq_id,
	struct box_err *err)
{
	const struct request form = {.answered = answered, .arg = arg, .stream = true};
	return submit(client, action, data, &form, ret_seq_id, err);
}

/* Sends an action that concerns another request. Nobody waits for its answer, which says nothing new; one
 * that cannot be sent does not matter once the connection is lost. */
static void send_control(
	struct box_client *client, const char *action, int64_t seq_id, int64_t index)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "seq_id", box_int(seq_id));
	if (index > 0) {
		box_map_add(arena, &data, "index", box_int(index));
	}
	if (!client->lost) {
		(void)send_request(client, ++client->last_seq_id, action, &data, false, NULL);
	}
	box_arena_free(arena);
}

void box_client_taken(struct box_client *client, int64_t seq_id)
{
	struct request *request = find(client, seq_id);
	if (request && request->index - request->acknowledged >= BOX_STREAM_ACK_EVERY) {
		request->acknowledged = request->index;
		send_control(client, "__stream_ack", seq_id, request->index);
	}
}

void box_client_cancel(struct box_client *client, int64_t seq_id)
{
	struct request *request = find(client, seq_id);
	if (request) {
		forget(client, request);
		send_control(client, "__cancel_action", seq_id, 0);
	}
}

/* --- answers --- */

/* NULL, or what is wrong with a streamed answer. Answers use memory until they are taken, so no more may come
 * than the window allows. */
static const char *check_stream(struct request *request, const struct box_answer *answer)
{
	if (!request->stream || answer->err || answer->end) {
		return NULL;
	}
	if (answer->index != request->index + 1) {
		return "a streamed answer is out of order";
	}
	request->index = answer->index;
	return request->index - request->acknowledged > BOX_STREAM_WINDOW
		? "the runtime sent more than the stream window allows"
		: NULL;
}

static void deliver(struct box_client *client, const struct box_value *message)
{
	struct box_answer answer;
	struct box_err err;
	if (box_answer_parse(message, &answer, &err) < 0) {
		return; /* it answers no request */
	}
	client->answers++;
	struct request *request = find(client, answer.seq_id);
	if (!request) {
		return;
	}
	const char *why = check_stream(request, &answer);
	if (why) {
		send_control(client, "__cancel_action", answer.seq_id, 0);
		(void)box_err_set(&err, BOX_ERR_BOX, EPROTO, "%s", why);
		answer.err = &err;
	}
	bool last = answer.err || !request->stream || answer.end;
	const struct request pending = *request;
	if (last) {
		forget(client, request);
	}
	pending.answered(pending.arg, answer.err ? NULL : answer.data, answer.err, last);
}

/* Gives how the child ended; nothing when it has not ended yet and we do not wait. */
static void end_child(struct box_client *client, int moment_ms, char how[BOX_BOXD_CHILD_END_SIZE])
{
	struct box_connection *connection = &client->connection;
	struct pollfd ended = {.fd = connection->child.pidfd, .events = POLLIN};
	int again_ms;
	if (!client->keeps_child) {
		box_boxd_child_end(
			&connection->child, connection->log_line, connection->log_arg, how);
		return;
	}
	(void)poll(&ended, 1, moment_ms);
	(void)box_boxd_child_leave(
		&connection->child, 0, connection->log_line, connection->log_arg, how, &again_ms);
}

static void lose(struct box_client *client, const struct box_err *err, int moment_ms)
{
	char how[BOX_BOXD_CHILD_END_SIZE] = "";
	client->lost = box_alloc(sizeof(*client->lost));
	*client->lost = *err;
	box_connection_hang_up(&client->connection);
	if (client->connection.child.pid != 0) {
		end_child(client, moment_ms, how);
	}
	if (how[0] != '\0') {
		(void)box_err_set(
			client->lost, BOX_ERR_RUNTIME_UNAVAILABLE, err->errnum, "boxd %s", how);
	}
	while (client->count > 0) {
		const struct request request = client->requests[--client->count];
		request.answered(request.arg, NULL, client->lost, true);
	}
}

/* A runtime that closes the connection has often said why before: what it sent is read even when nothing
 * can be sent to it any more. */
static int turn(struct box_client *client, struct box_err *err)
{
	struct box_wire *wire = &client->connection.wire;
	struct box_message message;
	struct box_err unsent;
	int sent = box_wire_flush(wire, &unsent);
	int r = box_wire_read(wire, err);
	while (r == 0 && (r = box_wire_next(wire, &message, err)) == 1) {
		deliver(client, &message.value);
		box_arena_free(message.arena);
		r = 0;
	}
	if (r == 0 && sent < 0) {
		*err = unsent;
		return sent;
	}
	return r < 0 ? r : box_wire_flush(wire, err);
}

int box_client_step(struct box_client *client, struct box_err *err)
{
	struct box_err why;
	int r = client->lost ? 0 : 1;
	if (r == 1 && !box_connection_is_open(&client->connection)) {
		r = box_connection_step(&client->connection, &why);
	}
	if (r == 1) {
		r = turn(client, &why);
	}
	if (r < 0) {
		lose(client, &why, CHILD_MOMENT_MS);
	}
	if (client->lost) {
		return box_err_set(err, client->lost->code, ENOTCONN, "%s", client->lost->text);
	}
	return 0;
}

int box_client_fd(const struct box_client *client)
{
	return box_connection_fd(&client->connection);
}

short box_client_events(const struct box_client *client)
{
	return box_connection_events(&client->connection);
}

/* --- blocking --- */

int box_client_wait(struct box_client *client, int timeout_ms, struct box_err *err)
{
	struct pollfd ready = {.fd = box_client_fd(client), .events = box_client_events(client)};
	if (!client->lost && poll(&ready, 1, timeout_ms) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s", box_err_strerror(errno));
	}
	return box_client_step(client, err);
}

int box_client_call(struct box_client *client, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err)
{
	uint64_t until_ms = box_clock_ms() + (uint64_t)timeout_ms;
	struct box_answer_wait call = {.arena = arena, .err = err};
	int64_t seq_id = 0;
	int r = box_client_submit(client, action, data, box_answer_wait_take, &call, &seq_id, err);
	while (r == 0 && !call.done) {
		uint64_t now = box_clock_ms();
		if (now >= until_ms) {
			box_client_cancel(client, seq_id);
			return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
				"%s: no answer within %d ms", action, timeout_ms);
		}
		r = box_client_wait(client, (int)(until_ms - now), NULL);
		r = r == -EINTR || call.done ? 0 : r;
	}
	if (r == 0 && call.result == 0) {
		*ret_data = call.data;
	}
	return r < 0 ? r : call.result;
}

/* --- begin and end --- */

#define FIRST_ANSWER_MS 15000

int box_client_start(const struct box_client_options *options, int64_t after_seq_id,
	struct box_client **ret_client, struct box_err *err)
{
	struct box_client *client = box_alloc(sizeof(*client));
	client->last_seq_id = after_seq_id;
	client->keeps_child = true;
	int r = box_connection_start(options, &client->connection, err);
	if (r < 0) {
		box_client_close(client);
		return r;
	}
	*ret_client = client;
	return 0;
}

int box_client_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err)
{
	struct box_client *client;
	int r = box_client_start(options, 0, &client, err);
	if (r < 0) {
		return r;
	}
	client->keeps_child = false;
	while (r == 0 && !box_connection_is_open(&client->connection)) {
		/* A signal must not make it fail. */
		r = box_client_wait(client, box_client_timeout_ms(client), err);
		r = r == -EINTR ? 0 : r;
	}
	if (r < 0 && client->lost) {
		const struct box_err *lost = client->lost;
		r = box_err_set(err, lost->code, lost->errnum, "%s", lost->text);
	}
	if (r == 0) {
		struct box_value pong;
		struct box_arena *arena = box_arena_new();
		r = box_client_call(client, "__ping", NULL, FIRST_ANSWER_MS, arena, &pong, err);
		box_arena_free(arena);
	}
	if (r < 0) {
		box_client_close(client);
		return r;
	}
	*ret_client = client;
	return 0;
}

void box_client_close(struct box_client *client)
{
	if (!client) {
		return;
	}
	box_connection_close(&client->connection);
	free(client->lost);
	free(client);
}

const char *box_client_endpoint(const struct box_client *client)
{
	return client->connection.endpoint;
}

bool box_client_is_private(const struct box_client *client)
{
	return client->connection.private;
}

/* --- for line.c --- */

void box_client_keep_child_on_loss(struct box_client *client)
{
	client->keeps_child = true;
}

bool box_client_is_connected(const struct box_client *client)
{
	return box_connection_is_open(&client->connection);
}

int box_client_timeout_ms(const struct box_client *client)
{
	return box_connection_timeout_ms(&client->connection);
}

void box_client_disconnect(struct box_client *client, const struct box_err *why)
{
	if (!client->lost) {
		lose(client, why, 0);
	}
}

struct box_boxd_child box_client_take_child(struct box_client *client)
{
	const struct box_boxd_child child = client->connection.child;
	client->connection.child = (struct box_boxd_child){.pidfd = -1, .log_fd = -1};
	return child;
}

int64_t box_client_last_seq_id(const struct box_client *client)
{
	return client->last_seq_id;
}

uint64_t box_client_answer_count(const struct box_client *client)
{
	return client->answers;
}
