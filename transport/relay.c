/* One relay. Output is taken from the process as the client takes it; what the client has for sure is
 * confirmed, and only that is forgotten: with `box.v1` the client says so itself, else a ping behind
 * what was sent is answered. So whoever attaches next gets what this one may have missed. */
#include "transport/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "transport/pieces.h"

#define WINDOW_BYTES (256 * BOX_KIB) /* that may come beyond what is here */
#define UNSENT_BYTES (256 * BOX_KIB) /* that wait for the client; then no more is asked for */
#define HELD_BYTES (1024 * BOX_KIB)  /* not confirmed; a line that is longer is let grow */
#define UNFED_BYTES (256 * BOX_KIB)  /* of input; then the client is not read */
#define CONTROL_BYTES 32             /* the longest of our own messages of box.v1 */

/* box.v1: the first byte of a message. The offsets behind it are eight bytes, high ones first. */
enum v1_kind {
	V1_DATA = 1, /* output or input: offset, bytes */
	V1_DONE =
		2, /* so far it is safe: the client's with output, the process's with input: offset */
	V1_BEGIN = 3, /* client, first: from which offset; we: the offsets of output and input */
	V1_END = 4,   /* client: the input ends at this offset; we: the exit code, then we close */
};

struct relay {
	struct box_runtime *runtime;
	struct box_ws_socket *socket;
	struct box_process_reader *reader;
	bool reading;
	bool v1;
	bool attached;
	bool paused;
	struct box_pieces pieces;
	uint64_t received;  /* output up to here is here */
	uint64_t confirmed; /* and up to here with the client for sure */
	uint64_t upto;      /* asked for */
	uint64_t sent;      /* up to here written to the socket */
	uint64_t pinged;    /* up to here a ping asks */
	bool ping_under_way;
	uint64_t taken; /* of the input, by the process */
	/* A ping or a message of box.v1, in front of all pieces; with room for a frame's head. */
	char control[BOX_BUF_HEADROOM + CONTROL_BYTES];
	size_t control_len;
	bool control_is_ping;
	bool begin_due;
	bool done_due;
	bool end_due;
	uint64_t first_input;
	int32_t exit_code;
	bool ended;
};

static void put_u64(char *to, uint64_t value)
{
	for (int i = 0; i < 8; i++) {
		to[i] = (char)(value >> (56 - 8 * i));
	}
}

static uint64_t get_u64(const char *from)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++) {
		value = value << 8 | (unsigned char)from[i];
	}
	return value;
}

static void want_write(struct relay *relay)
{
	if (relay->socket) {
		box_ws_want_write(relay->socket);
	}
}

/* --- output --- */

/* Asks for more when there is room, and tells what may be forgotten. */
static void update(struct relay *relay)
{
	uint64_t open = relay->received - relay->confirmed;
	bool growing = relay->pieces.rest.len > open / 2;
	if (relay->pieces.ready_bytes < UNSENT_BYTES && (open < HELD_BYTES || growing)) {
		relay->upto = relay->received + WINDOW_BYTES;
	}
	uint64_t hold = open + WINDOW_BYTES;
	box_process_confirm(relay->reader, relay->confirmed, relay->upto,
		hold > HELD_BYTES ? hold : HELD_BYTES);
}

static void confirm(struct relay *relay, uint64_t offset)
{
	if (offset > relay->confirmed && offset <= relay->sent) {
		relay->confirmed = offset;
		update(relay);
	}
}

static void on_attached(void *arg, uint64_t offset, uint64_t input)
{
	struct relay *relay = arg;
	relay->attached = true;
	relay->received = relay->confirmed = relay->upto = relay->sent = relay->pinged = offset;
	relay->first_input = relay->taken = input;
	relay->begin_due = relay->v1;
	relay->pieces.skip = !relay->v1 && box_process_skips_line(relay->reader);
	if (relay->paused) {
		relay->paused = false;
		box_ws_pause_reading(relay->socket, false);
	}
	update(relay);
	want_write(relay);
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct relay *relay = arg;
	if (relay->ended) {
		return;
	}
	relay->received = offset + bytes.len;
	int r = box_pieces_add(&relay->pieces, offset, bytes);
	if (relay->pieces.kind == BOX_PIECES_LINES) {
		box_process_skip_line(relay->reader, relay->pieces.skip);
	}
	if (r < 0) {
		/* The rest of the line is nobody's: the next one begins behind it. */
		relay->confirmed = relay->sent = relay->received;
		update(relay);
		BOX_LOG(BOX_LOG_WARNING, "relay.line_too_long");
		box_ws_close(
			relay->socket, BOX_WS_TOO_LARGE, "a line is longer than 16 MiB", false);
		return;
	}
	/* What makes no message needs no confirmation. */
	if (relay->pieces.ready_bytes == 0 && relay->pieces.rest.len == 0 &&
		relay->sent == relay->confirmed) {
		relay->sent = relay->confirmed = relay->received;
	}
	update(relay);
	want_write(relay);
}

static void on_ended(void *arg, const struct box_process *process)
{
	struct relay *relay = arg;
	if (process && !box_process_runs(process)) {
		relay->exit_code = box_process_exit_code(process);
		relay->end_due = relay->v1;
	}
	box_pieces_end(&relay->pieces);
	box_ws_close(relay->socket, BOX_WS_NORMAL, "the managed process has ended", true);
}

static void on_fed(void *arg, uint64_t taken)
{
	struct relay *relay = arg;
	relay->taken = taken;
	relay->done_due = relay->v1;
	if (relay->paused && box_process_input_end(relay->reader) - taken < UNFED_BYTES) {
		relay->paused = false;
		box_ws_pause_reading(relay->socket, false);
	}
	if (relay->v1) {
		want_write(relay);
	}
}

static const struct box_process_reader_events reader_events = {
	.attached = on_attached,
	.output = on_output,
	.fed = on_fed,
	.ended = on_ended,
};

/* --- what goes out --- */

static void set_control(struct relay *relay, char kind, size_t len)
{
	relay->control[BOX_BUF_HEADROOM] = kind;
	relay->control_len = len;
	relay->control_is_ping = false;
}

/* The next of our own messages, if one is due; the end comes behind all output. */
static void fill_control(struct relay *relay)
{
	char *body = relay->control + BOX_BUF_HEADROOM + 1;
	if (relay->begin_due) {
		relay->begin_due = false;
		put_u64(body, relay->confirmed);
		put_u64(body + 8, relay->first_input);
		set_control(relay, V1_BEGIN, 17);
	} else if (relay->done_due) {
		relay->done_due = false;
		put_u64(body, relay->taken);
		set_control(relay, V1_DONE, 9);
	} else if (relay->end_due && !box_pieces_first(&relay->pieces)) {
		relay->end_due = false;
		put_u64(body, (uint64_t)(int64_t)relay->exit_code);
		set_control(relay, V1_END, 9);
	} else if (!relay->v1 && !relay->ping_under_way && relay->sent > relay->pinged) {
		relay->ping_under_way = true;
		relay->pinged = relay->sent;
		put_u64(relay->control + BOX_BUF_HEADROOM, relay->sent);
		relay->control_len = 8;
		relay->control_is_ping = true;
	}
}

static bool next(void *arg, struct box_ws_frame *ret_frame)
{
	struct relay *relay = arg;
	struct box_piece *piece = box_pieces_first(&relay->pieces);
	bool inside = piece && piece->sent > 0;
	if (relay->control_len == 0 && !inside) {
		fill_control(relay);
	}
	if (relay->control_len > 0) {
		*ret_frame = (struct box_ws_frame){
			.kind = relay->control_is_ping ? BOX_WS_FRAME_PING : BOX_WS_FRAME_BINARY,
			.bytes = relay->control + BOX_BUF_HEADROOM,
			.len = relay->control_len,
			.first = true,
			.last = true,
		};
		return true;
	}
	if (!piece) {
		return false;
	}
	size_t left = piece->bytes.len - piece->sent;
	size_t len = left < BOX_WS_FRAME_BYTES ? left : BOX_WS_FRAME_BYTES;
	*ret_frame = (struct box_ws_frame){
		.kind = relay->v1 ? BOX_WS_FRAME_BINARY : BOX_WS_FRAME_TEXT,
		.bytes = piece->bytes.bytes + piece->sent,
		.len = len,
		.first = piece->sent == 0,
		.last = len == left,
	};
	return true;
}

static void sent(void *arg, const struct box_ws_frame *frame)
{
	struct relay *relay = arg;
	if (relay->control_len > 0) {
		relay->control_len = 0;
		return;
	}
	struct box_piece *piece = box_pieces_first(&relay->pieces);
	piece->sent += frame->len;
	if (piece->sent < piece->bytes.len) {
		return;
	}
	relay->sent = piece->end;
	box_pieces_drop_first(&relay->pieces);
	if (!relay->ended) {
		update(relay);
	}
}

static void pong(void *arg, struct box_str bytes)
{
	struct relay *relay = arg;
	if (bytes.len != 8 || relay->v1 || get_u64(bytes.bytes) != relay->pinged) {
		return; /* of libwebsockets' own */
	}
	relay->ping_under_way = false;
	if (!relay->ended) {
		confirm(relay, relay->pinged);
	}
	want_write(relay);
}

/* --- what comes in --- */

static void feed(struct relay *relay, struct box_str bytes)
{
	int r = box_process_feed(relay->reader, bytes);
	if (r == -ENOBUFS) {
		box_ws_close(relay->socket, BOX_WS_TOO_LARGE, "too much input at once", false);
		return;
	}
	if (!relay->paused && box_process_input_end(relay->reader) - relay->taken > UNFED_BYTES) {
		relay->paused = true;
		box_ws_pause_reading(relay->socket, true);
	}
}

static int take_line(struct relay *relay, struct box_buf *message, const char **ret_why)
{
	/* One byte more than a message may have. */
	message->limit++;
	if (box_buf_append(message, "\n", 1) < 0) {
		*ret_why = "message too large";
		return BOX_WS_TOO_LARGE;
	}
	feed(relay, (struct box_str){message->bytes, message->len});
	return 0;
}

static int take_v1_input(struct relay *relay, uint64_t offset, struct box_str bytes)
{
	uint64_t end = box_process_input_end(relay->reader);
	if (offset > end) {
		return BOX_WS_PROTOCOL;
	}
	uint64_t known = end - offset;
	if (known < bytes.len) {
		feed(relay, (struct box_str){bytes.bytes + known, bytes.len - (size_t)known});
	}
	return 0;
}

static int take_v1(struct relay *relay, const struct box_buf *message, const char **ret_why)
{
	char kind = message->len > 0 ? message->bytes[0] : 0;
	*ret_why = "not a message of box.v1";
	if (message->len < 9) {
		return BOX_WS_PROTOCOL;
	}
	uint64_t offset = get_u64(message->bytes + 1);
	struct box_str bytes = {message->bytes + 9, message->len - 9};
	if (!relay->reading) {
		if (kind != V1_BEGIN) {
			return BOX_WS_PROTOCOL;
		}
		relay->reading = true;
		box_process_read(relay->reader, offset);
		return 0;
	}
	if (!relay->attached) {
		*ret_why = "it is not this one's turn yet";
		return BOX_WS_POLICY;
	}
	switch (kind) {
	case V1_DATA:
		*ret_why = "input is missing before this offset";
		return take_v1_input(relay, offset, bytes);
	case V1_DONE:
		confirm(relay, offset);
		return 0;
	case V1_END:
		*ret_why = "input is missing before its end";
		if (offset > box_process_input_end(relay->reader)) {
			return BOX_WS_PROTOCOL;
		}
		feed(relay, box_str(""));
		return 0;
	default:
		return BOX_WS_PROTOCOL;
	}
}

static int message(void *arg, struct box_buf bytes, bool binary, const char **ret_why)
{
	struct relay *relay = arg;
	(void)binary;
	int code = 0;
	if (!relay->ended) {
		code = relay->v1 ? take_v1(relay, &bytes, ret_why)
				 : take_line(relay, &bytes, ret_why);
	}
	box_buf_free(&bytes);
	return code;
}

/* --- life --- */

static void opened(void *arg, struct box_ws_socket *socket)
{
	struct relay *relay = arg;
	relay->socket = socket;
	if (relay->v1) {
		return; /* it says where to begin */
	}
	/* Not before its turn has come. */
	relay->paused = true;
	box_ws_pause_reading(socket, true);
	relay->reading = true;
	box_process_read(relay->reader, BOX_PROCESS_UNCONFIRMED);
}

static void closing(void *arg)
{
	struct relay *relay = arg;
	relay->ended = true;
}

static void closed(void *arg)
{
	struct relay *relay = arg;
	box_process_detach(relay->reader);
	box_pieces_free(&relay->pieces);
	free(relay);
}

static const struct box_ws_user user = {
	.opened = opened,
	.message = message,
	.next = next,
	.sent = sent,
	.pong = pong,
	.closing = closing,
	.closed = closed,
};

enum box_relay_answer box_relay_decide(struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, struct box_process **ret_process,
	struct box_err *err)
{
	struct box_context context = {
		box_str(verdict->instance), box_str(verdict->workspace), verdict->generation};
	char prefix[BOX_PHYSICAL_ID_SIZE];
	if (box_fence_require_current(runtime->fence, &context, NULL) < 0) {
		return BOX_RELAY_UNAUTHORIZED;
	}
	if (box_runtime_require_ready(runtime, err) < 0) {
		return BOX_RELAY_REFUSED;
	}
	size_t prefix_len = box_tenant_prefix(&context, prefix);
	if (strncmp(verdict->session_id, prefix, prefix_len) != 0 ||
		strlen(verdict->session_id) == prefix_len) {
		return BOX_RELAY_UNAUTHORIZED;
	}
	struct box_session *session = box_sessions_find(
		runtime->sessions, verdict->session_id, err);
	struct box_process *process = session ? box_process_find(session, verdict->process_id, err)
					      : NULL;
	if (!process) {
		return BOX_RELAY_REFUSED;
	}
	if (!box_process_runs(process)) {
		(void)box_err_set(err, BOX_ERR_PROCESS_CONFLICT, ESRCH,
			"managed process %s in session %s is not running", verdict->process_id,
			verdict->session_id);
		return BOX_RELAY_REFUSED;
	}
	*ret_process = process;
	return BOX_RELAY_WELCOME;
}

const char *box_relay_protocol(const struct box_gate_verdict *verdict)
{
	return verdict->offers_box_v1 ? "box.v1" : verdict->offers_mcp ? "mcp" : NULL;
}

void box_relay_accept(struct box_ws *ws, struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, const struct box_ws_upgrade *upgrade)
{
	struct box_process *process;
	struct box_err err;
	if (box_relay_decide(runtime, verdict, &process, &err) != BOX_RELAY_WELCOME) {
		(void)close(upgrade->fd);
		return;
	}
	struct relay *relay = box_alloc(sizeof(*relay));
	relay->runtime = runtime;
	relay->reader = box_process_attach(process, &reader_events, relay);
	relay->v1 = verdict->offers_box_v1;
	box_pieces_init(&relay->pieces,
		verdict->offers_box_v1        ? BOX_PIECES_BYTES
			: verdict->offers_mcp ? BOX_PIECES_LINES
					      : BOX_PIECES_TEXT);
	(void)box_ws_adopt(ws, upgrade, &user, relay);
}
