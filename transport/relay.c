/* One relay. Output is taken from the process as the client takes it; what the client has for sure is
 * confirmed, and only that is forgotten: with `box.v1` the client says so itself, else a ping behind
 * what was sent is answered. So whoever attaches next gets what this one may have missed. It is closed
 * behind a last ping: then the client has everything. */
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
#define UNFED_BYTES (512 * BOX_KIB)  /* of input; then the client is not read */
#define EARLY_BYTES (1024 * BOX_KIB) /* of input that waits for its turn */
#define CONTROL_BYTES 32             /* the longest of our own messages of box.v1 */

/* box.v1: the first byte of a message. The offsets behind it are eight bytes, high ones first. */
enum v1_kind {
	V1_DATA = 1,  /* output or input: offset, bytes */
	V1_DONE = 2,  /* so far output is safe with the client, input with the process: offset */
	V1_BEGIN = 3, /* client, first: from which offset; we: the offsets of output and input */
	V1_END = 4,   /* client: the input ends at this offset; we: the exit code, then we close */
};

struct relay {
	struct box_ws_socket *socket;
	struct box_process_reader *reader;
	bool reading;
	bool v1;
	bool attached;
	bool paused;
	bool over; /* nothing more is taken: closed when the client has all */
	struct box_pieces pieces;
	uint64_t received;  /* output up to here is here */
	uint64_t confirmed; /* and up to here with the client for sure */
	uint64_t upto;      /* asked for */
	uint64_t sent;      /* up to here written to the socket */
	uint64_t pinged;    /* up to here a ping asks */
	bool ping_under_way;
	bool last_ping; /* that one is behind all */
	int last_code;  /* to close with then */
	const char *last_reason;
	struct box_buf early; /* input that came before its turn */
	uint64_t taken;       /* of the input, by the process */
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
	box_ws_want_write(relay->socket);
}

/* A client that sends more than the process takes has to wait, unless the process itself waits for
 * what only the client can say: that it has got what was sent. One that waits for its turn is read:
 * its pings want answers. */
static void balance_reading(struct relay *relay)
{
	bool held = relay->received - relay->confirmed >= HELD_BYTES;
	uint64_t unfed = relay->attached ? box_process_input_end(relay->reader) - relay->taken
					 : relay->early.len;
	bool paused = !relay->over && unfed > UNFED_BYTES && !held;
	if (relay->paused != paused) {
		relay->paused = paused;
		box_ws_pause_reading(relay->socket, paused);
	}
}

/* Closes when the client has got all that is here. */
static void finish(struct relay *relay, int code, const char *reason)
{
	if (!relay->over) {
		relay->over = true;
		relay->last_code = code;
		relay->last_reason = reason;
		balance_reading(relay);
		want_write(relay);
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
	balance_reading(relay);
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
	update(relay);
	if (relay->early.len > 0) {
		(void)box_process_feed(
			relay->reader, (struct box_str){relay->early.bytes, relay->early.len});
		box_buf_free(&relay->early);
	}
	want_write(relay);
}

static void take_output(struct relay *relay, uint64_t offset, struct box_str bytes)
{
	if (box_pieces_add(&relay->pieces, offset, bytes) < 0) {
		relay->received = relay->pieces.rest_end;
		BOX_LOG(BOX_LOG_WARNING, "relay.line_too_long");
		finish(relay, BOX_WS_TOO_LARGE, "a line is longer than 16 MiB");
		return;
	}
	relay->received = offset + bytes.len;
	if (relay->pieces.kind == BOX_PIECES_LINES) {
		box_process_skip_line(relay->reader, relay->pieces.skip);
	}
	/* What makes no message needs no confirmation. */
	if (relay->pieces.ready_bytes == 0 && relay->pieces.rest.len == 0 &&
		relay->sent == relay->confirmed) {
		relay->sent = relay->confirmed = relay->received;
	}
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct relay *relay = arg;
	if (relay->over || relay->ended) {
		return;
	}
	const char *end = relay->pieces.skip ? memchr(bytes.bytes, '\n', bytes.len) : NULL;
	size_t skipped = end ? (size_t)(end - bytes.bytes) + 1 : 0;
	/* By itself, so that it is forgotten together with the wish to skip it. */
	if (skipped > 0) {
		take_output(relay, offset, (struct box_str){bytes.bytes, skipped});
	}
	if (skipped < bytes.len) {
		take_output(relay, offset + skipped,
			(struct box_str){bytes.bytes + skipped, bytes.len - skipped});
	}
	if (!relay->over) {
		update(relay);
	}
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
	finish(relay, BOX_WS_NORMAL, "the managed process has ended");
}

static void on_fed(void *arg, uint64_t taken)
{
	struct relay *relay = arg;
	relay->taken = taken;
	relay->done_due = relay->v1;
	balance_reading(relay);
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

/* Whether one is due; `last`: there is nothing else to send. */
static bool wants_ping(const struct relay *relay, bool last)
{
	return !relay->ping_under_way && !relay->ended &&
		(last || (!relay->v1 && relay->sent > relay->pinged));
}

/* The next of our own messages, if one is due; the end comes behind all output. */
static void fill_control(struct relay *relay)
{
	char *body = relay->control + BOX_BUF_HEADROOM + 1;
	bool last = relay->over && !box_pieces_first(&relay->pieces);
	if (relay->begin_due) {
		relay->begin_due = false;
		put_u64(body, relay->confirmed);
		put_u64(body + 8, relay->first_input);
		set_control(relay, V1_BEGIN, 17);
	} else if (relay->done_due) {
		relay->done_due = false;
		put_u64(body, relay->taken);
		set_control(relay, V1_DONE, 9);
	} else if (relay->end_due && last) {
		relay->end_due = false;
		put_u64(body, (uint64_t)(int64_t)relay->exit_code);
		set_control(relay, V1_END, 9);
	} else if (wants_ping(relay, last)) {
		relay->ping_under_way = true;
		relay->last_ping = last;
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
	size_t left = piece->len - piece->sent;
	size_t len = left < BOX_WS_FRAME_BYTES ? left : BOX_WS_FRAME_BYTES;
	*ret_frame = (struct box_ws_frame){
		.kind = relay->v1 ? BOX_WS_FRAME_BINARY : BOX_WS_FRAME_TEXT,
		.bytes = piece->bytes + piece->sent,
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
	if (piece->sent < piece->len) {
		return;
	}
	relay->sent = piece->end;
	box_pieces_drop_first(&relay->pieces);
	if (!relay->ended && !relay->over) {
		update(relay);
	}
}

static void close_last(struct relay *relay)
{
	if (relay->pieces.skip) {
		/* The rest of the line is nobody's: the next one begins behind it. */
		box_process_skip_line(relay->reader, true);
		box_process_confirm(relay->reader, relay->received, relay->upto, HELD_BYTES);
	}
	box_ws_close(relay->socket, relay->last_code, relay->last_reason, false);
}

static void pong(void *arg, struct box_str bytes)
{
	struct relay *relay = arg;
	if (!relay->ping_under_way || bytes.len != 8 || get_u64(bytes.bytes) != relay->pinged) {
		return; /* of libwebsockets' own */
	}
	relay->ping_under_way = false;
	if (relay->last_ping) {
		close_last(relay);
	} else if (!relay->ended && !relay->over) {
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
	balance_reading(relay);
}

static int take_line(struct relay *relay, struct box_buf *message, const char **ret_why)
{
	/* One byte more than a message may have. */
	message->limit++;
	if (box_buf_append(message, "\n", 1) < 0) {
		*ret_why = "message too large";
		return BOX_WS_TOO_LARGE;
	}
	if (!relay->attached) {
		*ret_why = "too much input before its turn";
		int r = box_buf_append(&relay->early, message->bytes, message->len);
		balance_reading(relay);
		return r < 0 ? BOX_WS_TRY_LATER : 0;
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
	if (!relay->ended && !relay->over) {
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
	relay->reading = true;
	box_process_read(relay->reader, BOX_PROCESS_UNCONFIRMED);
}

/* The next one would refuse it too, and get nothing that is behind it. */
static void refused(void *arg)
{
	struct relay *relay = arg;
	uint64_t end = box_pieces_longest_end(&relay->pieces);
	if (!relay->v1 && !relay->over && end > relay->confirmed) {
		BOX_LOG(BOX_LOG_WARNING, "relay.line_refused");
		relay->sent = end > relay->sent ? end : relay->sent;
		confirm(relay, end);
	}
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
	box_buf_free(&relay->early);
	free(relay);
}

static const struct box_ws_user user = {
	.patient = true,
	.opened = opened,
	.message = message,
	.next = next,
	.sent = sent,
	.pong = pong,
	.refused = refused,
	.closing = closing,
	.closed = closed,
};

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
	relay->reader = box_process_attach(process, &reader_events, relay);
	relay->v1 = verdict->offers_box_v1;
	relay->early = box_buf(EARLY_BYTES);
	box_pieces_init(&relay->pieces,
		verdict->offers_box_v1        ? BOX_PIECES_BYTES
			: verdict->offers_mcp ? BOX_PIECES_LINES
					      : BOX_PIECES_TEXT);
	(void)box_ws_adopt(ws, upgrade, &user, relay);
}
