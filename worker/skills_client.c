/* Sends one request at a time, encoded when its turn comes; the others wait in skills_queue.c. If box-skills
 * dies, breaks the protocol or takes too long, its current request fails, and another box-skills is started
 * for the next request. */
#include "worker/skills_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "codec/msgpack.h"
#include "protocol/boxd_client.h"
#include "protocol/skills.h"
#include "runtime/skill_store.h"
#include "worker/skills_queue.h"

/* A connection; freed when its handle is closed. */
struct socket {
	uv_poll_t poll;
	struct box_skills_client *client;
	int fd;
};

struct box_skills_client {
	uv_loop_t *loop;
	struct box_boxd_client *boxd;
	struct box_skills_queue queue;
	struct box_list refused;                 /* requests for which the queue had no room */
	bool busy;                               /* a request was sent and is not answered */
	struct box_skill_store_request *current; /* also NULL if it was cancelled */
	char root[BOX_PATH_MAX];                 /* of the skills of the connected box-skills */
	struct socket *socket;                   /* NULL: not connected */
	bool unsettled; /* box-skills may wait for the disk before it reads the next request */
	uv_timer_t deadline;
	uv_idle_t later;
	struct box_buf out;
	size_t sent;
	int archive;       /* to be sent with the first byte of its request, or -1 */
	size_t archive_at; /* the offset of that byte in `out` */
	struct box_skills_head head;
	size_t head_have;
	char *body; /* NULL: still receiving the head */
	size_t body_have;
};

static void pump(struct box_skills_client *client);
static void watch(struct box_skills_client *client);

/* --- the end of a connection or of a request --- */

static void socket_closed(uv_handle_t *handle)
{
	struct socket *socket = handle->data;
	(void)close(socket->fd);
	free(socket);
}

static void drop_message(struct box_skills_client *client)
{
	box_buf_free(&client->out);
	client->out = box_buf(BOX_SKILLS_BYTES_MAX + sizeof(struct box_skills_head));
	client->sent = 0;
	box_close_p(&client->archive);
	client->archive = -1;
	free(client->body);
	client->body = NULL;
	client->head_have = client->body_have = 0;
}

static void hang_up(struct box_skills_client *client)
{
	if (client->socket) {
		uv_close((uv_handle_t *)&client->socket->poll, socket_closed);
		client->socket = NULL;
	}
	drop_message(client);
}

/* The current request has its answer, or an error. */
static void finish(
	struct box_skills_client *client, const struct box_value *answer, const struct box_err *err)
{
	struct box_skill_store_request *ask = client->current;
	client->current = NULL;
	client->busy = false;
	(void)uv_timer_stop(&client->deadline);
	if (ask) {
		ask->done(ask->arg, answer, err);
	}
}

static void lose(struct box_skills_client *client, const char *why)
{
	struct box_err err;
	BOX_LOG(BOX_LOG_WARNING, "skills.lost", box_log_str("why", why));
	hang_up(client);
	if (client->busy) {
		(void)box_err_set(&err, BOX_ERR_RUNTIME_UNAVAILABLE, EPIPE,
			"the skill store did not answer: %s", why);
		finish(client, NULL, &err);
	}
	pump(client);
}

static void deadline_cb(uv_timer_t *timer)
{
	lose(timer->data, "it did not answer in time");
}

/* --- in --- */

static void fill_error(const struct box_value *map, struct box_err *err)
{
	const struct box_value *code = box_map_get(map, "code");
	const struct box_value *errnum = box_map_get(map, "errnum");
	const struct box_value *text = box_map_get(map, "text");
	bool good = code && code->type == BOX_INT && code->integer > BOX_ERR_NONE &&
		code->integer < BOX_ERR_CODES_ && errnum && errnum->type == BOX_INT &&
		errnum->integer > 0 && errnum->integer < 4096 && text && text->type == BOX_STR;
	(void)box_err_set(err, good ? (enum box_code)code->integer : BOX_ERR_BOX,
		good ? (int)errnum->integer : EPROTO, "%.*s", good ? (int)text->str.len : 0,
		good ? text->str.bytes : "");
}

/* The body is complete. */
static void take_answer(struct box_skills_client *client)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err err;
	const char *why = "";
	char *body = client->body;
	size_t size = client->head.size;
	client->body = NULL;
	box_arena_adopt(arena, body);
	drop_message(client);
	if (box_msgpack_decode(arena, body, size, &map, &why) < 0) {
		lose(client, why);
		return;
	}
	const struct box_value *data = box_map_get(&map, "data");
	if (!data) {
		fill_error(&map, &err);
	}
	finish(client, data, data ? NULL : &err);
	pump(client);
}

/* 1: something arrived. 0: nothing is there. */
static int read_some(struct box_skills_client *client)
{
	bool in_head = !client->body;
	char *to = in_head ? (char *)&client->head + client->head_have
			   : client->body + client->body_have;
	size_t room = in_head ? sizeof(client->head) - client->head_have
			      : client->head.size - client->body_have;
	ssize_t got = recv(client->socket->fd, to, room, MSG_DONTWAIT);
	if (got <= 0) {
		bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
		return later ? 0 : -EPIPE;
	}
	if (!in_head) {
		client->body_have += (size_t)got;
		return 1;
	}
	client->head_have += (size_t)got;
	if (client->head_have == sizeof(client->head)) {
		if (!client->busy || client->head.size == 0 ||
			client->head.size > BOX_SKILLS_BYTES_MAX) {
			return -EPROTO;
		}
		client->body = malloc(client->head.size);
		return client->body ? 1 : -ENOMEM;
	}
	return 1;
}

static void on_readable(struct box_skills_client *client)
{
	int r;
	do {
		r = read_some(client);
		if (r > 0 && client->body && client->body_have == client->head.size) {
			take_answer(client);
			return;
		}
	} while (r > 0);
	if (r < 0) {
		lose(client, r == -EPIPE ? "it ended" : "its answer is malformed");
	}
}

/* --- out --- */

/* Returns how many bytes were sent, or -errno. */
static ssize_t send_piece(struct box_skills_client *client)
{
	struct iovec piece = {client->out.bytes + client->sent, client->out.len - client->sent};
	bool with_archive = client->archive >= 0 && client->sent >= client->archive_at;
	if (client->archive >= 0 && !with_archive) {
		piece.iov_len = client->archive_at - client->sent;
	}
	return box_fds_send(
		client->socket->fd, &piece, 1, &client->archive, with_archive, MSG_DONTWAIT);
}

static void on_writable(struct box_skills_client *client)
{
	while (client->sent < client->out.len) {
		ssize_t sent = send_piece(client);
		if (sent == -EAGAIN) {
			break;
		}
		if (sent < 0) {
			lose(client, "it does not read");
			return;
		}
		if (client->sent >= client->archive_at) {
			box_close_p(&client->archive);
			client->archive = -1;
		}
		client->sent += (size_t)sent;
	}
	watch(client);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct socket *socket = poll->data;
	struct box_skills_client *client = socket->client;
	if (status < 0) {
		lose(client, uv_strerror(status));
		return;
	}
	if (events & UV_WRITABLE) {
		on_writable(client);
	}
	/* Writing may have closed the connection. */
	if ((events & UV_READABLE) && client->socket == socket) {
		on_readable(client);
	}
}

static void watch(struct box_skills_client *client)
{
	int out = client->sent < client->out.len ? UV_WRITABLE : 0;
	(void)uv_poll_start(&client->socket->poll, UV_READABLE | out, poll_cb);
}

/* Appends a message to the queued bytes. */
static int append_message(struct box_skills_client *client, const struct box_value *map)
{
	struct box_skills_head head = {0};
	size_t start = client->out.len;
	(void)box_buf_append(&client->out, &head, sizeof(head));
	int r = box_msgpack_encode(&client->out, map);
	head.size = (uint32_t)(client->out.len - start - sizeof(head));
	memcpy(client->out.bytes + start, &head, sizeof(head));
	return r;
}

static void send_request(
	struct box_skills_client *client, const struct box_skill_store_request *ask)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	struct box_err err;
	client->archive_at = client->out.len;
	box_map_add(arena, &map, "namespace", box_cstr(ask->namespace));
	box_map_add(arena, &map, "action", box_cstr(ask->action));
	box_map_add(arena, &map, "data", *ask->data);
	if (append_message(client, &map) < 0) {
		/* Part of it may be in `out`, after the root, which was never sent. */
		hang_up(client);
		(void)box_err_set(&err, BOX_ERR_VALIDATION, EMSGSIZE, "the request is too large");
		finish(client, NULL, &err);
		return;
	}
	bool is_long = ask->archive >= 0 || client->unsettled;
	uint64_t limit_ms = is_long ? BOX_SKILLS_ARCHIVE_REQUEST_MS : BOX_SKILLS_REQUEST_MS;
	/* The next request is sent when this one was answered, or goes to another box-skills. */
	client->unsettled = ask->archive >= 0;
	(void)uv_timer_start(&client->deadline, deadline_cb, limit_ms, 0);
	on_writable(client);
}

/* --- a connection --- */

static int adopt(struct box_skills_client *client, int fd)
{
	struct socket *socket = box_alloc(sizeof(*socket));
	int r = uv_poll_init(client->loop, &socket->poll, fd);
	if (r < 0) {
		free(socket);
		return r;
	}
	socket->poll.data = socket;
	socket->client = client;
	socket->fd = fd;
	client->socket = socket;
	client->unsettled = true; /* an earlier box-skills may have been killed before its sync */
	return 0;
}

/* boxd has started box-skills, or failed to: the current request is sent, or fails. */
static void opened(void *arg, int fd, const char *path, const struct box_err *err)
{
	struct box_skills_client *client = arg;
	struct box_err failed;
	if (!err && adopt(client, fd) < 0) {
		(void)box_err_set(&failed, BOX_ERR_RUNTIME_UNAVAILABLE, EIO,
			"the skill store cannot be watched");
		box_close_p(&fd);
		err = &failed;
	}
	if (err) {
		drop_message(client);
		finish(client, NULL, err);
		pump(client);
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value first = box_map_value();
	box_map_add(arena, &first, "root", box_cstr(path));
	(void)append_message(client, &first);
	if (client->current) {
		send_request(client, client->current);
	} else {
		box_close_p(&client->archive);
		client->archive = -1;
		finish(client, NULL, NULL);
		on_writable(client);
	}
	pump(client);
}

/* --- requests --- */

/* A box-skills that died between requests may not have been noticed yet. */
static bool is_dead(const struct socket *socket)
{
	char byte;
	ssize_t got = recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void begin(struct box_skills_client *client, struct box_skill_store_request *ask)
{
	client->busy = true;
	client->current = ask;
	if (client->socket && (strcmp(client->root, ask->root) != 0 || is_dead(client->socket))) {
		hang_up(client);
	}
	client->archive = ask->archive < 0 ? -1 : fcntl(ask->archive, F_DUPFD_CLOEXEC, 3);
	if (client->socket) {
		send_request(client, ask);
		return;
	}
	(void)snprintf(client->root, sizeof(client->root), "%s", ask->root);
	box_boxd_client_start_skills(client->boxd, ask->root, opened, client);
}

static void pump(struct box_skills_client *client)
{
	struct box_skill_store_request *ask;
	while (!client->busy && (ask = box_skills_queue_take(&client->queue))) {
		begin(client, ask);
	}
}

static void report_refused(struct box_skills_client *client)
{
	struct box_list *item;
	struct box_err err;
	(void)box_err_set(
		&err, BOX_ERR_CAPACITY, EAGAIN, "too many requests wait for the skill store");
	while ((item = box_list_pop(&client->refused))) {
		struct box_skill_store_request *ask = BOX_CONTAINER_OF(
			item, struct box_skill_store_request, links);
		ask->done(ask->arg, NULL, &err);
	}
}

static void later_cb(uv_idle_t *idle)
{
	struct box_skills_client *client = idle->data;
	(void)uv_idle_stop(idle);
	report_refused(client);
	pump(client);
}

void box_skills_client_request(
	struct box_skills_client *client, struct box_skill_store_request *ask)
{
	ask->refused = !box_skills_queue_put(&client->queue, ask);
	if (ask->refused) {
		box_list_push(&client->refused, &ask->links);
	}
	/* Failures are reported from the loop, never from inside this call. */
	(void)uv_idle_start(&client->later, later_cb);
}

void box_skills_client_cancel(struct box_skills_client *client, struct box_skill_store_request *ask)
{
	if (client->current == ask) {
		client->current = NULL;
	} else if (ask->refused) {
		box_list_drop(&ask->links);
	} else {
		box_skills_queue_drop(&client->queue, ask);
	}
}

struct box_skills_client *box_skills_client_new(uv_loop_t *loop, struct box_boxd_client *boxd)
{
	struct box_skills_client *client = box_alloc(sizeof(*client));
	client->loop = loop;
	client->boxd = boxd;
	client->archive = -1;
	box_skills_queue_init(&client->queue);
	box_list_init(&client->refused);
	(void)uv_timer_init(loop, &client->deadline);
	(void)uv_idle_init(loop, &client->later);
	client->deadline.data = client;
	client->later.data = client;
	drop_message(client);
	return client;
}
