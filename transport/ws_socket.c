/* What comes in and goes out on one WebSocket, and its closing.
 *
 * A message is assembled in one growing buffer, however many fragments it comes in, and counted
 * against two limits before it grows: its own and that of all unfinished messages together.
 */
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/ws_private.h"

_Static_assert(
	LWS_PRE <= BOX_BUF_HEADROOM, "libwebsockets writes its frame header into the headroom");

#define CLOSE_REASON_MAX 123
#define WRITES_PER_TURN 16
#define SMALL_BYTES (4 * BOX_KIB)
#define CLOSE_SECONDS 2

/* --- closing --- */

static int close_now(struct box_ws_socket *socket)
{
	unsigned char reason[CLOSE_REASON_MAX];
	size_t len = strlen(socket->close_reason);
	len = len < sizeof(reason) ? len : sizeof(reason);
	memcpy(reason, socket->close_reason, len);
	lws_close_reason(socket->wsi, (enum lws_close_status)socket->close_code, reason, len);
	return -1;
}

/* For callbacks: closes by the value that they return to libwebsockets. */
static int refuse(struct box_ws_socket *socket, int code, const char *reason)
{
	socket->close_code = code;
	socket->close_reason = reason;
	socket->user->closing(socket->arg);
	box_log_limit_warn(&socket->ws->closed, code, reason);
	return close_now(socket);
}

/* For everyone else: closes when the socket can be written, or after CLOSE_SECONDS if never. */
void box_ws_close(struct box_ws_socket *socket, int code, const char *reason, bool drain)
{
	if (socket->close_code != 0) {
		return;
	}
	socket->close_code = code;
	socket->close_reason = reason;
	socket->drain_first = drain;
	socket->user->closing(socket->arg);
	lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, CLOSE_SECONDS);
	lws_callback_on_writable(socket->wsi);
}

void box_ws_close_for_fault(struct box_ws_socket *socket)
{
	if (!socket->established || socket->close_code != 0) {
		return;
	}
	box_log_limit_warn(&socket->ws->closed, socket->fault_code, socket->fault);
	box_ws_pause_reading(socket, true);
	box_ws_close(socket, socket->fault_code, socket->fault, false);
}

/* --- in --- */

static void unpin(struct box_ws_socket *socket)
{
	socket->ws->pinned_bytes -= socket->in.len;
}

static void tell_settled(struct box_deferred_call *call)
{
	struct box_ws_socket *socket = BOX_CONTAINER_OF(call, struct box_ws_socket, heard);
	socket->user->settled(socket->arg);
}

/* The buffer starts anew; the assembled message is the user's. */
static int message_whole(struct box_ws_socket *socket)
{
	struct box_buf message = socket->in;
	const char *why = "";
	unpin(socket);
	socket->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	if (socket->user->settled) {
		box_deferred_schedule(&socket->ws->turn, &socket->heard);
	}
	int code = socket->user->message(socket->arg, message, socket->binary, &why);
	return code == 0 ? 0 : refuse(socket, code, why);
}

/* Compared without adding: a frame may announce 2^63 bytes. */
static bool is_too_large(const struct box_ws_socket *socket, size_t have)
{
	size_t remaining = lws_remaining_packet_payload(socket->wsi);
	return remaining > BOX_MESSAGE_BYTES_MAX || have > BOX_MESSAGE_BYTES_MAX - remaining;
}

/* Room for the rest of the frame at once, but for no more than four times what has come: what a
 * stranger announces costs nothing. */
static void make_room(struct box_ws_socket *socket, size_t have, size_t remaining)
{
	size_t wanted = remaining < 3 * have ? have + remaining : 4 * have;
	if (wanted <= BOX_MESSAGE_BYTES_MAX) {
		(void)box_buf_reserve(&socket->in, wanted - socket->in.len);
	}
}

int box_ws_receive(struct box_ws_socket *socket, const void *bytes, size_t len)
{
	struct box_ws *ws = socket->ws;
	size_t remaining = lws_remaining_packet_payload(socket->wsi);
	size_t have = socket->in.len + len;
	if (socket->close_code != 0) {
		return 0;
	}
	if (len > socket->frames.passed) {
		return refuse(socket, BOX_WS_INTERNAL, "these bytes were not judged");
	}
	socket->frames.passed -= len;
	if (lws_is_first_fragment(socket->wsi)) {
		socket->binary = lws_frame_is_binary(socket->wsi);
	}
	if (is_too_large(socket, have)) {
		return refuse(socket, BOX_WS_TOO_LARGE, "message too large");
	}
	if (ws->pinned_bytes + len > BOX_PINNED_BYTES_MAX) {
		return refuse(socket, BOX_WS_TRY_LATER, "too many unfinished messages");
	}
	make_room(socket, have, remaining);
	(void)box_buf_append(&socket->in, bytes, len);
	ws->pinned_bytes += len;
	if (remaining > 0 || !lws_is_final_fragment(socket->wsi)) {
		return 0;
	}
	return message_whole(socket);
}

void box_ws_pause_reading(struct box_ws_socket *socket, bool paused)
{
	paused = paused || socket->fault;
	socket->paused = paused;
	(void)lws_rx_flow_control(socket->wsi, paused ? 0 : 1);
}

/* --- out --- */

/* What comes up while it sends waits for its turn, so that others get theirs. */
void box_ws_want_write(struct box_ws_socket *socket)
{
	if (socket->sending || socket->close_code != 0 || socket->peer_closes) {
		lws_callback_on_writable(socket->wsi);
	} else {
		box_deferred_schedule(&socket->ws->turn, &socket->due);
	}
}

void box_ws_wake_after(struct box_ws_socket *socket, unsigned int ms)
{
	lws_set_timer_usecs(socket->wsi, (lws_usec_t)ms * LWS_US_PER_MS);
}

static int flags_of(const struct box_ws_frame *frame)
{
	if (frame->kind == BOX_WS_FRAME_PING) {
		return LWS_WRITE_PING;
	}
	return lws_write_ws_flags(
		frame->kind == BOX_WS_FRAME_TEXT ? LWS_WRITE_TEXT : LWS_WRITE_BINARY, frame->first,
		frame->last);
}

/* The user's next one, but a ping of our own first: it may go between the frames of a message. */
static bool next_frame(struct box_ws_socket *socket, struct box_ws_frame *ret_frame)
{
	if (!socket->ping_due) {
		return socket->user->next(socket->arg, ret_frame);
	}
	*ret_frame = (struct box_ws_frame){
		.kind = BOX_WS_FRAME_PING,
		.bytes = socket->ping + BOX_BUF_HEADROOM,
		.len = BOX_WS_PING_BYTES,
		.first = true,
		.last = true,
	};
	return true;
}

/* libwebsockets puts the header in front of the bytes: into the headroom, or over what has been sent
 * already. */
static int write_frame(struct box_ws_socket *socket, const struct box_ws_frame *frame)
{
	int flags = flags_of(frame);
	if (lws_write(socket->wsi, (unsigned char *)frame->bytes, frame->len,
		    (enum lws_write_protocol)flags) < (int)frame->len) {
		return -1;
	}
	if (socket->ping_due) {
		socket->ping_due = false;
	} else {
		socket->user->sent(socket->arg, frame);
	}
	return 0;
}

/* A callback for writing that fails makes libwebsockets drop the socket without a close frame; this
 * way it sends one. */
static int close_from_writable(struct box_ws_socket *socket)
{
	if (socket->sending) {
		/* It would be gone under the hands of whoever sends. */
		lws_callback_on_writable(socket->wsi);
		return 0;
	}
	(void)close_now(socket);
	lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_SYNC);
	return 0;
}

/* While it is set, what is written waits until there is a segment full of it. */
static void set_cork(const struct box_ws_socket *socket, int on)
{
	(void)setsockopt(lws_get_socket_fd(socket->wsi), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

/* libwebsockets keeps what the kernel does not take. It asks the kernel first whether there is room: a
 * call of its own, which a frame that is cheap to keep is not worth. */
static bool has_room(const struct box_ws_socket *socket, size_t len)
{
	return len < SMALL_BYTES ? !lws_partial_buffered(socket->wsi)
				 : !lws_send_pipe_choked(socket->wsi);
}

/* Writeable comes unasked too: the user knows whether there is anything. */
int box_ws_write(struct box_ws_socket *socket)
{
	struct box_ws_frame frame;
	bool more = next_frame(socket, &frame);
	if (socket->close_code != 0 && (!more || !socket->drain_first)) {
		return close_from_writable(socket);
	}
	bool corked = more && socket->user->gathers;
	if (corked) {
		set_cork(socket, 1);
	}
	for (int i = 0; i < WRITES_PER_TURN && more && has_room(socket, frame.len); i++) {
		if (write_frame(socket, &frame) < 0) {
			return -1;
		}
		more = next_frame(socket, &frame);
	}
	if (corked) {
		set_cork(socket, 0);
	}
	if (more || socket->close_code != 0) {
		lws_callback_on_writable(socket->wsi);
	}
	return 0;
}

/* Most sockets take what there is at once; to be told so first would cost a turn of the loop. One that
 * is broken is ended from here: libwebsockets does not ask about it again. */
static void send_due(struct box_deferred_call *call)
{
	struct box_ws_socket *socket = BOX_CONTAINER_OF(call, struct box_ws_socket, due);
	if (socket->close_code != 0 || socket->peer_closes || lws_partial_buffered(socket->wsi)) {
		lws_callback_on_writable(socket->wsi);
		return;
	}
	socket->sending = true;
	if (box_ws_write(socket) < 0) {
		lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
	}
	socket->sending = false;
}

/* --- the other end --- */

void box_ws_take_pong(struct box_ws_socket *socket, struct box_str bytes)
{
	if (!socket) {
		return;
	}
	box_keepalive_heard(&socket->alive, box_clock_ms());
	if (socket->user->pong) {
		socket->user->pong(socket->arg, bytes);
	}
}

/* Its code is in the first two bytes, the high one first. */
void box_ws_take_close(struct box_ws_socket *socket, const unsigned char *in, size_t len)
{
	bool too_large = len >= 2 && (in[0] << 8 | in[1]) == BOX_WS_TOO_LARGE;
	if (socket) {
		socket->peer_closes = true;
	}
	if (socket && too_large && socket->close_code == 0 && socket->user->refused) {
		socket->user->refused(socket->arg);
	}
}

/* The pongs of one that is not read are not seen. But one that is slow takes what it is owed, and that
 * is. */
static bool is_there_unread(struct box_ws_socket *socket, uint64_t since_ms)
{
	int fd = (int)lws_get_socket_fd(socket->wsi);
	bool takes = box_keepalive_peer_reads(&socket->alive, fd);
	return takes || (socket->user->patient && box_keepalive_kernel_answered(fd, since_ms));
}

void box_ws_socket_tick(struct box_ws_socket *socket, uint64_t now_ms, uint64_t since_ms)
{
	if (is_too_large(socket, socket->in.len)) {
		box_ws_close(socket, BOX_WS_TOO_LARGE, "message too large", false);
	}
	if (socket->paused && is_there_unread(socket, since_ms)) {
		box_keepalive_heard(&socket->alive, now_ms);
		lws_validity_confirmed(socket->wsi);
	}
	if (box_keepalive_ping_due(&socket->alive, &socket->ws->times, now_ms)) {
		socket->ping_due = true;
		lws_callback_on_writable(socket->wsi);
	}
}

/* --- begin and end --- */

void box_ws_socket_init(struct box_ws_socket *socket)
{
	socket->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	socket->heard.call = tell_settled;
	socket->due.call = send_due;
}

void box_ws_socket_drop(struct box_ws_socket *socket)
{
	unpin(socket);
	box_buf_free(&socket->in);
	box_deferred_cancel(&socket->heard);
	box_deferred_cancel(&socket->due);
}
