/* Connections before their first request is decided: accept, read the head, decide, answer or hand over.
 * Each one is a `struct pending` until then. */
#include "transport/acceptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/rate_limit.h"
#include "base/sock_diag.h"
#include "base/table.h"
#include "handlers/peer.h"
#include "protocol/boxd.h"
#include "runtime/runtime.h"
#include "transport/gate.h"
#include "transport/http_answer.h"
#include "transport/ws_relay.h"
#include "transport/ws_rpc.h"

#define ACCEPTS_PER_TURN 64
#define ACCEPT_PAUSE_MS 100
#define LINGER_BYTES 65536
#define STRANGER_TEXT_MAX 512
#define OVERFLOW_UID 65534 /* kernel.overflowuid */
#define PAGE_BYTES_MAX (5 * BOX_MIB)
#define LISTENERS_MAX (BOX_BOXD_LISTENERS_MAX + BOX_BOXD_OTHER_LISTENERS_MAX)

struct listener {
	uv_poll_t poll;
	int fd;
	bool is_operator; /* the operator's own socket */
};

struct box_acceptor {
	uv_loop_t *loop;
	struct box_runtime *runtime;
	struct box_dispatch *dispatch;
	struct box_ws *ws;
	struct box_acceptor_rules rules;
	struct listener listeners[LISTENERS_MAX];
	size_t listener_count;
	struct box_list pending; /* the longest waiting first */
	size_t pending_count;
	struct box_table per_peer; /* address -> size_t on the heap */
	uv_timer_t timer;
	bool accept_paused;
	int sock_diag; /* or -1 */
	struct box_rate_limit paused;
	struct box_rate_limit refused;
	int refused_status; /* of the last connection refused */
	const char *refused_why;
};

enum step {
	READING,
	WRITING,
	LINGERING,
};

/* An accepted socket whose request is not decided yet, or whose answer is not out. */
struct pending {
	struct box_list links;
	struct box_acceptor *acceptor;
	uv_poll_t poll;
	int fd;
	bool is_operator;         /* came over the operator's own socket */
	bool foreign;             /* but from a user who may not use it */
	struct ucred credentials; /* of the peer, on the operator's socket */
	bool loopback;            /* came from this machine by TCP */
	enum step step;
	uint64_t until_ms;
	char peer[sizeof(struct in6_addr)];
	struct box_buf head;
	struct box_buf answer;
	size_t sent;
	size_t head_used;
	struct box_gate_verdict *verdict; /* once the socket is to be handed over */
};

static void pending_ready(uv_poll_t *poll, int status, int events);
static void arm_timer(struct box_acceptor *acceptor);

/* --- counting --- */

static struct box_str peer_key(const struct pending *pending)
{
	return (struct box_str){pending->peer, sizeof(pending->peer)};
}

static size_t *peer_count(struct pending *pending)
{
	struct box_table *table = &pending->acceptor->per_peer;
	size_t *count = box_table_get(table, peer_key(pending));
	if (!count) {
		count = box_alloc(sizeof(*count));
		box_table_put(table, peer_key(pending), count);
	}
	return count;
}

static void count_pending(struct pending *pending)
{
	struct box_acceptor *acceptor = pending->acceptor;
	++*peer_count(pending);
	box_list_push(&acceptor->pending, &pending->links);
	acceptor->runtime->metrics.pending_connections = ++acceptor->pending_count;
}

static void uncount_pending(struct pending *pending)
{
	struct box_acceptor *acceptor = pending->acceptor;
	size_t *count = peer_count(pending);
	if (--*count == 0) {
		box_table_remove(&acceptor->per_peer, peer_key(pending));
		free(count);
	}
	box_list_drop(&pending->links);
	acceptor->runtime->metrics.pending_connections = --acceptor->pending_count;
}

/* --- the end of a pending connection --- */

static void adopt(struct pending *pending)
{
	struct box_acceptor *acceptor = pending->acceptor;
	const struct box_gate_verdict *verdict = pending->verdict;
	struct box_ws_upgrade upgrade = {
		.fd = pending->fd,
		.key = verdict->websocket_key,
		.rest = {pending->head.bytes + pending->head_used,
			pending->head.len - pending->head_used},
	};
	if (verdict->kind == BOX_GATE_RPC) {
		const struct box_peer_identity speaker = {
			.is_operator = verdict->is_operator, .instance = verdict->instance};
		box_ws_rpc_accept(
			acceptor->ws, acceptor->dispatch, acceptor->runtime, &speaker, &upgrade);
		return;
	}
	upgrade.protocol = box_ws_relay_protocol(verdict);
	box_ws_relay_accept(acceptor->ws, acceptor->runtime, verdict, &upgrade);
}

/* Only now may libwebsockets watch the fd: hands the connection over, or closes it. */
static void poll_closed(uv_handle_t *handle)
{
	struct pending *pending = handle->data;
	if (pending->verdict) {
		adopt(pending);
	} else {
		(void)close(pending->fd);
	}
	free(pending->verdict);
	box_buf_free(&pending->head);
	box_buf_free(&pending->answer);
	free(pending);
}

/* The poll handle must be closed before libwebsockets may watch the fd. */
static void pending_leave(struct pending *pending)
{
	if (uv_is_closing((uv_handle_t *)&pending->poll)) {
		return;
	}
	uncount_pending(pending);
	(void)uv_poll_stop(&pending->poll);
	uv_close((uv_handle_t *)&pending->poll, poll_closed);
}

/* --- answering --- */

static void set_deadline(struct pending *pending, uint64_t ms)
{
	pending->until_ms = box_clock_ms() + ms;
	arm_timer(pending->acceptor);
}

/* The answer is sent. Closing with unread input would reset the connection, and the client might lose the
 * answer, so the client is given time to close first. */
static void linger(struct pending *pending)
{
	pending->step = LINGERING;
	(void)shutdown(pending->fd, SHUT_WR);
	set_deadline(pending, BOX_LINGER_MS);
	(void)uv_poll_start(&pending->poll, UV_READABLE, pending_ready);
}

static void write_answer(struct pending *pending)
{
	while (pending->sent < pending->answer.len) {
		ssize_t sent = send(pending->fd, pending->answer.bytes + pending->sent,
			pending->answer.len - pending->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EAGAIN) {
			(void)uv_poll_start(&pending->poll, UV_WRITABLE, pending_ready);
			return;
		}
		if (sent < 0 && errno != EINTR) {
			pending_leave(pending);
			return;
		}
		pending->sent += sent > 0 ? (size_t)sent : 0;
	}
	linger(pending);
}

static void start_answer(struct pending *pending)
{
	pending->step = WRITING;
	set_deadline(pending, BOX_HANDSHAKE_MS);
	write_answer(pending);
}

/* Anyone can cause any number of refusals, so the log gets one line a second, with their number and the
 * last reason. */
void box_acceptor_tick(struct box_acceptor *acceptor)
{
	uint64_t count;
	if (box_rate_limit_due(&acceptor->refused, box_clock_ms(), &count)) {
		BOX_LOG(BOX_LOG_INFO, "connection.refused",
			box_log_int("status", acceptor->refused_status),
			box_log_str("why", acceptor->refused_why),
			box_log_int("count", (int64_t)count));
	}
}

static void count_refused(struct box_acceptor *acceptor, int status, const char *why)
{
	acceptor->runtime->metrics.handshakes_refused++;
	acceptor->refused_status = status;
	acceptor->refused_why = why;
	box_rate_limit_count(&acceptor->refused);
	box_acceptor_tick(acceptor);
}

static void refuse(struct pending *pending, int status, const char *body, const char *why)
{
	count_refused(pending->acceptor, status, why);
	box_http_answer_refuse(status, body, false, &pending->answer);
	start_answer(pending);
}

/* --- deciding --- */

static void hand_over(struct pending *pending, const struct box_gate_verdict *verdict)
{
	struct box_acceptor *acceptor = pending->acceptor;
	if (box_ws_count(acceptor->ws) >= BOX_CONNECTIONS_MAX) {
		refuse(pending, 503, "Too many connections", "too many connections");
		return;
	}
	pending->verdict = box_alloc(sizeof(*pending->verdict));
	*pending->verdict = *verdict;
	pending_leave(pending);
}

/* Whether the relay is allowed now; this is checked again when the socket is adopted. */
static void decide_relay(struct pending *pending, const struct box_gate_verdict *verdict)
{
	struct box_process *process;
	struct box_err err;
	switch (box_ws_relay_decide(pending->acceptor->runtime, verdict, &process, &err)) {
	case BOX_WS_RELAY_ACCEPTED:
		hand_over(pending, verdict);
		return;
	case BOX_WS_RELAY_UNAUTHORIZED:
		box_http_answer_refuse(401, "Unauthorized", false, &pending->answer);
		break;
	case BOX_WS_RELAY_REFUSED:
		box_http_answer_refuse_relay(&err, &pending->answer);
		break;
	}
	start_answer(pending);
}

/* Without a token: NULL if the peer is allowed, or why it is not. The kernel tells which user owns the
 * peer's socket. */
static const char *check_peer(const struct pending *pending, char text[STRANGER_TEXT_MAX])
{
	const struct box_acceptor *acceptor = pending->acceptor;
	const struct box_acceptor_rules *rules = &acceptor->rules;
	if (pending->is_operator || rules->tokens[0] || rules->unauthenticated ||
		acceptor->runtime->config->unauthenticated) {
		return NULL;
	}
	uint32_t uid = BOX_BOXD_NO_UID;
	int r = -EREMOTE;
	if (pending->loopback) {
		r = acceptor->sock_diag < 0
			? -EOPNOTSUPP
			: box_sock_diag_peer_owner(acceptor->sock_diag, pending->fd, &uid);
	}
	if (r == 0 && (uid == 0 || (uid == rules->uid && uid != BOX_BOXD_NO_UID))) {
		return NULL;
	}
	char who[128];
	(void)(r == 0 ? snprintf(who, sizeof(who), "a process of uid %u", uid)
		      : snprintf(who, sizeof(who), "an unknown user (%s)", box_err_strerror(-r)));
	(void)snprintf(text, STRANGER_TEXT_MAX,
		"Unauthorized: this connection is from %s. Without a token only root and the user "
		"that runs boxd are admitted, over loopback. Set LANGBOT_BOX_CONTROL_TOKEN to the "
		"same secret for boxd and for this client, or use the operator's socket (boxd --socket, "
		"--socket-group).",
		who);
	return text;
}

/* The mode of the socket file keeps other users out already, but it may have been changed. */
static void check_operator(struct pending *pending)
{
	const struct box_acceptor_rules *rules = &pending->acceptor->rules;
	struct ucred *peer = &pending->credentials;
	socklen_t size = sizeof(*peer);
	if (getsockopt(pending->fd, SOL_SOCKET, SO_PEERCRED, peer, &size) < 0) {
		*peer = (struct ucred){.uid = BOX_BOXD_NO_UID};
	}
	pending->foreign = peer->uid == BOX_BOXD_NO_UID ||
		(peer->uid != 0 && peer->uid != rules->operator_uid && !rules->socket_group);
	BOX_LOG(BOX_LOG_DEBUG, pending->foreign ? "operator.refused" : "operator.connected",
		box_log_int("uid", peer->uid), box_log_int("pid", peer->pid));
}

static void refuse_foreign(struct pending *pending)
{
	char text[STRANGER_TEXT_MAX];
	(void)snprintf(text, sizeof(text),
		"Unauthorized: this connection is from a process of uid %u. The operator's socket "
		"is for root and the user that runs boxd. Use boxd --socket-group to admit a group; "
		"where boxd runs as a plain user, root appears as uid %u: be that user.",
		pending->credentials.uid, OVERFLOW_UID);
	refuse(pending, 401, text, "a user who may not use the operator's socket");
}

static void decide(struct pending *pending, const struct box_http_head *head)
{
	if (pending->foreign) {
		refuse_foreign(pending);
		return;
	}
	struct box_runtime *runtime = pending->acceptor->runtime;
	const struct box_acceptor_rules *rules = &pending->acceptor->rules;
	char stranger[STRANGER_TEXT_MAX];
	const struct box_gate_policy policy = {
		.is_operator = pending->is_operator,
		.token = rules->tokens[0],
		.other_token = rules->tokens[1],
		.stranger = check_peer(pending, stranger),
		.metrics_open = runtime->config->metrics_open,
		.instance = runtime->instance,
		.unnamed = !rules->tokens[0] && !runtime->config->require_context &&
			!runtime->config->admission.required,
		.loopback_names_only = pending->acceptor->rules.loopback_names_only,
		.origins = runtime->config->allowed_origins,
	};
	struct box_gate_verdict verdict;
	box_gate_decide(&policy, head, &verdict);
	pending->head_used = head->bytes_used;
	switch (verdict.kind) {
	case BOX_GATE_RPC:
		hand_over(pending, &verdict);
		return;
	case BOX_GATE_RELAY:
		decide_relay(pending, &verdict);
		return;
	case BOX_GATE_REFUSED:
		count_refused(pending->acceptor, verdict.status, verdict.why);
		box_http_answer_write(runtime, &verdict, &pending->answer);
		break;
	default:
		box_http_answer_write(runtime, &verdict, &pending->answer);
		break;
	}
	start_answer(pending);
}

static void read_head(struct pending *pending)
{
	char *space = box_buf_reserve(&pending->head, BOX_HTTP_HEAD_BYTES_MAX - pending->head.len);
	ssize_t got = recv(
		pending->fd, space, BOX_HTTP_HEAD_BYTES_MAX - pending->head.len, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (got <= 0) {
		pending_leave(pending);
		return;
	}
	pending->head.len += (size_t)got;
	struct box_http_head head;
	switch (box_http_head_parse(pending->head.bytes, pending->head.len, &head)) {
	case BOX_HTTP_HEAD_MORE:
		break;
	case BOX_HTTP_HEAD_COMPLETE:
		decide(pending, &head);
		break;
	case BOX_HTTP_HEAD_MALFORMED:
		refuse(pending, 400, "Bad Request", "malformed head");
		break;
	case BOX_HTTP_HEAD_TOO_LARGE:
		refuse(pending, 431, "Request Header Fields Too Large", "head too large");
		break;
	}
}

/* Throws away what still comes, up to a limit. */
static void drain(struct pending *pending)
{
	char waste[4096];
	ssize_t got = recv(pending->fd, waste, sizeof(waste), MSG_DONTWAIT);
	pending->sent += got > 0 ? (size_t)got : 0;
	bool waiting = got < 0 && (errno == EAGAIN || errno == EINTR);
	if ((got <= 0 && !waiting) || pending->sent > pending->answer.len + LINGER_BYTES) {
		pending_leave(pending);
	}
}

static void pending_ready(uv_poll_t *poll, int status, int events)
{
	struct pending *pending = poll->data;
	(void)events;
	if (status < 0) {
		pending_leave(pending);
		return;
	}
	switch (pending->step) {
	case READING:
		read_head(pending);
		break;
	case WRITING:
		write_answer(pending);
		break;
	case LINGERING:
		drain(pending);
		break;
	}
}

/* --- time --- */

static void listen_all(struct box_acceptor *acceptor, bool accepting);

static void timer_cb(uv_timer_t *timer)
{
	struct box_acceptor *acceptor = timer->data;
	uint64_t now = box_clock_ms();
	struct box_list *next;
	if (acceptor->accept_paused) {
		acceptor->accept_paused = false;
		listen_all(acceptor, true);
	}
	for (struct box_list *at = acceptor->pending.next; at != &acceptor->pending; at = next) {
		struct pending *pending = BOX_CONTAINER_OF(at, struct pending, links);
		next = at->next;
		if (pending->until_ms <= now) {
			acceptor->runtime->metrics.handshakes_timed_out += pending->step == READING;
			pending_leave(pending);
		}
	}
	arm_timer(acceptor);
}

/* One timer for all pending connections; it runs while there are any. */
static void arm_timer(struct box_acceptor *acceptor)
{
	bool needed = acceptor->accept_paused || !box_list_empty(&acceptor->pending);
	if (needed && !uv_is_active((uv_handle_t *)&acceptor->timer)) {
		(void)uv_timer_start(&acceptor->timer, timer_cb, ACCEPT_PAUSE_MS, 0);
	}
}

/* --- accepting --- */

/* All connections to the operator's socket count as one address, which no TCP client can have. */
static void read_peer(struct pending *pending, const struct sockaddr_storage *address)
{
	if (pending->is_operator) {
		return;
	}
	const struct in_addr *four = &((const struct sockaddr_in *)address)->sin_addr;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
	bool is_six = address->ss_family == AF_INET6;
	memcpy(pending->peer, is_six ? (const void *)six : four,
		is_six ? sizeof(*six) : sizeof(*four));
}

/* Makes room for a new connection: closes the one that waits longest, of the same address if possible. */
static void evict_for(struct pending *arrival)
{
	struct box_acceptor *acceptor = arrival->acceptor;
	bool peer_full = *peer_count(arrival) > BOX_PENDING_PER_PEER_MAX;
	if (!peer_full && acceptor->pending_count <= BOX_PENDING_MAX) {
		return;
	}
	for (struct box_list *at = acceptor->pending.next; at != &acceptor->pending;
		at = at->next) {
		struct pending *pending = BOX_CONTAINER_OF(at, struct pending, links);
		if (!peer_full || box_str_same(peer_key(pending), peer_key(arrival))) {
			acceptor->runtime->metrics.pending_evicted++;
			pending_leave(pending);
			return;
		}
	}
}

static void admit(const struct listener *listener, int fd, const struct sockaddr_storage *address)
{
	struct box_acceptor *acceptor = listener->poll.data;
	struct pending *pending = box_alloc(sizeof(*pending));
	const int on = 1;
	if (!listener->is_operator) {
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	pending->loopback = box_loopback_is((const struct sockaddr *)address);
	if (pending->loopback) {
		box_loopback_disable_pacing(fd);
	}
	pending->acceptor = acceptor;
	pending->fd = fd;
	pending->is_operator = listener->is_operator;
	pending->head = box_buf(BOX_HTTP_HEAD_BYTES_MAX);
	pending->answer = box_buf(PAGE_BYTES_MAX);
	read_peer(pending, address);
	if (pending->is_operator) {
		check_operator(pending);
	}
	if (uv_poll_init(acceptor->loop, &pending->poll, fd) < 0) {
		(void)close(fd);
		free(pending);
		return;
	}
	pending->poll.data = pending;
	count_pending(pending);
	set_deadline(pending, BOX_HANDSHAKE_MS);
	(void)uv_poll_start(&pending->poll, UV_READABLE, pending_ready);
	evict_for(pending);
}

static void warn_paused(struct box_acceptor *acceptor, int errnum)
{
	uint64_t count;
	box_rate_limit_count(&acceptor->paused);
	if (box_rate_limit_due(&acceptor->paused, box_clock_ms(), &count)) {
		BOX_LOG(BOX_LOG_WARNING, "accept.paused", box_log_errno("why", errnum),
			box_log_int("count", (int64_t)count));
	}
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
	struct box_acceptor *acceptor = poll->data;
	(void)events;
	if (status < 0) {
		return;
	}
	const struct listener *listener = BOX_CONTAINER_OF(poll, struct listener, poll);
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage address = {0};
		socklen_t size = sizeof(address);
		int fd = accept4(listener->fd, (struct sockaddr *)&address, &size,
			SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			admit(listener, fd, &address);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			warn_paused(acceptor, errno);
			acceptor->accept_paused = true;
			listen_all(acceptor, false);
			arm_timer(acceptor);
		}
		return;
	}
}

static void listen_all(struct box_acceptor *acceptor, bool accepting)
{
	for (size_t i = 0; i < acceptor->listener_count; i++) {
		uv_poll_t *poll = &acceptor->listeners[i].poll;
		(void)(accepting ? uv_poll_start(poll, UV_READABLE, accept_cb)
				 : uv_poll_stop(poll));
	}
}

struct box_acceptor *box_acceptor_new(uv_loop_t *loop, struct box_runtime *runtime,
	struct box_dispatch *dispatch, struct box_ws *ws, const struct box_acceptor_rules *rules)
{
	struct box_acceptor *acceptor = box_alloc(sizeof(*acceptor));
	acceptor->loop = loop;
	acceptor->runtime = runtime;
	acceptor->dispatch = dispatch;
	acceptor->ws = ws;
	acceptor->rules = *rules;
	acceptor->sock_diag = -1;
	box_list_init(&acceptor->pending);
	(void)uv_timer_init(loop, &acceptor->timer);
	acceptor->timer.data = acceptor;
	return acceptor;
}

int box_acceptor_listen(struct box_acceptor *acceptor, int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) {
		return -errno;
	}
	if (domain == AF_NETLINK) {
		acceptor->sock_diag = fd;
		return 0;
	}
	if (acceptor->listener_count == LISTENERS_MAX) {
		return -ENOSPC;
	}
	struct listener *listener = &acceptor->listeners[acceptor->listener_count];
	listener->is_operator = domain == AF_UNIX;
	int r = uv_poll_init(acceptor->loop, &listener->poll, fd);
	if (r < 0) {
		return r;
	}
	listener->fd = fd;
	listener->poll.data = acceptor;
	acceptor->listener_count++;
	r = uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
	return r < 0 ? r : 1;
}

void box_acceptor_close(struct box_acceptor *acceptor)
{
	listen_all(acceptor, false);
	acceptor->accept_paused = false;
	while (!box_list_empty(&acceptor->pending)) {
		pending_leave(BOX_CONTAINER_OF(acceptor->pending.next, struct pending, links));
	}
}
