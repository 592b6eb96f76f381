/* The stdin and stdout of a managed process over the relay protocol box.v1, which survives broken
 * connections: each is dialled again.
 *
 * Input that the process has not confirmed is kept and sent again; output that we have not confirmed is
 * requested again, and given to the caller once. State is changed before an event is called. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "client/box.h"
#include "client/connection/connection.h"

#define INPUT_BYTES (256 * BOX_KIB) /* kept until the process has confirmed them */
#define PIECE_BYTES (64 * BOX_KIB)
#define AGAIN_MS 200     /* between two dials */
#define GIVE_UP_MS 30000 /* without a connection */
#define STAYED_MS 5000   /* a connection that lasted this long starts the time limit again */
#define FROM_UNCONFIRMED UINT64_MAX
#define PROTOCOL "box.v1"
#define CLOSE_NORMAL 1000
#define CLOSE_GOING_AWAY 1001

enum kind {
	DATA = 1,
	DONE,
	BEGIN,
	END,
};

#define HEAD_BYTES 9

struct box_relay {
	struct box_connection connection;
	struct box_endpoint endpoint;
	char *path;
	const struct box_relay_events *events;
	void *arg;
	bool attached; /* on this connection */
	bool known;    /* it was attached once: the offsets are valid */
	bool over;
	uint64_t up_ms;    /* when it was connected last; 0: it is not connected */
	uint64_t lost_ms;  /* when the connection broke */
	uint64_t again_ms; /* when to dial */
	uint64_t received;
	uint64_t confirmed;
	struct box_buf input; /* from in_taken on */
	uint64_t in_taken;
	uint64_t in_sent;
	bool in_ended;
	bool end_sent;
};

static uint64_t in_end(const struct box_relay *relay)
{
	return relay->in_taken + relay->input.len;
}

/* If the queue is full, the connection breaks, and this is sent on the next one. */
static void send_kind(
	struct box_relay *relay, enum kind kind, uint64_t offset, struct box_str bytes)
{
	char head[HEAD_BYTES] = {(char)kind};
	box_bytes_put_be64(head + 1, offset);
	(void)box_wire_send_bytes(
		&relay->connection.wire, (struct box_str){head, sizeof(head)}, bytes, NULL);
}

static void finish(struct box_relay *relay, int exit_code, const struct box_err *err)
{
	if (!relay->over) {
		relay->over = true;
		box_wire_close(&relay->connection.wire);
		relay->events->ended(relay->arg, exit_code, err);
	}
}

/* --- connections --- */

static int dial(struct box_relay *relay, struct box_err *err)
{
	int r = box_connection_open_relay(
		&relay->connection, &relay->endpoint, relay->path, PROTOCOL, err);
	if (r == 0) {
		relay->attached = false;
		relay->end_sent = false;
		relay->up_ms = box_clock_ms();
		send_kind(relay, BEGIN, relay->known ? relay->confirmed : FROM_UNCONFIRMED,
			box_str(""));
	}
	return r;
}

/* Whether to dial again: the runtime may be restarting. */
static bool may_return(const struct box_err *err)
{
	return err->code == BOX_ERR_RUNTIME_UNAVAILABLE && err->errnum != EPROTO;
}

static void connection_broke(struct box_relay *relay, const struct box_err *why)
{
	uint64_t now = box_clock_ms();
	struct box_err err = *why;
	unsigned code = relay->connection.wire.close_code;
	box_wire_close(&relay->connection.wire);
	relay->attached = false;
	/* A connection that only waited to be attached counts too. */
	bool stayed = relay->up_ms && now - relay->up_ms >= STAYED_MS;
	relay->up_ms = 0;
	relay->lost_ms = relay->lost_ms && !stayed ? relay->lost_ms : now;
	relay->again_ms = now + AGAIN_MS;
	if (code == CLOSE_NORMAL) {
		(void)box_err_set(&err, BOX_ERR_PROCESS_NOT_FOUND, ENOENT,
			"the process was stopped or replaced, or its session removed");
		finish(relay, 0, &err);
	} else if ((code != 0 && code != CLOSE_GOING_AWAY) || !may_return(&err) ||
		now - relay->lost_ms >= GIVE_UP_MS) {
		finish(relay, 0, &err);
	}
}

/* --- input --- */

static void send_input(struct box_relay *relay)
{
	while (relay->attached && relay->in_sent < in_end(relay)) {
		size_t at = (size_t)(relay->in_sent - relay->in_taken);
		size_t len = relay->input.len - at;
		len = BOX_MIN(len, PIECE_BYTES);
		send_kind(relay, DATA, relay->in_sent,
			(struct box_str){relay->input.bytes + at, len});
		relay->in_sent += len;
	}
	if (relay->attached && relay->in_ended && !relay->end_sent) {
		relay->end_sent = true;
		send_kind(relay, END, in_end(relay), box_str(""));
	}
}

static void drop_input(struct box_relay *relay, uint64_t until)
{
	uint64_t end = in_end(relay);
	until = BOX_MIN(until, end);
	if (until > relay->in_taken) {
		size_t len = (size_t)(until - relay->in_taken);
		relay->input.len -= len;
		memmove(relay->input.bytes, relay->input.bytes + len, relay->input.len);
		relay->in_taken = until;
		relay->in_sent = BOX_MAX(relay->in_sent, until);
	}
}

size_t box_relay_input_room(const struct box_relay *relay)
{
	return relay->over || !relay->known || relay->in_ended ? 0 : INPUT_BYTES - relay->input.len;
}

int box_relay_input(
	struct box_relay *relay, const void *bytes, size_t len, bool eof, struct box_err *err)
{
	size_t room = box_relay_input_room(relay);
	if (len > room || (room == 0 && (relay->in_ended || !relay->known))) {
		return box_err_set(err, BOX_ERR_VALUE, EAGAIN, "the process cannot take input now");
	}
	(void)box_buf_append(&relay->input, bytes, len);
	relay->in_ended = eof;
	send_input(relay);
	return 0;
}

/* --- messages from the runtime --- */

/* The runtime has input up to this offset, including what others wrote meanwhile. Input that was never sent
 * follows it. Where input of ours was sent and others wrote too, nobody can tell how much of ours is in
 * it, and the relay ends. */
static bool resume_input(struct box_relay *relay, uint64_t input)
{
	if (input <= relay->in_sent) {
		drop_input(relay, input);
		relay->in_sent = relay->in_taken;
		return true;
	}
	if (relay->in_taken == relay->in_sent) {
		relay->in_taken = relay->in_sent = input;
		return true;
	}
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, ECONNABORTED,
		"another client wrote to the process while the connection was broken: it is not "
		"known how much of our input arrived");
	finish(relay, 0, &err);
	return false;
}

static const char *take_begin(struct box_relay *relay, struct box_str body)
{
	if (body.len != 16 || relay->attached) {
		return "an invalid BEGIN";
	}
	uint64_t offset = box_bytes_get_be64(body.bytes);
	uint64_t input = box_bytes_get_be64(body.bytes + 8);
	if (!relay->known) {
		relay->received = relay->confirmed = offset;
		relay->in_taken = relay->in_sent = input;
	} else {
		/* Missing output was read by another client meanwhile. */
		relay->received = BOX_MAX(offset, relay->received);
		relay->confirmed = offset;
		if (!resume_input(relay, input)) {
			return NULL;
		}
	}
	relay->known = relay->attached = true;
	relay->lost_ms = 0;
	send_input(relay);
	relay->events->attached(relay->arg, relay->received);
	return NULL;
}

static const char *take_data(struct box_relay *relay, uint64_t offset, struct box_str bytes)
{
	if (!relay->attached || offset + bytes.len < offset) {
		return "output with an invalid offset";
	}
	/* A process with a log does not wait for readers: what is missing was dropped. */
	relay->received = BOX_MAX(offset, relay->received);
	uint64_t known = relay->received - offset;
	if (known < bytes.len) {
		offset = relay->received;
		bytes = (struct box_str){bytes.bytes + known, bytes.len - (size_t)known};
		relay->received += bytes.len;
		relay->events->output(relay->arg, offset, bytes);
	}
	return NULL;
}

static const char *take_end(struct box_relay *relay, int64_t code)
{
	if (!relay->attached || code < 0 || code > 255) {
		return "an invalid END";
	}
	/* Sends the confirmation that we have all of the output. */
	(void)box_wire_flush(&relay->connection.wire, NULL);
	finish(relay, (int)code, NULL);
	return NULL;
}

/* NULL, or what is wrong with it. */
static const char *take(struct box_relay *relay, struct box_str message)
{
	if (message.len < HEAD_BYTES) {
		return "a message is too short";
	}
	uint64_t offset = box_bytes_get_be64(message.bytes + 1);
	struct box_str rest = {message.bytes + HEAD_BYTES, message.len - HEAD_BYTES};
	switch (message.bytes[0]) {
	case DATA:
		return take_data(relay, offset, rest);
	case DONE:
		if (offset > relay->in_sent) {
			return "a confirmation of input that was never sent";
		}
		drop_input(relay, offset);
		return NULL;
	case BEGIN:
		return take_begin(relay, (struct box_str){message.bytes + 1, message.len - 1});
	case END:
		return take_end(relay, (int64_t)offset);
	default:
		return "an unknown kind of message";
	}
}

static int receive(struct box_relay *relay, struct box_err *err)
{
	struct box_wire *wire = &relay->connection.wire;
	int sent = box_wire_flush(wire, err);
	int r = box_wire_read(wire, err);
	while (r == 0 && !relay->over) {
		struct box_buf message;
		r = box_wire_next_bytes(wire, &message, err);
		if (r <= 0) {
			break;
		}
		const char *why = take(relay, (struct box_str){message.bytes, message.len});
		box_buf_free(&message);
		r = why ? box_err_set(err, BOX_ERR_BOX, EPROTO, "relay protocol error: %s", why)
			: 0;
	}
	return relay->over ? 0 : r < 0 ? r : sent < 0 ? sent : box_wire_flush(wire, err);
}

void box_relay_step(struct box_relay *relay)
{
	struct box_err err;
	if (relay->over) {
		return;
	}
	if (relay->connection.wire.fd < 0) {
		if (box_clock_ms() >= relay->again_ms && dial(relay, &err) < 0) {
			connection_broke(relay, &err);
		}
		return;
	}
	if (receive(relay, &err) < 0) {
		connection_broke(relay, &err);
	}
}

void box_relay_taken(struct box_relay *relay, uint64_t offset)
{
	if (relay->attached && !relay->over && offset > relay->confirmed &&
		offset <= relay->received) {
		relay->confirmed = offset;
		send_kind(relay, DONE, offset, box_str(""));
	}
}

int box_relay_fd(const struct box_relay *relay)
{
	return relay->connection.wire.fd;
}

short box_relay_poll_events(const struct box_relay *relay)
{
	return box_wire_pending(&relay->connection.wire) ? POLLIN | POLLOUT : POLLIN;
}

int box_relay_timeout_ms(const struct box_relay *relay)
{
	uint64_t now = box_clock_ms();
	if (relay->over || relay->connection.wire.fd >= 0) {
		return -1;
	}
	return now >= relay->again_ms ? 0 : (int)(relay->again_ms - now);
}

/* --- begin and end --- */

/* An id as a part of a path. */
static int append_id(struct box_buf *out, const char *id)
{
	int r = 0;
	for (; r == 0 && *id; id++) {
		unsigned char c = (unsigned char)*id;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
		r = plain ? box_buf_append(out, id, 1) : box_buf_printf(out, "%%%02X", c);
	}
	return r;
}

static int make_path(
	struct box_relay *relay, const char *session, const char *process, struct box_err *err)
{
	struct box_buf path = box_buf(BOX_HTTP_HEAD_BYTES_MAX / 2);
	if (box_buf_append_str(&path, "/v1/sessions/") < 0 || append_id(&path, session) < 0 ||
		box_buf_append_str(&path, "/managed-process/") < 0 ||
		append_id(&path, process) < 0 || box_buf_append_str(&path, "/ws") < 0) {
		box_buf_free(&path);
		return box_err_set(err, BOX_ERR_VALUE, ENAMETOOLONG, "the process id is too long");
	}
	relay->path = box_alloc(path.len + 1);
	memcpy(relay->path, path.bytes, path.len);
	box_buf_free(&path);
	return 0;
}

int box_relay_open(const struct box_client_options *options, const char *session,
	const char *process, const struct box_relay_events *events, void *arg,
	struct box_relay **ret_relay, struct box_err *err)
{
	struct box_relay *relay = box_alloc(sizeof(*relay));
	relay->events = events;
	relay->arg = arg;
	relay->input = box_buf(INPUT_BYTES);
	int r = box_connection_address(options, &relay->connection, &relay->endpoint, err);
	if (r == 0) {
		r = make_path(relay, session, process, err);
	}
	if (r == 0) {
		r = dial(relay, err);
	}
	if (r < 0) {
		box_relay_close(relay);
		return r;
	}
	*ret_relay = relay;
	return 0;
}

void box_relay_close(struct box_relay *relay)
{
	if (!relay) {
		return;
	}
	box_connection_close(&relay->connection);
	box_buf_free(&relay->input);
	free(relay->path);
	free(relay);
}
