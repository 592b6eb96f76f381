/* Handles packets by a table (`kinds`, at the end), and answers them. Sending never waits for box-rpc:
 * packets that its socket does not take are queued (base/packet_queue.c).
 *
 * A function that takes a packet returns NULL, or why box-rpc is killed for it. */
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
#include "base/packet_queue.h"
#include "boxd/box/boxes.h"
#include "boxd/files/artifacts.h"
#include "boxd/files/host_folder.h"
#include "boxd/files/host_mount.h"
#include "boxd/files/measures.h"
#include "boxd/files/skill_folder.h"
#include "boxd/jobs.h"
#include "boxd/making.h"
#include "boxd/net/network.h"
#include "protocol/packet.h"

#define PACKETS_MAX 8192 /* that box-rpc has not read yet */
_Static_assert(PACKETS_MAX > BOX_BOXES_MAX, "a packet about every box can wait");

struct box_serve {
	struct box_start_data *start_data;
	const struct box_listeners *listeners;
	struct box_host_state *host_state;
	struct box_boxes *boxes;
	struct box_making_chain *making;
	struct box_measures *measures;
	struct box_jobs *jobs;
	struct box_skill_folder *skills;
	struct box_artifacts *artifacts;

	int socket; /* -1: no box-rpc */
	struct box_packet_queue outbox;
	const char *fault; /* why this box-rpc must be killed, or NULL */
	bool ready;        /* this box-rpc has sent READY */
	bool ever_ready;   /* any box-rpc has */
	bool ever_asked;   /* any box-rpc has asked for a box, or for the skill store */
	bool reload_wanted;
	bool config_refused; /* boxd ends with BOX_BOXD_EXIT_CONFIG */
	/* With --check-config: what is wrong with the paths of the policy. */
	int layout_result;
	struct box_err layout_err;
	uint64_t artifact_bytes; /* as reported last */
	int state_fd;            /* the last STATE, for the next box-rpc; or -1 */
	int reserve_fd; /* closed while a packet is received, so that its fd has room in the table */
};

/* --- out --- */

/* 0, -EPIPE when there is no box-rpc, or why it cannot be sent. */
static int send_packet(
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
	return send_packet(serve, &packet, sizeof(packet), fds, fd_count);
}

/* The answer to the packet that is being taken. */
static const char *reply(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count)
{
	int r = send_packet(serve, body, size, fds, fd_count);
	return r < 0 && r != -EPIPE ? "it does not read its answers" : NULL;
}

/* Sends something that is not an answer. A box-rpc that missed it would wait for ever, so it is killed. */
static void notify(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count)
{
	const char *why = reply(serve, body, size, fds, fd_count);
	serve->fault = serve->fault ? serve->fault : why;
}

static void fill_failure(struct box_boxd_failure *failure, const struct box_err *err)
{
	if (err) {
		failure->result = -err->errnum;
		failure->code = err->code;
		(void)snprintf(failure->text, sizeof(failure->text), "%.*s",
			(int)sizeof(failure->text) - 1, err->text);
	}
}

/* How many fds there are before the first -1. */
static size_t count_fds(const int *fds, size_t max)
{
	size_t count = 0;
	while (count < max && fds[count] >= 0) {
		count++;
	}
	return count;
}

bool box_serve_wants_write(const struct box_serve *serve)
{
	return serve->outbox.count > 0;
}

int box_serve_flush(struct box_serve *serve)
{
	return box_packet_queue_flush(&serve->outbox, serve->socket) < 0 ? -EPROTO : 0;
}

const char *box_serve_fault(const struct box_serve *serve)
{
	return serve->fault;
}

/* --- reports of boxes, measures and artifacts --- */

static void on_box_made(void *arg, uint32_t request, uint64_t box,
	const struct box_boxes_fds *found, const struct box_err *err)
{
	struct box_boxd_made packet = {
		.kind = request == 0 ? BOX_BOXD_INHERITED : BOX_BOXD_MADE,
		.id = request,
		.box = box,
	};
	int fds[3] = {-1, -1, -1};
	if (found) {
		fds[0] = found->control;
		fds[1] = found->memory_events;
		fds[2] = found->leaf_events;
		packet.host_address = found->host_address;
	}
	fill_failure(&packet.failure, err);
	notify(arg, &packet, sizeof(packet), fds, count_fds(fds, BOX_COUNT_OF(fds)));
}

static void on_making_failed(void *arg, uint32_t request, const struct box_err *err)
{
	on_box_made(arg, request, 0, NULL, err);
}

static void on_box_ending(void *arg, uint64_t box, enum box_boxd_end_reason why)
{
	const struct box_boxd_box packet = {.kind = BOX_BOXD_ENDING, .why = why, .box = box};
	notify(arg, &packet, sizeof(packet), NULL, 0);
}

/* Reports the memory of artifacts when it has changed. */
static void notify_artifact_bytes(struct box_serve *serve)
{
	const struct box_boxd_artifact_bytes packet = {.kind = BOX_BOXD_ARTIFACT_BYTES,
		.artifact_bytes = box_artifacts_bytes(serve->artifacts)};
	if (packet.artifact_bytes != serve->artifact_bytes) {
		serve->artifact_bytes = packet.artifact_bytes;
		notify(serve, &packet, sizeof(packet), NULL, 0);
	}
}

static void on_box_gone(void *arg, uint64_t box)
{
	struct box_serve *serve = arg;
	const struct box_boxd_box packet = {.kind = BOX_BOXD_GONE, .box = box};
	box_artifacts_release_box(serve->artifacts, box);
	notify(serve, &packet, sizeof(packet), NULL, 0);
	notify_artifact_bytes(serve);
}

static void on_artifact(void *arg, uint32_t id, int mount, const struct box_err *err)
{
	struct box_serve *serve = arg;
	struct box_boxd_mounted packet = {.kind = BOX_BOXD_MOUNTED, .id = id};
	fill_failure(&packet.failure, err);
	notify(serve, &packet, sizeof(packet), &mount, mount < 0 ? 0 : 1);
	box_close_p(&mount);
	notify_artifact_bytes(serve);
}

static void on_measured(void *arg, const struct box_boxd_measured *packet)
{
	notify(arg, packet, sizeof(*packet), NULL, 0);
}

static void on_microvms_probed(void *arg, uint32_t request, const struct box_err *err)
{
	struct box_boxd_probed packet = {.kind = BOX_BOXD_PROBED, .id = request};
	fill_failure(&packet.failure, err);
	notify(arg, &packet, sizeof(packet), NULL, 0);
}

static const struct box_boxes_events boxes_events = {
	.made = on_box_made, .gone = on_box_gone, .ending = on_box_ending};
static const struct box_making_events making_events = {
	.failed = on_making_failed, .probed = on_microvms_probed};

/* --- one box-rpc after the other --- */

static void keep_reserve(struct box_serve *serve)
{
	if (serve->reserve_fd < 0) {
		serve->reserve_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	}
}

struct box_serve *box_serve_new(const struct box_serve_setup *setup)
{
	struct box_host_state *host_state = setup->host_state;
	struct box_serve *serve = box_alloc(sizeof(*serve));
	serve->start_data = setup->start_data;
	serve->listeners = setup->listeners;
	serve->host_state = host_state;
	serve->socket = -1;
	serve->state_fd = -1;
	serve->reserve_fd = -1;
	keep_reserve(serve);
	box_packet_queue_init(&serve->outbox, PACKETS_MAX, SIZE_MAX);
	serve->boxes = box_boxes_new(host_state, &boxes_events, serve);
	serve->measures = box_measures_new(
		serve->boxes, host_state->mount_roots, on_measured, serve);
	serve->jobs = box_jobs_new();
	serve->skills = box_skill_folder_new(serve->jobs, setup->skills_path, setup->ids);
	serve->artifacts = box_artifacts_new(serve->jobs, setup->skills_path, setup->ids,
		&host_state->policy, host_state->mount_roots, on_artifact, serve);
	serve->making = box_making_chain_new(
		host_state, serve->boxes, serve->jobs, setup->ids, &making_events, serve);
	return serve;
}

void box_serve_add_event_sources(struct box_serve *serve, struct box_event_sources *sources)
{
	struct box_host_state *host_state = serve->host_state;
	box_event_source_add(sources, box_boxes_event_source(serve->boxes));
	if (host_state->network) {
		box_event_source_add(sources, box_network_event_source(host_state->network));
	}
	box_event_source_add(sources, box_measures_event_source(serve->measures));
	box_event_source_add(sources, box_jobs_event_source(serve->jobs));
	box_making_chain_add_event_sources(serve->making, sources);
	box_event_source_add(sources, box_watcher_event_source(&host_state->watcher));
}

void box_serve_free(struct box_serve *serve)
{
	serve->socket = -1;
	box_jobs_free(serve->jobs);
	box_artifacts_free(serve->artifacts);
	box_skill_folder_free(serve->skills);
	box_making_chain_free(serve->making);
	box_measures_free(serve->measures);
	box_boxes_free(serve->boxes);
	box_packet_queue_clear(&serve->outbox);
	box_close_p(&serve->state_fd);
	box_close_p(&serve->reserve_fd);
	free(serve);
}

/* START is sent from the one struct that holds the token: no copies of it. */
int box_serve_begin(struct box_serve *serve, int socket, uint32_t restarts)
{
	struct box_start_data *start_data = serve->start_data;
	int fds[BOX_START_DATA_FDS_MAX];
	size_t count = box_start_data_fill(start_data, serve->state_fd, fds);
	serve->socket = socket;
	serve->fault = NULL;
	start_data->start.restarts = restarts;
	box_host_state_report_at_start(serve->host_state, &start_data->start.host);
	return box_packet_send(socket, &start_data->start, sizeof(start_data->start), fds, count);
}

void box_serve_end(struct box_serve *serve)
{
	serve->socket = -1;
	serve->ready = false;
	box_packet_queue_clear(&serve->outbox);
	box_boxes_drop_requests(serve->boxes);
	box_measures_drop_requests(serve->measures);
	box_artifacts_drop_requests(serve->artifacts);
	box_making_chain_drop_requests(serve->making);
}

bool box_serve_was_ready(const struct box_serve *serve)
{
	return serve->ever_ready;
}

bool box_serve_config_refused(const struct box_serve *serve)
{
	return serve->config_refused;
}

struct box_warm_pool *box_serve_warm_pool(struct box_serve *serve)
{
	return box_boxes_warm_pool(serve->boxes);
}

static void reload_tokens(struct box_serve *serve)
{
	struct box_start_data *start_data = serve->start_data;
	const struct box_boxd_tokens *tokens = &start_data->offered_tokens;
	struct box_err err;
	if (box_start_data_reread_tokens(start_data, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_failed", box_log_str("why", err.text),
			box_log_str("so", "the tokens stay as they were"));
		return;
	}
	int r = send_packet(serve, tokens, sizeof(*tokens), NULL, 0);
	serve->reload_wanted = serve->reload_wanted || r == -EPIPE;
	if (r < 0 && r != -EPIPE) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_failed", box_log_errno("why", r));
	}
}

static void reload_config(struct box_serve *serve)
{
	struct box_err err;
	int fd = -1;
	int r = box_start_data_reread_config(serve->start_data, &fd, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_log_str("why", err.text));
		return;
	}
	r = send_plain(serve, BOX_BOXD_RELOAD, &fd, 1);
	if (r == -EPIPE) {
		/* box-rpc has died, and boxd does not know it yet. */
		serve->reload_wanted = true;
		return;
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_log_errno("why", r));
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "reload.sent");
}

void box_serve_reload(struct box_serve *serve)
{
	if (!serve->ready) {
		/* LISTEN comes first. START has the last text that was accepted, not the present. */
		serve->reload_wanted = true;
		return;
	}
	if (serve->start_data->token_path[0]) {
		reload_tokens(serve);
	}
	if (serve->start_data->config_path) {
		reload_config(serve);
	}
}

int box_serve_stop(struct box_serve *serve)
{
	return send_plain(serve, BOX_BOXD_STOP, NULL, 0);
}

/* --- in: the policy, and what --check-config asks --- */

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static bool checks_config(const struct box_serve *serve)
{
	return (serve->start_data->start.flags & BOX_BOXD_START_CHECK_CONFIG) != 0;
}

/* Only the policy of the first box-rpc counts, which no client has reached yet. Later policies can only
 * narrow it. */
static const char *take_policy(struct box_serve *serve, struct box_packet *packet)
{
	_cleanup_(box_free_p) struct box_policy *policy = box_alloc(sizeof(*policy));
	struct box_err err;
	if (pread(packet->fds[0], policy, sizeof(*policy), 0) != (ssize_t)sizeof(*policy)) {
		return "a POLICY of a wrong size";
	}
	if (!box_host_state_is_well_formed(policy)) {
		return "a malformed POLICY";
	}
	if (checks_config(serve)) {
		serve->layout_result = box_host_state_check_policy_paths(
			serve->host_state, policy, &serve->layout_err);
	} else if (serve->host_state->sealed) {
		/* With -s the process that has started us is the only client. Until it has asked for a
		 * box, nothing has run that could have taken over box-rpc. */
		box_host_state_narrow_policy(
			serve->host_state, policy, serve->host_state->alone && !serve->ever_asked);
	} else if (box_host_state_set_policy(serve->host_state, policy, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "config.refused", box_log_str("why", err.text));
		serve->config_refused = true;
	}
	return NULL;
}

/* What a box would get now; box-rpc logs changes. */
static const char *take_query_host(struct box_serve *serve, struct box_packet *packet)
{
	struct box_boxd_host_report answer = {.kind = BOX_BOXD_HOST};
	(void)packet;
	box_host_state_report_now(serve->host_state, &answer.host);
	return reply(serve, &answer, sizeof(answer), NULL, 0);
}

/* Only with --check-config: a compromised box-rpc could probe any path of the host. */
static const char *take_check_path(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_check_path *wanted = &packet->check_path;
	struct box_boxd_path_checked answer = {.kind = BOX_BOXD_PATH_CHECKED};
	struct box_err err;
	if (!checks_config(serve)) {
		return "a CHECK_PATH without --check-config";
	}
	if (!is_terminated(wanted->path, sizeof(wanted->path))) {
		return "an unterminated path";
	}
	int r = 0;
	if (wanted->what == BOX_BOXD_CHECK_LAYOUT) {
		r = serve->layout_result;
		err = serve->layout_err;
	} else {
		r = box_host_state_check_config_path(
			(enum box_boxd_check_kind)wanted->what, wanted->path, &err);
	}
	fill_failure(&answer.failure, r < 0 ? &err : NULL);
	return reply(serve, &answer, sizeof(answer), NULL, 0);
}

/* --- received: the start of box-rpc, and what its successor needs --- */

static int send_listeners(struct box_serve *serve)
{
	const struct box_listeners *listeners = serve->listeners;
	int fds[BOX_PACKET_FDS_MAX];
	size_t count = listeners->count;
	memcpy(fds, listeners->fds, count * sizeof(fds[0]));
	if (listeners->operator.fd >= 0) {
		fds[count++] = listeners->operator.fd;
	}
	if (listeners->sock_diag >= 0) {
		fds[count++] = listeners->sock_diag;
	}
	return send_plain(serve, BOX_BOXD_LISTEN, fds, count);
}

static const char *take_ready(struct box_serve *serve, struct box_packet *packet)
{
	/* A box-rpc that has sent no policy gets the narrowest. */
	static const struct box_policy none;
	struct box_err ignored;
	if (serve->ready) {
		return "a second READY";
	}
	(void)box_host_state_set_policy(serve->host_state, &none, &ignored);
	box_artifacts_set_folder(serve->artifacts, serve->host_state->common.artifacts);
	serve->ready = true;
	serve->ever_ready = true;
	const char *why = take_query_host(serve, packet);
	if (why) {
		return why;
	}
	box_boxes_list(serve->boxes);
	serve->artifact_bytes = 0;
	notify_artifact_bytes(serve);
	int r = send_listeners(serve);
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
		return "a STATE that is not a file";
	}
	if ((uint64_t)status.st_size > BOX_SAVED_STATE_BYTES_MAX) {
		return "a STATE that is too big";
	}
	box_close_p(&serve->state_fd);
	serve->state_fd = TAKE_FD(packet->fds[0]);
	return NULL;
}

static const char *take_config_accepted(struct box_serve *serve, struct box_packet *packet)
{
	(void)packet;
	box_start_data_config_accepted(serve->start_data);
	return NULL;
}

static const char *take_tokens_accepted(struct box_serve *serve, struct box_packet *packet)
{
	(void)packet;
	box_start_data_tokens_accepted(serve->start_data);
	return NULL;
}

/* --- in: boxes --- */

static const char *take_make_box(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_make_box *wanted = &packet->make_box;
	if (!serve->ready || wanted->id == 0) {
		return "a MAKE_BOX before READY or without an id";
	}
	/* Queues are per tenant, so this field is checked now. The rest of the request is checked in
	 * its turn. */
	if (!is_terminated(wanted->ask.tenant, sizeof(wanted->ask.tenant))) {
		return "an unterminated tenant";
	}
	serve->ever_asked = true;
	box_making_chain_request(serve->making, wanted->id, &wanted->ask);
	return NULL;
}

static const char *take_end_box(struct box_serve *serve, struct box_packet *packet)
{
	box_boxes_end(serve->boxes, packet->box.box);
	return NULL;
}

static const char *take_probe_microvms(struct box_serve *serve, struct box_packet *packet)
{
	if (packet->probe_microvms.id == 0) {
		return "a PROBE_MICROVMS without an id";
	}
	box_making_chain_probe_microvms(serve->making, packet->probe_microvms.id);
	return NULL;
}

static const char *take_open_process_cgroup(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_process_cgroup *wanted = &packet->open_process_cgroup;
	struct box_boxd_process_cgroup answer = {.kind = BOX_BOXD_PROCESS_CGROUP, .id = wanted->id};
	struct box_process_cgroups_fds opened = {-1, -1, -1};
	struct box_err err;
	if (wanted->process == 0 || wanted->memory_mib == 0) {
		return "an OPEN_PROCESS_CGROUP without a process or a limit";
	}
	if (box_boxes_is_microvm(serve->boxes, wanted->box)) {
		/* No fds: the microVM's own kernel enforces the limit, and box-init gets the number. */
		return reply(serve, &answer, sizeof(answer), NULL, 0);
	}
	struct box_process_cgroups *groups = box_boxes_process_cgroups(
		serve->boxes, wanted->box, &err);
	int r = groups ? box_process_cgroups_open(groups, wanted->process,
				 wanted->memory_mib * (uint64_t)BOX_MIB, &opened, &err)
		       : -1;
	const int fds[] = {opened.procs_fd, opened.events, opened.rest};
	fill_failure(&answer.failure, r < 0 ? &err : NULL);
	const char *why = reply(
		serve, &answer, sizeof(answer), fds, count_fds(fds, BOX_COUNT_OF(fds)));
	box_close_p(&opened.procs_fd);
	box_close_p(&opened.events);
	return why;
}

static const char *take_close_process_cgroup(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_close_process_cgroup *wanted = &packet->close_process_cgroup;
	struct box_err ignored;
	if (box_boxes_is_microvm(serve->boxes, wanted->box)) {
		return NULL;
	}
	struct box_process_cgroups *groups = box_boxes_process_cgroups(
		serve->boxes, wanted->box, &ignored);
	if (groups) {
		box_process_cgroups_close(groups, wanted->process);
	}
	return NULL;
}

/* --- in: folders, mounts, artifacts, skills --- */

static const char *take_make_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_make_folder *wanted = &packet->make_folder;
	if (!is_terminated(wanted->path, sizeof(wanted->path))) {
		return "an unterminated path";
	}
	int r = box_host_folder_make(
		wanted->path, wanted->look_only != 0, serve->host_state->mount_roots);
	/* box-rpc does not learn why a path is denied. */
	bool denied = r == BOX_MOUNT_ROOTS_DENIED_OWN || r == BOX_MOUNT_ROOTS_DENIED_STORE;
	struct box_boxd_folder answer = {
		.kind = BOX_BOXD_FOLDER,
		.id = wanted->id,
		.result = denied ? -EPERM : r,
	};
	BOX_LOG(BOX_LOG_DEBUG, "folder", box_log_str("path", wanted->path),
		box_log_int("result", answer.result));
	return reply(serve, &answer, sizeof(answer), NULL, 0);
}

/* A folder or file of the host, or a package of the skill store, as a mount for one box. */
static int open_mount(struct box_serve *serve, const struct box_boxd_open_mount *wanted,
	int *ret_mount, struct box_err *err)
{
	_cleanup_(box_close_p) int source = -1;
	const struct box_host_mount_request ask = {.path = wanted->path,
		.what = "extra_mounts.host_path",
		.files = true,
		.writable = !wanted->read_only,
		.asker = {.namespace = wanted->namespace}};
	int r = wanted->in_store
		? box_skill_folder_open_package(serve->skills, wanted->path, &source, err)
		: box_host_mount_open(&ask, serve->host_state->mount_roots, &source, err);
	if (r < 0) {
		return r;
	}
	bool read_only = wanted->in_store || wanted->read_only;
	return box_boxes_mount(serve->boxes, wanted->box, source, read_only, ret_mount, err);
}

static const char *take_open_mount(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_mount *wanted = &packet->open_mount;
	struct box_boxd_mounted answer = {.kind = BOX_BOXD_MOUNTED, .id = wanted->id};
	struct box_err err;
	_cleanup_(box_close_p) int mount = -1;
	if (!is_terminated(wanted->path, sizeof(wanted->path)) ||
		!is_terminated(wanted->namespace, sizeof(wanted->namespace))) {
		return "an unterminated path";
	}
	int r = open_mount(serve, wanted, &mount, &err);
	fill_failure(&answer.failure, r < 0 ? &err : NULL);
	return reply(serve, &answer, sizeof(answer), &mount, r < 0 ? 0 : 1);
}

static bool is_digest(const char digest[BOX_DIGEST_HEX_SIZE])
{
	return strnlen(digest, BOX_DIGEST_HEX_SIZE) == BOX_DIGEST_HEX_SIZE - 1 &&
		strspn(digest, "0123456789abcdef") == BOX_DIGEST_HEX_SIZE - 1;
}

static const char *take_open_artifact(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_artifact *wanted = &packet->open_artifact;
	if (!is_digest(wanted->digest) || !is_terminated(wanted->path, sizeof(wanted->path)) ||
		!is_terminated(wanted->namespace, sizeof(wanted->namespace)) ||
		!is_terminated(wanted->manifest, sizeof(wanted->manifest))) {
		return "a malformed OPEN_ARTIFACT";
	}
	const char *tenant = box_boxes_tenant(serve->boxes, wanted->box);
	if (!tenant) {
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_BOX, ENOENT, "the box has ended");
		on_artifact(serve, wanted->id, -1, &err);
		return NULL;
	}
	box_artifacts_open(serve->artifacts, tenant, wanted);
	return NULL;
}

static const char *take_open_store(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_store *wanted = &packet->open_store;
	struct box_boxd_store answer = {.kind = BOX_BOXD_STORE, .id = wanted->id};
	_cleanup_(box_close_p) int socket = -1;
	struct box_err err;
	if (!is_terminated(wanted->path, sizeof(wanted->path))) {
		return "an unterminated path";
	}
	serve->ever_asked = true;
	int r = box_skill_folder_open(
		serve->skills, wanted->path, serve->host_state->mount_roots, &socket, &err);
	fill_failure(&answer.failure, r < 0 ? &err : NULL);
	if (r == 0) {
		box_skill_folder_path(serve->skills, answer.path, sizeof(answer.path));
	}
	return reply(serve, &answer, sizeof(answer), &socket, r < 0 ? 0 : 1);
}

/* --- in: measures --- */

static const char *take_measure_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_measure_folder *wanted = &packet->measure_folder;
	if (!is_terminated(wanted->path, sizeof(wanted->path)) ||
		!is_terminated(wanted->below, sizeof(wanted->below)) ||
		!is_terminated(wanted->tenant, sizeof(wanted->tenant))) {
		return "an unterminated path";
	}
	box_measures_folder(
		serve->measures, wanted->id, wanted->tenant, wanted->path, wanted->below);
	return NULL;
}

static const char *take_measure_box(struct box_serve *serve, struct box_packet *packet)
{
	box_measures_box(serve->measures, packet->measure_box.id, packet->measure_box.box);
	return NULL;
}

/* --- in: the table --- */

static const struct {
	uint32_t kind;
	bool bequest; /* taken also from a box-rpc that has died */
	size_t size;
	size_t fd_count;
	const char *(*take)(struct box_serve *serve, struct box_packet *packet);
} kinds[] = {
	{BOX_BOXD_READY, false, sizeof(struct box_boxd_plain), 0, take_ready},
	{BOX_BOXD_STATE, true, sizeof(struct box_boxd_plain), 1, take_state},
	{BOX_BOXD_CONFIG_ACCEPTED, true, sizeof(struct box_boxd_plain), 0, take_config_accepted},
	{BOX_BOXD_TOKENS_ACCEPTED, true, sizeof(struct box_boxd_plain), 0, take_tokens_accepted},
	{BOX_BOXD_POLICY, false, sizeof(struct box_boxd_plain), 1, take_policy},
	{BOX_BOXD_MAKE_FOLDER, false, sizeof(struct box_boxd_make_folder), 0, take_make_folder},
	{BOX_BOXD_MAKE_BOX, false, sizeof(struct box_boxd_make_box), 0, take_make_box},
	{BOX_BOXD_END_BOX, false, sizeof(struct box_boxd_box), 0, take_end_box},
	{BOX_BOXD_OPEN_MOUNT, false, sizeof(struct box_boxd_open_mount), 0, take_open_mount},
	{BOX_BOXD_OPEN_ARTIFACT, false, sizeof(struct box_boxd_open_artifact), 0,
		take_open_artifact},
	{BOX_BOXD_OPEN_STORE, false, sizeof(struct box_boxd_open_store), 0, take_open_store},
	{BOX_BOXD_MEASURE_FOLDER, false, sizeof(struct box_boxd_measure_folder), 0,
		take_measure_folder},
	{BOX_BOXD_MEASURE_BOX, false, sizeof(struct box_boxd_measure_box), 0, take_measure_box},
	{BOX_BOXD_OPEN_PROCESS_CGROUP, false, sizeof(struct box_boxd_open_process_cgroup), 0,
		take_open_process_cgroup},
	{BOX_BOXD_CLOSE_PROCESS_CGROUP, true, sizeof(struct box_boxd_close_process_cgroup), 0,
		take_close_process_cgroup},
	{BOX_BOXD_QUERY_HOST, false, sizeof(struct box_boxd_plain), 0, take_query_host},
	{BOX_BOXD_CHECK_PATH, false, sizeof(struct box_boxd_check_path), 0, take_check_path},
	{BOX_BOXD_PROBE_MICROVMS, false, sizeof(struct box_boxd_probe_microvms), 0,
		take_probe_microvms},
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
	const char *why = NULL;
	box_close_p(&serve->reserve_fd);
	int r = box_packet_recv(serve->socket, &packet);
	keep_reserve(serve);
	if (r == -EAGAIN || r == -EPIPE) {
		return r;
	}
	if (r == 0) {
		why = take_packet(serve, dead, &packet);
		box_packet_close_fds(&packet);
		keep_reserve(serve);
	} else {
		why = r == -EMFILE ? "there was no room for its fds" : "a malformed packet";
	}
	if (why) {
		*ret_why = why;
		return -EPROTO;
	}
	return 0;
}
