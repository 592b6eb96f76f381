/* Relays: a WebSocket that is the stdin and stdout of a managed process.
 *
 * Output is requested from the process as fast as the client reads it. Output counts as confirmed once the
 * client certainly has it, and only confirmed output is forgotten: with `box.v1` the client confirms with a
 * message of its own, otherwise by its answer to a ping that was sent after the output. So the next client
 * that attaches gets what this one may have missed. A relay is closed after the answer to a last ping: then
 * the client has everything.
 *
 * Whatever the process does, the client is read until much input is queued: its pings need answers.
 */
#include "transport/ws_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"
#include "transport/relay_output.h"

#define WINDOW_BYTES (256 * BOX_KIB) /* requested beyond the output that has arrived */
#define UNSENT_BYTES (256 * BOX_KIB) /* queued for the client: then no more is requested */
#define CONFIRM_MS 10                /* the process learns within this time what was confirmed */
#define UNCONFIRMED_BYTES \
	(1024 * BOX_KIB) /* the most unconfirmed output; a longer line may still grow */
#define CONTROL_BYTES 32 /* the longest of our own messages of box.v1 */

/* box.v1: the first byte of a message. Offsets are eight bytes, big-endian. */
enum v1_kind {
	V1_DATA = 1, /* output or input: offset, bytes */
	V1_DONE = 2, /* the client has the output, or the process the input, up to this offset */
	V1_BEGIN =
		3, /* from the client, first: the start offset; from us: the offsets of output and input */
	V1_END =
		4, /* from the client: the input ends at this offset; from us: the exit code, then we close */
};

/* --- who may have a relay --- */

enum box_ws_relay_decision box_ws_relay_decide(struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, struct box_process **ret_process,
	struct box_err *err)
{
	struct box_context context = {
		box_str(verdict->instance), box_str(verdict->workspace), verdict->generation};
	char known[BOX_PHYSICAL_ID_SIZE];
	if (box_generations_require_current(runtime->generations, &context, NULL) < 0) {
		return BOX_WS_RELAY_UNAUTHORIZED;
	}
	if (box_runtime_require_ready(runtime, err) < 0) {
		return BOX_WS_RELAY_REFUSED;
	}
	const char *session_id = verdict->session_id;
	if (context.workspace.len == 0) {
		/* Clients that send no context know only logical ids. */
		if (box_tenant_physical_id(&context, box_str(session_id), known, err) < 0) {
			return BOX_WS_RELAY_REFUSED;
		}
		session_id = known;
	} else {
		size_t prefix_len = box_tenant_prefix(&context, known);
		if (strncmp(session_id, known, prefix_len) != 0 ||
			strlen(session_id) == prefix_len) {
			return BOX_WS_RELAY_UNAUTHORIZED;
		}
	}
	struct box_session *session = box_sessions_find(runtime->sessions, session_id, err);
	struct box_process *process = session ? box_process_find(session, verdict->process_id, err)
					      : NULL;
	if (!process) {
		return BOX_WS_RELAY_REFUSED;
	}
	if (!box_process_runs(process)) {
		(void)box_err_set(err, BOX_ERR_PROCESS_CONFLICT, ESRCH,
			"managed process %s in session %s is not running", verdict->process_id,
			verdict->session_id);
		return BOX_WS_RELAY_REFUSED;
	}
	*ret_process = process;
	return BOX_WS_RELAY_ACCEPTED;
}

const char *box_ws_relay_protocol(const struct box_gate_verdict *verdict)
{
	return verdict->offers_box_v1 ? "box.v1" : verdict->offers_mcp ? "mcp" : NULL;
}

/* --- one relay --- */

struct relay {
	struct box_ws_socket *socket;
	struct box_process_reader *reader;
	bool began; /* the reader knows from which offset to read */
	bool v1;
	bool attached;
	bool paused;
	bool finishing; /* no more input: closed when the client has all output */
	struct box_relay_output output;
	/* Offsets of the output: */
	uint64_t requested; /* the process may send up to here */
	uint64_t received;  /* it has been received up to here */
	uint64_t sent;      /* written to the socket up to here */
	uint64_t pinged;    /* a ping was sent behind this offset */
	uint64_t confirmed; /* the client certainly has it up to here */
	/* box.v1: the client claims to have it up to here, perhaps from an earlier relay. */
	uint64_t claimed;
	bool confirm_due; /* the process is about to learn what was confirmed */
	bool ping_under_way;
	bool last_ping; /* the outstanding ping was sent after all output */
	int last_code;  /* close code for after its pong */
	const char *last_reason;
	struct box_buf early; /* input that came before the reader was attached */
	uint64_t taken;       /* offset of the input that the process has taken */
	/* A ping or a message of box.v1, sent before further output; with headroom for the frame's header. */
	char control[BOX_BUF_HEADROOM + CONTROL_BYTES];
	size_t control_len;
	bool control_is_ping;
	bool begin_due;
	bool done_due;
	bool end_due;
	uint64_t first_input;
	int32_t exit_code;
	bool socket_closing;
};

static void want_write(struct relay *relay)
{
	box_ws_want_write(relay->socket);
}

/* A client that sends far more input than the process takes is not read, unless the process itself waits
 * for the client to confirm output, which takes a message from the client. Before the reader is attached a
 * client may send only little, and is read. */
static void balance_reading(struct relay *relay)
{
	bool held = relay->received - relay->confirmed >= UNCONFIRMED_BYTES;
	bool paused = !relay->finishing && relay->attached && !held &&
		box_process_input_full(relay->reader);
	if (relay->paused != paused) {
		relay->paused = paused;
		box_ws_pause_reading(relay->socket, paused);
	}
}

/* Closes once the client has all output received so far. */
static void finish(struct relay *relay, int code, const char *reason)
{
	if (!relay->finishing) {
		relay->finishing = true;
		relay->last_code = code;
		relay->last_reason = reason;
		balance_reading(relay);
		want_write(relay);
	}
}

/* --- output --- */

/* Requests more output if there is room, and confirms what the process may forget. */
static void update(struct relay *relay)
{
	uint64_t open = relay->received - relay->confirmed;
	bool growing = relay->output.rest.len > open / 2;
	if (!relay->finishing && relay->output.ready_bytes < UNSENT_BYTES &&
		(open < UNCONFIRMED_BYTES || growing)) {
		relay->requested = relay->received + WINDOW_BYTES;
	}
	uint64_t hold = open + WINDOW_BYTES;
	hold = BOX_MAX(hold, UNCONFIRMED_BYTES);
	bool confirmed = box_process_confirm(
		relay->reader, relay->confirmed, relay->requested, hold);
	if (!confirmed && !relay->confirm_due) {
		relay->confirm_due = true;
		box_ws_wake_after(relay->socket, CONFIRM_MS);
	}
	balance_reading(relay);
}

/* Output that forms no message (empty lines) needs no confirmation of its own: a client that has all
 * messages has everything but the incomplete rest. */
static void pass_over(struct relay *relay)
{
	uint64_t end = relay->received - relay->output.rest.len;
	if (relay->output.ready_bytes == 0 && relay->sent == relay->confirmed &&
		end > relay->confirmed) {
		relay->sent = relay->confirmed = end;
		relay->pinged = relay->ping_under_way ? relay->pinged : end;
	}
}

/* The client certainly has the output up to this offset. */
static void confirm(struct relay *relay, uint64_t offset)
{
	if (offset > relay->confirmed && offset <= relay->sent) {
		relay->confirmed = offset;
		pass_over(relay);
		update(relay);
		/* The mark "skip the rest of this line" of an earlier relay is cleared: this client does not
		 * read lines and has received the rest. */
		if (relay->output.kind != BOX_RELAY_OUTPUT_LINES) {
			box_process_skip_line(relay->reader, false);
		}
	}
}

static void confirm_claimed(struct relay *relay)
{
	confirm(relay, BOX_MIN(relay->claimed, relay->sent));
}

/* A client that reconnects may already have more than this relay has sent so far, and says so only once. */
static void claim(struct relay *relay, uint64_t offset)
{
	if (offset > relay->claimed && offset <= box_process_output_end(relay->reader)) {
		relay->claimed = offset;
		confirm_claimed(relay);
	}
}

/* --- input --- */

/* Returns 0, or a close code with the reason. */
static int feed(struct relay *relay, struct box_str bytes, const char **ret_why)
{
	int r = box_process_queue_input(relay->reader, bytes);
	balance_reading(relay);
	switch (-r) {
	case EPIPE:
		*ret_why = "input after its end";
		return BOX_WS_POLICY;
	case ENOBUFS:
		*ret_why = "too much input at once";
		return BOX_WS_TOO_LARGE;
	case EAGAIN:
		*ret_why = "too much input waits for processes";
		return BOX_WS_TRY_LATER;
	default:
		return 0; /* input after the end of the process is dropped */
	}
}

static void feed_early(struct relay *relay)
{
	const char *why = "";
	if (relay->early.len == 0) {
		return;
	}
	int code = feed(relay, (struct box_str){relay->early.bytes, relay->early.len}, &why);
	box_buf_free(&relay->early);
	box_process_flush_input(relay->reader);
	if (code != 0) {
		box_ws_close(relay->socket, code, why, false);
	}
}

static int take_line(struct relay *relay, struct box_buf *message, const char **ret_why)
{
	/* The newline is one byte more than a message may have. */
	message->limit++;
	if (box_buf_append(message, "\n", 1) < 0) {
		*ret_why = "message too large";
		return BOX_WS_TOO_LARGE;
	}
	if (!relay->attached) {
		*ret_why = "too much input before its turn";
		return box_buf_append(&relay->early, message->bytes, message->len) < 0
			? BOX_WS_TRY_LATER
			: 0;
	}
	return feed(relay, (struct box_str){message->bytes, message->len}, ret_why);
}

/* -- input in box.v1 -- */

static int take_input(
	struct relay *relay, uint64_t offset, struct box_str bytes, const char **ret_why)
{
	uint64_t end = box_process_input_end(relay->reader);
	if (offset > end) {
		*ret_why = "input is missing before this offset";
		return BOX_WS_PROTOCOL;
	}
	uint64_t known = end - offset;
	if (known >= bytes.len) {
		return 0;
	}
	return feed(
		relay, (struct box_str){bytes.bytes + known, bytes.len - (size_t)known}, ret_why);
}

static int take_end(struct relay *relay, uint64_t offset, const char **ret_why)
{
	uint64_t end = box_process_input_end(relay->reader);
	if (offset > end) {
		*ret_why = "input is missing before its end";
		return BOX_WS_PROTOCOL;
	}
	if (offset < end) {
		*ret_why = "input after its end";
		return BOX_WS_POLICY;
	}
	return feed(relay, box_str(""), ret_why);
}

static int take_v1(struct relay *relay, const struct box_buf *message, const char **ret_why)
{
	char kind = message->len > 0 ? message->bytes[0] : 0;
	*ret_why = "not a message of box.v1";
	if (message->len < 9) {
		return BOX_WS_PROTOCOL;
	}
	uint64_t offset = box_bytes_get_be64(message->bytes + 1);
	if (!relay->began) {
		if (kind != V1_BEGIN) {
			return BOX_WS_PROTOCOL;
		}
		relay->began = true;
		box_process_read(relay->reader, offset);
		return 0;
	}
	if (!relay->attached) {
		*ret_why = "it is not this one's turn yet";
		return BOX_WS_POLICY;
	}
	switch (kind) {
	case V1_DATA:
		return take_input(relay, offset,
			(struct box_str){message->bytes + 9, message->len - 9}, ret_why);
	case V1_DONE:
		claim(relay, offset);
		return 0;
	case V1_END:
		return take_end(relay, offset, ret_why);
	default:
		return BOX_WS_PROTOCOL;
	}
}

static int message(void *arg, struct box_buf message, bool binary, const char **ret_why)
{
	struct relay *relay = arg;
	(void)binary;
	int code = 0;
	/* The last output of a process can be confirmed after its end. */
	bool confirms = relay->v1 && message.len == 9 && message.bytes[0] == V1_DONE;
	if (!relay->socket_closing && (!relay->finishing || confirms)) {
		code = relay->v1 ? take_v1(relay, &message, ret_why)
				 : take_line(relay, &message, ret_why);
	}
	box_buf_free(&message);
	return code;
}

/* --- output of the process --- */

static void on_attached(void *arg, uint64_t offset, uint64_t input)
{
	struct relay *relay = arg;
	relay->attached = true;
	relay->received = relay->confirmed = relay->requested = relay->sent = relay->pinged =
		offset;
	relay->first_input = relay->taken = input;
	relay->begin_due = relay->v1;
	relay->output.skip = !relay->v1 && box_process_skips_line(relay->reader);
	update(relay);
	feed_early(relay);
	want_write(relay);
}

static void take_output(struct relay *relay, uint64_t offset, struct box_str bytes)
{
	if (box_relay_output_add(&relay->output, offset, bytes) < 0) {
		relay->received = relay->output.rest_end;
		BOX_LOG(BOX_LOG_WARNING, "relay.line_too_long");
		finish(relay, BOX_WS_TOO_LARGE, "a line is longer than 16 MiB");
		return;
	}
	relay->received = offset + bytes.len;
	if (relay->output.kind == BOX_RELAY_OUTPUT_LINES) {
		box_process_skip_line(relay->reader, relay->output.skip);
	}
	pass_over(relay);
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct relay *relay = arg;
	if (relay->finishing || relay->socket_closing) {
		return;
	}
	/* A log dropped the output in between, and with it the rest of the current line. */
	if (offset > relay->received) {
		box_relay_output_drop_rest(&relay->output);
	}
	const char *end = relay->output.skip ? memchr(bytes.bytes, '\n', bytes.len) : NULL;
	size_t skipped = end ? (size_t)(end - bytes.bytes) + 1 : 0;
	/* Confirmed alone, so that the process forgets it together with the mark to skip it. */
	if (skipped > 0) {
		take_output(relay, offset, (struct box_str){bytes.bytes, skipped});
	}
	if (skipped < bytes.len) {
		take_output(relay, offset + skipped,
			(struct box_str){bytes.bytes + skipped, bytes.len - skipped});
	}
	if (!relay->finishing) {
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
	box_relay_output_end(&relay->output);
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

/* Whether a ping is due; `last`: there is nothing else to send. */
static bool wants_ping(const struct relay *relay, bool last)
{
	return !relay->ping_under_way && !relay->socket_closing &&
		(last || (!relay->v1 && relay->sent > relay->pinged));
}

/* Writes the next of our own messages, if one is due; V1_END and the last ping come after all output. */
static void fill_control(struct relay *relay)
{
	char *body = relay->control + BOX_BUF_HEADROOM + 1;
	bool last = relay->finishing && !box_relay_output_first(&relay->output);
	if (relay->begin_due) {
		relay->begin_due = false;
		box_bytes_put_be64(body, relay->confirmed);
		box_bytes_put_be64(body + 8, relay->first_input);
		set_control(relay, V1_BEGIN, 17);
	} else if (relay->done_due) {
		relay->done_due = false;
		box_bytes_put_be64(body, relay->taken);
		set_control(relay, V1_DONE, 9);
	} else if (relay->end_due && last) {
		relay->end_due = false;
		box_bytes_put_be64(body, (uint64_t)(int64_t)relay->exit_code);
		set_control(relay, V1_END, 9);
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
	struct relay *relay = arg;
	struct box_relay_output_chunk *chunk = box_relay_output_first(&relay->output);
	bool inside = chunk && chunk->sent > 0;
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
	if (!chunk) {
		return false;
	}
	size_t left = chunk->len - chunk->sent;
	size_t len = BOX_MIN(left, BOX_WS_FRAME_BYTES);
	*ret_frame = (struct box_ws_frame){
		.kind = relay->v1 ? BOX_WS_FRAME_BINARY : BOX_WS_FRAME_TEXT,
		.bytes = chunk->bytes + chunk->sent,
		.len = len,
		.first = chunk->sent == 0,
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
	struct box_relay_output_chunk *chunk = box_relay_output_first(&relay->output);
	chunk->sent += frame->len;
	if (chunk->sent < chunk->len) {
		return;
	}
	relay->sent = chunk->end;
	box_relay_output_drop_first(&relay->output);
	if (!relay->socket_closing) {
		confirm_claimed(relay);
	}
	if (!relay->socket_closing && !relay->finishing) {
		update(relay);
	}
}

static void woken(void *arg)
{
	struct relay *relay = arg;
	relay->confirm_due = false;
	box_process_send_confirmed(relay->reader);
}

static void close_last(struct relay *relay)
{
	if (relay->output.skip) {
		/* The rest of the line is skipped: the next relay starts after it. */
		box_process_skip_line(relay->reader, true);
		(void)box_process_confirm(
			relay->reader, relay->received, relay->requested, UNCONFIRMED_BYTES);
	}
	box_ws_close(relay->socket, relay->last_code, relay->last_reason, false);
}

static void pong(void *arg, struct box_str bytes)
{
	struct relay *relay = arg;
	if (!relay->ping_under_way || bytes.len != 8 ||
		box_bytes_get_be64(bytes.bytes) != relay->pinged) {
		return; /* to a ping of the adapter, not of ours */
	}
	relay->ping_under_way = false;
	if (!relay->socket_closing && !relay->v1) {
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
	struct relay *relay = arg;
	relay->socket = socket;
	if (relay->v1) {
		return; /* the client sends V1_BEGIN with the offset */
	}
	relay->began = true;
	box_process_read(relay->reader, BOX_PROCESS_FROM_UNCONFIRMED);
}

/* The client refused a line for its size. The next client would refuse it too and never get past it, so
 * it counts as confirmed. */
static void refused(void *arg)
{
	struct relay *relay = arg;
	uint64_t end = box_relay_output_longest_end(&relay->output);
	if (!relay->v1 && !relay->finishing && end > relay->confirmed) {
		BOX_LOG(BOX_LOG_WARNING, "relay.line_refused");
		relay->sent = BOX_MAX(end, relay->sent);
		confirm(relay, end);
	}
}

static void settled(void *arg)
{
	struct relay *relay = arg;
	box_process_flush_input(relay->reader);
	balance_reading(relay);
}

static void closing(void *arg)
{
	struct relay *relay = arg;
	relay->socket_closing = true;
}

static void closed(void *arg)
{
	struct relay *relay = arg;
	box_process_flush_input(relay->reader);
	box_process_detach(relay->reader);
	box_relay_output_free(&relay->output);
	box_buf_free(&relay->early);
	free(relay);
}

static const struct box_ws_user user = {
	.patient = true,
	.gathers = true,
	.opened = opened,
	.message = message,
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
	struct relay *relay = box_alloc(sizeof(*relay));
	relay->reader = box_process_attach(process, &reader_events, relay);
	relay->v1 = verdict->offers_box_v1;
	relay->early = box_buf(BOX_WS_RELAY_EARLY_BYTES_MAX);
	box_relay_output_init(&relay->output,
		verdict->offers_box_v1        ? BOX_RELAY_OUTPUT_BYTES
			: verdict->offers_mcp ? BOX_RELAY_OUTPUT_LINES
					      : BOX_RELAY_OUTPUT_TEXT);
	(void)box_ws_adopt(ws, upgrade, &user, relay);
}
