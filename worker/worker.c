/* box-rpc while it runs: serves the runtime's requests to its host, handles what boxd reports, does the
 * once-a-second work, and stops in order. main.c starts it.
 */
#include "worker/worker.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "handlers/dispatch.h"
#include "runtime/config/config_members.h"
#include "runtime/config/policy.h"
#include "runtime/session/process.h"
#include "transport/acceptor.h"
#include "transport/stdio.h"
#include "transport/ws.h"
#include "worker/config_report.h"
#include "worker/saved_state.h"
#include "worker/skills_client.h"
#include "worker/storage_measure.h"

#define TICK_MS 1000
#define STOP_CHECK_MS 10

/* --- the runtime's requests to its host --- */

static void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	struct box_worker *worker = host;
	box_boxd_client_prepare_folder(worker->boxd, path, wish, done, arg);
}

static void host_measure(void *host, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg)
{
	struct box_worker *worker = host;
	box_storage_measure_start(worker->boxd, worker->local, what, done, arg);
}

static void host_ask_skills(void *host, struct box_skill_store_request *ask)
{
	struct box_worker *worker = host;
	box_skills_client_request(worker->skills, ask);
}

static void host_cancel_skills(void *host, struct box_skill_store_request *ask)
{
	struct box_worker *worker = host;
	box_skills_client_cancel(worker->skills, ask);
}

/* boxd also checks mounts against the roots of the current configuration, which it has opened itself. */
static void host_mount_roots(void *host, const struct box_config *config)
{
	struct box_worker *worker = host;
	_cleanup_(box_free_p) struct box_policy *policy = box_alloc(sizeof(*policy));
	if (worker->state && box_policy_read(worker->runtime, config, policy, NULL) == 0) {
		(void)box_boxd_client_send_policy(worker->boxd, policy);
	}
}

static void host_configured(void *host)
{
	struct box_worker *worker = host;
	host_mount_roots(host, worker->runtime->config);
}

static uint64_t host_resident_bytes(void *host)
{
	const struct box_worker *worker = host;
	char text[128] = "";
	unsigned long total = 0;
	unsigned long resident = 0;
	ssize_t got = pread(worker->statm_fd, text, sizeof(text) - 1, 0);
	if (got <= 0 || sscanf(text, "%lu %lu", &total, &resident) != 2) {
		return 0;
	}
	return (uint64_t)resident * (uint64_t)worker->page_size;
}

static void host_record(void *host, const struct box_value *change)
{
	struct box_worker *worker = host;
	if (worker->state) {
		box_saved_state_append(worker->state, change);
	}
}

const struct box_runtime_host box_worker_host_ops = {
	.folder = host_folder,
	.measure = host_measure,
	.ask_skills = host_ask_skills,
	.cancel_skills = host_cancel_skills,
	.configured = host_configured,
	.mount_roots = host_mount_roots,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

/* --- the end --- */

static void finish(struct box_worker *worker)
{
	if (worker->stdio) {
		box_stdio_restore(worker->stdio);
	}
	BOX_LOG(BOX_LOG_INFO, "stopped");
	exit(worker->exit_code);
}

/* Requests are finished or out of time: close the connections. */
static void close_connections(struct box_worker *worker)
{
	worker->closing = true;
	worker->give_up_by_ms = box_clock_ms() + BOX_LINGER_MS;
	box_dispatch_cancel_all(worker->dispatch);
	box_sessions_remove_all(worker->runtime->sessions);
	if (worker->ws) {
		box_ws_close_all(worker->ws, "Box runtime shutting down");
	}
}

static void stopping_cb(uv_timer_t *timer)
{
	struct box_worker *worker = timer->data;
	uint64_t now = box_clock_ms();
	if (!worker->closing) {
		if (box_dispatch_request_count(worker->dispatch) == 0 ||
			now >= worker->stop_by_ms) {
			close_connections(worker);
		}
		return;
	}
	bool closed = (!worker->ws || box_ws_count(worker->ws) == 0) &&
		(!worker->stdio || box_stdio_queued(worker->stdio) == 0) &&
		box_sessions_count(worker->runtime->sessions) == 0;
	if (closed || now >= worker->give_up_by_ms) {
		finish(worker);
	}
}

static void stop(struct box_worker *worker, uint64_t grace_ms)
{
	if (worker->runtime->stopping) {
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "stopping");
	worker->runtime->stopping = true;
	worker->stop_by_ms = box_clock_ms() + grace_ms;
	if (worker->acceptor) {
		box_acceptor_close(worker->acceptor);
	}
	(void)uv_timer_start(&worker->stopping, stopping_cb, 0, STOP_CHECK_MS);
}

/* --- what boxd reports --- */

static void on_inherited(
	void *arg, uint64_t box, int control, int memory, int rest, uint32_t host_address)
{
	struct box_worker *worker = arg;
	box_local_inherited(worker->local, box, control, memory, rest, host_address);
}

static void on_ending(void *arg, uint64_t box, uint32_t why)
{
	struct box_worker *worker = arg;
	box_local_ending(worker->local, box, box_boxd_end_reason(why));
}

static void on_gone(void *arg, uint64_t box)
{
	struct box_worker *worker = arg;
	box_local_gone(worker->local, box);
}

static void on_artifact_bytes(void *arg, uint64_t artifact_bytes)
{
	struct box_worker *worker = arg;
	worker->runtime->artifact_bytes = artifact_bytes;
}

static void start_accepting(struct box_worker *worker)
{
	const struct box_acceptor_rules rules = {
		.tokens = worker->tokens,
		.unauthenticated = worker->settings.flags & BOX_BOXD_START_UNAUTHENTICATED,
		.uid = worker->start.start.uid,
		.operator_uid = worker->start.start.operator_uid,
		.socket_group = worker->settings.flags & BOX_BOXD_START_SOCKET_GROUP,
		.loopback_names_only = !(worker->settings.flags & BOX_BOXD_START_EXPLICIT_HOST),
	};
	worker->acceptor = box_acceptor_new(
		&worker->loop, worker->runtime, worker->dispatch, worker->ws, &rules);
	int listeners = 0;
	for (size_t i = 0; i < worker->listener_count; i++) {
		int r = box_acceptor_listen(worker->acceptor, worker->listeners[i]);
		listeners += r > 0;
		if (r < 0) {
			BOX_LOG(BOX_LOG_ERROR, "listener.unusable", box_log_errno("why", r));
		}
	}
	BOX_LOG(BOX_LOG_INFO, "serving", box_log_int("listeners", listeners));
}

/* Clients are accepted only once the state of all inherited processes is known, so that no answer about one
 * is outdated. */
static void adopting_cb(uv_timer_t *timer)
{
	struct box_worker *worker = timer->data;
	if (worker->runtime->stopping) {
		(void)uv_timer_stop(timer);
	} else if (box_process_all_known(worker->runtime->sessions) ||
		box_clock_ms() >= worker->adopt_by_ms) {
		(void)uv_timer_stop(timer);
		start_accepting(worker);
	}
}

/* Logs whether boxes can be created: once, and again whenever that changes. */
static void note_readiness(struct box_worker *worker)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	bool ready = false;
	struct box_value readiness = box_runtime_readiness(worker->runtime, arena, &ready);
	const struct box_value *error = box_map_get(&readiness, "error");
	char why[sizeof(worker->why)] = "";
	struct box_err refused;
	if (box_runtime_require_ready(worker->runtime, &refused) < 0) {
		(void)snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, refused.text);
	} else if (error && error->type == BOX_STR) {
		(void)snprintf(why, sizeof(why), "%.*s", (int)error->str.len, error->str.bytes);
	}
	if (worker->readiness_logged && ready == worker->ready && strcmp(why, worker->why) == 0) {
		return;
	}
	if (!ready) {
		BOX_LOG(BOX_LOG_ERROR, "not_ready", box_log_str("why", why));
	} else if (worker->readiness_logged && !worker->ready) {
		BOX_LOG(BOX_LOG_INFO, "ready");
	}
	worker->readiness_logged = true;
	worker->ready = ready;
	memcpy(worker->why, why, sizeof(why));
}

struct box_local_support box_worker_local_support(const struct box_boxd_host *host)
{
	return (struct box_local_support){
		.possible = host->possible,
		.missing = host->missing,
		.limits = host->limits != 0,
		.limits_missing = host->limits_missing,
		.quota = host->quota != 0,
		.quota_missing = host->quota_missing,
		.images_missing = host->images_missing,
		.held =
			{
				.limits = host->limits != 0,
				.sockets = host->held_sockets != 0,
				.id_ranges = host->id_ranges != 0,
				.files = host->held_files != 0,
			},
	};
}

static void on_host(void *arg, const struct box_boxd_host *host)
{
	struct box_worker *worker = arg;
	worker->host = *host;
	worker->host_ticks = 0;
	const struct box_local_support means = box_worker_local_support(&worker->host);
	box_local_set_support(worker->local, &means);
	if (host->sealed) {
		/* boxd has sealed this setting; the current file cannot change it. */
		box_local_allow_degraded(worker->local, host->degraded != 0);
	}
	/* A backend that is already selected reports itself what it lacks. */
	if (!worker->runtime->backend) {
		box_runtime_choose_backend(worker->runtime);
	}
	if (worker->runtime->backend == box_local_microvm_backend(worker->local)) {
		box_local_probe_microvm_again(worker->local);
	}
	note_readiness(worker);
}

static void on_listen(void *arg, int *fds, size_t count)
{
	struct box_worker *worker = arg;
	count = BOX_MIN(count, BOX_PACKET_FDS_MAX);
	memcpy(worker->listeners, fds, count * sizeof(*fds));
	worker->listener_count = count;
	/* All boxes of an earlier box-rpc have now been handed over. */
	box_sessions_adopt(worker->runtime->sessions);
	box_local_end_inherited(worker->local);
	if (box_process_all_known(worker->runtime->sessions)) {
		start_accepting(worker);
		return;
	}
	worker->adopt_by_ms = box_clock_ms() + BOX_INHERIT_MS;
	(void)uv_timer_start(&worker->adopting, adopting_cb, 1, 1);
}

void box_worker_note_restart(struct box_worker *worker)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	const char *names = box_config_members_need_restart(
		arena, &worker->first, &worker->runtime->layers[BOX_RUNTIME_LAYER_FILE].map);
	box_runtime_needs_restart(worker->runtime, names);
	if (names[0]) {
		BOX_LOG(BOX_LOG_WARNING, "config.needs_restart", box_log_str("members", names));
	}
}

bool box_worker_is_unauthenticated(const struct box_worker *worker)
{
	return worker->settings.tokens.count == 0 &&
		(worker->settings.flags & BOX_BOXD_START_UNAUTHENTICATED ||
			worker->runtime->config->unauthenticated);
}

void box_worker_warn_unauthenticated(void)
{
	BOX_LOG(BOX_LOG_WARNING, "listening.unauthenticated",
		box_log_str("why",
			"ANYONE WHO REACHES THIS PORT CAN RUN COMMANDS AND READ AND WRITE ALL FOLDERS "
			"THAT MAY BE MOUNTED: there is no token, and no client is identified"));
}

static void on_reload(void *arg, int fd)
{
	struct box_worker *worker = arg;
	_cleanup_(box_config_report_free_p) struct box_config_report *verdict =
		box_config_report_new();
	bool unauthenticated = box_worker_is_unauthenticated(worker);
	if (box_settings_apply_file(
		    worker->runtime, worker->settings.config_path, fd, false, verdict) < 0) {
		box_config_report_log(verdict, "config.reload_refused");
		BOX_LOG(BOX_LOG_WARNING, "config.unchanged",
			box_log_str("why", "the file has errors: all of it stays as it was"),
			box_log_int("errors", (int64_t)verdict->errors));
		return;
	}
	box_config_report_log(verdict, "config.reload_refused");
	(void)box_boxd_client_confirm_reload(worker->boxd);
	box_worker_note_restart(worker);
	if (box_worker_is_unauthenticated(worker) && !unauthenticated) {
		box_worker_warn_unauthenticated();
	}
	BOX_LOG(BOX_LOG_INFO, "config.reloaded");
}

void box_worker_use_tokens(struct box_worker *worker)
{
	struct box_settings_tokens *tokens = &worker->settings.tokens;
	for (size_t i = 0; i < BOX_TOKENS_MAX; i++) {
		worker->tokens[i] = i < tokens->count ? tokens->texts[i] : NULL;
	}
}

/* Existing connections stay: a token is asked for once. */
static void on_tokens(void *arg, const char *text, size_t size)
{
	struct box_worker *worker = arg;
	struct box_err err;
	struct box_str whole = {text, strnlen(text, size)};
	if (box_settings_read_tokens(whole, &worker->settings.tokens, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_refused", box_log_str("why", err.text),
			box_log_str("so", "the tokens stay as they were"));
		return;
	}
	box_worker_use_tokens(worker);
	(void)box_boxd_client_confirm_tokens(worker->boxd);
	BOX_LOG(BOX_LOG_INFO, "token.reloaded",
		box_log_int("tokens", (int64_t)worker->settings.tokens.count));
}

static void on_stop(void *arg)
{
	stop(arg, BOX_SHUTDOWN_GRACE_MS);
}

/* Without boxd no box can be made or kept: every client would wait in vain. */
static void on_lost(void *arg)
{
	struct box_worker *worker = arg;
	BOX_LOG(BOX_LOG_ERROR, "boxd.lost");
	worker->exit_code = 1;
	finish(worker);
}

const struct box_boxd_client_events box_worker_boxd_events = {
	.inherited = on_inherited,
	.gone = on_gone,
	.artifact_bytes = on_artifact_bytes,
	.ending = on_ending,
	.listen = on_listen,
	.reload = on_reload,
	.tokens = on_tokens,
	.host = on_host,
	.stop = on_stop,
	.lost = on_lost,
};

void box_worker_stdio_ended(void *arg, bool clean)
{
	struct box_worker *worker = arg;
	worker->exit_code = clean ? 0 : 1;
	stop(worker, 0);
}

static void tick_cb(uv_timer_t *timer)
{
	struct box_worker *worker = timer->data;
	box_sessions_tick(worker->runtime->sessions, box_clock_ms());
	box_ws_tick(worker->ws);
	box_log_limit_tick(&worker->runtime->ignored);
	if (worker->acceptor) {
		box_acceptor_tick(worker->acceptor);
	}
	if (++worker->host_ticks >= BOX_HOST_STATE_TICKS) {
		worker->host_ticks = 0;
		(void)box_boxd_client_refresh_host(worker->boxd);
	}
	note_readiness(worker);
	/* A second without a message: give the memory of large messages back. */
	uint64_t messages = worker->runtime->metrics.messages;
	if (messages == worker->messages_at_tick && messages != worker->messages_at_trim) {
		(void)malloc_trim(0);
		worker->messages_at_trim = messages;
	}
	worker->messages_at_tick = messages;
}

void box_worker_start_tick(struct box_worker *worker)
{
	(void)uv_timer_start(&worker->tick, tick_cb, TICK_MS, TICK_MS);
}
