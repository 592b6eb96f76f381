/* From an address to an open WebSocket, in steps of which none waits: TCP, our hello, its answer. A
 * relay that is refused is told why in the body behind the answer, which is read to its end. */
#include "client/connection/ws_connect.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/loopback.h"
#include "base/utf8.h"
#include "client/answer.h"
#include "client/connection/server_owner.h"

#define STATUS_RELAY_REFUSED 400
#define STATUS_UNAUTHORIZED 401

enum phase {
	DIALLING,
	GREETING, /* our hello is sent and answered */
	REFUSED,  /* the reason is read */
};

struct box_ws_connect {
	enum phase phase;
	struct box_endpoint endpoint;
	struct box_ws_connect_identity who;
	struct box_dial *dial;
	struct box_ws_client_hello hello;
	struct box_wire wire;
	uint64_t until_ms;
	int status; /* when REFUSED */
};

static struct box_ws_connect *reach_new(const struct box_endpoint *endpoint,
	const struct box_ws_connect_identity *who, struct box_dial *dial)
{
	struct box_ws_connect *reach = box_alloc(sizeof(*reach));
	reach->endpoint = *endpoint;
	reach->who = *who;
	reach->wire.fd = -1;
	reach->until_ms = box_clock_ms() + BOX_HANDSHAKE_MS;
	reach->dial = dial;
	return reach;
}

struct box_ws_connect *box_ws_connect_start(
	const struct box_endpoint *endpoint, const struct box_ws_connect_identity *who)
{
	return reach_new(endpoint, who, box_dial_start(endpoint));
}

struct box_ws_connect *box_ws_connect_adopt(
	const struct box_endpoint *endpoint, const struct box_ws_connect_identity *who, int fd)
{
	return reach_new(endpoint, who, box_dial_adopt(endpoint, fd));
}

void box_ws_connect_free(struct box_ws_connect *reach)
{
	if (reach) {
		box_dial_free(reach->dial);
		box_wire_close(&reach->wire);
		free(reach);
	}
}

int box_ws_connect_fd(const struct box_ws_connect *reach)
{
	return reach->phase == DIALLING ? box_dial_fd(reach->dial) : reach->wire.fd;
}

short box_ws_connect_events(const struct box_ws_connect *reach)
{
	if (reach->phase == DIALLING) {
		return box_dial_events(reach->dial);
	}
	return box_wire_pending(&reach->wire) ? POLLIN | POLLOUT : POLLIN;
}

int box_ws_connect_timeout_ms(const struct box_ws_connect *reach)
{
	uint64_t now = box_clock_ms();
	return now < reach->until_ms ? (int)(reach->until_ms - now) : 0;
}

/* --- the hello --- */

static bool is_loopback(int fd)
{
	struct sockaddr_storage peer = {0};
	socklen_t size = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
		box_loopback_is((const struct sockaddr *)&peer);
}

static bool is_unix(const struct box_ws_connect *reach)
{
	return reach->endpoint.socket_path[0] != '\0';
}

static int greet(struct box_ws_connect *reach, int fd, struct box_err *err)
{
	const struct box_ws_connect_identity *who = &reach->who;
	unsigned char key[BOX_WS_KEY_BYTES];
	reach->phase = GREETING;
	reach->until_ms = box_clock_ms() + BOX_HANDSHAKE_MS;
	reach->wire = (struct box_wire){
		.fd = fd,
		.loopback = is_unix(reach) || is_loopback(fd),
		.out = box_buf(BOX_OUT_BYTES_MAX),
	};
	reach->wire.in = box_alloc(BOX_WIRE_READ_BYTES);
	if (reach->wire.loopback && !is_unix(reach)) {
		box_loopback_disable_pacing(fd);
	}
	box_ws_client_reader_start(&reach->wire.ws);
	reach->hello = (struct box_ws_client_hello){
		.authority = is_unix(reach) ? "localhost" : reach->endpoint.authority,
		.path = who->path ? who->path : reach->endpoint.path,
		.instance = who->instance,
		.token = who->token,
		.workspace = who->workspace,
		.generation = who->generation,
		.protocol = who->protocol,
	};
	int r = reach->endpoint.is_default && !is_unix(reach)
		? box_server_owner_check(fd, reach->endpoint.authority, err)
		: 0;
	if (r < 0) {
		return r;
	}
	if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
		abort();
	}
	box_ws_client_key(key, reach->hello.key);
	r = box_ws_client_hello(&reach->wire.out, &reach->hello);
	return r == 0 ? 0
		      : box_err_set(err, BOX_ERR_VALUE, -r,
				"the instance id or the token holds what no header can carry");
}

/* --- the answer --- */

/* A runtime that says more than the word of the status says it in plain text, in one line. */
static bool has_reason(struct box_str body)
{
	return body.len > strlen("Unauthorized") && box_utf8_valid(body.bytes, body.len);
}

static int refused(const struct box_ws_connect *reach, int status, struct box_err *err)
{
	const struct box_wire *wire = &reach->wire;
	struct box_str body = box_str_strip(
		(struct box_str){wire->in + wire->in_used, wire->in_len - wire->in_used});
	if (status == STATUS_UNAUTHORIZED && has_reason(body)) {
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES, "%s refuses us (401): %.*s",
			reach->endpoint.authority, (int)body.len, body.bytes);
	}
	if (status == STATUS_UNAUTHORIZED) {
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES,
			"%s refuses us (401): LANGBOT_BOX_CONTROL_TOKEN is missing or wrong, or it "
			"serves another instance than \"%.128s\"",
			reach->endpoint.authority, reach->hello.instance);
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EPROTO,
		"%s answers %d where a boxd would open a WebSocket", reach->endpoint.authority,
		status);
}

/* The body says why, that of a relay as JSON; it ends with the connection, or with our patience. */
static int tell_refusal(struct box_ws_connect *reach, struct box_err *err)
{
	struct box_wire *wire = &reach->wire;
	struct box_err why;
	if (reach->status != STATUS_RELAY_REFUSED) {
		return refused(reach, reach->status, err);
	}
	box_answer_refusal(
		(struct box_str){wire->in + wire->in_used, wire->in_len - wire->in_used}, &why);
	return box_err_set(err, why.code, why.errnum, "%s", why.text);
}

static int read_answer(struct box_ws_connect *reach, struct box_err *err)
{
	struct box_wire *wire = &reach->wire;
	int status;
	const char *why;
	switch (box_ws_client_answer(
		wire->in, wire->in_len, &reach->hello, &wire->in_used, &status, &why)) {
	case BOX_WS_ANSWER_MORE:
		return 0;
	case BOX_WS_ANSWER_OPEN:
		return 1;
	case BOX_WS_ANSWER_REFUSED:
		if (status != STATUS_UNAUTHORIZED &&
			(!reach->hello.protocol || status != STATUS_RELAY_REFUSED)) {
			return refused(reach, status, err);
		}
		reach->status = status;
		reach->phase = REFUSED;
		return 0;
	case BOX_WS_ANSWER_BROKEN:
		break;
	}
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EPROTO, "%s is no boxd: %s",
		reach->endpoint.authority, why);
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

static int converse(struct box_ws_connect *reach, struct box_err *err)
{
	int r = box_wire_flush(&reach->wire, err);
	if (r < 0) {
		return r;
	}
	while ((r = read_some(&reach->wire)) == 1) {
		int answer = reach->phase == GREETING ? read_answer(reach, err) : 0;
		if (answer != 0) {
			return answer;
		}
	}
	if (r == 0) {
		return 0;
	}
	return reach->phase == REFUSED ? tell_refusal(reach, err)
				       : box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECONNRESET,
						 "%s hung up on us", reach->endpoint.authority);
}

static int too_late(struct box_ws_connect *reach, struct box_err *err)
{
	if (reach->phase == REFUSED) {
		return tell_refusal(reach, err);
	}
	return reach->phase == DIALLING
		? box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			  "%s: Connection timed out", reach->endpoint.authority)
		: box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT, "%s does not answer",
			  reach->endpoint.authority);
}

int box_ws_connect_step(struct box_ws_connect *reach, struct box_wire *wire, struct box_err *err)
{
	int r = 1;
	int fd;
	if (reach->phase == DIALLING) {
		r = box_dial_step(reach->dial, &fd, err);
		r = r == 1 && greet(reach, fd, err) < 0 ? -EINVAL : r;
	}
	r = r == 1 ? converse(reach, err) : r;
	if (r == 1) {
		*wire = reach->wire;
		wire->websocket = true;
		reach->wire = (struct box_wire){.fd = -1};
	}
	return r == 0 && box_ws_connect_timeout_ms(reach) == 0 ? too_late(reach, err) : r;
}

int box_ws_connect_open(struct box_wire *wire, const struct box_endpoint *endpoint,
	const struct box_ws_connect_identity *who, struct box_err *err)
{
	struct box_ws_connect *reach = box_ws_connect_start(endpoint, who);
	int r;
	while ((r = box_ws_connect_step(reach, wire, err)) == 0) {
		struct pollfd ready = {
			.fd = box_ws_connect_fd(reach), .events = box_ws_connect_events(reach)};
		(void)poll(&ready, 1, box_ws_connect_timeout_ms(reach));
	}
	box_ws_connect_free(reach);
	return r < 0 ? r : 0;
}
