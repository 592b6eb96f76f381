/* Sockets that have not said who they are yet: accept, read, decide, answer or hand over. */
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
#include "handlers/dispatch.h"
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
	struct box_list guests; /* the one that has waited longest first */
	size_t guest_count;
	struct box_table per_peer; /* address -> size_t on the heap */
	uv_timer_t timer;
	bool accept_paused;
	int sock_diag; /* or -1 */
	struct box_rate_limit paused;
	struct box_rate_limit refused;
	int refused_status; /* of the last one */
	const char *refused_why;
};

enum step {
	READING,
	WRITING,
	LINGERING,
};

/* A socket at the door. */
struct guest {
	struct box_list links;
	struct box_acceptor *door;
	uv_poll_t poll;
	int fd;
	bool is_operator;         /* came over the operator's own socket */
	bool foreign;             /* but is not the operator */
	struct ucred credentials; /* of who made it, where it is the operator's socket */
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

static void guest_ready(uv_poll_t *poll, int status, int events);
static void arm_timer(struct box_acceptor *door);

/* --- counting guests --- */

static struct box_str peer_key(const struct guest *guest)
{
	return (struct box_str){guest->peer, sizeof(guest->peer)};
}

static size_t *peer_count(struct guest *guest)
{
	struct box_table *table = &guest->door->per_peer;
	size_t *count = box_table_get(table, peer_key(guest));
	if (!count) {
		count = box_alloc(sizeof(*count));
		box_table_put(table, peer_key(guest), count);
	}
	return count;
}

static void guest_count(struct guest *guest)
{
	struct box_acceptor *door = guest->door;
	++*peer_count(guest);
	box_list_push(&door->guests, &guest->links);
	door->runtime->metrics.pending_connections = ++door->guest_count;
}

static void guest_uncount(struct guest *guest)
{
	struct box_acceptor *door = guest->door;
	size_t *count = peer_count(guest);
	if (--*count == 0) {
		box_table_remove(&door->per_peer, peer_key(guest));
		free(count);
	}
	box_list_drop(&guest->links);
	door->runtime->metrics.pending_connections = --door->guest_count;
}

/* --- the end of a guest --- */

static void adopt(struct guest *guest)
{
	struct box_acceptor *door = guest->door;
	const struct box_gate_verdict *verdict = guest->verdict;
	struct box_ws_upgrade upgrade = {
		.fd = guest->fd,
		.key = verdict->websocket_key,
		.rest = {guest->head.bytes + guest->head_used, guest->head.len - guest->head_used},
	};
	if (verdict->kind == BOX_GATE_RPC) {
		const struct box_peer_identity speaker = {
			.is_operator = verdict->is_operator, .instance = verdict->instance};
		box_ws_rpc_accept(door->ws, door->dispatch, door->runtime, &speaker, &upgrade);
		return;
	}
	upgrade.protocol = box_ws_relay_protocol(verdict);
	box_ws_relay_accept(door->ws, door->runtime, verdict, &upgrade);
}

static void guest_gone(uv_handle_t *handle)
{
	struct guest *guest = handle->data;
	if (guest->verdict) {
		adopt(guest);
	} else {
		(void)close(guest->fd);
	}
	free(guest->verdict);
	box_buf_free(&guest->head);
	box_buf_free(&guest->answer);
	free(guest);
}

/* The poll handle must be closed before someone else may watch the fd. */
static void guest_leave(struct guest *guest)
{
	if (uv_is_closing((uv_handle_t *)&guest->poll)) {
		return;
	}
	guest_uncount(guest);
	(void)uv_poll_stop(&guest->poll);
	uv_close((uv_handle_t *)&guest->poll, guest_gone);
}

/* --- answering --- */

static void guest_until(struct guest *guest, uint64_t ms)
{
	guest->until_ms = box_clock_ms() + ms;
	arm_timer(guest->door);
}

/* The answer is out. A close with unread input would reset the connection and might take the answer
 * with it, so wait for the client to go first. */
static void linger(struct guest *guest)
{
	guest->step = LINGERING;
	(void)shutdown(guest->fd, SHUT_WR);
	guest_until(guest, BOX_LINGER_MS);
	(void)uv_poll_start(&guest->poll, UV_READABLE, guest_ready);
}

static void write_answer(struct guest *guest)
{
	while (guest->sent < guest->answer.len) {
		ssize_t sent = send(guest->fd, guest->answer.bytes + guest->sent,
			guest->answer.len - guest->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EAGAIN) {
			(void)uv_poll_start(&guest->poll, UV_WRITABLE, guest_ready);
			return;
		}
		if (sent < 0 && errno != EINTR) {
			guest_leave(guest);
			return;
		}
		guest->sent += sent > 0 ? (size_t)sent : 0;
	}
	linger(guest);
}

static void start_answer(struct guest *guest)
{
	guest->step = WRITING;
	guest_until(guest, BOX_HANDSHAKE_MS);
	write_answer(guest);
}

/* Strangers can be refused as often as they like: one line a second tells how many were, and of the
 * last one why. */
void box_acceptor_tick(struct box_acceptor *door)
{
	uint64_t count;
	if (box_rate_limit_due(&door->refused, box_clock_ms(), &count)) {
		BOX_LOG(BOX_LOG_INFO, "door.refused", box_log_int("status", door->refused_status),
			box_log_str("why", door->refused_why),
			box_log_int("count", (int64_t)count));
	}
}

static void count_refused(struct box_acceptor *door, int status, const char *why)
{
	door->runtime->metrics.handshakes_refused++;
	door->refused_status = status;
	door->refused_why = why;
	box_rate_limit_count(&door->refused);
	box_acceptor_tick(door);
}

static void refuse(struct guest *guest, int status, const char *body, const char *why)
{
	count_refused(guest->door, status, why);
	box_http_answer_refuse(status, body, false, &guest->answer);
	start_answer(guest);
}

/* --- deciding --- */

static void hand_over(struct guest *guest, const struct box_gate_verdict *verdict)
{
	struct box_acceptor *door = guest->door;
	if (box_ws_count(door->ws) >= BOX_CONNECTIONS_MAX) {
		refuse(guest, 503, "Too many connections", "too many connections");
		return;
	}
	guest->verdict = box_alloc(sizeof(*guest->verdict));
	*guest->verdict = *verdict;
	guest_leave(guest);
}

/* Whether it is welcome now; it is asked again when it is adopted. */
static void decide_relay(struct guest *guest, const struct box_gate_verdict *verdict)
{
	struct box_process *process;
	struct box_err err;
	switch (box_ws_relay_decide(guest->door->runtime, verdict, &process, &err)) {
	case BOX_WS_RELAY_ACCEPTED:
		hand_over(guest, verdict);
		return;
	case BOX_WS_RELAY_UNAUTHORIZED:
		box_http_answer_refuse(401, "Unauthorized", false, &guest->answer);
		break;
	case BOX_WS_RELAY_REFUSED:
		box_http_answer_refuse_relay(&err, &guest->answer);
		break;
	}
	start_answer(guest);
}

/* Without a token: whether the peer may speak, NULL, or why not. The kernel knows whose its socket
 * is. */
static const char *judge_peer(const struct guest *guest, char text[STRANGER_TEXT_MAX])
{
	const struct box_acceptor *door = guest->door;
	const struct box_acceptor_rules *rules = &door->rules;
	if (guest->is_operator || rules->tokens[0] || rules->unauthenticated ||
		door->runtime->config->unauthenticated) {
		return NULL;
	}
	uint32_t uid = BOX_BOXD_NO_UID;
	int r = -EREMOTE;
	if (guest->loopback) {
		r = door->sock_diag < 0
			? -EOPNOTSUPP
			: box_sock_diag_peer_owner(door->sock_diag, guest->fd, &uid);
	}
	if (r == 0 && (uid == 0 || (uid == rules->uid && uid != BOX_BOXD_NO_UID))) {
		return NULL;
	}
	char who[128];
	(void)(r == 0 ? snprintf(who, sizeof(who), "a process of uid %u", uid)
		      : snprintf(who, sizeof(who), "someone who cannot be told (%s)",
				box_err_strerror(-r)));
	(void)snprintf(text, STRANGER_TEXT_MAX,
		"Unauthorized: this connection is of %s, and without a token only root and the user "
		"that runs boxd are let in, over loopback. Set LANGBOT_BOX_CONTROL_TOKEN to the same "
		"secret for boxd and for this client, or use the operator's socket (boxd --socket, "
		"--socket-group).",
		who);
	return text;
}

/* The mode of the socket's file keeps others out already; it may have been loosened. */
static void judge_operator(struct guest *guest)
{
	const struct box_acceptor_rules *rules = &guest->door->rules;
	struct ucred *peer = &guest->credentials;
	socklen_t size = sizeof(*peer);
	if (getsockopt(guest->fd, SOL_SOCKET, SO_PEERCRED, peer, &size) < 0) {
		*peer = (struct ucred){.uid = BOX_BOXD_NO_UID};
	}
	guest->foreign = peer->uid == BOX_BOXD_NO_UID ||
		(peer->uid != 0 && peer->uid != rules->operator_uid && !rules->socket_group);
	BOX_LOG(BOX_LOG_DEBUG, guest->foreign ? "operator.refused" : "operator.connected",
		box_log_int("uid", peer->uid), box_log_int("pid", peer->pid));
}

static void refuse_foreign(struct guest *guest)
{
	char text[STRANGER_TEXT_MAX];
	(void)snprintf(text, sizeof(text),
		"Unauthorized: this connection is of a process of uid %u, and the operator's socket is "
		"for root and the user that runs boxd. Use boxd --socket-group to let in a group; "
		"where boxd runs as a plain user, root is told as uid %u: be that user.",
		guest->credentials.uid, OVERFLOW_UID);
	refuse(guest, 401, text, "a user who may not use the operator's socket");
}

static void decide(struct guest *guest, const struct box_http_head *head)
{
	if (guest->foreign) {
		refuse_foreign(guest);
		return;
	}
	struct box_runtime *runtime = guest->door->runtime;
	const struct box_acceptor_rules *rules = &guest->door->rules;
	char stranger[STRANGER_TEXT_MAX];
	const struct box_gate_policy policy = {
		.is_operator = guest->is_operator,
		.token = rules->tokens[0],
		.other_token = rules->tokens[1],
		.stranger = judge_peer(guest, stranger),
		.metrics_open = runtime->config->metrics_open,
		.instance = runtime->instance,
		.unnamed = !rules->tokens[0] && !runtime->config->require_context &&
			!runtime->config->admission.required,
		.loopback_names_only = guest->door->rules.loopback_names_only,
		.origins = runtime->config->allowed_origins,
	};
	struct box_gate_verdict verdict;
	box_gate_decide(&policy, head, &verdict);
	guest->head_used = head->bytes_used;
	switch (verdict.kind) {
	case BOX_GATE_RPC:
		hand_over(guest, &verdict);
		return;
	case BOX_GATE_RELAY:
		decide_relay(guest, &verdict);
		return;
	case BOX_GATE_REFUSED:
		count_refused(guest->door, verdict.status, verdict.why);
		box_http_answer_write(runtime, &verdict, &guest->answer);
		break;
	default:
		box_http_answer_write(runtime, &verdict, &guest->answer);
		break;
	}
	start_answer(guest);
}

static void read_head(struct guest *guest)
{
	char *space = box_buf_reserve(&guest->head, BOX_HTTP_HEAD_BYTES_MAX - guest->head.len);
	ssize_t got = recv(
		guest->fd, space, BOX_HTTP_HEAD_BYTES_MAX - guest->head.len, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (got <= 0) {
		guest_leave(guest);
		return;
	}
	guest->head.len += (size_t)got;
	struct box_http_head head;
	switch (box_http_head_parse(guest->head.bytes, guest->head.len, &head)) {
	case BOX_HTTP_HEAD_MORE:
		break;
	case BOX_HTTP_HEAD_COMPLETE:
		decide(guest, &head);
		break;
	case BOX_HTTP_HEAD_MALFORMED:
		refuse(guest, 400, "Bad Request", "malformed head");
		break;
	case BOX_HTTP_HEAD_TOO_LARGE:
		refuse(guest, 431, "Request Header Fields Too Large", "head too large");
		break;
	}
}

/* Throws away what still comes, up to a bound. */
static void drain(struct guest *guest)
{
	char waste[4096];
	ssize_t got = recv(guest->fd, waste, sizeof(waste), MSG_DONTWAIT);
	guest->sent += got > 0 ? (size_t)got : 0;
	bool waiting = got < 0 && (errno == EAGAIN || errno == EINTR);
	if ((got <= 0 && !waiting) || guest->sent > guest->answer.len + LINGER_BYTES) {
		guest_leave(guest);
	}
}

static void guest_ready(uv_poll_t *poll, int status, int events)
{
	struct guest *guest = poll->data;
	(void)events;
	if (status < 0) {
		guest_leave(guest);
		return;
	}
	switch (guest->step) {
	case READING:
		read_head(guest);
		break;
	case WRITING:
		write_answer(guest);
		break;
	case LINGERING:
		drain(guest);
		break;
	}
}

/* --- time --- */

static void listen_all(struct box_acceptor *door, bool accepting);

static void timer_cb(uv_timer_t *timer)
{
	struct box_acceptor *door = timer->data;
	uint64_t now = box_clock_ms();
	struct box_list *next;
	if (door->accept_paused) {
		door->accept_paused = false;
		listen_all(door, true);
	}
	for (struct box_list *at = door->guests.next; at != &door->guests; at = next) {
		struct guest *guest = BOX_CONTAINER_OF(at, struct guest, links);
		next = at->next;
		if (guest->until_ms <= now) {
			door->runtime->metrics.handshakes_timed_out += guest->step == READING;
			guest_leave(guest);
		}
	}
	arm_timer(door);
}

/* One timer for all: it runs while there is anyone to watch. */
static void arm_timer(struct box_acceptor *door)
{
	bool needed = door->accept_paused || !box_list_empty(&door->guests);
	if (needed && !uv_is_active((uv_handle_t *)&door->timer)) {
		(void)uv_timer_start(&door->timer, timer_cb, ACCEPT_PAUSE_MS, 0);
	}
}

/* --- accepting --- */

/* All connections of the operator count as one address, which no other has. */
static void read_peer(struct guest *guest, const struct sockaddr_storage *address)
{
	if (guest->is_operator) {
		return;
	}
	const struct in_addr *four = &((const struct sockaddr_in *)address)->sin_addr;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
	bool is_six = address->ss_family == AF_INET6;
	memcpy(guest->peer, is_six ? (const void *)six : four,
		is_six ? sizeof(*six) : sizeof(*four));
}

/* Makes room for a newcomer: the longest-waiting of its own address, then of all. */
static void evict_for(struct guest *newcomer)
{
	struct box_acceptor *door = newcomer->door;
	bool peer_full = *peer_count(newcomer) > BOX_PENDING_PER_PEER_MAX;
	if (!peer_full && door->guest_count <= BOX_PENDING_MAX) {
		return;
	}
	for (struct box_list *at = door->guests.next; at != &door->guests; at = at->next) {
		struct guest *guest = BOX_CONTAINER_OF(at, struct guest, links);
		if (!peer_full || box_str_same(peer_key(guest), peer_key(newcomer))) {
			door->runtime->metrics.pending_evicted++;
			guest_leave(guest);
			return;
		}
	}
}

static void admit(const struct listener *listener, int fd, const struct sockaddr_storage *address)
{
	struct box_acceptor *door = listener->poll.data;
	struct guest *guest = box_alloc(sizeof(*guest));
	const int on = 1;
	if (!listener->is_operator) {
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	guest->loopback = box_loopback_is((const struct sockaddr *)address);
	if (guest->loopback) {
		box_loopback_disable_pacing(fd);
	}
	guest->door = door;
	guest->fd = fd;
	guest->is_operator = listener->is_operator;
	guest->head = box_buf(BOX_HTTP_HEAD_BYTES_MAX);
	guest->answer = box_buf(PAGE_BYTES_MAX);
	read_peer(guest, address);
	if (guest->is_operator) {
		judge_operator(guest);
	}
	if (uv_poll_init(door->loop, &guest->poll, fd) < 0) {
		(void)close(fd);
		free(guest);
		return;
	}
	guest->poll.data = guest;
	guest_count(guest);
	guest_until(guest, BOX_HANDSHAKE_MS);
	(void)uv_poll_start(&guest->poll, UV_READABLE, guest_ready);
	evict_for(guest);
}

static void tell_paused(struct box_acceptor *door, int errnum)
{
	uint64_t count;
	box_rate_limit_count(&door->paused);
	if (box_rate_limit_due(&door->paused, box_clock_ms(), &count)) {
		BOX_LOG(BOX_LOG_WARNING, "door.accept_paused", box_log_errno("why", errnum),
			box_log_int("count", (int64_t)count));
	}
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
	struct box_acceptor *door = poll->data;
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
			tell_paused(door, errno);
			door->accept_paused = true;
			listen_all(door, false);
			arm_timer(door);
		}
		return;
	}
}

static void listen_all(struct box_acceptor *door, bool accepting)
{
	for (size_t i = 0; i < door->listener_count; i++) {
		uv_poll_t *poll = &door->listeners[i].poll;
		(void)(accepting ? uv_poll_start(poll, UV_READABLE, accept_cb)
				 : uv_poll_stop(poll));
	}
}

struct box_acceptor *box_acceptor_new(uv_loop_t *loop, struct box_runtime *runtime,
	struct box_dispatch *dispatch, struct box_ws *ws, const struct box_acceptor_rules *rules)
{
	struct box_acceptor *door = box_alloc(sizeof(*door));
	door->loop = loop;
	door->runtime = runtime;
	door->dispatch = dispatch;
	door->ws = ws;
	door->rules = *rules;
	door->sock_diag = -1;
	box_list_init(&door->guests);
	(void)uv_timer_init(loop, &door->timer);
	door->timer.data = door;
	return door;
}

int box_acceptor_listen(struct box_acceptor *door, int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) {
		return -errno;
	}
	if (domain == AF_NETLINK) {
		door->sock_diag = fd;
		return 0;
	}
	if (door->listener_count == LISTENERS_MAX) {
		return -ENOSPC;
	}
	struct listener *listener = &door->listeners[door->listener_count];
	listener->is_operator = domain == AF_UNIX;
	int r = uv_poll_init(door->loop, &listener->poll, fd);
	if (r < 0) {
		return r;
	}
	listener->fd = fd;
	listener->poll.data = door;
	door->listener_count++;
	r = uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
	return r < 0 ? r : 1;
}

void box_acceptor_close(struct box_acceptor *door)
{
	listen_all(door, false);
	door->accept_paused = false;
	while (!box_list_empty(&door->guests)) {
		guest_leave(BOX_CONTAINER_OF(door->guests.next, struct guest, links));
	}
}
