/* One relay. Output is taken from the process as the client takes it; what the client has for sure is
 * confirmed, and only that is forgotten: with `box.v1` the client says so itself, else a ping behind
 * what was sent is answered. So whoever attaches next gets what this one may have missed. It is closed
 * behind a last ping: then the client has everything. */
#include "transport/ws_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"
#include "transport/ws_relay_private.h"

#define WINDOW_BYTES (256 * BOX_KIB) /* that may come beyond what is here */
#define UNSENT_BYTES (256 * BOX_KIB) /* that wait for the client; then no more is asked for */
#define TELL_MS 10                   /* so late the process may learn what was confirmed */

static void want_write(struct box_ws_relay *relay)
{
	box_ws_want_write(relay->socket);
}

/* Closes when the client has got all that is here. */
static void finish(struct box_ws_relay *relay, int code, const char *reason)
{
	if (!relay->over) {
		relay->over = true;
		relay->last_code = code;
		relay->last_reason = reason;
		box_ws_relay_balance_reading(relay);
		want_write(relay);
	}
}

/* --- output --- */

/* Asks for more when there is room, and tells what may be forgotten. */
static void update(struct box_ws_relay *relay)
{
	uint64_t open = relay->received - relay->confirmed;
	bool growing = relay->pieces.rest.len > open / 2;
	if (!relay->over && relay->pieces.ready_bytes < UNSENT_BYTES &&
		(open < BOX_WS_RELAY_UNCONFIRMED_BYTES || growing)) {
		relay->until = relay->received + WINDOW_BYTES;
	}
	uint64_t hold = open + WINDOW_BYTES;
	hold = BOX_MAX(hold, BOX_WS_RELAY_UNCONFIRMED_BYTES);
	bool told = box_process_confirm(relay->reader, relay->confirmed, relay->until, hold);
	if (!told && !relay->waking) {
		relay->waking = true;
		box_ws_wake_after(relay->socket, TELL_MS);
	}
	box_ws_relay_balance_reading(relay);
}

/* What makes no message needs no confirmation: whoever has all messages has all but the rest. */
static void pass_over(struct box_ws_relay *relay)
{
	uint64_t end = relay->received - relay->pieces.rest.len;
	if (relay->pieces.ready_bytes == 0 && relay->sent == relay->confirmed &&
		end > relay->confirmed) {
		relay->sent = relay->confirmed = end;
		relay->pinged = relay->ping_under_way ? relay->pinged : end;
	}
}

/* So far the client has its output for sure. */
static void confirm(struct box_ws_relay *relay, uint64_t offset)
{
	if (offset > relay->confirmed && offset <= relay->sent) {
		relay->confirmed = offset;
		pass_over(relay);
		update(relay);
		/* A line that others gave up was read by someone to whom it is none. */
		if (relay->pieces.kind != BOX_RELAY_OUTPUT_LINES) {
			box_process_skip_line(relay->reader, false);
		}
	}
}

static void confirm_claimed(struct box_ws_relay *relay)
{
	confirm(relay, BOX_MIN(relay->claimed, relay->sent));
}

/* One that has come back may have more than was sent again so far, and says so only once. */
void box_ws_relay_claim(struct box_ws_relay *relay, uint64_t offset)
{
	if (offset > relay->claimed && offset <= box_process_output_end(relay->reader)) {
		relay->claimed = offset;
		confirm_claimed(relay);
	}
}

static void on_attached(void *arg, uint64_t offset, uint64_t input)
{
	struct box_ws_relay *relay = arg;
	relay->attached = true;
	relay->received = relay->confirmed = relay->until = relay->sent = relay->pinged = offset;
	relay->first_input = relay->taken = input;
	relay->begin_due = relay->v1;
	relay->pieces.skip = !relay->v1 && box_process_skips_line(relay->reader);
	update(relay);
	box_ws_relay_feed_early(relay);
	want_write(relay);
}

static void take_output(struct box_ws_relay *relay, uint64_t offset, struct box_str bytes)
{
	if (box_relay_output_add(&relay->pieces, offset, bytes) < 0) {
		relay->received = relay->pieces.rest_end;
		BOX_LOG(BOX_LOG_WARNING, "relay.line_too_long");
		finish(relay, BOX_WS_TOO_LARGE, "a line is longer than 16 MiB");
		return;
	}
	relay->received = offset + bytes.len;
	if (relay->pieces.kind == BOX_RELAY_OUTPUT_LINES) {
		box_process_skip_line(relay->reader, relay->pieces.skip);
	}
	pass_over(relay);
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct box_ws_relay *relay = arg;
	if (relay->over || relay->ended) {
		return;
	}
	/* A log has dropped what lies between, with the rest of the line that is here. */
	if (offset > relay->received) {
		box_relay_output_drop_rest(&relay->pieces);
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
	struct box_ws_relay *relay = arg;
	if (process && !box_process_runs(process)) {
		relay->exit_code = box_process_exit_code(process);
		relay->end_due = relay->v1;
	}
	box_relay_output_end(&relay->pieces);
	finish(relay, BOX_WS_NORMAL, "the managed process has ended");
}

static void on_fed(void *arg, uint64_t taken)
{
	struct box_ws_relay *relay = arg;
	relay->taken = taken;
	relay->done_due = relay->v1;
	box_ws_relay_balance_reading(relay);
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

static void set_control(struct box_ws_relay *relay, char kind, size_t len)
{
	relay->control[BOX_BUF_HEADROOM] = kind;
	relay->control_len = len;
	relay->control_is_ping = false;
}

/* Whether one is due; `last`: there is nothing else to send. */
static bool wants_ping(const struct box_ws_relay *relay, bool last)
{
	return !relay->ping_under_way && !relay->ended &&
		(last || (!relay->v1 && relay->sent > relay->pinged));
}

/* The next of our own messages, if one is due; the end comes behind all output. */
static void fill_control(struct box_ws_relay *relay)
{
	char *body = relay->control + BOX_BUF_HEADROOM + 1;
	bool last = relay->over && !box_relay_output_first(&relay->pieces);
	if (relay->begin_due) {
		relay->begin_due = false;
		box_bytes_put_be64(body, relay->confirmed);
		box_bytes_put_be64(body + 8, relay->first_input);
		set_control(relay, BOX_WS_RELAY_V1_BEGIN, 17);
	} else if (relay->done_due) {
		relay->done_due = false;
		box_bytes_put_be64(body, relay->taken);
		set_control(relay, BOX_WS_RELAY_V1_DONE, 9);
	} else if (relay->end_due && last) {
		relay->end_due = false;
		box_bytes_put_be64(body, (uint64_t)(int64_t)relay->exit_code);
		set_control(relay, BOX_WS_RELAY_V1_END, 9);
	} else if (wants_ping(relay, last)) {
		relay->ping_under_way = true;
		relay->last_ping = last;
		relay->pinged = relay->sent;
		box_bytes_put_be64(relay->control + BOX_BUF_HEADROOM, relay->sent);
		relay->control_len = 8;
		relay->control_is_ping = true;
	}
}

static bool next(void *arg, struct box_ws_frame *ret_frame)
{
	struct box_ws_relay *relay = arg;
	struct box_relay_output_chunk *piece = box_relay_output_first(&relay->pieces);
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
	size_t len = BOX_MIN(left, BOX_WS_FRAME_BYTES);
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
	struct box_ws_relay *relay = arg;
	if (relay->control_len > 0) {
		relay->control_len = 0;
		return;
	}
	struct box_relay_output_chunk *piece = box_relay_output_first(&relay->pieces);
	piece->sent += frame->len;
	if (piece->sent < piece->len) {
		return;
	}
	relay->sent = piece->end;
	box_relay_output_drop_first(&relay->pieces);
	if (!relay->ended) {
		confirm_claimed(relay);
	}
	if (!relay->ended && !relay->over) {
		update(relay);
	}
}

static void woken(void *arg)
{
	struct box_ws_relay *relay = arg;
	relay->waking = false;
	box_process_send_confirmed(relay->reader);
}

static void close_last(struct box_ws_relay *relay)
{
	if (relay->pieces.skip) {
		/* The rest of the line is nobody's: the next one begins behind it. */
		box_process_skip_line(relay->reader, true);
		(void)box_process_confirm(relay->reader, relay->received, relay->until,
			BOX_WS_RELAY_UNCONFIRMED_BYTES);
	}
	box_ws_close(relay->socket, relay->last_code, relay->last_reason, false);
}

static void pong(void *arg, struct box_str bytes)
{
	struct box_ws_relay *relay = arg;
	if (!relay->ping_under_way || bytes.len != 8 ||
		box_bytes_get_be64(bytes.bytes) != relay->pinged) {
		return; /* to a ping that was not ours */
	}
	relay->ping_under_way = false;
	if (!relay->ended && !relay->v1) {
		confirm(relay, relay->pinged);
	}
	if (relay->last_ping) {
		close_last(relay);
	}
	want_write(relay);
}

/* --- life --- */

static void opened(void *arg, struct box_ws_socket *socket)
{
	struct box_ws_relay *relay = arg;
	relay->socket = socket;
	if (relay->v1) {
		return; /* it says where to begin */
	}
	relay->reading = true;
	box_process_read(relay->reader, BOX_PROCESS_FROM_UNCONFIRMED);
}

/* The next one would refuse it too, and get nothing that is behind it. */
static void refused(void *arg)
{
	struct box_ws_relay *relay = arg;
	uint64_t end = box_relay_output_longest_end(&relay->pieces);
	if (!relay->v1 && !relay->over && end > relay->confirmed) {
		BOX_LOG(BOX_LOG_WARNING, "relay.line_refused");
		relay->sent = BOX_MAX(end, relay->sent);
		confirm(relay, end);
	}
}

static void settled(void *arg)
{
	struct box_ws_relay *relay = arg;
	box_process_flush_input(relay->reader);
	box_ws_relay_balance_reading(relay);
}

static void closing(void *arg)
{
	struct box_ws_relay *relay = arg;
	relay->ended = true;
}

static void closed(void *arg)
{
	struct box_ws_relay *relay = arg;
	box_process_flush_input(relay->reader);
	box_process_detach(relay->reader);
	box_relay_output_free(&relay->pieces);
	box_buf_free(&relay->early);
	free(relay);
}

static const struct box_ws_user user = {
	.patient = true,
	.gathers = true,
	.opened = opened,
	.message = box_ws_relay_message,
	.settled = settled,
	.next = next,
	.sent = sent,
	.pong = pong,
	.woken = woken,
	.refused = refused,
	.closing = closing,
	.closed = closed,
};

void box_ws_relay_accept(struct box_ws *ws, struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, const struct box_ws_upgrade *upgrade)
{
	struct box_process *process;
	struct box_err err;
	if (box_ws_relay_decide(runtime, verdict, &process, &err) != BOX_WS_RELAY_ACCEPTED) {
		(void)close(upgrade->fd);
		return;
	}
	struct box_ws_relay *relay = box_alloc(sizeof(*relay));
	relay->reader = box_process_attach(process, &reader_events, relay);
	relay->v1 = verdict->offers_box_v1;
	relay->early = box_buf(BOX_WS_RELAY_EARLY_BYTES_MAX);
	box_relay_output_init(&relay->pieces,
		verdict->offers_box_v1        ? BOX_RELAY_OUTPUT_BYTES
			: verdict->offers_mcp ? BOX_RELAY_OUTPUT_LINES
					      : BOX_RELAY_OUTPUT_TEXT);
	(void)box_ws_adopt(ws, upgrade, &user, relay);
}
