/* The adapter to libwebsockets on our libuv loop.
 *
 * A message is assembled in one growing buffer, however many fragments it comes in, and counted
 * against two limits before it grows: its own and that of all unfinished messages together.
 */
#include "transport/ws.h"

#include <errno.h>
#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/conn.h"
#include "transport/json.h"
#include "transport/msgpack.h"

_Static_assert(
	LWS_PRE <= BOX_BUF_HEADROOM, "libwebsockets writes its frame header into the headroom");

#define CLOSE_TRY_AGAIN_LATER 1013
#define CLOSE_REASON_MAX 123
#define WRITES_PER_TURN 16
#define CLOSE_SECONDS 2

struct box_ws {
	struct lws_context *context;
	struct lws_vhost *vhost;
	struct box_dispatch *dispatch;
	struct box_runtime *runtime;
	struct box_list connections;
	size_t count;
	size_t pinned_bytes; /* of unfinished messages, all connections */
	struct connection *adopting;
};

struct connection {
	struct box_conn conn;
	struct box_list links;
	struct box_ws *ws;
	struct lws *wsi;
	struct box_buf in;
	bool binary;
	bool established;
	int close_code;   /* not 0: to be closed at the next chance */
	bool drain_first; /* but not before the queue is empty */
	const char *close_reason;
};

static struct connection *of_conn(struct box_conn *conn)
{
	return (struct connection *)(void *)conn;
}

/* --- closing --- */

static int close_now(struct connection *connection)
{
	unsigned char reason[CLOSE_REASON_MAX];
	size_t len = strlen(connection->close_reason);
	len = len < sizeof(reason) ? len : sizeof(reason);
	memcpy(reason, connection->close_reason, len);
	lws_close_reason(
		connection->wsi, (enum lws_close_status)connection->close_code, reason, len);
	return -1;
}

/* For callbacks: closes by the value that they return to libwebsockets. */
static int refuse(struct connection *connection, int code, const char *reason)
{
	connection->close_code = code;
	connection->close_reason = reason;
	connection->conn.closing = true;
	BOX_LOG(BOX_LOG_WARNING, "websocket.closed", box_kv_int("code", code),
		box_kv_str("why", reason));
	return close_now(connection);
}

/* For everyone else: closes when the socket can be written, or after CLOSE_SECONDS if never. */
static void close_soon(struct connection *connection, int code, const char *reason)
{
	if (connection->close_code != 0) {
		return;
	}
	connection->close_code = code;
	connection->close_reason = reason;
	connection->conn.closing = true;
	lws_set_timeout(connection->wsi, PENDING_TIMEOUT_CLOSE_SEND, CLOSE_SECONDS);
	lws_callback_on_writable(connection->wsi);
}

static void give_up(struct box_conn *conn)
{
	close_soon(of_conn(conn), LWS_CLOSE_STATUS_POLICY_VIOLATION, "answers are not read");
}

/* --- in --- */

static void unpin(struct connection *connection)
{
	connection->ws->pinned_bytes -= connection->in.len;
}

/* The assembled message becomes an arena that owns its bytes; the buffer starts anew. */
static int message_whole(struct connection *connection)
{
	struct box_message message = {.arena = box_arena_new(), .wire_bytes = connection->in.len};
	struct box_buf in = connection->in;
	const char *why = NULL;
	int r;
	unpin(connection);
	connection->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	if (in.bytes) {
		box_arena_adopt(message.arena, in.bytes - BOX_BUF_HEADROOM);
	}
	if (connection->binary) {
		message.codec = BOX_CODEC_MSGPACK;
		r = box_msgpack_decode(message.arena, in.bytes, in.len, &message.value, &why);
	} else {
		message.codec = BOX_CODEC_JSON;
		r = box_json_decode(message.arena, in.bytes, in.len, &message.value, &why);
	}
	if (r == 0) {
		box_conn_receive(&connection->conn, &message);
		return 0;
	}
	box_arena_free(message.arena);
	if (r == -EILSEQ && !connection->binary) {
		return refuse(connection, LWS_CLOSE_STATUS_INVALID_PAYLOAD, why);
	}
	box_conn_ignored(&connection->conn, why);
	return 0;
}

/* Compared without adding: a frame may announce 2^63 bytes. */
static bool is_too_large(const struct connection *connection, size_t have)
{
	size_t remaining = lws_remaining_packet_payload(connection->wsi);
	return remaining > BOX_MESSAGE_BYTES_MAX || have > BOX_MESSAGE_BYTES_MAX - remaining;
}

/* Room for the rest of the frame at once, but for no more than four times what has come: what a
 * stranger announces costs nothing. */
static void make_room(struct connection *connection, size_t have, size_t remaining)
{
	size_t wanted = remaining < 3 * have ? have + remaining : 4 * have;
	if (wanted <= BOX_MESSAGE_BYTES_MAX) {
		(void)box_buf_reserve(&connection->in, wanted - connection->in.len);
	}
}

static int on_receive(struct connection *connection, const void *bytes, size_t len)
{
	struct box_ws *ws = connection->ws;
	size_t remaining = lws_remaining_packet_payload(connection->wsi);
	size_t have = connection->in.len + len;
	if (connection->close_code != 0) {
		return 0;
	}
	if (lws_is_first_fragment(connection->wsi)) {
		connection->binary = lws_frame_is_binary(connection->wsi);
	}
	if (is_too_large(connection, have)) {
		return refuse(connection, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "message too large");
	}
	if (ws->pinned_bytes + len > BOX_PINNED_BYTES_MAX) {
		return refuse(connection, CLOSE_TRY_AGAIN_LATER, "too many unfinished messages");
	}
	make_room(connection, have, remaining);
	(void)box_buf_append(&connection->in, bytes, len);
	ws->pinned_bytes += len;
	if (remaining > 0 || !lws_is_final_fragment(connection->wsi)) {
		return 0;
	}
	return message_whole(connection);
}

static void pause_reading(struct box_conn *conn, bool paused)
{
	(void)lws_rx_flow_control(of_conn(conn)->wsi, paused ? 0 : 1);
}

/* --- out --- */

static void want_write(struct box_conn *conn)
{
	lws_callback_on_writable(of_conn(conn)->wsi);
}

/* One frame of the first answer. libwebsockets puts the header in front of the bytes: into the
 * headroom, or over what has been sent already. */
static int write_frame(struct connection *connection, struct box_out *out)
{
	size_t left = out->bytes.len - out->sent;
	size_t len = left < BOX_WS_FRAME_BYTES ? left : BOX_WS_FRAME_BYTES;
	int kind = out->codec == BOX_CODEC_JSON ? LWS_WRITE_TEXT : LWS_WRITE_BINARY;
	int flags = lws_write_ws_flags(kind, out->sent == 0, len == left);
	unsigned char *bytes = (unsigned char *)out->bytes.bytes + out->sent;
	if (lws_write(connection->wsi, bytes, len, (enum lws_write_protocol)flags) < (int)len) {
		return -1;
	}
	box_conn_sent(&connection->conn, len);
	return 0;
}

/* A callback for writing that fails makes libwebsockets drop the socket without a close frame; this
 * way it sends one. */
static int close_from_writable(struct connection *connection)
{
	(void)close_now(connection);
	lws_set_timeout(connection->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_SYNC);
	return 0;
}

/* Writeable comes unasked too: the queue decides. */
static int on_writable(struct connection *connection)
{
	struct box_out *out = box_conn_out(&connection->conn);
	if (connection->close_code != 0 && (!out || !connection->drain_first)) {
		return close_from_writable(connection);
	}
	for (int i = 0; i < WRITES_PER_TURN && (out = box_conn_out(&connection->conn)); i++) {
		if (write_frame(connection, out) < 0) {
			return -1;
		}
		if (lws_send_pipe_choked(connection->wsi)) {
			break;
		}
	}
	if (box_conn_out(&connection->conn) || connection->close_code != 0) {
		lws_callback_on_writable(connection->wsi);
	}
	return 0;
}

static const struct box_conn_ops conn_ops = {
	.want_write = want_write,
	.pause_reading = pause_reading,
	.give_up = give_up,
};

/* --- life --- */

static void on_established(struct connection *connection)
{
	struct box_ws *ws = connection->ws;
	connection->established = true;
	box_conn_open(
		&connection->conn, &conn_ops, ws->dispatch, ws->runtime, BOX_TRANSPORT_WEBSOCKET);
}

static void connection_free(struct connection *connection)
{
	if (connection->established) {
		box_conn_close(&connection->conn);
	}
	unpin(connection);
	box_buf_free(&connection->in);
	box_list_drop(&connection->links);
	connection->ws->count--;
	free(connection);
}

/* The connection of a wsi. libwebsockets may call back from inside the adoption, before we could
 * tell it whose the wsi is. */
static struct connection *connection_of(struct lws *wsi)
{
	struct connection *connection = lws_get_opaque_user_data(wsi);
	if (!connection) {
		struct box_ws *ws = lws_context_user(lws_get_context(wsi));
		connection = ws->adopting;
		ws->adopting = NULL;
		if (connection) {
			connection->wsi = wsi;
			lws_set_opaque_user_data(wsi, connection);
		}
	}
	return connection;
}

static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	(void)user;
	struct connection *connection;
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		connection = connection_of(wsi);
		if (!connection) {
			return -1;
		}
		on_established(connection);
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return on_receive(lws_get_opaque_user_data(wsi), in, len);
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return on_writable(lws_get_opaque_user_data(wsi));
	case LWS_CALLBACK_WSI_DESTROY:
		/* The one that comes on every path. */
		connection = lws_get_opaque_user_data(wsi);
		if (connection) {
			lws_set_opaque_user_data(wsi, NULL);
			connection_free(connection);
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
	{0},
};

static const lws_retry_bo_t keepalive = {
	.secs_since_valid_ping = BOX_PING_INTERVAL_SEC,
	.secs_since_valid_hangup = BOX_PING_HANGUP_SEC,
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

struct box_ws *box_ws_new(
	uv_loop_t *loop, struct box_dispatch *dispatch, struct box_runtime *runtime)
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
		.retry_and_idle_policy = &keepalive,
		.timeout_secs = BOX_HANDSHAKE_MS / 1000,
		.vhost_name = "box",
	};
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	ws->dispatch = dispatch;
	ws->runtime = runtime;
	box_list_init(&ws->connections);
	ws->context = lws_create_context(&info);
	if (ws->context) {
		ws->vhost = lws_create_vhost(ws->context, &info);
	}
	if (!ws->vhost) {
		free(ws);
		return NULL;
	}
	return ws;
}

static struct connection *connection_new(struct box_ws *ws)
{
	struct connection *connection = box_alloc(sizeof(*connection));
	connection->ws = ws;
	connection->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	box_list_push(&ws->connections, &connection->links);
	ws->count++;
	return connection;
}

int box_ws_adopt(struct box_ws *ws, int fd, const char *key, struct box_str rest)
{
	struct box_buf head = box_buf(2 * BOX_HEAD_BYTES_MAX);
	struct connection *connection = connection_new(ws);
	(void)box_buf_printf(&head,
		"GET /rpc/ws HTTP/1.1\r\nHost: box\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
		key);
	(void)box_buf_append(&head, rest.bytes, rest.len);
	ws->adopting = connection;
	struct lws *wsi = lws_adopt_socket_vhost_readbuf(ws->vhost, fd, head.bytes, head.len);
	box_buf_free(&head);
	if (wsi && ws->adopting == connection) {
		ws->adopting = NULL;
		connection->wsi = wsi;
		lws_set_opaque_user_data(wsi, connection);
	}
	if (!wsi && ws->adopting == connection) {
		ws->adopting = NULL;
		connection_free(connection);
	}
	return wsi ? 0 : -EIO;
}

size_t box_ws_count(const struct box_ws *ws)
{
	return ws->count;
}

void box_ws_tick(struct box_ws *ws)
{
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct connection *connection = BOX_LIST_ITEM(at, struct connection, links);
		if (connection->established && is_too_large(connection, connection->in.len)) {
			close_soon(connection, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE,
				"message too large");
		}
	}
}

void box_ws_close_all(struct box_ws *ws, const char *reason)
{
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct connection *connection = BOX_LIST_ITEM(at, struct connection, links);
		if (connection->established) {
			connection->drain_first = true;
			close_soon(connection, LWS_CLOSE_STATUS_GOINGAWAY, reason);
		}
	}
}
