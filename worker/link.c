/* Packets from and to boxd. Requests carry an id and are answered in any order. */
#include "worker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "runtime/storage.h"

/* A request to boxd that has no answer yet. One of the callbacks is set. */
struct asked {
	struct box_list links;
	uint32_t id;
	int failed; /* why it could not be asked: told from the loop all the same */
	box_folder_done *folder;
	box_native_made *made;
	box_native_mounted *mounted;
	box_native_grouped *grouped;
	box_native_tried *tried;
	box_link_stored *stored;
	box_measured_done *measured;
	void *arg;
};

/* A packet that the socket did not take yet. */
struct waiting {
	struct box_list links;
	int fd; /* -1: none */
	size_t size;
	char bytes[];
};

struct box_link {
	uv_poll_t poll;
	struct box_list queue; /* of what waits for the socket, in order */
	uv_idle_t failures;
	const struct box_link_events *events;
	void *arg;
	struct box_table asked; /* by id */
	struct box_list unsent; /* could not even be asked */
	uint32_t next_id;
};

int box_link_receive_start(struct box_packet *ret_packet)
{
	struct pollfd wait = {.fd = BOX_KEEPER_FD, .events = POLLIN};
	int r;
	do {
		if (poll(&wait, 1, -1) < 0 && errno != EINTR) {
			return -errno;
		}
		r = box_packet_recv(BOX_KEEPER_FD, ret_packet);
	} while (r == -EAGAIN);
	if (r == 0 &&
		(ret_packet->kind != BOX_KEEPER_START ||
			ret_packet->size != sizeof(struct box_keeper_start))) {
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

static const struct box_err *failure_of(
	const struct box_keeper_failure *failure, struct box_err *err)
{
	if (failure->result == 0) {
		return NULL;
	}
	enum box_code code = failure->code < BOX_ERR_CODES_ ? (enum box_code)failure->code
							    : BOX_ERR_BOX;
	(void)box_err_set(err, code, -failure->result, "%s", failure->text);
	return err;
}

static void tell_measured(const struct asked *asked, const struct box_packet *packet)
{
	struct box_measured measured = {.result = packet ? packet->measured.result : asked->failed};
	for (size_t i = 0; packet && i < BOX_KEEPER_PARTS; i++) {
		const struct box_keeper_part *part = &packet->measured.parts[i];
		measured.parts[i] = (struct box_measured_part){
			.exists = part->exists,
			.size_bytes = part->size_bytes,
			.file_count = part->file_count,
			.error_count = part->error_count,
		};
	}
	asked->measured(asked->arg, &measured);
}

static void tell_grouped(
	const struct asked *asked, struct box_packet *packet, const struct box_err *why)
{
	const struct box_native_group group = {
		.door = packet ? take_fd(packet, 0) : -1,
		.events = packet ? take_fd(packet, 1) : -1,
		.rest = packet ? take_fd(packet, 2) : -1,
	};
	asked->grouped(asked->arg, &group, why);
}

static void tell_made(
	const struct asked *asked, struct box_packet *packet, const struct box_err *why)
{
	static const struct box_keeper_made nothing;
	const struct box_keeper_made *made = packet ? &packet->made : &nothing;
	asked->made(asked->arg, made->box, packet ? take_fd(packet, 0) : -1,
		packet ? take_fd(packet, 1) : -1, made->host_address, why);
}

/* The packet is NULL when it could not be asked. */
static void finish(struct asked *asked, struct box_packet *packet)
{
	struct asked last = *asked;
	struct box_err err;
	free(asked);
	if (!packet && !last.folder) {
		(void)box_err_set(&err, BOX_ERR_RUNTIME_UNAVAILABLE, -last.failed,
			"boxd cannot be asked: %s", strerrordesc_np(-last.failed));
	}
	if (last.folder) {
		last.folder(last.arg, packet ? packet->folder.result : last.failed);
	} else if (last.measured) {
		tell_measured(&last, packet);
	} else if (last.made) {
		tell_made(&last, packet, packet ? failure_of(&packet->made.failure, &err) : &err);
	} else if (last.grouped) {
		tell_grouped(
			&last, packet, packet ? failure_of(&packet->grouped.failure, &err) : &err);
	} else if (last.tried) {
		last.tried(last.arg, packet ? failure_of(&packet->tried.failure, &err) : &err);
	} else if (last.stored) {
		const struct box_err *why = packet ? failure_of(&packet->stored.failure, &err)
						   : &err;
		last.stored(last.arg, packet ? take_fd(packet, 0) : -1,
			packet ? packet->stored.path : "", why);
	} else {
		const struct box_err *why = packet ? failure_of(&packet->mounted.failure, &err)
						   : &err;
		last.mounted(last.arg, packet ? take_fd(packet, 0) : -1, why);
	}
}

static void answered(struct box_link *link, uint32_t id, struct box_packet *packet)
{
	struct asked *asked = box_table_remove(&link->asked, key_of(&id));
	if (asked) {
		finish(asked, packet);
	}
}

static void take_packet(struct box_link *link, struct box_packet *packet)
{
	switch (packet->kind) {
	case BOX_KEEPER_LISTEN:
		link->events->listen(link->arg, packet->fds, packet->fd_count);
		packet->fd_count = 0;
		break;
	case BOX_KEEPER_RELOAD:
		if (packet->fd_count == 1) {
			packet->fd_count = 0;
			link->events->reload(link->arg, packet->fds[0]);
		}
		break;
	case BOX_KEEPER_STOP:
		link->events->stop(link->arg);
		break;
	case BOX_KEEPER_FOLDER:
		answered(link, packet->folder.id, packet);
		break;
	case BOX_KEEPER_MADE:
		answered(link, packet->made.id, packet);
		break;
	case BOX_KEEPER_MEASURED:
		answered(link, packet->measured.id, packet);
		break;
	case BOX_KEEPER_MOUNTED:
		answered(link, packet->mounted.id, packet);
		break;
	case BOX_KEEPER_GROUPED:
		answered(link, packet->grouped.id, packet);
		break;
	case BOX_KEEPER_TRIED:
		answered(link, packet->tried.id, packet);
		break;
	case BOX_KEEPER_STORED:
		packet->stored.path[sizeof(packet->stored.path) - 1] = '\0';
		answered(link, packet->stored.id, packet);
		break;
	case BOX_KEEPER_KEPT:
		link->events->kept(link->arg, packet->made.box, take_fd(packet, 0),
			take_fd(packet, 1), take_fd(packet, 2), packet->made.host_address);
		break;
	case BOX_KEEPER_GONE:
		link->events->gone(link->arg, packet->box.box);
		break;
	default:
		BOX_LOG(BOX_LOG_WARNING, "keeper.unknown_packet", box_kv_int("kind", packet->kind));
		break;
	}
	box_packet_close_fds(packet);
}

static void poll_cb(uv_poll_t *poll, int status, int events);

static void watch(struct box_link *link)
{
	int out = box_list_empty(&link->queue) ? 0 : UV_WRITABLE;
	(void)uv_poll_start(&link->poll, UV_READABLE | UV_DISCONNECT | out, poll_cb);
}

/* boxd makes boxes one after the other and reads in between: what does not fit into the socket waits
 * here, in order. It is bounded by how many sessions, commands and other requests there may be: a
 * session counts until its make was answered, and a command until its mount was, wanted or not. */
static int post(struct box_link *link, const void *body, size_t size, const int *fd)
{
	int r = box_list_empty(&link->queue)
		? box_packet_send(BOX_KEEPER_FD, body, size, fd, fd ? 1 : 0)
		: -EAGAIN;
	if (r != -EAGAIN) {
		return r;
	}
	int copy = fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd && copy < 0) {
		return -errno;
	}
	struct waiting *waiting = box_alloc(sizeof(*waiting) + size);
	waiting->fd = copy;
	waiting->size = size;
	memcpy(waiting->bytes, body, size);
	box_list_push(&link->queue, &waiting->links);
	watch(link);
	return 0;
}

/* What fails now fails because boxd is gone, which is noticed by reading. */
static void flush(struct box_link *link)
{
	while (!box_list_empty(&link->queue)) {
		struct waiting *first = BOX_LIST_ITEM(link->queue.next, struct waiting, links);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		if (box_packet_send(BOX_KEEPER_FD, first->bytes, first->size, &first->fd,
			    first->fd >= 0 ? 1 : 0) == -EAGAIN) {
			return;
		}
		box_list_drop(&first->links);
		box_close_p(&first->fd);
		free(first);
	}
	watch(link);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_link *link = poll->data;
	struct box_packet packet;
	if (status == 0 && (events & UV_WRITABLE)) {
		flush(link);
	}
	int r = status < 0 ? status : box_packet_recv(BOX_KEEPER_FD, &packet);
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

int box_link_open(uv_loop_t *loop, const struct box_link_events *events, void *arg,
	struct box_link **ret_link)
{
	struct box_link *link = box_alloc(sizeof(*link));
	box_list_init(&link->queue);
	int r = uv_poll_init(loop, &link->poll, BOX_KEEPER_FD);
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

static int send_plain(struct box_link *link, uint32_t kind, const int *fd)
{
	const struct box_keeper_plain packet = {kind};
	return post(link, &packet, sizeof(packet), fd);
}

int box_link_ready(struct box_link *link)
{
	return send_plain(link, BOX_KEEPER_READY, NULL);
}

int box_link_taken(struct box_link *link)
{
	return send_plain(link, BOX_KEEPER_TAKEN, NULL);
}

int box_link_keep_state(struct box_link *link, int fd)
{
	return send_plain(link, BOX_KEEPER_STATE, &fd);
}

static void failures_cb(uv_idle_t *idle)
{
	struct box_link *link = idle->data;
	struct box_list *item;
	(void)uv_idle_stop(idle);
	while ((item = box_list_pop(&link->unsent))) {
		finish(BOX_LIST_ITEM(item, struct asked, links), NULL);
	}
}

static struct asked *asked_new(struct box_link *link, void *arg)
{
	struct asked *asked = box_alloc(sizeof(*asked));
	do {
		asked->id = ++link->next_id;
	} while (asked->id == 0);
	asked->arg = arg;
	box_list_init(&asked->links);
	return asked;
}

/* `r` is what came of sending it. */
static void asked_sent(struct box_link *link, struct asked *asked, int r)
{
	asked->failed = r;
	if (r == 0) {
		box_table_put(&link->asked, key_of(&asked->id), asked);
		return;
	}
	box_list_push(&link->unsent, &asked->links);
	(void)uv_idle_start(&link->failures, failures_cb);
}

void box_link_folder(struct box_link *link, const char *path, enum box_folder_wish wish,
	box_folder_done *done, void *arg)
{
	struct asked *asked = asked_new(link, arg);
	struct box_keeper_make_folder packet = {.kind = BOX_KEEPER_MAKE_FOLDER,
		.id = asked->id,
		.look_only = wish == BOX_FOLDER_LOOK};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->folder = done;
	asked_sent(link, asked,
		strlen(path) < sizeof(packet.path) ? post(link, &packet, sizeof(packet), NULL)
						   : -ENAMETOOLONG);
}

_Static_assert(BOX_MEASURED_FOLDER_PARTS_ == BOX_KEEPER_PARTS &&
		(int)BOX_MEASURED_OUTBOX == (int)BOX_FOLDER_OUTBOX &&
		(int)BOX_MEASURED_TEMP == (int)BOX_BOX_TEMP,
	"the parts are the same here and in the packet");

static int send_measure(struct box_link *link, const struct box_measure *what, uint32_t id)
{
	if (what->box != 0) {
		const struct box_keeper_measure_box packet = {
			.kind = BOX_KEEPER_MEASURE_BOX, .id = id, .box = what->box};
		return post(link, &packet, sizeof(packet), NULL);
	}
	struct box_keeper_measure_folder packet = {.kind = BOX_KEEPER_MEASURE_FOLDER, .id = id};
	if (strlen(what->path) >= sizeof(packet.path) ||
		strlen(what->below) >= sizeof(packet.below)) {
		return -ENAMETOOLONG;
	}
	(void)snprintf(packet.path, sizeof(packet.path), "%s", what->path);
	(void)snprintf(packet.below, sizeof(packet.below), "%s", what->below);
	return post(link, &packet, sizeof(packet), NULL);
}

void box_link_measure(
	struct box_link *link, const struct box_measure *what, box_measured_done *done, void *arg)
{
	struct asked *asked = asked_new(link, arg);
	asked->measured = done;
	asked_sent(link, asked, send_measure(link, what, asked->id));
}

void box_link_store(struct box_link *link, const char *path, box_link_stored *done, void *arg)
{
	struct asked *asked = asked_new(link, arg);
	struct box_keeper_open_store packet = {.kind = BOX_KEEPER_OPEN_STORE, .id = asked->id};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->stored = done;
	asked_sent(link, asked, post(link, &packet, sizeof(packet), NULL));
}

/* --- boxes --- */

static void make_box(void *keeper, const struct box_ask *ask, box_native_made *done, void *arg)
{
	struct box_link *link = keeper;
	struct asked *asked = asked_new(link, arg);
	struct box_keeper_make_box packet = {
		.kind = BOX_KEEPER_MAKE_BOX, .id = asked->id, .ask = *ask};
	asked->made = done;
	asked_sent(link, asked, post(link, &packet, sizeof(packet), NULL));
}

/* What cannot be sent ends with us. */
static void tell(struct box_link *link, const void *packet, size_t size)
{
	int r = post(link, packet, size, NULL);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "keeper.unreachable", box_kv_errno("why", r));
	}
}

static void end_box(void *keeper, uint64_t box)
{
	const struct box_keeper_box packet = {.kind = BOX_KEEPER_END_BOX, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void open_group(void *keeper, uint64_t box, uint32_t process, uint32_t mebibytes,
	box_native_grouped *done, void *arg)
{
	struct box_link *link = keeper;
	struct asked *asked = asked_new(link, arg);
	const struct box_keeper_open_group packet = {.kind = BOX_KEEPER_OPEN_GROUP,
		.id = asked->id,
		.box = box,
		.process = process,
		.mebibytes = mebibytes};
	asked->grouped = done;
	asked_sent(link, asked, post(link, &packet, sizeof(packet), NULL));
}

static void close_group(void *keeper, uint64_t box, uint32_t process)
{
	const struct box_keeper_close_group packet = {
		.kind = BOX_KEEPER_CLOSE_GROUP, .process = process, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void try_machines(void *keeper, box_native_tried *done, void *arg)
{
	struct box_link *link = keeper;
	struct asked *asked = asked_new(link, arg);
	const struct box_keeper_try packet = {.kind = BOX_KEEPER_TRY_MACHINES, .id = asked->id};
	asked->tried = done;
	asked_sent(link, asked, post(link, &packet, sizeof(packet), NULL));
}

static int post_artifact(
	struct box_link *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_keeper_open_artifact packet = {
		.kind = BOX_KEEPER_OPEN_ARTIFACT, .id = id, .box = box};
	const char *digest = strchr(wanted->content_digest, ':') + 1;
	(void)snprintf(packet.digest, sizeof(packet.digest), "%s", digest);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	(void)snprintf(packet.manifest, sizeof(packet.manifest), "%s", wanted->manifest_path);
	return post(link, &packet, sizeof(packet), NULL);
}

static int post_mount(
	struct box_link *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_keeper_open_mount packet = {
		.kind = BOX_KEEPER_OPEN_MOUNT,
		.id = id,
		.box = box,
		.read_only = wanted->mode == BOX_MOUNT_RO,
		.in_store = wanted->in_store,
	};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	return post(link, &packet, sizeof(packet), NULL);
}

static void open_mount(void *keeper, uint64_t box, const struct box_mount *wanted,
	box_native_mounted *done, void *arg)
{
	struct box_link *link = keeper;
	struct asked *asked = asked_new(link, arg);
	asked->mounted = done;
	asked_sent(link, asked,
		box_mount_is_artifact(wanted) ? post_artifact(link, asked->id, box, wanted)
					      : post_mount(link, asked->id, box, wanted));
}

const struct box_native_keeper box_link_keeper = {
	.make = make_box,
	.end = end_box,
	.mount = open_mount,
	.open_group = open_group,
	.close_group = close_group,
	.try_machines = try_machines,
};

int box_link_policy(struct box_link *link, const struct box_policy *policy)
{
	_cleanup_(box_close_p) int fd = memfd_create("box-policy", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (write(fd, policy, sizeof(*policy)) != (ssize_t)sizeof(*policy)) {
		return -EIO;
	}
	return send_plain(link, BOX_KEEPER_POLICY, &fd);
}
