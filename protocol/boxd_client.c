/* box-rpc's end of the protocol with boxd: sends requests, passes on their answers, and passes on what
 * boxd reports by itself. Requests carry an id; answers come in any order, and each request has a
 * function for its answer. The table `kinds` says what each incoming packet is.
 */
#include "protocol/boxd_client.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
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
#include "base/macros.h"
#include "base/packet_queue.h"
#include "base/table.h"
#include "runtime/storage.h"

struct box_boxd_client {
	uv_poll_t poll;
	struct box_packet_queue queue; /* packets that the socket does not take yet */
	uv_idle_t failures;
	const struct box_boxd_client_events *events;
	void *arg;
	struct box_table requests; /* sent and not yet answered, by id */
	struct box_list unsent;    /* requests that could not be sent */
	uint32_t next_id;
};

/* A request to boxd. */
struct request {
	struct box_list links;
	uint32_t id;
	int failed; /* why it could not be sent; still reported from the loop */
	/* Gets the answer; the packet is NULL when the request could not be sent. */
	void (*answer)(const struct request *request, struct box_packet *packet);
	union {
		box_runtime_folder_done *folder;
		box_local_make_done *made;
		box_local_mount_done *mounted;
		box_local_process_cgroup_done *cgroup;
		box_local_probe_done *probed;
		box_boxd_client_skills_started *store;
		box_storage_measure_done *measured;
	} done;
	void *arg;
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

/* Moves an fd out of the packet; -1 if there is none. */
static int take_fd(struct box_packet *packet, size_t number)
{
	return packet->fd_count > number ? TAKE_FD(packet->fds[number]) : -1;
}

/* --- answers --- */

/* The reason why a request has no result, or NULL. `failure` is the answer's, NULL when the request
 * could not be sent. */
static const struct box_err *error_of(
	const struct request *request, const struct box_boxd_failure *failure, struct box_err *err)
{
	if (!failure) {
		(void)box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, -request->failed,
			"boxd cannot be reached: %s", box_err_strerror(-request->failed));
		return err;
	}
	if (failure->result == 0) {
		return NULL;
	}
	enum box_code code = failure->code < BOX_ERR_CODES_ ? (enum box_code)failure->code
							    : BOX_ERR_BOX;
	(void)box_err_set(err, code, -failure->result, "%s", failure->text);
	return err;
}

static void answer_folder(const struct request *request, struct box_packet *packet)
{
	request->done.folder(request->arg, packet ? packet->folder.result : request->failed);
}

static void answer_measured(const struct request *request, struct box_packet *packet)
{
	struct box_storage_measured measured = {
		.result = packet ? packet->measured.result : request->failed};
	for (size_t i = 0; packet && i < BOX_BOXD_PARTS; i++) {
		const struct box_boxd_part *part = &packet->measured.parts[i];
		measured.parts[i] = (struct box_storage_measured_part){
			.exists = part->exists,
			.size_bytes = part->size_bytes,
			.file_count = part->file_count,
			.error_count = part->error_count,
		};
	}
	request->done.measured(request->arg, &measured);
}

static void answer_store(const struct request *request, struct box_packet *packet)
{
	struct box_err err;
	const struct box_err *why = error_of(
		request, packet ? &packet->stored.failure : NULL, &err);
	if (packet) {
		packet->stored.path[sizeof(packet->stored.path) - 1] = '\0';
	}
	request->done.store(request->arg, packet ? take_fd(packet, 0) : -1,
		packet ? packet->stored.path : "", why);
}

static void answer_made(const struct request *request, struct box_packet *packet)
{
	static const struct box_boxd_made nothing;
	const struct box_boxd_made *made = packet ? &packet->made : &nothing;
	struct box_err err;
	const struct box_err *why = error_of(request, packet ? &made->failure : NULL, &err);
	request->done.made(request->arg, made->box, packet ? take_fd(packet, 0) : -1,
		packet ? take_fd(packet, 1) : -1, made->host_address, why);
}

static void answer_cgroup(const struct request *request, struct box_packet *packet)
{
	struct box_err err;
	const struct box_err *why = error_of(
		request, packet ? &packet->process_cgroup.failure : NULL, &err);
	const struct box_local_process_cgroup cgroup = {
		.procs_fd = packet ? take_fd(packet, 0) : -1,
		.oom_fd = packet ? take_fd(packet, 1) : -1,
		.oom_rest_fd = packet ? take_fd(packet, 2) : -1,
	};
	request->done.cgroup(request->arg, &cgroup, why);
}

static void answer_probed(const struct request *request, struct box_packet *packet)
{
	struct box_err err;
	request->done.probed(
		request->arg, error_of(request, packet ? &packet->probed.failure : NULL, &err));
}

static void answer_mounted(const struct request *request, struct box_packet *packet)
{
	struct box_err err;
	const struct box_err *why = error_of(
		request, packet ? &packet->mounted.failure : NULL, &err);
	request->done.mounted(request->arg, packet ? take_fd(packet, 0) : -1, why);
}

static void finish(struct request *request, struct box_packet *packet)
{
	struct request finished = *request;
	free(request);
	finished.answer(&finished, packet);
}

/* --- packets from boxd --- */

static void take_listen(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->listen(client->arg, packet->fds, packet->fd_count);
	packet->fd_count = 0;
}

static void take_reload(struct box_boxd_client *client, struct box_packet *packet)
{
	if (packet->fd_count == 1) {
		packet->fd_count = 0;
		client->events->reload(client->arg, packet->fds[0]);
	}
}

static void take_tokens(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->tokens(client->arg, packet->tokens.text, sizeof(packet->tokens.text));
	explicit_bzero(packet->tokens.text, sizeof(packet->tokens.text));
}

static void take_host(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->host(client->arg, &packet->host.host);
}

static void take_stop(struct box_boxd_client *client, struct box_packet *packet)
{
	(void)packet;
	client->events->stop(client->arg);
}

static void take_inherited(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->inherited(client->arg, packet->made.box, take_fd(packet, 0),
		take_fd(packet, 1), take_fd(packet, 2), packet->made.host_address);
}

static void take_gone(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->gone(client->arg, packet->box.box);
}

static void take_ending(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->ending(client->arg, packet->box.box, packet->box.why);
}

static void take_artifact_bytes(struct box_boxd_client *client, struct box_packet *packet)
{
	client->events->artifact_bytes(client->arg, packet->artifact_bytes.artifact_bytes);
}

/* What each kind of packet is: a report, with the function that takes it; or an answer, with the offset
 * of its id. */
static const struct {
	void (*take)(struct box_boxd_client *client, struct box_packet *packet);
	size_t id_offset;
} kinds[] = {
	[BOX_BOXD_LISTEN] = {.take = take_listen},
	[BOX_BOXD_RELOAD] = {.take = take_reload},
	[BOX_BOXD_TOKENS] = {.take = take_tokens},
	[BOX_BOXD_HOST] = {.take = take_host},
	[BOX_BOXD_STOP] = {.take = take_stop},
	[BOX_BOXD_INHERITED] = {.take = take_inherited},
	[BOX_BOXD_GONE] = {.take = take_gone},
	[BOX_BOXD_ENDING] = {.take = take_ending},
	[BOX_BOXD_ARTIFACT_BYTES] = {.take = take_artifact_bytes},
	[BOX_BOXD_FOLDER] = {.id_offset = offsetof(struct box_packet, folder.id)},
	[BOX_BOXD_MADE] = {.id_offset = offsetof(struct box_packet, made.id)},
	[BOX_BOXD_MEASURED] = {.id_offset = offsetof(struct box_packet, measured.id)},
	[BOX_BOXD_MOUNTED] = {.id_offset = offsetof(struct box_packet, mounted.id)},
	[BOX_BOXD_PROCESS_CGROUP] = {.id_offset = offsetof(struct box_packet, process_cgroup.id)},
	[BOX_BOXD_PROBED] = {.id_offset = offsetof(struct box_packet, probed.id)},
	[BOX_BOXD_STORE] = {.id_offset = offsetof(struct box_packet, stored.id)},
};

static void take_packet(struct box_boxd_client *client, struct box_packet *packet)
{
	bool known = packet->kind < BOX_COUNT_OF(kinds);
	if (known && kinds[packet->kind].take) {
		kinds[packet->kind].take(client, packet);
	} else if (known && kinds[packet->kind].id_offset > 0) {
		uint32_t id = 0;
		memcpy(&id, (const char *)packet + kinds[packet->kind].id_offset, sizeof(id));
		struct request *request = box_table_remove(&client->requests, key_of(&id));
		if (request) {
			finish(request, packet);
		}
	} else {
		BOX_LOG(BOX_LOG_WARNING, "boxd.unknown_packet", box_log_int("kind", packet->kind));
	}
	box_packet_close_fds(packet);
}

/* --- the socket --- */

static void poll_cb(uv_poll_t *poll, int status, int events);

static void watch(struct box_boxd_client *client)
{
	int out = client->queue.count > 0 ? UV_WRITABLE : 0;
	(void)uv_poll_start(&client->poll, UV_READABLE | UV_DISCONNECT | out, poll_cb);
}

/* boxd makes boxes one after the other and reads in between: what does not fit into the socket waits
 * here, in order. The numbers of sessions, commands and other requests bound it: a session counts until
 * its make is answered, and a command until its mount is, wanted or not. */
static int post(struct box_boxd_client *client, const void *body, size_t size, const int *fd)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)body, .iov_len = size};
	int r = box_packet_queue_send(&client->queue, BOX_BOXD_FD, &part, 1, fd, fd ? 1 : 0);
	if (client->queue.count > 0) {
		watch(client);
	}
	return r;
}

/* Errors are ignored: they mean that boxd is gone, which poll_cb finds by reading. */
static void flush(struct box_boxd_client *client)
{
	(void)box_packet_queue_flush(&client->queue, BOX_BOXD_FD);
	if (client->queue.count == 0) {
		watch(client);
	}
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
	struct box_boxd_client *client = poll->data;
	struct box_packet packet;
	if (status == 0 && (events & UV_WRITABLE)) {
		flush(client);
	}
	int r = status < 0 ? status : box_packet_recv(BOX_BOXD_FD, &packet);
	if (r == -EAGAIN) {
		return;
	}
	if (r < 0) {
		(void)uv_poll_stop(poll);
		client->events->lost(client->arg);
		return;
	}
	take_packet(client, &packet);
}

int box_boxd_client_open(uv_loop_t *loop, const struct box_boxd_client_events *events, void *arg,
	struct box_boxd_client **ret_client)
{
	struct box_boxd_client *client = box_alloc(sizeof(*client));
	box_packet_queue_init(&client->queue, SIZE_MAX, SIZE_MAX);
	int r = uv_poll_init(loop, &client->poll, BOX_BOXD_FD);
	if (r == 0) {
		client->poll.data = client;
		r = uv_poll_start(&client->poll, UV_READABLE | UV_DISCONNECT, poll_cb);
	}
	if (r < 0) {
		free(client);
		return r;
	}
	(void)uv_idle_init(loop, &client->failures);
	client->failures.data = client;
	client->events = events;
	client->arg = arg;
	box_list_init(&client->unsent);
	*ret_client = client;
	return 0;
}

/* --- packets without an answer --- */

static int send_plain(struct box_boxd_client *client, uint32_t kind, const int *fd)
{
	const struct box_boxd_plain packet = {kind};
	return post(client, &packet, sizeof(packet), fd);
}

int box_boxd_client_send_ready(struct box_boxd_client *client)
{
	return send_plain(client, BOX_BOXD_READY, NULL);
}

int box_boxd_client_confirm_reload(struct box_boxd_client *client)
{
	return send_plain(client, BOX_BOXD_CONFIG_ACCEPTED, NULL);
}

int box_boxd_client_confirm_tokens(struct box_boxd_client *client)
{
	return send_plain(client, BOX_BOXD_TOKENS_ACCEPTED, NULL);
}

int box_boxd_client_refresh_host(struct box_boxd_client *client)
{
	return send_plain(client, BOX_BOXD_QUERY_HOST, NULL);
}

int box_boxd_client_keep_state(struct box_boxd_client *client, int fd)
{
	return send_plain(client, BOX_BOXD_STATE, &fd);
}

int box_boxd_client_send_policy(struct box_boxd_client *client, const struct box_policy *policy)
{
	_cleanup_(box_close_p) int fd = memfd_create("box-policy", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (write(fd, policy, sizeof(*policy)) != (ssize_t)sizeof(*policy)) {
		return -EIO;
	}
	return send_plain(client, BOX_BOXD_POLICY, &fd);
}

/* --- requests --- */

static void failures_cb(uv_idle_t *idle)
{
	struct box_boxd_client *client = idle->data;
	struct box_list *item;
	(void)uv_idle_stop(idle);
	while ((item = box_list_pop(&client->unsent))) {
		finish(BOX_CONTAINER_OF(item, struct request, links), NULL);
	}
}

static struct request *request_new(struct box_boxd_client *client, void *arg)
{
	struct request *request = box_alloc(sizeof(*request));
	do {
		request->id = ++client->next_id;
	} while (request->id == 0);
	request->arg = arg;
	box_list_init(&request->links);
	return request;
}

/* `r` is the result of sending it; a failure is reported from the loop, never from inside the call. */
static void request_sent(struct box_boxd_client *client, struct request *request, int r)
{
	request->failed = r;
	if (r == 0) {
		box_table_put(&client->requests, key_of(&request->id), request);
		return;
	}
	box_list_push(&client->unsent, &request->links);
	(void)uv_idle_start(&client->failures, failures_cb);
}

void box_boxd_client_prepare_folder(struct box_boxd_client *client, const char *path,
	enum box_runtime_folder_mode wish, box_runtime_folder_done *done, void *arg)
{
	struct request *request = request_new(client, arg);
	struct box_boxd_make_folder packet = {.kind = BOX_BOXD_MAKE_FOLDER,
		.id = request->id,
		.look_only = wish == BOX_RUNTIME_FOLDER_CHECK};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	request->answer = answer_folder;
	request->done.folder = done;
	request_sent(client, request,
		strlen(path) < sizeof(packet.path) ? post(client, &packet, sizeof(packet), NULL)
						   : -ENAMETOOLONG);
}

_Static_assert(BOX_STORAGE_FOLDER_PARTS_ == BOX_BOXD_PARTS &&
		(int)BOX_STORAGE_OUTBOX == (int)BOX_BOXD_FOLDER_OUTBOX &&
		(int)BOX_STORAGE_TEMP == (int)BOX_BOXD_BOX_TEMP,
	"the parts are the same here and in the packet");

static int send_measure(
	struct box_boxd_client *client, const struct box_storage_measure *what, uint32_t id)
{
	if (what->box != 0) {
		const struct box_boxd_measure_box packet = {
			.kind = BOX_BOXD_MEASURE_BOX, .id = id, .box = what->box};
		return post(client, &packet, sizeof(packet), NULL);
	}
	struct box_boxd_measure_folder packet = {.kind = BOX_BOXD_MEASURE_FOLDER, .id = id};
	if (strlen(what->path) >= sizeof(packet.path) ||
		strlen(what->below) >= sizeof(packet.below)) {
		return -ENAMETOOLONG;
	}
	(void)snprintf(packet.path, sizeof(packet.path), "%s", what->path);
	(void)snprintf(packet.below, sizeof(packet.below), "%s", what->below);
	(void)snprintf(packet.tenant, sizeof(packet.tenant), "%s", what->tenant);
	return post(client, &packet, sizeof(packet), NULL);
}

void box_boxd_client_measure(struct box_boxd_client *client, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg)
{
	struct request *request = request_new(client, arg);
	request->answer = answer_measured;
	request->done.measured = done;
	request_sent(client, request, send_measure(client, what, request->id));
}

void box_boxd_client_start_skills(struct box_boxd_client *client, const char *path,
	box_boxd_client_skills_started *done, void *arg)
{
	struct request *request = request_new(client, arg);
	struct box_boxd_open_store packet = {.kind = BOX_BOXD_OPEN_STORE, .id = request->id};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	request->answer = answer_store;
	request->done.store = done;
	request_sent(client, request, post(client, &packet, sizeof(packet), NULL));
}

/* --- boxes --- */

static void make_box(
	void *boxd, const struct box_plan_request *ask, box_local_make_done *done, void *arg)
{
	struct box_boxd_client *client = boxd;
	struct request *request = request_new(client, arg);
	struct box_boxd_make_box packet = {
		.kind = BOX_BOXD_MAKE_BOX, .id = request->id, .ask = *ask};
	request->answer = answer_made;
	request->done.made = done;
	request_sent(client, request, post(client, &packet, sizeof(packet), NULL));
}

/* For packets without an answer. If boxd cannot be reached, box-rpc ends soon anyway. */
static void post_plain(struct box_boxd_client *client, const void *packet, size_t size)
{
	int r = post(client, packet, size, NULL);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "boxd.unreachable", box_log_errno("why", r));
	}
}

static void end_box(void *boxd, uint64_t box)
{
	const struct box_boxd_box packet = {.kind = BOX_BOXD_END_BOX, .box = box};
	post_plain(boxd, &packet, sizeof(packet));
}

static void open_cgroup(void *boxd, uint64_t box, uint32_t process, uint32_t memory_mib,
	box_local_process_cgroup_done *done, void *arg)
{
	struct box_boxd_client *client = boxd;
	struct request *request = request_new(client, arg);
	const struct box_boxd_open_process_cgroup packet = {.kind = BOX_BOXD_OPEN_PROCESS_CGROUP,
		.id = request->id,
		.box = box,
		.process = process,
		.memory_mib = memory_mib};
	request->answer = answer_cgroup;
	request->done.cgroup = done;
	request_sent(client, request, post(client, &packet, sizeof(packet), NULL));
}

static void close_cgroup(void *boxd, uint64_t box, uint32_t process)
{
	const struct box_boxd_close_process_cgroup packet = {
		.kind = BOX_BOXD_CLOSE_PROCESS_CGROUP, .process = process, .box = box};
	post_plain(boxd, &packet, sizeof(packet));
}

static void probe_microvm(void *boxd, box_local_probe_done *done, void *arg)
{
	struct box_boxd_client *client = boxd;
	struct request *request = request_new(client, arg);
	const struct box_boxd_probe_microvms packet = {
		.kind = BOX_BOXD_PROBE_MICROVMS, .id = request->id};
	request->answer = answer_probed;
	request->done.probed = done;
	request_sent(client, request, post(client, &packet, sizeof(packet), NULL));
}

static int post_artifact(
	struct box_boxd_client *client, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_boxd_open_artifact packet = {
		.kind = BOX_BOXD_OPEN_ARTIFACT, .id = id, .box = box};
	const char *digest = strchr(wanted->content_digest, ':') + 1;
	(void)snprintf(packet.digest, sizeof(packet.digest), "%s", digest);
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	(void)snprintf(packet.manifest, sizeof(packet.manifest), "%s", wanted->manifest_path);
	return post(client, &packet, sizeof(packet), NULL);
}

static int post_mount(
	struct box_boxd_client *client, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_boxd_open_mount packet = {
		.kind = BOX_BOXD_OPEN_MOUNT,
		.id = id,
		.box = box,
		.read_only = wanted->mode == BOX_MOUNT_RO,
		.in_store = wanted->in_store,
	};
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	return post(client, &packet, sizeof(packet), NULL);
}

static void open_mount(void *boxd, uint64_t box, const struct box_mount *wanted,
	box_local_mount_done *done, void *arg)
{
	struct box_boxd_client *client = boxd;
	struct request *request = request_new(client, arg);
	request->answer = answer_mounted;
	request->done.mounted = done;
	request_sent(client, request,
		box_spec_mount_is_artifact(wanted) ? post_artifact(client, request->id, box, wanted)
						   : post_mount(client, request->id, box, wanted));
}

const struct box_local_boxd box_boxd_client_local_ops = {
	.make = make_box,
	.end = end_box,
	.mount = open_mount,
	.open_cgroup = open_cgroup,
	.close_cgroup = close_cgroup,
	.probe_microvm = probe_microvm,
};
