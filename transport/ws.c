/* The adapter to libwebsockets on our libuv loop: its context, each WebSocket from its adoption to its
 * end, what is read and written in between, and closing. It knows nothing of what a connection is for:
 * that is its user's, ws_rpc.c or ws_relay.c.
 *
 * A message is assembled in one growing buffer, however many fragments it comes in, and counted
 * against two limits before the buffer grows: the limit of one message and that of all unfinished
 * messages together.
 *
 * libwebsockets accepts frames of clients that are not masked, and hangs up on other faults without a
 * close frame when it can: RFC 6455 wants the connection closed with 1002. It has no callback for a
 * frame, but it reads by recv, and a program's own definition comes before that of libc. So everything
 * that it reads passes through the recv below, where ws_frames.c checks the frames. Sockets that are
 * not WebSockets are read as usual. That libwebsockets really calls this recv is checked when box-rpc
 * starts, and again with every message: one whose bytes did not pass through it is refused.
 */
#include "transport/ws.h"

#include <dlfcn.h>
#include <errno.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/macros.h"
#include "transport/deferred.h"
#include "transport/keepalive.h"
#include "transport/ws_frames.h"

_Static_assert(
	LWS_PRE <= BOX_BUF_HEADROOM, "libwebsockets writes its frame header into the headroom");

#define CLOSE_REASON_MAX 123
#define CLOSE_SECONDS 2
#define WRITES_PER_TURN 16
#define SMALL_BYTES (4 * BOX_KIB)
#define PING_BYTES 1  /* libwebsockets does not report empty pongs */
#define DRAINS_MAX 64 /* reads that discard what follows a fault, in one call */

struct box_ws {
	struct lws_context *context;
	struct lws_vhost *vhost;
	struct box_keepalive_times times;
	lws_retry_bo_t hangup;
	struct box_list connections;
	struct box_deferred turn;
	size_t count;
	size_t pinned_bytes; /* of unfinished messages, all connections */
	uint64_t ticked_ms;
	struct box_ws_socket *adopting;
	struct box_log_limit closed; /* connections closed because of the client */
};

struct box_ws_socket {
	const struct box_ws_user *user;
	void *arg;
	struct box_list links;
	/* Reports that all messages of this turn were delivered. */
	struct box_deferred_call settled;
	struct box_deferred_call due; /* writes what is queued */
	struct box_ws *ws;
	struct lws *wsi;
	int fd;
	struct box_ws_frames frames; /* the position in the frames that are read */
	const char *fault;           /* in the frames: the reason to close the connection */
	int fault_code;              /* and the close code */
	struct box_buf in;
	bool binary;
	bool established;
	bool paused;
	struct box_keepalive alive;
	bool ping_due;
	char ping[BOX_BUF_HEADROOM + PING_BYTES];
	bool sending; /* at the end of a turn, not from a callback of libwebsockets */
	bool peer_closes;
	int close_code;   /* not 0: closed as soon as the socket can be written */
	bool drain_first; /* but not before everything queued is sent */
	const char *close_reason;
};

/* --- closing --- */

static int close_now(struct box_ws_socket *socket)
{
	unsigned char reason[CLOSE_REASON_MAX];
	size_t len = strlen(socket->close_reason);
	len = BOX_MIN(len, sizeof(reason));
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

/* For all other callers: closes when the socket can be written, or after CLOSE_SECONDS if never. */
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

/* The client has sent a frame that RFC 6455 forbids. */
static void close_for_fault(struct box_ws_socket *socket)
{
	if (!socket->established || socket->close_code != 0) {
		return;
	}
	box_log_limit_warn(&socket->ws->closed, socket->fault_code, socket->fault);
	box_ws_pause_reading(socket, true);
	box_ws_close(socket, socket->fault_code, socket->fault, false);
}

/* --- what libwebsockets reads --- */

static struct box_ws_socket **sockets; /* by fd */
static int sockets_room;

/* Checks the frames that libwebsockets reads from this fd from now on. */
static void watch_reads(struct box_ws_socket *socket, int fd)
{
	if (fd >= sockets_room) {
		int room = sockets_room > 0 ? sockets_room : 64;
		while (room <= fd) {
			room *= 2;
		}
		/* NOLINTBEGIN(bugprone-sizeof-expression): a table of pointers */
		struct box_ws_socket **wider = box_alloc((size_t)room * sizeof(*wider));
		if (sockets_room > 0) {
			memcpy(wider, sockets, (size_t)sockets_room * sizeof(*wider));
		}
		/* NOLINTEND(bugprone-sizeof-expression) */
		free(sockets);
		sockets = wider;
		sockets_room = room;
	}
	sockets[fd] = socket;
	socket->fd = fd;
}

/* Exported for test_ws.c, which simulates a libwebsockets that does not read by our recv. */
void box_ws_recv_forget(struct box_ws_socket *socket);
void box_ws_recv_forget(struct box_ws_socket *socket)
{
	if (socket->fd >= 0 && socket->fd < sockets_room && sockets[socket->fd] == socket) {
		sockets[socket->fd] = NULL;
	}
}

static ssize_t read_plain(int fd, void *buffer, size_t len, int flags)
{
	return syscall(SYS_recvfrom, fd, buffer, len, flags, NULL, NULL);
}

/* Bytes after a fault are read and discarded: unread ones would make the kernel reset the connection,
 * and the close frame would be lost. */
static void drain(int fd)
{
	char waste[4096];
	int i = 0;
	while (i < DRAINS_MAX && read_plain(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) {
		i++;
	}
}

/* The dynamic linker gives libwebsockets the first exported definition: that of the program. */
bool box_ws_recv_is_hooked(void)
{
	return (uintptr_t)dlsym(RTLD_DEFAULT, "recv") == (uintptr_t)&recv;
}

#pragma GCC visibility push(default)
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's has reserved names */
ssize_t recv(int fd, void *buffer, size_t len, int flags)
{
	struct box_ws_socket *socket = fd >= 0 && fd < sockets_room ? sockets[fd] : NULL;
	if (!socket) {
		return read_plain(fd, buffer, len, flags);
	}
	if (socket->fault) {
		drain(fd);
		errno = EAGAIN;
		return -1;
	}
	ssize_t got = read_plain(fd, buffer, len, flags);
	if (got <= 0) {
		return got;
	}
	size_t good = box_ws_frames_scan(
		&socket->frames, buffer, (size_t)got, &socket->fault, &socket->fault_code);
	if (!socket->fault) {
		return got;
	}
	drain(fd);
	close_for_fault(socket);
	if (good == 0) {
		errno = EAGAIN;
		return -1;
	}
	return (ssize_t)good;
}
#pragma GCC visibility pop

/* --- in --- */

static void unpin(struct box_ws_socket *socket)
{
	socket->ws->pinned_bytes -= socket->in.len;
}

static void settled_cb(struct box_deferred_call *call)
{
	struct box_ws_socket *socket = BOX_CONTAINER_OF(call, struct box_ws_socket, settled);
	socket->user->settled(socket->arg);
}

/* Passes the assembled message to the user and begins an empty one. */
static int message_whole(struct box_ws_socket *socket)
{
	struct box_buf message = socket->in;
	const char *why = "";
	unpin(socket);
	socket->in = box_buf(BOX_MESSAGE_BYTES_MAX);
	if (socket->user->settled) {
		box_deferred_schedule(&socket->ws->turn, &socket->settled);
	}
	int code = socket->user->message(socket->arg, message, socket->binary, &why);
	return code == 0 ? 0 : refuse(socket, code, why);
}

/* Compared without an addition that could overflow: a frame may announce 2^63 bytes. */
static bool is_too_large(const struct box_ws_socket *socket, size_t have)
{
	size_t remaining = lws_remaining_packet_payload(socket->wsi);
	return remaining > BOX_MESSAGE_BYTES_MAX || have > BOX_MESSAGE_BYTES_MAX - remaining;
}

/* Reserves room for the rest of the frame at once, but no more than four times what has come: a client
 * cannot make us allocate memory by announcing a large frame. */
static void make_room(struct box_ws_socket *socket, size_t have, size_t remaining)
{
	size_t wanted = remaining < 3 * have ? have + remaining : 4 * have;
	if (wanted <= BOX_MESSAGE_BYTES_MAX) {
		(void)box_buf_reserve(&socket->in, wanted - socket->in.len);
	}
}

static int receive(struct box_ws_socket *socket, const void *bytes, size_t len)
{
	struct box_ws *ws = socket->ws;
	size_t remaining = lws_remaining_packet_payload(socket->wsi);
	size_t have = socket->in.len + len;
	if (socket->close_code != 0) {
		return 0;
	}
	if (len > socket->frames.passed) {
		return refuse(socket, BOX_WS_INTERNAL, "these bytes were not checked");
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

/* A frame that becomes due while this socket sends waits for its next turn, so that other sockets get theirs. */
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

/* A ping of our own if one is due (it may go between the frames of a message), else the user's next
 * frame. */
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

/* libwebsockets writes the frame header in front of the bytes: into the headroom, or over bytes that are
 * sent already. */
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

/* When the writeable callback returns an error, libwebsockets drops the socket without a close frame;
 * this way it sends one. */
static int close_from_writable(struct box_ws_socket *socket)
{
	if (socket->sending) {
		/* The socket would be freed while send_due still uses it. */
		lws_callback_on_writable(socket->wsi);
		return 0;
	}
	(void)close_now(socket);
	lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_SYNC);
	return 0;
}

/* With TCP_CORK set, the kernel sends full segments only. */
static void set_cork(const struct box_ws_socket *socket, int on)
{
	(void)setsockopt(lws_get_socket_fd(socket->wsi), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

/* libwebsockets buffers what the kernel does not take. Asking the kernel for room first costs a system
 * call, which is not worth it for a frame that is cheap to buffer. */
static bool has_room(const struct box_ws_socket *socket, size_t len)
{
	return len < SMALL_BYTES ? !lws_partial_buffered(socket->wsi)
				 : !lws_send_pipe_choked(socket->wsi);
}

/* The writeable callback also comes without our request: the user knows whether there is anything. */
static int write_frames(struct box_ws_socket *socket)
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

/* Most sockets take everything at once; waiting for the writeable callback would cost a turn of the
 * loop. A broken socket is closed from here, because libwebsockets would not call back for it. */
static void send_due(struct box_deferred_call *call)
{
	struct box_ws_socket *socket = BOX_CONTAINER_OF(call, struct box_ws_socket, due);
	if (socket->close_code != 0 || socket->peer_closes || lws_partial_buffered(socket->wsi)) {
		lws_callback_on_writable(socket->wsi);
		return;
	}
	socket->sending = true;
	if (write_frames(socket) < 0) {
		lws_set_timeout(socket->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
	}
	socket->sending = false;
}

/* --- is the peer still there? --- */

static void take_pong(struct box_ws_socket *socket, struct box_str bytes)
{
	if (!socket) {
		return;
	}
	box_keepalive_heard(&socket->alive, box_clock_ms());
	if (socket->user->pong) {
		socket->user->pong(socket->arg, bytes);
	}
}

/* The close code is in the first two bytes, in network byte order. */
static void take_close(struct box_ws_socket *socket, const unsigned char *in, size_t len)
{
	bool too_large = len >= 2 && (in[0] << 8 | in[1]) == BOX_WS_TOO_LARGE;
	if (socket) {
		socket->peer_closes = true;
	}
	if (socket && too_large && socket->close_code == 0 && socket->user->refused) {
		socket->user->refused(socket->arg);
	}
}

/* While reading is paused, pongs are not seen. But a slow peer still acknowledges data, and that
 * can be seen. */
static bool is_there_unread(struct box_ws_socket *socket, uint64_t since_ms)
{
	int fd = (int)lws_get_socket_fd(socket->wsi);
	bool takes = box_keepalive_peer_reads(&socket->alive, fd);
	return takes || (socket->user->patient && box_keepalive_kernel_answered(fd, since_ms));
}

/* Closes the socket if a message will be too large, and pings a peer that was silent for long; `since_ms`
 * is the time since the last call. */
static void socket_tick(struct box_ws_socket *socket, uint64_t now_ms, uint64_t since_ms)
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

/* --- what libwebsockets calls --- */

static void socket_free(struct box_ws_socket *socket)
{
	socket->user->closed(socket->arg);
	box_ws_recv_forget(socket);
	unpin(socket);
	box_buf_free(&socket->in);
	box_deferred_cancel(&socket->settled);
	box_deferred_cancel(&socket->due);
	box_list_drop(&socket->links);
	socket->ws->count--;
	free(socket);
}

/* The socket of a wsi. libwebsockets may call back from inside the adoption, before we could attach our
 * socket to the wsi. */
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
		box_keepalive_heard(&socket->alive, box_clock_ms());
		socket->user->opened(socket->arg, socket);
		if (socket->fault) {
			close_for_fault(socket);
		}
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return receive(lws_get_opaque_user_data(wsi), in, len);
	case LWS_CALLBACK_RECEIVE_PONG:
		take_pong(lws_get_opaque_user_data(wsi), (struct box_str){in, len});
		return 0;
	case LWS_CALLBACK_TIMER:
		socket = lws_get_opaque_user_data(wsi);
		if (socket && socket->user->woken) {
			socket->user->woken(socket->arg);
		}
		return 0;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		take_close(lws_get_opaque_user_data(wsi), in, len);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return write_frames(lws_get_opaque_user_data(wsi));
	case LWS_CALLBACK_WSI_DESTROY:
		/* The only callback that comes however the connection ends. */
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
	/* Logged at error level though harmless: every adoption on a foreign loop, and the netlink
	 * socket that our seccomp filter refuses. */
	if (strstr(line, "calling service") || strstr(line, "unable to open netlink")) {
		return;
	}
	BOX_LOG(level & LLL_ERR ? BOX_LOG_WARNING : BOX_LOG_DEBUG, "libwebsockets",
		box_log_bytes("line", (struct box_str){line, strcspn(line, "\n")}));
}

/* --- begin and end --- */

struct box_ws *box_ws_new(uv_loop_t *loop, const struct box_keepalive_times *times)
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
	ws->closed.event = "websocket.closed";
	/* libwebsockets shall only hang up, not ping: its ping would go into the buffer where the pong
	 * to a ping of the peer waits, and the peer would get a pong that it never asked for. */
	ws->hangup.secs_since_valid_ping = times->hangup_sec;
	ws->hangup.secs_since_valid_hangup = times->hangup_sec;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	box_list_init(&ws->connections);
	ws->context = lws_create_context(&info);
	if (ws->context) {
		ws->vhost = lws_create_vhost(ws->context, &info);
	}
	if (!ws->vhost) {
		free(ws);
		return NULL;
	}
	box_deferred_init(&ws->turn, loop);
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
	socket->settled.call = settled_cb;
	socket->due.call = send_due;
	box_list_push(&ws->connections, &socket->links);
	ws->count++;
	return socket;
}

/* The request head that libwebsockets sees in place of the client's own. Only two parts come from the
 * client: the key, which the gate has checked, and the bytes after the client's head. */
static void write_request_head(struct box_buf *head, const struct box_ws_upgrade *upgrade)
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
	struct box_buf head = box_buf(2 * BOX_HTTP_HEAD_BYTES_MAX);
	struct box_ws_socket *socket = socket_new(ws, user, arg);
	struct box_ws_upgrade checked = *upgrade;
	watch_reads(socket, upgrade->fd);
	checked.rest.len = box_ws_frames_scan(&socket->frames,
		(const unsigned char *)upgrade->rest.bytes, upgrade->rest.len, &socket->fault,
		&socket->fault_code);
	write_request_head(&head, &checked);
	if (user->patient) {
		box_keepalive_set_tcp_options(upgrade->fd, &ws->times);
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

void box_ws_tick(struct box_ws *ws)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t since_ms = now_ms - ws->ticked_ms;
	ws->ticked_ms = now_ms;
	box_log_limit_tick(&ws->closed);
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_CONTAINER_OF(at, struct box_ws_socket, links);
		if (socket->established) {
			socket_tick(socket, now_ms, since_ms);
		}
	}
}

void box_ws_close_all(struct box_ws *ws, const char *reason)
{
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_CONTAINER_OF(at, struct box_ws_socket, links);
		if (socket->established) {
			box_ws_close(socket, BOX_WS_GOING_AWAY, reason, true);
		}
	}
}
