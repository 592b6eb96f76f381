/* What a client of a relay says: input for the process, and with `box.v1` how far it has come. A client
 * is read, whatever the process does, until much is waiting: its pings want answers. */
#include <errno.h>

#include "base/limits.h"
#include "runtime/session/process.h"
#include "transport/ws_relay_private.h"

/* A client that sends far more than the process takes has to wait, unless the process itself waits for
 * what only the client can say: that it has got what was sent. One that waits for its turn may send
 * little, and is read. */
void box_ws_relay_balance_reading(struct box_ws_relay *relay)
{
	bool held = relay->received - relay->confirmed >= BOX_WS_RELAY_UNCONFIRMED_BYTES;
	bool paused = !relay->over && relay->attached && !held &&
		box_process_input_full(relay->reader);
	if (relay->paused != paused) {
		relay->paused = paused;
		box_ws_pause_reading(relay->socket, paused);
	}
}

/* 0, or a code to close with, and why. */
static int feed(struct box_ws_relay *relay, struct box_str bytes, const char **ret_why)
{
	int r = box_process_queue_input(relay->reader, bytes);
	box_ws_relay_balance_reading(relay);
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
		return 0; /* what comes when the process is over is nobody's */
	}
}

void box_ws_relay_feed_early(struct box_ws_relay *relay)
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

static int take_line(struct box_ws_relay *relay, struct box_buf *message, const char **ret_why)
{
	/* One byte more than a message may have. */
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

/* --- box.v1 --- */

static int take_input(
	struct box_ws_relay *relay, uint64_t offset, struct box_str bytes, const char **ret_why)
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

static int take_end(struct box_ws_relay *relay, uint64_t offset, const char **ret_why)
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

static int take_v1(struct box_ws_relay *relay, const struct box_buf *message, const char **ret_why)
{
	char kind = message->len > 0 ? message->bytes[0] : 0;
	*ret_why = "not a message of box.v1";
	if (message->len < 9) {
		return BOX_WS_PROTOCOL;
	}
	uint64_t offset = box_bytes_get_be64(message->bytes + 1);
	if (!relay->reading) {
		if (kind != BOX_WS_RELAY_V1_BEGIN) {
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
	case BOX_WS_RELAY_V1_DATA:
		return take_input(relay, offset,
			(struct box_str){message->bytes + 9, message->len - 9}, ret_why);
	case BOX_WS_RELAY_V1_DONE:
		box_ws_relay_claim(relay, offset);
		return 0;
	case BOX_WS_RELAY_V1_END:
		return take_end(relay, offset, ret_why);
	default:
		return BOX_WS_PROTOCOL;
	}
}

int box_ws_relay_message(void *arg, struct box_buf message, bool binary, const char **ret_why)
{
	struct box_ws_relay *relay = arg;
	(void)binary;
	int code = 0;
	/* The last output of a process can be confirmed after its end. */
	bool confirms = relay->v1 && message.len == 9 && message.bytes[0] == BOX_WS_RELAY_V1_DONE;
	if (!relay->ended && (!relay->over || confirms)) {
		code = relay->v1 ? take_v1(relay, &message, ret_why)
				 : take_line(relay, &message, ret_why);
	}
	box_buf_free(&message);
	return code;
}
