/* From the options of a client to an open wire: a child is started, or TCP or a Unix socket is dialled
 * and a WebSocket opened on it. A step never blocks. */
#include "client/connection/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/loopback.h"
#include "base/utf8.h"
#include "client/answer.h"
#include "client/box.h"
#include "client/connection/dial.h"
#include "client/connection/server_owner.h"

#ifdef __linux__
#define CANNOT_SPAWN false
#else
#define CANNOT_SPAWN true /* there is no boxd */
#endif

#define SECRET_BYTES 32
#define SECRET_SIZE (2 * SECRET_BYTES + 1)
#define STATUS_RELAY_REFUSED 400
#define STATUS_UNAUTHORIZED 401

/* --- opening a WebSocket --- */

enum phase {
	DIALLING,
	HANDSHAKE, /* our request is sent and answered */
	REFUSED,   /* the reason, in the body of the answer, is read */
};

/* Who we are, and what for. The texts are not copied. */
struct identity {
	const char *instance;
	const char *token; /* NULL: none */
	/* Of a relay; all NULL for RPC. */
	const char *path;
	const char *workspace;
	int64_t generation;
	const char *protocol;
};

struct box_connection_opening {
	enum phase phase;
	struct box_endpoint endpoint;
	struct identity identity;
	struct box_dial *dial;
	struct box_ws_client_hello hello;
	struct box_wire wire;
	uint64_t until_ms;
	int status; /* when REFUSED */
};

/* Takes the dial. */
static struct box_connection_opening *opening_new(
	const struct box_endpoint *endpoint, const struct identity *identity, struct box_dial *dial)
{
	struct box_connection_opening *opening = box_alloc(sizeof(*opening));
	opening->endpoint = *endpoint;
	opening->identity = *identity;
	opening->wire.fd = -1;
	opening->until_ms = box_clock_ms() + BOX_HANDSHAKE_MS;
	opening->dial = dial;
	return opening;
}

static void opening_free(struct box_connection_opening *opening)
{
	if (opening) {
		box_dial_free(opening->dial);
		box_wire_close(&opening->wire);
		free(opening);
	}
}

static int opening_fd(const struct box_connection_opening *opening)
{
	return opening->phase == DIALLING ? box_dial_fd(opening->dial) : opening->wire.fd;
}

static short opening_events(const struct box_connection_opening *opening)
{
	if (opening->phase == DIALLING) {
		return box_dial_events(opening->dial);
	}
	return box_wire_pending(&opening->wire) ? POLLIN | POLLOUT : POLLIN;
}

static int opening_timeout_ms(const struct box_connection_opening *opening)
{
	uint64_t now = box_clock_ms();
	return now < opening->until_ms ? (int)(opening->until_ms - now) : 0;
}

/* --- the request --- */

static bool is_loopback(int fd)
{
	struct sockaddr_storage peer = {0};
	socklen_t size = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
		box_loopback_is((const struct sockaddr *)&peer);
}

static bool is_unix(const struct box_connection_opening *opening)
{
	return opening->endpoint.socket_path[0] != '\0';
}

static void start_wire(struct box_connection_opening *opening, int fd)
{
	opening->wire = (struct box_wire){
		.fd = fd,
		.loopback = is_unix(opening) || is_loopback(fd),
		.out = box_buf(BOX_OUT_BYTES_MAX),
	};
	opening->wire.in = box_alloc(BOX_WIRE_READ_BYTES);
	if (opening->wire.loopback && !is_unix(opening)) {
		box_loopback_disable_pacing(fd);
	}
	box_ws_client_reader_start(&opening->wire.ws);
}

/* Queues the request head on a socket that has connected; takes the fd. */
static int greet(struct box_connection_opening *opening, int fd, struct box_err *err)
{
	const struct identity *identity = &opening->identity;
	unsigned char key[BOX_WS_KEY_BYTES];
	opening->phase = HANDSHAKE;
	opening->until_ms = box_clock_ms() + BOX_HANDSHAKE_MS;
	start_wire(opening, fd);
	opening->hello = (struct box_ws_client_hello){
		.authority = is_unix(opening) ? "localhost" : opening->endpoint.authority,
		.path = identity->path ? identity->path : opening->endpoint.path,
		.instance = identity->instance,
		.token = identity->token,
		.workspace = identity->workspace,
		.generation = identity->generation,
		.protocol = identity->protocol,
	};
	if (opening->endpoint.is_default && !is_unix(opening)) {
		int r = box_server_owner_check(fd, opening->endpoint.authority, err);
		if (r < 0) {
			return r;
		}
	}
	if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
		abort();
	}
	box_ws_client_key(key, opening->hello.key);
	int r = box_ws_client_hello(&opening->wire.out, &opening->hello);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_VALUE, -r,
			"the instance id or the token has characters that an HTTP header cannot carry");
	}
	return 0;
}

/* --- the answer --- */

/* A runtime that says more than the name of the status says it in plain text, in one line. */
static bool has_reason(struct box_str body)
{
	return body.len > strlen("Unauthorized") && box_utf8_valid(body.bytes, body.len);
}

static int refused(const struct box_connection_opening *opening, int status, struct box_err *err)
{
	const struct box_wire *wire = &opening->wire;
	struct box_str body = box_str_strip(
		(struct box_str){wire->in + wire->in_used, wire->in_len - wire->in_used});
	if (status == STATUS_UNAUTHORIZED && has_reason(body)) {
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES, "%s denied access (401): %.*s",
			opening->endpoint.authority, (int)body.len, body.bytes);
	}
	if (status == STATUS_UNAUTHORIZED) {
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES,
			"%s denied access (401): LANGBOT_BOX_CONTROL_TOKEN is missing or wrong, or the "
			"runtime serves another instance than \"%.128s\"",
			opening->endpoint.authority, opening->hello.instance);
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EPROTO,
		"%s answered %d where boxd would open a WebSocket", opening->endpoint.authority,
		status);
}

/* The body says why, for a relay as JSON; it ends with the connection or at the timeout. */
static int report_refusal(struct box_connection_opening *opening, struct box_err *err)
{
	struct box_wire *wire = &opening->wire;
	struct box_err why;
	if (opening->status != STATUS_RELAY_REFUSED) {
		return refused(opening, opening->status, err);
	}
	box_answer_refusal(
		(struct box_str){wire->in + wire->in_used, wire->in_len - wire->in_used}, &why);
	return box_err_set(err, why.code, why.errnum, "%s", why.text);
}

static int read_answer(struct box_connection_opening *opening, struct box_err *err)
{
	struct box_wire *wire = &opening->wire;
	int status;
	const char *why;
	switch (box_ws_client_answer(
		wire->in, wire->in_len, &opening->hello, &wire->in_used, &status, &why)) {
	case BOX_WS_ANSWER_MORE:
		return 0;
	case BOX_WS_ANSWER_OPEN:
		return 1;
	case BOX_WS_ANSWER_REFUSED:
		if (status != STATUS_UNAUTHORIZED &&
			(!opening->hello.protocol || status != STATUS_RELAY_REFUSED)) {
			return refused(opening, status, err);
		}
		opening->status = status;
		opening->phase = REFUSED;
		return 0;
	case BOX_WS_ANSWER_BROKEN:
		break;
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EPROTO, "%s is not a boxd: %s",
		opening->endpoint.authority, why);
}

/* 1: something came. 0: nothing is there. -ECONNRESET: nothing will come. */
static int read_some(struct box_wire *wire)
{
	size_t room = BOX_WIRE_READ_BYTES - wire->in_len;
	ssize_t got = room > 0 ? recv(wire->fd, wire->in + wire->in_len, room, 0) : 0;
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	}
	wire->in_len += got > 0 ? (size_t)got : 0;
	return got > 0 ? 1 : -ECONNRESET;
}

static int converse(struct box_connection_opening *opening, struct box_err *err)
{
	int r = box_wire_flush(&opening->wire, err);
	if (r < 0) {
		return r;
	}
	while ((r = read_some(&opening->wire)) == 1) {
		int answer = opening->phase == HANDSHAKE ? read_answer(opening, err) : 0;
		if (answer != 0) {
			return answer;
		}
	}
	if (r == 0) {
		return 0;
	}
	if (opening->phase == REFUSED) {
		return report_refusal(opening, err);
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECONNRESET,
		"%s closed the connection without an answer", opening->endpoint.authority);
}

static int too_late(struct box_connection_opening *opening, struct box_err *err)
{
	if (opening->phase == REFUSED) {
		return report_refusal(opening, err);
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
		opening->phase == DIALLING ? "%s: Connection timed out" : "%s does not answer",
		opening->endpoint.authority);
}

/* 1: *wire is open and the caller's. 0: not yet. Negative: it will not be. */
static int opening_step(
	struct box_connection_opening *opening, struct box_wire *wire, struct box_err *err)
{
	int r = 1;
	int fd;
	if (opening->phase == DIALLING) {
		r = box_dial_step(opening->dial, &fd, err);
		if (r == 1 && greet(opening, fd, err) < 0) {
			return -EINVAL;
		}
	}
	if (r == 1) {
		r = converse(opening, err);
	}
	if (r == 1) {
		*wire = opening->wire;
		wire->websocket = true;
		opening->wire = (struct box_wire){.fd = -1};
	}
	return r == 0 && opening_timeout_ms(opening) == 0 ? too_late(opening, err) : r;
}

/* --- who we are, and where the runtime is --- */

struct box_endpoint_choice box_connection_choose(
	const struct box_client_options *options, enum box_endpoint_shares shares)
{
	const struct box_endpoint_facts facts = {
		.endpoint = options->endpoint,
		.standalone = options->standalone,
		.in_container = !options->spawn && box_endpoint_in_container(),
		.container_endpoint = options->container_endpoint,
		.cannot_spawn = CANNOT_SPAWN,
		.shares = shares,
	};
	return box_endpoint_choose(&facts);
}

static void connection_init(
	const struct box_client_options *options, struct box_connection *connection)
{
	*connection = (struct box_connection){
		.wire = {.fd = -1},
		.child = {.pidfd = -1, .log_fd = -1},
		.generation = options->generation ? options->generation : 1,
		.log_line = options->log_line,
		.log_arg = options->log_arg,
	};
	connection->workspace = box_strdup(
		options->workspace ? options->workspace : BOX_WORKSPACE_DEFAULT);
}

/* The given value, else that of a variable that is not empty, else the default. */
static const char *pick(const char *given, const char *variable, const char *otherwise)
{
	const char *value = given ? given : getenv(variable);
	return value && value[0] != '\0' ? value : otherwise;
}

/* Fills in the endpoint and our identity. Where no endpoint was given the operator's socket is tried
 * first, and *ret_fd is connected to it; -1 where it is not, or where its queue is full. */
static int address(const struct box_client_options *options,
	const struct box_endpoint_choice *choice, struct box_connection *connection,
	struct box_endpoint *ret_endpoint, int *ret_fd, struct box_err *err)
{
	const char *token = pick(options->token, "LANGBOT_BOX_CONTROL_TOKEN", NULL);
	*ret_fd = -1;
	if (!choice->is_default || !box_dial_find_operator(ret_endpoint, ret_fd)) {
		int r = box_endpoint_parse(choice->endpoint, ret_endpoint, err);
		if (r < 0) {
			return r;
		}
	}
	ret_endpoint->is_default = choice->is_default;
	bool is_operator = ret_endpoint->socket_path[0] != '\0';
	connection->instance = box_strdup(
		pick(options->instance, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID",
			is_operator ? BOX_INSTANCE_OPERATOR : BOX_INSTANCE_DEFAULT));
	connection->token = token ? box_strdup(token) : NULL;
	char text[sizeof(ret_endpoint->authority) + sizeof("ws://")];
	(void)snprintf(
		text, sizeof(text), "%s%s", is_operator ? "" : "ws://", ret_endpoint->authority);
	connection->endpoint = box_strdup(text);
	return 0;
}

static void make_secret(char out[SECRET_SIZE])
{
	unsigned char bytes[SECRET_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		abort();
	}
	box_hash_hex(bytes, sizeof(bytes), out);
}

/* A child gets an instance id and a token that nobody else knows: its port, which it opens for relays,
 * is of no use to other users of this machine. */
static int start_child(const struct box_client_options *options, struct box_connection *connection,
	struct box_err *err)
{
	char instance[SECRET_SIZE];
	char token[SECRET_SIZE];
	make_secret(instance);
	make_secret(token);
	const struct box_boxd_child_setup setup = {
		.config = options->config,
		.program = options->boxd,
		.instance = instance,
		.token = token,
		.show_log = options->show_log,
	};
	int fd;
	int r = box_boxd_child_start(&setup, &fd, &connection->child, err);
	if (r < 0) {
		return r;
	}
	connection->private = true;
	connection->instance = box_strdup(instance);
	box_wire_start_stdio(&connection->wire, fd);
	return 0;
}

/* --- the connection --- */

int box_connection_start(const struct box_client_options *options,
	struct box_connection *connection, struct box_err *err)
{
	const struct box_endpoint_choice choice = box_connection_choose(
		options, BOX_ENDPOINT_SHARES_DERIVED);
	struct box_endpoint endpoint;
	connection_init(options, connection);
	if (choice.transport == BOX_ENDPOINT_STDIO) {
		return start_child(options, connection, err);
	}
	int fd;
	int r = address(options, &choice, connection, &endpoint, &fd, err);
	if (r < 0) {
		return r;
	}
	const struct identity identity = {
		.instance = connection->instance, .token = connection->token};
	connection->opening = opening_new(&endpoint, &identity,
		fd >= 0 ? box_dial_adopt(&endpoint, fd) : box_dial_start(&endpoint));
	return 0;
}

bool box_connection_is_open(const struct box_connection *connection)
{
	return !connection->opening;
}

int box_connection_fd(const struct box_connection *connection)
{
	return connection->opening ? opening_fd(connection->opening) : connection->wire.fd;
}

short box_connection_events(const struct box_connection *connection)
{
	if (connection->opening) {
		return opening_events(connection->opening);
	}
	return box_wire_pending(&connection->wire) ? POLLIN | POLLOUT : POLLIN;
}

int box_connection_timeout_ms(const struct box_connection *connection)
{
	return connection->opening ? opening_timeout_ms(connection->opening) : -1;
}

int box_connection_step(struct box_connection *connection, struct box_err *err)
{
	int r = opening_step(connection->opening, &connection->wire, err);
	if (r == 1) {
		opening_free(connection->opening);
		connection->opening = NULL;
	}
	return r;
}

void box_connection_hang_up(struct box_connection *connection)
{
	opening_free(connection->opening);
	connection->opening = NULL;
	box_wire_close(&connection->wire);
}

void box_connection_close(struct box_connection *connection)
{
	char how[BOX_BOXD_CHILD_END_SIZE];
	box_connection_hang_up(connection);
	box_boxd_child_end(&connection->child, NULL, NULL, how);
	free(connection->instance);
	free(connection->token);
	free(connection->endpoint);
	free(connection->workspace);
	connection->instance = connection->token = connection->endpoint = NULL;
	connection->workspace = NULL;
}

/* --- relays --- */

int box_connection_address(const struct box_client_options *options,
	struct box_connection *connection, struct box_endpoint *ret_endpoint, struct box_err *err)
{
	const struct box_endpoint_choice choice = box_connection_choose(
		options, BOX_ENDPOINT_SHARES_DERIVED);
	connection_init(options, connection);
	if (choice.transport == BOX_ENDPOINT_STDIO) {
		return box_err_set(
			err, BOX_ERR_VALUE, ENOTSUP, "a boxd that we start has no relays");
	}
	_cleanup_(box_close_p) int ignored = -1;
	return address(options, &choice, connection, ret_endpoint, &ignored, err);
}

int box_connection_open_relay(struct box_connection *connection,
	const struct box_endpoint *endpoint, const char *path, const char *protocol,
	struct box_err *err)
{
	const struct identity identity = {
		.instance = connection->instance,
		.token = connection->token,
		.path = path,
		.workspace = connection->workspace[0] ? connection->workspace : NULL,
		.generation = connection->generation,
		.protocol = protocol,
	};
	struct box_connection_opening *opening = opening_new(
		endpoint, &identity, box_dial_start(endpoint));
	int r;
	while ((r = opening_step(opening, &connection->wire, err)) == 0) {
		struct pollfd ready = {
			.fd = opening_fd(opening), .events = opening_events(opening)};
		(void)poll(&ready, 1, opening_timeout_ms(opening));
	}
	opening_free(opening);
	return r < 0 ? r : 0;
}
