/* Packets by a table. Nothing that is sent waits for box-rpc: what its socket does not take is
 * base/packet_queue.c's. */
#include "boxd/rpc/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/boxes.h"
#include "boxd/files/artifacts.h"
#include "boxd/files/measures.h"
#include "boxd/files/skill_folder.h"
#include "boxd/image/caller_roots.h"
#include "boxd/jobs.h"
#include "boxd/microvm/microvm_probe.h"
#include "boxd/quota/quota_queue.h"
#include "boxd/rpc/serve_state.h"

#define PACKETS_MAX 8192 /* that box-rpc does not read */
_Static_assert(PACKETS_MAX > BOX_BOXES_MAX, "a packet about every box can wait");

/* --- out --- */

int box_serve_send(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count)
{
	if (serve->socket < 0) {
		return -EPIPE;
	}
	const struct iovec part = {.iov_base = (void *)(uintptr_t)body, .iov_len = size};
	return box_packet_queue_send(&serve->outbox, serve->socket, &part, 1, fds, fd_count);
}

static int send_plain(struct box_serve *serve, uint32_t kind, const int *fds, size_t fd_count)
{
	struct box_boxd_plain packet = {.kind = kind};
	return box_serve_send(serve, &packet, sizeof(packet), fds, fd_count);
}

bool box_serve_wants_write(const struct box_serve *serve)
{
	return serve->outbox.count > 0;
}

int box_serve_flush(struct box_serve *serve)
{
	return box_packet_queue_flush(&serve->outbox, serve->socket) < 0 ? -EPROTO : 0;
}

const char *box_serve_check_sent(int r)
{
	return r < 0 && r != -EPIPE ? "it does not read its answers" : NULL;
}

/* What is told without being asked for: whoever misses it would wait for ever. */
void box_serve_notify(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count)
{
	const char *wrong = box_serve_check_sent(box_serve_send(serve, body, size, fds, fd_count));
	serve->wrong = serve->wrong ? serve->wrong : wrong;
}

const char *box_serve_fault(const struct box_serve *serve)
{
	return serve->wrong;
}

void box_serve_fill_failure(struct box_boxd_failure *failure, const struct box_err *err)
{
	if (err) {
		failure->result = -err->errnum;
		failure->code = err->code;
		(void)snprintf(failure->text, sizeof(failure->text), "%.*s",
			(int)sizeof(failure->text) - 1, err->text);
	}
}

/* --- what boxes tell --- */

/* Those of a list that are there; the first always is, and one that is not is the last. */
size_t box_serve_count_fds(const int *fds, size_t most)
{
	size_t count = 0;
	while (count < most && fds[count] >= 0) {
		count++;
	}
	return count;
}

static void box_made(void *arg, uint32_t request, uint64_t box, const struct box_boxes_fds *found,
	const struct box_err *err)
{
	struct box_serve *serve = arg;
	struct box_boxd_made packet = {
		.kind = request == 0 ? BOX_BOXD_INHERITED : BOX_BOXD_MADE,
		.id = request,
		.box = box,
	};
	int fds[3] = {-1, -1, -1};
	if (found) {
		memcpy(fds, (const int[]){found->control, found->memory, found->rest}, sizeof(fds));
		packet.host_address = found->host_address;
	}
	box_serve_fill_failure(&packet.failure, err);
	box_serve_notify(serve, &packet, sizeof(packet), fds, box_serve_count_fds(fds, 3));
}

static void box_gone(void *arg, uint64_t box)
{
	struct box_serve *serve = arg;
	struct box_boxd_box packet = {.kind = BOX_BOXD_GONE, .box = box};
	box_artifacts_release_box(serve->artifacts, box);
	box_serve_notify(serve, &packet, sizeof(packet), NULL, 0);
	box_serve_notify_artifact_bytes(serve);
}

void box_serve_notify_artifact_bytes(struct box_serve *serve)
{
	const struct box_boxd_artifact_bytes packet = {.kind = BOX_BOXD_ARTIFACT_BYTES,
		.artifact_bytes = box_artifacts_bytes(serve->artifacts)};
	if (packet.artifact_bytes != serve->artifact_bytes) {
		serve->artifact_bytes = packet.artifact_bytes;
		box_serve_notify(serve, &packet, sizeof(packet), NULL, 0);
	}
}

static void box_ends(void *arg, uint64_t box, enum box_boxd_end_reason why)
{
	const struct box_boxd_box packet = {.kind = BOX_BOXD_ENDING, .why = why, .box = box};
	box_serve_notify(arg, &packet, sizeof(packet), NULL, 0);
}

static void measured(void *arg, const struct box_boxd_measured *packet)
{
	struct box_serve *serve = arg;
	box_serve_notify(serve, packet, sizeof(*packet), NULL, 0);
}

/* A box may be made, or not. */
static void quota_held(
	void *arg, uint32_t request, const struct box_plan_request *ask, const struct box_err *err)
{
	if (err) {
		box_made(arg, request, 0, NULL, err);
		return;
	}
	box_microvm_probe_request(((struct box_serve *)arg)->machines, request, ask);
}

/* The kind of box that is asked for can be made, or not. Without `ask` that is all that was asked. */
static void machines_known(
	void *arg, uint32_t request, const struct box_plan_request *ask, const struct box_err *err)
{
	struct box_serve *serve = arg;
	if (ask && !err) {
		box_caller_roots_request(serve->callers_roots, request, ask);
	} else if (ask) {
		box_made(serve, request, 0, NULL, err);
	} else {
		struct box_boxd_probed packet = {.kind = BOX_BOXD_PROBED, .id = request};
		box_serve_fill_failure(&packet.failure, err);
		box_serve_notify(serve, &packet, sizeof(packet), NULL, 0);
	}
}

/* The root that is asked for is there, or cannot be. */
static void root_there(void *arg, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root, const struct box_err *err)
{
	struct box_serve *serve = arg;
	if (err) {
		box_made(serve, request, 0, NULL, err);
	} else {
		box_boxes_make(serve->boxes, request, ask, root);
	}
}

static const struct box_boxes_events boxes_events = {
	.made = box_made, .gone = box_gone, .ends = box_ends};

/* --- one box-rpc after the other --- */

static void keep_reserve(struct box_serve *serve)
{
	if (serve->reserve < 0) {
		serve->reserve = fcntl(box_boxes_fd(serve->boxes), F_DUPFD_CLOEXEC, 3);
	}
}

struct box_serve *box_serve_new(const struct box_serve_setup *setup)
{
	struct box_host_state *ground = setup->ground;
	struct box_serve *serve = box_alloc(sizeof(*serve));
	serve->carried = setup->carried;
	serve->listeners = setup->listeners;
	serve->ground = ground;
	serve->socket = -1;
	serve->state_fd = -1;
	box_packet_queue_init(&serve->outbox, PACKETS_MAX, SIZE_MAX);
	serve->boxes = box_boxes_new(ground, &boxes_events, serve);
	serve->reserve = -1;
	keep_reserve(serve);
	serve->measures = box_measures_new(serve->boxes, ground->mount_roots, measured, serve);
	serve->errands = box_jobs_new();
	serve->store = box_skill_folder_new(serve->errands, setup->skills_path, setup->ids);
	serve->artifacts = box_artifacts_new(serve->errands, setup->skills_path, setup->ids,
		&ground->policy, ground->mount_roots, box_serve_artifact_done, serve);
	serve->machines = box_microvm_probe_new(
		ground, serve->errands, setup->ids, machines_known, serve);
	serve->quotas = box_quota_queue_new(ground, serve->boxes, quota_held, serve);
	serve->callers_roots = box_caller_roots_new(ground, root_there, serve);
	return serve;
}

void box_serve_free(struct box_serve *serve)
{
	serve->socket = -1;
	box_jobs_free(serve->errands);
	box_artifacts_free(serve->artifacts);
	box_skill_folder_free(serve->store);
	box_quota_queue_free(serve->quotas);
	box_caller_roots_free(serve->callers_roots);
	box_microvm_probe_free(serve->machines);
	box_measures_free(serve->measures);
	box_boxes_free(serve->boxes);
	box_packet_queue_clear(&serve->outbox);
	box_close_p(&serve->state_fd);
	box_close_p(&serve->reserve);
	free(serve);
}

/* START goes out of the one struct that holds the token: no copies of it. */
int box_serve_begin(struct box_serve *serve, int socket, uint32_t restarts)
{
	struct box_start_data *carried = serve->carried;
	int fds[BOX_START_DATA_FDS_MAX];
	size_t count = box_start_data_fill(carried, serve->state_fd, fds);
	serve->socket = socket;
	serve->wrong = NULL;
	carried->start.restarts = restarts;
	box_host_state_report_at_start(serve->ground, &carried->start.host);
	return box_packet_send(socket, &carried->start, sizeof(carried->start), fds, count);
}

void box_serve_end(struct box_serve *serve)
{
	serve->socket = -1;
	serve->ready = false;
	box_packet_queue_clear(&serve->outbox);
	box_boxes_drop_requests(serve->boxes);
	box_measures_drop_requests(serve->measures);
	box_artifacts_drop_requests(serve->artifacts);
	box_quota_queue_drop_requests(serve->quotas);
	box_caller_roots_drop_requests(serve->callers_roots);
	box_microvm_probe_drop_requests(serve->machines);
}

bool box_serve_was_ready(const struct box_serve *serve)
{
	return serve->ever_ready;
}

struct box_boxes *box_serve_boxes(struct box_serve *serve)
{
	return serve->boxes;
}

struct box_measures *box_serve_measures(struct box_serve *serve)
{
	return serve->measures;
}

struct box_jobs *box_serve_jobs(struct box_serve *serve)
{
	return serve->errands;
}

struct box_quota_queue *box_serve_quota_queue(struct box_serve *serve)
{
	return serve->quotas;
}

struct box_caller_roots *box_serve_caller_roots(struct box_serve *serve)
{
	return serve->callers_roots;
}

static void reload_tokens(struct box_serve *serve)
{
	struct box_start_data *carried = serve->carried;
	struct box_err err;
	if (box_start_data_reread_tokens(carried, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_failed", box_log_str("why", err.text),
			box_log_str("so", "the tokens stay as they were"));
		return;
	}
	int r = box_serve_send(
		serve, &carried->offered_tokens, sizeof(carried->offered_tokens), NULL, 0);
	serve->reload_wanted = serve->reload_wanted || r == -EPIPE;
	if (r < 0 && r != -EPIPE) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_failed", box_log_errno("why", r));
	}
}

void box_serve_reload(struct box_serve *serve)
{
	struct box_err err;
	int fd = -1;
	if (!serve->ready) {
		/* LISTEN comes first. START has the last text that was taken, not the present. */
		serve->reload_wanted = true;
		return;
	}
	if (serve->carried->token_path[0]) {
		reload_tokens(serve);
	}
	if (!serve->carried->config_path) {
		return;
	}
	int r = box_start_data_reread_config(serve->carried, &fd, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_log_str("why", err.text));
		return;
	}
	r = send_plain(serve, BOX_BOXD_RELOAD, &fd, 1);
	if (r == -EPIPE) {
		/* It has died, and boxd does not know yet. */
		serve->reload_wanted = true;
		return;
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_log_errno("why", r));
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "reload.sent");
}

int box_serve_stop(struct box_serve *serve)
{
	return send_plain(serve, BOX_BOXD_STOP, NULL, 0);
}

/* --- in. Each returns NULL, or why box-rpc is refused. --- */

static bool has_ends(const struct box_policy_roots *roots)
{
	bool whole = roots->count <= BOX_MOUNT_ROOTS_MAX;
	for (uint32_t i = 0; whole && i < roots->count; i++) {
		whole = roots->paths[i][0] == '/' &&
			memchr(roots->paths[i], '\0', sizeof(roots->paths[i])) != NULL;
	}
	return whole;
}

static bool is_path_or_none(const char path[BOX_PATH_MAX])
{
	return memchr(path, '\0', BOX_PATH_MAX) && (path[0] == '\0' || path[0] == '/');
}

static bool images_have_ends(const struct box_policy *policy)
{
	bool whole = policy->image_count <= BOX_IMAGES_MAX;
	for (uint32_t i = 0; whole && i < policy->image_count; i++) {
		const struct box_policy_image *image = &policy->images[i];
		whole = memchr(image->name, '\0', sizeof(image->name)) &&
			memchr(image->path, '\0', sizeof(image->path)) && image->name[0] != '\0' &&
			image->path[0] == '/';
	}
	return whole;
}

/* The policy of the first one, who has seen nothing of the world yet. Later it can only be
 * narrowed. */
static const char *take_policy(struct box_serve *serve, struct box_packet *packet)
{
	_cleanup_(box_free_p) struct box_policy *policy = box_alloc(sizeof(*policy));
	struct box_err err;
	if (pread(packet->fds[0], policy, sizeof(*policy), 0) != (ssize_t)sizeof(*policy)) {
		return "a POLICY of a wrong size";
	}
	if (!has_ends(&policy->roots) || !has_ends(&policy->narrower) ||
		policy->profile >= BOX_FILTERS_ || !images_have_ends(policy) ||
		!memchr(policy->rootfs, '\0', sizeof(policy->rootfs)) ||
		!is_path_or_none(policy->skills_root) || !is_path_or_none(policy->client_skills)) {
		return "a malformed POLICY";
	}
	if (serve->carried->start.flags & BOX_BOXD_START_CHECK_CONFIG) {
		serve->layout_checked = box_host_state_check_policy_paths(
			serve->ground, policy, &serve->layout_why);
	} else if (serve->ground->sealed) {
		/* Whoever has started us speaks through box-rpc too. Until there is a box nobody
		 * else has had a word that could have turned it. */
		box_host_state_narrow_policy(
			serve->ground, policy, serve->ground->alone && !serve->ever_asked);
	} else if (box_host_state_set_policy(serve->ground, policy, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "config.refused", box_log_str("why", err.text));
		serve->config_refused = true;
	}
	return NULL;
}

bool box_serve_config_refused(const struct box_serve *serve)
{
	return serve->config_refused;
}

/* What a box would get now; box-rpc says in the log when it changes. */
static const char *take_look(struct box_serve *serve, struct box_packet *packet)
{
	(void)packet;
	struct box_boxd_host_report told = {.kind = BOX_BOXD_HOST};
	box_host_state_report_now(serve->ground, &told.host);
	return box_serve_check_sent(box_serve_send(serve, &told, sizeof(told), NULL, 0));
}

/* Nobody else is told what is at which path: a box-rpc that was taken over could ask for any. */
static const char *take_look_at(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_check_path *wanted = &packet->look_at;
	struct box_boxd_path_checked answer = {.kind = BOX_BOXD_PATH_CHECKED};
	struct box_err err;
	if (!(serve->carried->start.flags & BOX_BOXD_START_CHECK_CONFIG)) {
		return "a LOOK_AT without --check-config";
	}
	if (!memchr(wanted->path, '\0', sizeof(wanted->path))) {
		return "a path without an end";
	}
	int r = 0;
	if (wanted->what == BOX_BOXD_CHECK_LAYOUT) {
		r = serve->layout_checked;
		err = serve->layout_why;
	} else {
		r = box_host_state_check_config_path(
			(enum box_boxd_check_kind)wanted->what, wanted->path, &err);
	}
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	return box_serve_check_sent(box_serve_send(serve, &answer, sizeof(answer), NULL, 0));
}

static const char *take_ready(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_listeners *listeners = serve->listeners;
	if (serve->ready) {
		return "a second READY";
	}
	/* A box-rpc that said nothing of a policy gets the narrowest. */
	static const struct box_policy none;
	struct box_err err;
	(void)box_host_state_set_policy(serve->ground, &none, &err);
	box_artifacts_set_folder(serve->artifacts, serve->ground->common.artifacts);
	serve->ready = true;
	serve->ever_ready = true;
	const char *wrong = take_look(serve, packet);
	if (wrong) {
		return wrong;
	}
	box_boxes_list(serve->boxes);
	serve->artifact_bytes = 0;
	box_serve_notify_artifact_bytes(serve);
	int fds[BOX_PACKET_FDS_MAX];
	size_t count = listeners->count;
	memcpy(fds, listeners->fds, count * sizeof(fds[0]));
	if (listeners->operator.fd >= 0) {
		fds[count++] = listeners->operator.fd;
	}
	if (listeners->sock_diag >= 0) {
		fds[count++] = listeners->sock_diag;
	}
	int r = send_plain(serve, BOX_BOXD_LISTEN, fds, count);
	if (r < 0 && r != -EPIPE) {
		return "it does not take the listening sockets";
	}
	if (serve->reload_wanted) {
		serve->reload_wanted = false;
		box_serve_reload(serve);
	}
	return NULL;
}

static const char *take_state(struct box_serve *serve, struct box_packet *packet)
{
	struct stat status;
	if (fstat(packet->fds[0], &status) < 0 || !S_ISREG(status.st_mode)) {
		return "a STATE that is no file";
	}
	if ((uint64_t)status.st_size > BOX_SAVED_STATE_BYTES_MAX) {
		return "a STATE that is too big";
	}
	box_close_p(&serve->state_fd);
	serve->state_fd = TAKE_FD(packet->fds[0]);
	return NULL;
}

static const char *take_taken(struct box_serve *serve, struct box_packet *packet)
{
	(void)packet;
	box_start_data_config_accepted(serve->carried);
	return NULL;
}

static const char *take_tokens_taken(struct box_serve *serve, struct box_packet *packet)
{
	(void)packet;
	box_start_data_tokens_accepted(serve->carried);
	return NULL;
}

static const struct {
	uint32_t kind;
	bool bequest; /* counts also when box-rpc has died */
	size_t size;
	size_t fd_count;
	const char *(*take)(struct box_serve *serve, struct box_packet *packet);
} kinds[] = {
	{BOX_BOXD_READY, false, sizeof(struct box_boxd_plain), 0, take_ready},
	{BOX_BOXD_STATE, true, sizeof(struct box_boxd_plain), 1, take_state},
	{BOX_BOXD_CONFIG_ACCEPTED, true, sizeof(struct box_boxd_plain), 0, take_taken},
	{BOX_BOXD_TOKENS_ACCEPTED, true, sizeof(struct box_boxd_plain), 0, take_tokens_taken},
	{BOX_BOXD_POLICY, false, sizeof(struct box_boxd_plain), 1, take_policy},
	{BOX_BOXD_MAKE_FOLDER, false, sizeof(struct box_boxd_make_folder), 0,
		box_serve_make_folder},
	{BOX_BOXD_MAKE_BOX, false, sizeof(struct box_boxd_make_box), 0, box_serve_make_box},
	{BOX_BOXD_END_BOX, false, sizeof(struct box_boxd_box), 0, box_serve_end_box},
	{BOX_BOXD_OPEN_MOUNT, false, sizeof(struct box_boxd_open_mount), 0, box_serve_open_mount},
	{BOX_BOXD_OPEN_ARTIFACT, false, sizeof(struct box_boxd_open_artifact), 0,
		box_serve_open_artifact},
	{BOX_BOXD_OPEN_STORE, false, sizeof(struct box_boxd_open_store), 0, box_serve_open_store},
	{BOX_BOXD_MEASURE_FOLDER, false, sizeof(struct box_boxd_measure_folder), 0,
		box_serve_measure_folder},
	{BOX_BOXD_MEASURE_BOX, false, sizeof(struct box_boxd_measure_box), 0,
		box_serve_measure_box},
	{BOX_BOXD_OPEN_PROCESS_CGROUP, false, sizeof(struct box_boxd_open_process_cgroup), 0,
		box_serve_open_process_cgroup},
	{BOX_BOXD_CLOSE_PROCESS_CGROUP, true, sizeof(struct box_boxd_close_process_cgroup), 0,
		box_serve_close_process_cgroup},
	{BOX_BOXD_QUERY_HOST, false, sizeof(struct box_boxd_plain), 0, take_look},
	{BOX_BOXD_CHECK_PATH, false, sizeof(struct box_boxd_check_path), 0, take_look_at},
	{BOX_BOXD_PROBE_MICROVMS, false, sizeof(struct box_boxd_probe_microvms), 0,
		box_serve_try_microvms},
};

static const char *take_packet(struct box_serve *serve, bool dead, struct box_packet *packet)
{
	for (size_t i = 0; i < BOX_COUNT_OF(kinds); i++) {
		if (kinds[i].kind != packet->kind) {
			continue;
		}
		if (kinds[i].size != packet->size) {
			return "a packet of a wrong size";
		}
		if (kinds[i].fd_count != packet->fd_count) {
			return "a packet with a wrong number of fds";
		}
		return dead && !kinds[i].bequest ? NULL : kinds[i].take(serve, packet);
	}
	return "a packet of an unknown kind";
}

int box_serve_receive(struct box_serve *serve, bool dead, const char **ret_why)
{
	struct box_packet packet;
	box_close_p(&serve->reserve);
	int r = box_packet_recv(serve->socket, &packet);
	keep_reserve(serve);
	const char *wrong = r == -EMFILE ? "there was no room for its fds"
		: r < 0                  ? "a malformed packet"
					 : take_packet(serve, dead, &packet);
	if (r == 0) {
		box_packet_close_fds(&packet);
	}
	keep_reserve(serve);
	if (r == -EAGAIN || r == -EPIPE) {
		return r;
	}
	if (wrong) {
		*ret_why = wrong;
		return -EPROTO;
	}
	return 0;
}
