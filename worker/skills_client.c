/* One request at a time goes out, encoded when its turn comes; the others wait (skills_queue.c). A
 * box-skills that dies, talks nonsense or takes too long fails the request that it had, and the next
 * one gets another. */
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
	struct box_skills_client *line;
	int fd;
};

struct box_skills_client {
	uv_loop_t *loop;
	struct box_boxd_client *link;
	struct box_skills_queue queue;
	struct box_list refused; /* there was no room for them in the queue */
	bool busy;               /* something was asked and not answered */
	struct box_skill_store_request
		*current;        /* NULL also when nobody wants its answer any more */
	char root[BOX_PATH_MAX]; /* of the socket */
	struct socket *socket;   /* NULL: there is none */
	bool unsettled;          /* it may wait for the disk before it reads what comes next */
	uv_timer_t deadline;
	uv_idle_t later;
	struct box_buf out;
	size_t sent;
	int archive;       /* to go with the first byte of its request, or -1 */
	size_t archive_at; /* where that is in `out` */
	struct box_skills_head head;
	size_t head_have;
	char *body; /* NULL: the head comes first */
	size_t body_have;
};

static void pump(struct box_skills_client *line);
static void watch(struct box_skills_client *line);

/* --- the end of a connection or of a request --- */

static void socket_closed(uv_handle_t *handle)
{
	struct socket *socket = handle->data;
	(void)close(socket->fd);
	free(socket);
}

static void drop_message(struct box_skills_client *line)
{
	box_buf_free(&line->out);
	line->out = box_buf(BOX_SKILLS_BYTES_MAX + sizeof(struct box_skills_head));
	line->sent = 0;
	box_close_p(&line->archive);
	line->archive = -1;
	free(line->body);
	line->body = NULL;
	line->head_have = line->body_have = 0;
}

static void hang_up(struct box_skills_client *line)
{
	if (line->socket) {
		uv_close((uv_handle_t *)&line->socket->poll, socket_closed);
		line->socket = NULL;
	}
	drop_message(line);
}

/* The present request has its answer, or an error. */
static void finish(
	struct box_skills_client *line, const struct box_value *answer, const struct box_err *err)
{
	struct box_skill_store_request *ask = line->current;
	line->current = NULL;
	line->busy = false;
	(void)uv_timer_stop(&line->deadline);
	if (ask) {
		ask->done(ask->arg, answer, err);
	}
}

static void lose(struct box_skills_client *line, const char *why)
{
	struct box_err err;
	BOX_LOG(BOX_LOG_WARNING, "skills.lost", box_log_str("why", why));
	hang_up(line);
	if (line->busy) {
		(void)box_err_set(&err, BOX_ERR_RUNTIME_UNAVAILABLE, EPIPE,
			"the skill store did not answer: %s", why);
		finish(line, NULL, &err);
	}
	pump(line);
}

static void deadline_cb(uv_timer_t *timer)
{
	lose(timer->data, "it took too long");
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

/* The body is whole. */
static void take_answer(struct box_skills_client *line)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err err;
	const char *why = "";
	char *body = line->body;
	size_t size = line->head.size;
	line->body = NULL;
	box_arena_adopt(arena, body);
	drop_message(line);
	if (box_msgpack_decode(arena, body, size, &map, &why) < 0) {
		lose(line, why);
		return;
	}
	const struct box_value *data = box_map_get(&map, "data");
	if (!data) {
		fill_error(&map, &err);
	}
	finish(line, data, data ? NULL : &err);
	pump(line);
}

/* 1: something came. 0: nothing is there. */
static int read_some(struct box_skills_client *line)
{
	bool in_head = !line->body;
	char *to = in_head ? (char *)&line->head + line->head_have : line->body + line->body_have;
	size_t room = in_head ? sizeof(line->head) - line->head_have
			      : line->head.size - line->body_have;
	ssize_t got = recv(line->socket->fd, to, room, MSG_DONTWAIT);
	if (got <= 0) {
		bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
		return later ? 0 : -EPIPE;
	}
	if (!in_head) {
		line->body_have += (size_t)got;
		return 1;
	}
	line->head_have += (size_t)got;
	if (line->head_have == sizeof(line->head)) {
		if (!line->busy || line->head.size == 0 || line->head.size > BOX_SKILLS_BYTES_MAX) {
			return -EPROTO;
		}
		line->body = malloc(line->head.size);
		return line->body ? 1 : -ENOMEM;
	}
	return 1;
}

static void on_readable(struct box_skills_client *line)
{
	int r;
	do {
		r = read_some(line);
		if (r > 0 && line->body && line->body_have == line->head.size) {
			take_answer(line);
			return;
		}
	} while (r > 0);
	if (r < 0) {
		lose(line, r == -EPIPE ? "it has ended" : "it said what it may not");
	}
}

/* --- out --- */

/* How many bytes went, or -errno. */
static ssize_t send_piece(struct box_skills_client *line)
{
	struct iovec piece = {line->out.bytes + line->sent, line->out.len - line->sent};
	bool with_archive = line->archive >= 0 && line->sent >= line->archive_at;
	if (line->archive >= 0 && !with_archive) {
		piece.iov_len = line->archive_at - line->sent;
	}
	return box_fds_send(
		line->socket->fd, &piece, 1, &line->archive, with_archive, MSG_DONTWAIT);
}

static void on_writable(struct box_skills_client *line)
{
	while (line->sent < line->out.len) {
		ssize_t sent = send_piece(line);
		if (sent == -EAGAIN) {
			break;
		}
		if (sent < 0) {
			lose(line, "it does not read");
			return;
		}
		if (line->sent >= line->archive_at) {
			box_close_p(&line->archive);
			line->archive = -1;
		}
		line->sent += (size_t)sent;
	}
	watch(line);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct socket *socket = poll->data;
	struct box_skills_client *line = socket->line;
	if (status < 0) {
		lose(line, uv_strerror(status));
		return;
	}
	if (events & UV_WRITABLE) {
		on_writable(line);
	}
	/* Which may have been the end of it. */
	if ((events & UV_READABLE) && line->socket == socket) {
		on_readable(line);
	}
}

static void watch(struct box_skills_client *line)
{
	int out = line->sent < line->out.len ? UV_WRITABLE : 0;
	(void)uv_poll_start(&line->socket->poll, UV_READABLE | out, poll_cb);
}

/* Appends a message behind what waits. */
static int append_message(struct box_skills_client *line, const struct box_value *map)
{
	struct box_skills_head head = {0};
	size_t start = line->out.len;
	(void)box_buf_append(&line->out, &head, sizeof(head));
	int r = box_msgpack_encode(&line->out, map);
	head.size = (uint32_t)(line->out.len - start - sizeof(head));
	memcpy(line->out.bytes + start, &head, sizeof(head));
	return r;
}

static void send_request(struct box_skills_client *line, const struct box_skill_store_request *ask)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	struct box_err err;
	line->archive_at = line->out.len;
	box_map_add(arena, &map, "namespace", box_cstr(ask->namespace));
	box_map_add(arena, &map, "action", box_cstr(ask->action));
	box_map_add(arena, &map, "data", *ask->data);
	if (append_message(line, &map) < 0) {
		/* Half of it may be there, behind the root that was never sent. */
		hang_up(line);
		(void)box_err_set(&err, BOX_ERR_VALIDATION, EMSGSIZE, "the request is too large");
		finish(line, NULL, &err);
		return;
	}
	bool is_long = ask->archive >= 0 || line->unsettled;
	uint64_t limit_ms = is_long ? BOX_SKILLS_ARCHIVE_REQUEST_MS : BOX_SKILLS_REQUEST_MS;
	/* The next one goes out when this one was answered, or to another. */
	line->unsettled = ask->archive >= 0;
	(void)uv_timer_start(&line->deadline, deadline_cb, limit_ms, 0);
	on_writable(line);
}

/* --- a connection --- */

static int adopt(struct box_skills_client *line, int fd)
{
	struct socket *socket = box_alloc(sizeof(*socket));
	int r = uv_poll_init(line->loop, &socket->poll, fd);
	if (r < 0) {
		free(socket);
		return r;
	}
	socket->poll.data = socket;
	socket->line = line;
	socket->fd = fd;
	line->socket = socket;
	line->unsettled = true; /* its predecessor may have been killed on the way */
	return 0;
}

/* boxd's answer: the request that wanted it goes out, or fails. */
static void opened(void *arg, int fd, const char *path, const struct box_err *err)
{
	struct box_skills_client *line = arg;
	struct box_err failed;
	if (!err && adopt(line, fd) < 0) {
		(void)box_err_set(&failed, BOX_ERR_RUNTIME_UNAVAILABLE, EIO,
			"the skill store cannot be watched");
		box_close_p(&fd);
		err = &failed;
	}
	if (err) {
		drop_message(line);
		finish(line, NULL, err);
		pump(line);
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value first = box_map_value();
	box_map_add(arena, &first, "root", box_cstr(path));
	(void)append_message(line, &first);
	if (line->current) {
		send_request(line, line->current);
	} else {
		box_close_p(&line->archive);
		line->archive = -1;
		finish(line, NULL, NULL);
		on_writable(line);
	}
	pump(line);
}

/* --- what is asked --- */

/* One that died while nothing was asked of it may not have been noticed yet. */
static bool is_dead(const struct socket *socket)
{
	char byte;
	ssize_t got = recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void begin(struct box_skills_client *line, struct box_skill_store_request *ask)
{
	line->busy = true;
	line->current = ask;
	if (line->socket && (strcmp(line->root, ask->root) != 0 || is_dead(line->socket))) {
		hang_up(line);
	}
	line->archive = ask->archive < 0 ? -1 : fcntl(ask->archive, F_DUPFD_CLOEXEC, 3);
	if (line->socket) {
		send_request(line, ask);
		return;
	}
	(void)snprintf(line->root, sizeof(line->root), "%s", ask->root);
	box_boxd_client_start_skills(line->link, ask->root, opened, line);
}

static void pump(struct box_skills_client *line)
{
	struct box_skill_store_request *ask;
	while (!line->busy && (ask = box_skills_queue_take(&line->queue))) {
		begin(line, ask);
	}
}

static void tell_refused(struct box_skills_client *line)
{
	struct box_list *item;
	struct box_err err;
	(void)box_err_set(
		&err, BOX_ERR_CAPACITY, EAGAIN, "too much waits for the skill store already");
	while ((item = box_list_pop(&line->refused))) {
		struct box_skill_store_request *ask = BOX_CONTAINER_OF(
			item, struct box_skill_store_request, links);
		ask->done(ask->arg, NULL, &err);
	}
}

static void later_cb(uv_idle_t *idle)
{
	struct box_skills_client *line = idle->data;
	(void)uv_idle_stop(idle);
	tell_refused(line);
	pump(line);
}

void box_skills_client_request(struct box_skills_client *line, struct box_skill_store_request *ask)
{
	ask->refused = !box_skills_queue_put(&line->queue, ask);
	if (ask->refused) {
		box_list_push(&line->refused, &ask->links);
	}
	/* Not from inside: what fails at once is told from the loop all the same. */
	(void)uv_idle_start(&line->later, later_cb);
}

void box_skills_client_cancel(struct box_skills_client *line, struct box_skill_store_request *ask)
{
	if (line->current == ask) {
		line->current = NULL;
	} else if (ask->refused) {
		box_list_drop(&ask->links);
	} else {
		box_skills_queue_drop(&line->queue, ask);
	}
}

struct box_skills_client *box_skills_client_new(uv_loop_t *loop, struct box_boxd_client *link)
{
	struct box_skills_client *line = box_alloc(sizeof(*line));
	line->loop = loop;
	line->link = link;
	line->archive = -1;
	box_skills_queue_init(&line->queue);
	box_list_init(&line->refused);
	(void)uv_timer_init(loop, &line->deadline);
	(void)uv_idle_init(loop, &line->later);
	line->deadline.data = line;
	line->later.data = line;
	drop_message(line);
	return line;
}
