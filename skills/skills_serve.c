/* Serves requests one at a time and blocks on purpose: there is one client, and the work is file access. */
#include "skills/skills_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/limits.h"
#include "codec/msgpack.h"
#include "protocol/skills.h"
#include "skills/store/store.h"

#define NAMESPACE_DIGITS 24
#define FIND "find" /* as BOX_SKILL_STORE_FIND of runtime/skill_store.h */

/* --- receiving --- */

/* Reads all of it, with the fd that may accompany its first byte. 0, -EPIPE at the end, or -errno. */
static int receive(int socket, void *bytes, size_t size, int *ret_fd)
{
	size_t have = 0;
	while (have < size) {
		struct box_fds fds = {.list = ret_fd, .max = have == 0 && ret_fd};
		ssize_t got = box_fds_receive(socket, (char *)bytes + have, size - have, &fds, 0);
		if (got <= 0) {
			return got < 0 ? (int)got : -EPIPE;
		}
		have += (size_t)got;
	}
	return 0;
}

/* Reads one message into the arena. */
static int receive_map(int socket, struct box_arena *arena, struct box_value *ret_map, int *ret_fd)
{
	struct box_skills_head head;
	const char *why = "";
	int r = receive(socket, &head, sizeof(head), ret_fd);
	if (r == 0 && (head.size == 0 || head.size > BOX_SKILLS_BYTES_MAX)) {
		r = -EMSGSIZE;
	}
	if (r < 0) {
		return r;
	}
	char *bytes = malloc(head.size);
	if (!bytes) {
		return -ENOMEM;
	}
	box_arena_adopt(arena, bytes);
	r = receive(socket, bytes, head.size, NULL);
	return r < 0 ? r : box_msgpack_decode(arena, bytes, head.size, ret_map, &why);
}

/* --- sending --- */

static int send_all(int socket, struct iovec *pieces, size_t count)
{
	while (count > 0) {
		struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
		ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR) {
			continue;
		}
		if (sent < 0) {
			return -errno;
		}
		size_t left = (size_t)sent;
		while (count > 0 && left >= pieces->iov_len) {
			left -= pieces->iov_len;
			pieces++;
			count--;
		}
		if (count > 0) {
			pieces->iov_base = (char *)pieces->iov_base + left;
			pieces->iov_len -= left;
		}
	}
	return 0;
}

static int send_map(int socket, const struct box_value *map)
{
	struct box_buf body = box_buf(BOX_SKILLS_BYTES_MAX);
	int r = box_msgpack_encode(&body, map);
	if (r == 0) {
		struct box_skills_head head = {.size = (uint32_t)body.len};
		struct iovec pieces[] = {{&head, sizeof(head)}, {body.bytes, body.len}};
		r = send_all(socket, pieces, 2);
	}
	box_buf_free(&body);
	return r;
}

static int send_error(int socket, struct box_arena *arena, const struct box_err *err)
{
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "code", box_int(err->code));
	box_map_add(arena, &map, "errnum", box_int(err->errnum));
	box_map_add(arena, &map, "text", box_cstr(err->text));
	return send_map(socket, &map);
}

/* --- requests --- */

static const char *text_member(
	struct box_arena *arena, const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_STR && !box_str_has_nul(value->str)
		? box_arena_strndup(arena, value->str.bytes, value->str.len)
		: NULL;
}

/* The names come from box-rpc, which makes them from hashes: anything else did not come from there. */
static bool is_namespace(const char *name)
{
	size_t digits = strncmp(name, "ws-", 3) == 0 ? strlen(name + 3) : 0;
	return digits == NAMESPACE_DIGITS && strspn(name + 3, "0123456789abcdef") == digits;
}

static int find_package(struct box_store *store, const char *namespace,
	const struct box_value *data, struct box_arena *arena, struct box_value *ret_answer,
	struct box_err *err)
{
	const char *name = text_member(arena, data, "name");
	struct box_buf path = box_buf(BOX_PATH_MAX);
	if (!name) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "name must be a string");
	}
	int r = box_store_find_package(store, namespace, name, &path, err);
	if (r == 0) {
		*ret_answer = box_map_value();
		box_map_add(arena, ret_answer, "path",
			box_cstr(box_arena_strndup(arena, path.bytes, path.len)));
	}
	box_buf_free(&path);
	return r;
}

static int answer(struct box_store *store, const struct box_value *request, int archive,
	struct box_arena *arena, struct box_value *ret_answer, struct box_err *err)
{
	const char *namespace = text_member(arena, request, "namespace");
	const char *action = text_member(arena, request, "action");
	const struct box_value *data = box_map_get(request, "data");
	if (!namespace || !is_namespace(namespace) || !action || !data || data->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_BOX, EPROTO, "a malformed request");
	}
	if (strcmp(action, FIND) == 0) {
		return find_package(store, namespace, data, arena, ret_answer, err);
	}
	return box_store_serve(store, namespace, action, data, archive, arena, ret_answer, err);
}

/* Negative if the connection has ended. */
static int serve_one(int socket, struct box_store *store)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	_cleanup_(box_close_p) int archive = -1;
	struct box_value request;
	struct box_value data = {0};
	struct box_err err;
	int r = receive_map(socket, arena, &request, &archive);
	if (r < 0) {
		return r;
	}
	if (answer(store, &request, archive, arena, &data, &err) < 0) {
		return send_error(socket, arena, &err);
	}
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "data", data);
	r = send_map(socket, &map);
	box_store_settle(store);
	if (r == -EMSGSIZE) {
		(void)box_err_set(
			&err, BOX_ERR_VALIDATION, EMSGSIZE, "the answer is larger than 16 MiB");
		r = send_error(socket, arena, &err);
	}
	return r;
}

int box_skills_serve(int socket, int folder, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value first;
	struct box_store *store = NULL;
	int r = receive_map(socket, arena, &first, NULL);
	const char *root = r < 0 ? NULL : text_member(arena, &first, "root");
	if (r == -EPIPE) {
		return 0;
	}
	if (!root) {
		return box_err_set(err, BOX_ERR_BOX, EPROTO, "the first message names no root");
	}
	r = box_store_open(fcntl(folder, F_DUPFD_CLOEXEC, 3), root, &store, err);
	while (r == 0) {
		r = serve_one(socket, store);
	}
	box_store_close(store);
	if (!store) {
		return r;
	}
	return r == -EPIPE || r == -ECONNRESET
		? 0
		: box_err_set(err, BOX_ERR_BOX, -r, "the socket: %s", box_err_strerror(-r));
}

void box_skills_serve_refusal(int socket, const struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	static char dropped[65536];
	if (send_error(socket, arena, err) == 0 && shutdown(socket, SHUT_WR) == 0) {
		while (read(socket, dropped, sizeof(dropped)) > 0) {
		}
	}
}
