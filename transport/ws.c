/* The adapter to libwebsockets on our libuv loop.
 *
 * A message is assembled in one growing buffer, however many fragments it comes in, and counted
 * against two limits before it grows: its own and that of all unfinished messages together.
 */
#include "transport/ws.h"

#include <errno.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"

_Static_assert(
	LWS_PRE <= BOX_BUF_HEADROOM, "libwebsockets writes its frame header into the headroom");

#define CLOSE_REASON_MAX 123
#define WRITES_PER_TURN 16
#define CLOSE_SECONDS 2
#define PING_BYTES 1 /* libwebsockets tells of no answer that is empty */

struct box_ws {
	struct lws_context *context;
	struct lws_vhost *vhost;
	struct box_alive_times times;
	lws_retry_bo_t hangup;
	struct box_list connections;
	struct box_list heard; /* those that got messages in this turn of the loop */
	/* The end of the turn; what libwebsockets had kept back comes behind that. */
	uv_check_t check;
	uv_prepare_t prepare;
	size_t count;
	size_t pinned_bytes; /* of unfinished messages, all connections */
	uint64_t ticked_ms;
	struct box_ws_socket *adopting;
};

struct box_ws_socket {
	const struct box_ws_user *user;
	void *arg;
	struct box_list links;
	struct box_list heard_links;
	bool heard;
	struct box_ws *ws;
	struct lws *wsi;
	struct box_buf in;
	bool binary;
	bool established;
	bool paused;
	struct box_alive alive;
	bool ping_due;
	char ping[BOX_BUF_HEADROOM + PING_BYTES];
	int close_code;   /* not 0: to be closed at the next chance */
	bool drain_first; /* but not before the queue is empty */
	const char *close_reason;
};

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
	BOX_LOG(BOX_LOG_WARNING, "websocket.closed", box_kv_int("code", code),
		box_kv_str("why", reason));
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

/* --- in --- */

static void unpin(struct box_ws_socket *socket)
{
	socket->ws->pinned_bytes -= socket->in.len;
}

static void tell_settled(struct box_ws *ws)
{
	(void)uv_check_stop(&ws->check);
	(void)uv_prepare_stop(&ws->prepare);
	while (!box_list_empty(&ws->heard)) {
		struct box_ws_socket *socket = BOX_LIST_ITEM(
			ws->heard.next, struct box_ws_socket, heard_links);
		box_list_drop(&socket->heard_links);
		socket->heard = false;
		socket->user->settled(socket->arg);
	}
}

static void check_cb(uv_check_t *check)
{
	tell_settled(check->data);
}

static void prepare_cb(uv_prepare_t *prepare)
{
	tell_settled(prepare->data);
}

static void note_heard(struct box_ws_socket *socket)
{
	if (socket->user->settled && !socket->heard) {
		socket->heard = true;
		box_list_push(&socket->ws->heard, &socket->heard_links);
		(void)uv_check_start(&socket->ws->check, check_cb);
		(void)uv_prepare_start(&socket->ws->prepare, prepare_cb);
	}
}

/* The buffer starts anew; the assembled message is the user's. */
static int message_whole(struct box_ws_socket *socket)
{
	struct box_buf message = socket->in;
	const char *why = "";
	unpin(socket);
	socket->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	note_heard(socket);
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

static int on_receive(struct box_ws_socket *socket, const void *bytes, size_t len)
{
	struct box_ws *ws = socket->ws;
	size_t remaining = lws_remaining_packet_payload(socket->wsi);
	size_t have = socket->in.len + len;
	if (socket->close_code != 0) {
		return 0;
	}
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
	socket->paused = paused;
	(void)lws_rx_flow_control(socket->wsi, paused ? 0 : 1);
}

/* --- out --- */

void box_ws_want_write(struct box_ws_socket *socket)
{
	lws_callback_on_writable(socket->wsi);
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
		.len = PING_BYTES,
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
	(void)close_now(socket);
	lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_SYNC);
	return 0;
}

/* While it is set, what is written waits until there is a segment full of it. */
static void set_cork(const struct box_ws_socket *socket, int on)
{
	(void)setsockopt(lws_get_socket_fd(socket->wsi), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

/* Writeable comes unasked too: the user knows whether there is anything. */
static int on_writable(struct box_ws_socket *socket)
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
	for (int i = 0; i < WRITES_PER_TURN && more; i++) {
		if (write_frame(socket, &frame) < 0) {
			return -1;
		}
		more = next_frame(socket, &frame);
		if (lws_send_pipe_choked(socket->wsi)) {
			break;
		}
	}
	if (corked) {
		set_cork(socket, 0);
	}
	if (more || socket->close_code != 0) {
		lws_callback_on_writable(socket->wsi);
	}
	return 0;
}

static void on_pong(struct box_ws_socket *socket, struct box_str bytes)
{
	if (!socket) {
		return;
	}
	box_alive_heard(&socket->alive, box_clock_ms());
	if (socket->user->pong) {
		socket->user->pong(socket->arg, bytes);
	}
}

/* Its code is in the first two bytes, the high one first. */
static void on_peer_close(struct box_ws_socket *socket, const unsigned char *in, size_t len)
{
	bool too_large = len >= 2 && (in[0] << 8 | in[1]) == BOX_WS_TOO_LARGE;
	if (socket && too_large && socket->close_code == 0 && socket->user->refused) {
		socket->user->refused(socket->arg);
	}
}

/* --- life --- */

static void socket_free(struct box_ws_socket *socket)
{
	socket->user->closed(socket->arg);
	unpin(socket);
	box_buf_free(&socket->in);
	if (socket->heard) {
		box_list_drop(&socket->heard_links);
	}
	box_list_drop(&socket->links);
	socket->ws->count--;
	free(socket);
}

/* The socket of a wsi. libwebsockets may call back from inside the adoption, before we could
 * tell it whose the wsi is. */
static struct box_ws_socket *socket_of(struct lws *wsi)
{
	struct box_ws_socket *socket = lws_get_opaque_user_data(wsi);
	if (!socket) {
		struct box_ws *ws = lws_context_user(lws_get_context(wsi));
		socket = ws->adopting;
		ws->adopting = NULL;
		if (socket) {
			socket->wsi = wsi;
			lws_set_opaque_user_data(wsi, socket);
		}
	}
	return socket;
}

static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	(void)user;
	struct box_ws_socket *socket;
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		socket = socket_of(wsi);
		if (!socket) {
			return -1;
		}
		socket->established = true;
		box_alive_heard(&socket->alive, box_clock_ms());
		socket->user->opened(socket->arg, socket);
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return on_receive(lws_get_opaque_user_data(wsi), in, len);
	case LWS_CALLBACK_RECEIVE_PONG:
		on_pong(lws_get_opaque_user_data(wsi), (struct box_str){in, len});
		return 0;
	case LWS_CALLBACK_TIMER:
		socket = lws_get_opaque_user_data(wsi);
		if (socket && socket->user->woken) {
			socket->user->woken(socket->arg);
		}
		return 0;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		on_peer_close(lws_get_opaque_user_data(wsi), in, len);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return on_writable(lws_get_opaque_user_data(wsi));
	case LWS_CALLBACK_WSI_DESTROY:
		/* The one that comes on every path. */
		socket = lws_get_opaque_user_data(wsi);
		if (socket) {
			lws_set_opaque_user_data(wsi, NULL);
			socket_free(socket);
		}
		return 0;
	case LWS_CALLBACK_HTTP:
		/* Our own head always upgrades: this is not reached. */
		return -1;
	default:
		return 0;
	}
}

static const struct lws_protocols protocols[] = {
	{.name = "box", .callback = callback},
	{.name = "mcp", .callback = callback},
	{.name = "box.v1", .callback = callback},
	{0},
};

static void on_lws_log(int level, const char *line)
{
	/* Logged at error level, though they mean nothing: every adoption with a foreign loop, and
	 * the routes that the fence does not let it watch. */
	if (strstr(line, "calling service") || strstr(line, "unable to open netlink")) {
		return;
	}
	BOX_LOG(level & LLL_ERR ? BOX_LOG_WARNING : BOX_LOG_DEBUG, "libwebsockets",
		box_kv_bytes("line", (struct box_str){line, strcspn(line, "\n")}));
}

struct box_ws *box_ws_new(uv_loop_t *loop, const struct box_alive_times *times)
{
	struct box_ws *ws = box_alloc(sizeof(*ws));
	void *loops[] = {loop};
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN_SERVER,
		.protocols = protocols,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
		.foreign_loops = loops,
		.user = ws,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.pt_serv_buf_size = (unsigned int)BOX_WS_FRAME_BYTES,
		.retry_and_idle_policy = &ws->hangup,
		.timeout_secs = BOX_HANDSHAKE_MS / 1000,
		.vhost_name = "box",
	};
	ws->times = *times;
	/* It hangs up only. A ping of its own would go into the buffer where the answer to one of the
	 * peer's waits: the peer would get a pong that it never asked for. */
	ws->hangup.secs_since_valid_ping = times->hangup_sec;
	ws->hangup.secs_since_valid_hangup = times->hangup_sec;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	box_list_init(&ws->connections);
	box_list_init(&ws->heard);
	ws->context = lws_create_context(&info);
	if (ws->context) {
		ws->vhost = lws_create_vhost(ws->context, &info);
	}
	if (!ws->vhost) {
		free(ws);
		return NULL;
	}
	(void)uv_check_init(loop, &ws->check);
	(void)uv_prepare_init(loop, &ws->prepare);
	ws->check.data = ws;
	ws->prepare.data = ws;
	return ws;
}

static struct box_ws_socket *socket_new(
	struct box_ws *ws, const struct box_ws_user *user, void *arg)
{
	struct box_ws_socket *socket = box_alloc(sizeof(*socket));
	socket->ws = ws;
	socket->user = user;
	socket->arg = arg;
	socket->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	box_list_push(&ws->connections, &socket->links);
	ws->count++;
	return socket;
}

static void write_head(struct box_buf *head, const struct box_ws_upgrade *upgrade)
{
	(void)box_buf_printf(head,
		"GET /rpc/ws HTTP/1.1\r\nHost: box\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		upgrade->key);
	if (upgrade->protocol) {
		(void)box_buf_printf(head, "Sec-WebSocket-Protocol: %s\r\n", upgrade->protocol);
	}
	(void)box_buf_append_str(head, "\r\n");
	(void)box_buf_append(head, upgrade->rest.bytes, upgrade->rest.len);
}

int box_ws_adopt(struct box_ws *ws, const struct box_ws_upgrade *upgrade,
	const struct box_ws_user *user, void *arg)
{
	struct box_buf head = box_buf(2 * BOX_HEAD_BYTES_MAX);
	struct box_ws_socket *socket = socket_new(ws, user, arg);
	write_head(&head, upgrade);
	if (user->patient) {
		box_alive_watch_by_kernel(upgrade->fd, &ws->times);
	}
	ws->adopting = socket;
	struct lws *wsi = lws_adopt_socket_vhost_readbuf(
		ws->vhost, upgrade->fd, head.bytes, head.len);
	box_buf_free(&head);
	if (wsi && ws->adopting == socket) {
		ws->adopting = NULL;
		socket->wsi = wsi;
		lws_set_opaque_user_data(wsi, socket);
	}
	if (!wsi && ws->adopting == socket) {
		ws->adopting = NULL;
		socket_free(socket);
	}
	return wsi ? 0 : -EIO;
}

size_t box_ws_count(const struct box_ws *ws)
{
	return ws->count;
}

static void look_after(struct box_ws_socket *socket, uint64_t now_ms, uint64_t since_ms)
{
	if (is_too_large(socket, socket->in.len)) {
		box_ws_close(socket, BOX_WS_TOO_LARGE, "message too large", false);
	}
	if (socket->paused && socket->user->patient &&
		box_alive_kernel_answered((int)lws_get_socket_fd(socket->wsi), since_ms)) {
		box_alive_heard(&socket->alive, now_ms);
		lws_validity_confirmed(socket->wsi);
	}
	if (box_alive_ask(&socket->alive, &socket->ws->times, now_ms)) {
		socket->ping_due = true;
		lws_callback_on_writable(socket->wsi);
	}
}

void box_ws_tick(struct box_ws *ws)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t since_ms = now_ms - ws->ticked_ms;
	ws->ticked_ms = now_ms;
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_LIST_ITEM(at, struct box_ws_socket, links);
		if (socket->established) {
			look_after(socket, now_ms, since_ms);
		}
	}
}

void box_ws_close_all(struct box_ws *ws, const char *reason)
{
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_LIST_ITEM(at, struct box_ws_socket, links);
		if (socket->established) {
			box_ws_close(socket, BOX_WS_GOING_AWAY, reason, true);
		}
	}
}
