/* Packets from and to boxd. Requests carry an id and are answered in any order: here is who waits for
 * which answer; boxd_client_requests.c has what is asked. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/packet_queue.h"
#include "base/table.h"
#include "protocol/boxd_client_private.h"
#include "runtime/storage.h"

struct box_boxd_client {
	uv_poll_t poll;
	struct box_packet_queue queue; /* of what the socket does not take yet */
	uv_idle_t failures;
	const struct box_boxd_client_events *events;
	void *arg;
	struct box_table asked; /* by id */
	struct box_list unsent; /* could not even be asked */
	uint32_t next_id;
};

int box_boxd_client_receive_start(struct box_packet *ret_packet)
{
	struct pollfd wait = {.fd = BOX_BOXD_FD, .events = POLLIN};
	int r;
	do {
		if (poll(&wait, 1, -1) < 0 && errno != EINTR) {
			return -errno;
		}
		r = box_packet_recv(BOX_BOXD_FD, ret_packet);
	} while (r == -EAGAIN);
	if (r == 0 &&
		(ret_packet->kind != BOX_BOXD_START ||
			ret_packet->size != sizeof(struct box_boxd_start))) {
		return -EBADMSG;
	}
	return r;
}

static struct box_str key_of(const uint32_t *id)
{
	return (struct box_str){(const char *)id, sizeof(*id)};
}

/* Takes an fd out of the packet, or -1. */
static int take_fd(struct box_packet *packet, size_t number)
{
	return packet->fd_count > number ? TAKE_FD(packet->fds[number]) : -1;
}

static const struct box_err *failure_of(const struct box_boxd_failure *failure, struct box_err *err)
{
	if (failure->result == 0) {
		return NULL;
	}
	enum box_code code = failure->code < BOX_ERR_CODES_ ? (enum box_code)failure->code
							    : BOX_ERR_BOX;
	(void)box_err_set(err, code, -failure->result, "%s", failure->text);
	return err;
}

static void tell_measured(
	const struct box_boxd_client_request *asked, const struct box_packet *packet)
{
	struct box_storage_measured measured = {
		.result = packet ? packet->measured.result : asked->failed};
	for (size_t i = 0; packet && i < BOX_BOXD_PARTS; i++) {
		const struct box_boxd_part *part = &packet->measured.parts[i];
		measured.parts[i] = (struct box_storage_measured_part){
			.exists = part->exists,
			.size_bytes = part->size_bytes,
			.file_count = part->file_count,
			.error_count = part->error_count,
		};
	}
	asked->measured(asked->arg, &measured);
}

static void tell_grouped(const struct box_boxd_client_request *asked, struct box_packet *packet,
	const struct box_err *why)
{
	const struct box_local_process_cgroup group = {
		.procs_fd = packet ? take_fd(packet, 0) : -1,
		.oom_fd = packet ? take_fd(packet, 1) : -1,
		.oom_rest_fd = packet ? take_fd(packet, 2) : -1,
	};
	asked->grouped(asked->arg, &group, why);
}

static void tell_made(const struct box_boxd_client_request *asked, struct box_packet *packet,
	const struct box_err *why)
{
	static const struct box_boxd_made nothing;
	const struct box_boxd_made *made = packet ? &packet->made : &nothing;
	asked->made(asked->arg, made->box, packet ? take_fd(packet, 0) : -1,
		packet ? take_fd(packet, 1) : -1, made->host_address, why);
}

/* Why there is no answer that counts, or NULL. */
static const struct box_err *why_not(const struct box_boxd_client_request *asked,
	const struct box_packet *packet, struct box_err *err)
{
	if (!packet) {
		(void)box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, -asked->failed,
			"boxd cannot be asked: %s", box_err_strerror(-asked->failed));
		return err;
	}
	const struct box_boxd_failure *failure = asked->made ? &packet->made.failure
		: asked->grouped                             ? &packet->grouped.failure
		: asked->tried                               ? &packet->tried.failure
		: asked->stored                              ? &packet->stored.failure
							     : &packet->mounted.failure;
	return failure_of(failure, err);
}

/* The packet is NULL when it could not be asked. */
static void finish(struct box_boxd_client_request *asked, struct box_packet *packet)
{
	struct box_boxd_client_request last = *asked;
	struct box_err err;
	free(asked);
	if (last.folder) {
		last.folder(last.arg, packet ? packet->folder.result : last.failed);
		return;
	}
	if (last.measured) {
		tell_measured(&last, packet);
		return;
	}
	const struct box_err *why = why_not(&last, packet, &err);
	if (last.made) {
		tell_made(&last, packet, why);
	} else if (last.grouped) {
		tell_grouped(&last, packet, why);
	} else if (last.tried) {
		last.tried(last.arg, why);
	} else if (last.stored) {
		last.stored(last.arg, packet ? take_fd(packet, 0) : -1,
			packet ? packet->stored.path : "", why);
	} else {
		last.mounted(last.arg, packet ? take_fd(packet, 0) : -1, why);
	}
}

static void answered(struct box_boxd_client *link, uint32_t id, struct box_packet *packet)
{
	struct box_boxd_client_request *asked = box_table_remove(&link->asked, key_of(&id));
	if (asked) {
		finish(asked, packet);
	}
}

static void take_packet(struct box_boxd_client *link, struct box_packet *packet)
{
	switch (packet->kind) {
	case BOX_BOXD_LISTEN:
		link->events->listen(link->arg, packet->fds, packet->fd_count);
		packet->fd_count = 0;
		break;
	case BOX_BOXD_RELOAD:
		if (packet->fd_count == 1) {
			packet->fd_count = 0;
			link->events->reload(link->arg, packet->fds[0]);
		}
		break;
	case BOX_BOXD_TOKENS:
		link->events->tokens(link->arg, packet->tokens.text, sizeof(packet->tokens.text));
		explicit_bzero(packet->tokens.text, sizeof(packet->tokens.text));
		break;
	case BOX_BOXD_HOST:
		link->events->host(link->arg, &packet->host_told.host);
		break;
	case BOX_BOXD_STOP:
		link->events->stop(link->arg);
		break;
	case BOX_BOXD_FOLDER:
		answered(link, packet->folder.id, packet);
		break;
	case BOX_BOXD_MADE:
		answered(link, packet->made.id, packet);
		break;
	case BOX_BOXD_MEASURED:
		answered(link, packet->measured.id, packet);
		break;
	case BOX_BOXD_MOUNTED:
		answered(link, packet->mounted.id, packet);
		break;
	case BOX_BOXD_PROCESS_CGROUP:
		answered(link, packet->grouped.id, packet);
		break;
	case BOX_BOXD_PROBED:
		answered(link, packet->tried.id, packet);
		break;
	case BOX_BOXD_STORE:
		packet->stored.path[sizeof(packet->stored.path) - 1] = '\0';
		answered(link, packet->stored.id, packet);
		break;
	case BOX_BOXD_INHERITED:
		link->events->kept(link->arg, packet->made.box, take_fd(packet, 0),
			take_fd(packet, 1), take_fd(packet, 2), packet->made.host_address);
		break;
	case BOX_BOXD_GONE:
		link->events->gone(link->arg, packet->box.box);
		break;
	case BOX_BOXD_ARTIFACT_BYTES:
		link->events->held(link->arg, packet->held.artifact_bytes);
		break;
	case BOX_BOXD_ENDING:
		link->events->ends(link->arg, packet->box.box, packet->box.why);
		break;
	default:
		BOX_LOG(BOX_LOG_WARNING, "keeper.unknown_packet",
			box_log_int("kind", packet->kind));
		break;
	}
	box_packet_close_fds(packet);
}

static void poll_cb(uv_poll_t *poll, int status, int events);

static void watch(struct box_boxd_client *link)
{
	int out = link->queue.count > 0 ? UV_WRITABLE : 0;
	(void)uv_poll_start(&link->poll, UV_READABLE | UV_DISCONNECT | out, poll_cb);
}

/* boxd makes boxes one after the other and reads in between: what does not fit into the socket waits
 * here, in order. It is bounded by how many sessions, commands and other requests there may be: a
 * session counts until its make was answered, and a command until its mount was, wanted or not. */
int box_boxd_client_post(struct box_boxd_client *link, const void *body, size_t size, const int *fd)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)body, .iov_len = size};
	int r = box_packet_queue_send(&link->queue, BOX_BOXD_FD, &part, 1, fd, fd ? 1 : 0);
	if (link->queue.count > 0) {
		watch(link);
	}
	return r;
}

/* What fails now fails because boxd is gone, which is noticed by reading. */
static void flush(struct box_boxd_client *link)
{
	(void)box_packet_queue_flush(&link->queue, BOX_BOXD_FD);
	if (link->queue.count == 0) {
		watch(link);
	}
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_boxd_client *link = poll->data;
	struct box_packet packet;
	if (status == 0 && (events & UV_WRITABLE)) {
		flush(link);
	}
	int r = status < 0 ? status : box_packet_recv(BOX_BOXD_FD, &packet);
	if (r == -EAGAIN) {
		return;
	}
	if (r < 0) {
		(void)uv_poll_stop(poll);
		link->events->lost(link->arg);
		return;
	}
	take_packet(link, &packet);
}

int box_boxd_client_open(uv_loop_t *loop, const struct box_boxd_client_events *events, void *arg,
	struct box_boxd_client **ret_link)
{
	struct box_boxd_client *link = box_alloc(sizeof(*link));
	box_packet_queue_init(&link->queue, SIZE_MAX, SIZE_MAX);
	int r = uv_poll_init(loop, &link->poll, BOX_BOXD_FD);
	if (r == 0) {
		link->poll.data = link;
		r = uv_poll_start(&link->poll, UV_READABLE | UV_DISCONNECT, poll_cb);
	}
	if (r < 0) {
		free(link);
		return r;
	}
	(void)uv_idle_init(loop, &link->failures);
	link->failures.data = link;
	link->events = events;
	link->arg = arg;
	box_list_init(&link->unsent);
	*ret_link = link;
	return 0;
}

static int send_plain(struct box_boxd_client *link, uint32_t kind, const int *fd)
{
	const struct box_boxd_plain packet = {kind};
	return box_boxd_client_post(link, &packet, sizeof(packet), fd);
}

int box_boxd_client_send_ready(struct box_boxd_client *link)
{
	return send_plain(link, BOX_BOXD_READY, NULL);
}

int box_boxd_client_confirm_reload(struct box_boxd_client *link)
{
	return send_plain(link, BOX_BOXD_CONFIG_ACCEPTED, NULL);
}

int box_boxd_client_confirm_tokens(struct box_boxd_client *link)
{
	return send_plain(link, BOX_BOXD_TOKENS_ACCEPTED, NULL);
}

int box_boxd_client_refresh_host(struct box_boxd_client *link)
{
	return send_plain(link, BOX_BOXD_QUERY_HOST, NULL);
}

int box_boxd_client_keep_state(struct box_boxd_client *link, int fd)
{
	return send_plain(link, BOX_BOXD_STATE, &fd);
}

static void failures_cb(uv_idle_t *idle)
{
	struct box_boxd_client *link = idle->data;
	struct box_list *item;
	(void)uv_idle_stop(idle);
	while ((item = box_list_pop(&link->unsent))) {
		finish(BOX_CONTAINER_OF(item, struct box_boxd_client_request, links), NULL);
	}
}

struct box_boxd_client_request *box_boxd_client_request_new(struct box_boxd_client *link, void *arg)
{
	struct box_boxd_client_request *asked = box_alloc(sizeof(*asked));
	do {
		asked->id = ++link->next_id;
	} while (asked->id == 0);
	asked->arg = arg;
	box_list_init(&asked->links);
	return asked;
}

/* `r` is what came of sending it. */
void box_boxd_client_request_sent(
	struct box_boxd_client *link, struct box_boxd_client_request *asked, int r)
{
	asked->failed = r;
	if (r == 0) {
		box_table_put(&link->asked, key_of(&asked->id), asked);
		return;
	}
	box_list_push(&link->unsent, &asked->links);
	(void)uv_idle_start(&link->failures, failures_cb);
}

int box_boxd_client_send_policy(struct box_boxd_client *link, const struct box_policy *policy)
{
	_cleanup_(box_close_p) int fd = memfd_create("box-policy", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (write(fd, policy, sizeof(*policy)) != (ssize_t)sizeof(*policy)) {
		return -EIO;
	}
	return send_plain(link, BOX_BOXD_POLICY, &fd);
}
