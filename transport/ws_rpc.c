/* The user of a WebSocket that speaks RPC: text is JSON, binary is msgpack. A message becomes an
 * arena that owns its bytes, and is decoded in place. */
#include "transport/ws_rpc.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "handlers/peer.h"
#include "transport/conn.h"

struct rpc {
	struct box_conn conn;
	bool open;
	struct box_ws_socket *socket;
	struct box_dispatch *dispatch;
	struct box_runtime *runtime;
	bool is_operator;
	char *instance;
};

static struct rpc *of_conn(struct box_conn *conn)
{
	return (struct rpc *)(void *)conn;
}

/* --- for the queue of answers --- */

static void want_write(struct box_conn *conn)
{
	box_ws_want_write(of_conn(conn)->socket);
}

static void pause_reading(struct box_conn *conn, bool paused)
{
	box_ws_pause_reading(of_conn(conn)->socket, paused);
}

static void give_up(struct box_conn *conn)
{
	box_ws_close(of_conn(conn)->socket, BOX_WS_POLICY, "answers are not read", false);
}

static const struct box_conn_ops conn_ops = {
	.want_write = want_write,
	.pause_reading = pause_reading,
	.give_up = give_up,
};

/* --- for the socket --- */

static void opened(void *arg, struct box_ws_socket *socket)
{
	struct rpc *rpc = arg;
	rpc->socket = socket;
	rpc->open = true;
	const struct box_peer_identity speaker = {
		.is_operator = rpc->is_operator, .instance = rpc->instance};
	box_conn_open(&rpc->conn, &conn_ops, rpc->dispatch, rpc->runtime, &speaker,
		BOX_TRANSPORT_WEBSOCKET);
}

static int decode(struct box_message *message, struct box_buf *in, bool binary, const char **why)
{
	if (in->bytes) {
		box_arena_adopt(message->arena, in->bytes - BOX_BUF_HEADROOM);
	}
	if (binary) {
		message->codec = BOX_CODEC_MSGPACK;
		return box_msgpack_decode(message->arena, in->bytes, in->len, &message->value, why);
	}
	message->codec = BOX_CODEC_JSON;
	return box_json_decode(message->arena, in->bytes, in->len, &message->value, why);
}

static int message(void *arg, struct box_buf in, bool binary, const char **ret_why)
{
	struct rpc *rpc = arg;
	struct box_message whole = {.arena = box_arena_new(), .wire_bytes = in.len};
	int r = decode(&whole, &in, binary, ret_why);
	if (r == 0) {
		box_conn_receive(&rpc->conn, &whole);
		return 0;
	}
	box_arena_free(whole.arena);
	if (r == -EILSEQ && !binary) {
		return BOX_WS_BAD_TEXT;
	}
	box_conn_log_ignored(&rpc->conn, *ret_why);
	return 0;
}

static bool next(void *arg, struct box_ws_frame *ret_frame)
{
	struct rpc *rpc = arg;
	struct box_conn_answer *out = rpc->open ? box_conn_first_answer(&rpc->conn) : NULL;
	if (!out) {
		return false;
	}
	size_t left = out->bytes.len - out->sent;
	size_t len = BOX_MIN(left, BOX_WS_FRAME_BYTES);
	*ret_frame = (struct box_ws_frame){
		.kind = out->codec == BOX_CODEC_JSON ? BOX_WS_FRAME_TEXT : BOX_WS_FRAME_BINARY,
		.bytes = out->bytes.bytes + out->sent,
		.len = len,
		.first = out->sent == 0,
		.last = len == left,
	};
	return true;
}

static void sent(void *arg, const struct box_ws_frame *frame)
{
	struct rpc *rpc = arg;
	box_conn_sent(&rpc->conn, frame->len);
}

static void closing(void *arg)
{
	struct rpc *rpc = arg;
	rpc->conn.closing = true;
}

static void closed(void *arg)
{
	struct rpc *rpc = arg;
	if (rpc->open) {
		box_conn_close(&rpc->conn);
	}
	free(rpc->instance);
	free(rpc);
}

static const struct box_ws_user user = {
	.opened = opened,
	.message = message,
	.next = next,
	.sent = sent,
	.closing = closing,
	.closed = closed,
};

void box_ws_rpc_accept(struct box_ws *ws, struct box_dispatch *dispatch,
	struct box_runtime *runtime, const struct box_peer_identity *speaker,
	const struct box_ws_upgrade *upgrade)
{
	struct rpc *rpc = box_alloc(sizeof(*rpc));
	rpc->dispatch = dispatch;
	rpc->runtime = runtime;
	rpc->is_operator = speaker->is_operator;
	rpc->instance = box_strdup(speaker->instance);
	(void)box_ws_adopt(ws, upgrade, &user, rpc);
}
