/* Owns a connection's queue of answers, and pauses reading while the queue is too long. */
#include "transport/conn.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "codec/stdio_framer.h"
#include "handlers/peer.h"
#include "runtime/runtime.h"

/* The chunk form at most doubles a JSON text (quotes and backslashes are escaped again) and adds a
 * short line for every BOX_STDIO_CHUNK_BYTES. */
#define FRAMED_BYTES_MAX (3 * BOX_MESSAGE_BYTES_MAX)

static void out_free(struct box_conn_answer *out)
{
	box_buf_free(&out->bytes);
	free(out);
}

static int encode(
	struct box_conn *conn, int codec, const struct box_value *answer, struct box_buf *buf)
{
	*buf = box_buf(BOX_MESSAGE_BYTES_MAX);
	int r = codec == BOX_CODEC_JSON ? box_json_encode(buf, answer)
					: box_msgpack_encode(buf, answer);
	if (r == 0 && conn->json_lines && codec == BOX_CODEC_JSON) {
		struct box_buf lines = box_buf(FRAMED_BYTES_MAX);
		r = box_stdio_framer_encode_json(&lines, buf->bytes, buf->len);
		box_buf_free(buf);
		*buf = lines;
	}
	if (r < 0) {
		box_buf_free(buf);
	}
	return r;
}

static int send_answer(void *connection, int codec, const struct box_value *answer)
{
	struct box_conn *conn = connection;
	if (conn->closing) {
		return -EPIPE;
	}
	struct box_buf buf;
	int r = encode(conn, codec, answer, &buf);
	if (r < 0) {
		return r;
	}
	struct box_metrics_traffic *traffic = &conn->runtime->metrics.traffic[conn->transport];
	traffic->messages_out[codec]++;
	traffic->bytes_out[codec] += buf.len;

	struct box_conn_answer *out = box_alloc(sizeof(*out));
	out->bytes = buf;
	out->codec = (enum box_codec)codec;
	box_list_push(&conn->out, &out->links);
	conn->out_bytes += buf.len;
	if (conn->out_bytes > BOX_OUT_BYTES_MAX) {
		BOX_LOG(BOX_LOG_WARNING, "connection.given_up",
			box_log_str("why", "the client does not read its answers"),
			box_log_int("queued_bytes", (int64_t)conn->out_bytes));
		conn->closing = true;
		conn->ops->give_up(conn);
		return 0;
	}
	if (!conn->paused && conn->out_bytes > BOX_OUT_PAUSE_BYTES) {
		conn->paused = true;
		conn->ops->pause_reading(conn, true);
	}
	conn->ops->want_write(conn);
	return 0;
}

static bool is_congested(const void *connection)
{
	const struct box_conn *conn = connection;
	return conn->out_bytes > BOX_OUT_PAUSE_BYTES;
}

static bool has_bytes(int codec)
{
	return codec == BOX_CODEC_MSGPACK;
}

static const struct box_peer_ops peer_ops = {
	.send = send_answer, .congested = is_congested, .has_bytes = has_bytes};

void box_conn_open(struct box_conn *conn, const struct box_conn_ops *ops,
	struct box_dispatch *dispatch, struct box_runtime *runtime,
	const struct box_peer_identity *speaker, enum box_metrics_transport transport)
{
	conn->ops = ops;
	conn->runtime = runtime;
	conn->transport = transport;
	box_list_init(&conn->out);
	conn->peer = box_peer_new(dispatch, &peer_ops, conn, speaker);
	runtime->metrics.connections_opened[transport]++;
	runtime->metrics.connections_open[transport]++;
}

void box_conn_close(struct box_conn *conn)
{
	conn->closing = true;
	box_peer_free(conn->peer);
	conn->peer = NULL;
	struct box_list *item;
	while ((item = box_list_pop(&conn->out))) {
		out_free(BOX_CONTAINER_OF(item, struct box_conn_answer, links));
	}
	conn->runtime->metrics.connections_open[conn->transport]--;
}

void box_conn_receive(struct box_conn *conn, const struct box_message *message)
{
	struct box_metrics_traffic *traffic = &conn->runtime->metrics.traffic[conn->transport];
	conn->runtime->metrics.messages++;
	traffic->messages_in[message->codec]++;
	traffic->bytes_in[message->codec] += message->wire_bytes;
	/* The tree must outlive the dispatcher's use of it, and the caller's struct may not. */
	struct box_value *value = box_arena_alloc(message->arena, sizeof(*value));
	*value = message->value;
	box_peer_receive(conn->peer, message->arena, value, message->codec);
}

void box_conn_log_ignored(struct box_conn *conn, const char *why)
{
	box_log_limit_warn(&conn->runtime->ignored, 0, why);
	conn->runtime->metrics.ignored_messages++;
}

struct box_conn_answer *box_conn_first_answer(struct box_conn *conn)
{
	return box_list_empty(&conn->out)
		? NULL
		: BOX_CONTAINER_OF(conn->out.next, struct box_conn_answer, links);
}

/* Sending may make room at once, so streams are notified afterwards, not from inside the sending. */
static void notify_drained(struct box_conn *conn)
{
	conn->drained = true;
	if (conn->notifying) {
		return;
	}
	conn->notifying = true;
	while (conn->drained && !conn->closing) {
		conn->drained = false;
		box_peer_drained(conn->peer);
	}
	conn->notifying = false;
}

void box_conn_sent(struct box_conn *conn, size_t len)
{
	struct box_conn_answer *out = box_conn_first_answer(conn);
	out->sent += len;
	conn->out_bytes -= len;
	if (out->sent == out->bytes.len) {
		box_list_drop(&out->links);
		out_free(out);
	}
	if (conn->paused && conn->out_bytes < BOX_OUT_RESUME_BYTES) {
		conn->paused = false;
		conn->ops->pause_reading(conn, false);
		notify_drained(conn);
	}
}
