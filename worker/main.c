/* box-rpc: puts the parts together, and takes them apart again at the end.
 *
 * The order at the start matters: the configuration is read and everything that needs a file is
 * opened while no byte from outside has been seen; then the fence; only then does boxd hand over
 * the listening sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/operator.h"
#include "handlers/dispatch.h"
#include "protocol/boxd_client.h"
#include "runtime/backend/local.h"
#include "runtime/config/config_members.h"
#include "runtime/config/policy.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"
#include "transport/acceptor.h"
#include "transport/stdio.h"
#include "transport/ws.h"
#include "worker/config_report.h"
#include "worker/confine.h"
#include "worker/saved_state.h"
#include "worker/settings.h"
#include "worker/skills_client.h"
#include "worker/storage_measure.h"

#define TICK_MS 1000
#define STOP_CHECK_MS 10

struct worker {
	uv_loop_t loop;
	struct box_packet start;
	struct box_settings settings;
	struct box_local *native;
	struct box_boxd_host host; /* as boxd saw it last; texts of `native` are here */
	uint64_t looks;            /* ticks since then */
	bool told;                 /* `ready` and `why` are in the log */
	bool ready;
	char why[1024];
	struct box_policy *policy; /* the operator's, until boxd has it */
	struct box_config_report *of_file;
	struct box_config_report *of_variable;
	struct box_arena *first_arena; /* of `first`: the file that boxd was started with */
	struct box_value first;
	struct box_runtime *runtime;
	struct box_dispatch *dispatch;
	struct box_boxd_client *link;
	struct box_skills_client *skills;
	struct box_saved_state *state;
	struct box_ws *ws;
	struct box_acceptor *door;
	struct box_stdio *stdio;
	uv_timer_t tick;
	uv_timer_t stopping;
	uv_timer_t adopting;
	uint64_t adopt_by_ms;
	int listeners[BOX_PACKET_FDS_MAX];
	size_t listener_count;
	const char *tokens[BOX_TOKENS_MAX]; /* of the settings */
	uint64_t stop_by_ms;                /* what runs may go on until then */
	uint64_t give_up_by_ms;             /* and connections close until then */
	bool closing;
	uint64_t messages_at_tick; /* how many had come by then */
	uint64_t messages_at_trim;
	int exit_code;
	int statm_fd;
	long page_size;
};

/* --- what the runtime asks of its host --- */

static void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	struct worker *worker = host;
	box_boxd_client_prepare_folder(worker->link, path, wish, done, arg);
}

static void host_measure(void *host, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg)
{
	struct worker *worker = host;
	box_storage_measure_start(worker->link, worker->native, what, done, arg);
}

static void host_ask_skills(void *host, struct box_skill_store_request *ask)
{
	struct worker *worker = host;
	box_skills_client_request(worker->skills, ask);
}

static void host_cancel_skills(void *host, struct box_skill_store_request *ask)
{
	struct worker *worker = host;
	box_skills_client_cancel(worker->skills, ask);
}

/* boxd holds mounts to the roots of the present configuration too, by what it has opened. */
static void host_mount_roots(void *host, const struct box_config *config)
{
	struct worker *worker = host;
	_cleanup_(box_free_p) struct box_policy *policy = box_alloc(sizeof(*policy));
	if (worker->state && box_policy_read(worker->runtime, config, policy, NULL) == 0) {
		(void)box_boxd_client_send_policy(worker->link, policy);
	}
}

static void host_configured(void *host)
{
	struct worker *worker = host;
	host_mount_roots(host, worker->runtime->config);
}

static uint64_t host_resident_bytes(void *host)
{
	const struct worker *worker = host;
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
	struct worker *worker = host;
	if (worker->state) {
		box_saved_state_append(worker->state, change);
	}
}

static const struct box_runtime_host host_ops = {
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

static void finish(struct worker *worker)
{
	if (worker->stdio) {
		box_stdio_restore(worker->stdio);
	}
	BOX_LOG(BOX_LOG_INFO, "stopped");
	exit(worker->exit_code);
}

/* What runs is finished, or its time is over: close the connections. */
static void close_connections(struct worker *worker)
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
	struct worker *worker = timer->data;
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

static void stop(struct worker *worker, uint64_t grace_ms)
{
	if (worker->runtime->stopping) {
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "stopping");
	worker->runtime->stopping = true;
	worker->stop_by_ms = box_clock_ms() + grace_ms;
	if (worker->door) {
		box_acceptor_close(worker->door);
	}
	(void)uv_timer_start(&worker->stopping, stopping_cb, 0, STOP_CHECK_MS);
}

/* --- what boxd tells us --- */

static void on_kept(
	void *arg, uint64_t box, int control, int memory, int rest, uint32_t host_address)
{
	struct worker *worker = arg;
	box_local_inherited(worker->native, box, control, memory, rest, host_address);
}

static void on_ends(void *arg, uint64_t box, uint32_t why)
{
	struct worker *worker = arg;
	box_local_ending(worker->native, box, box_boxd_end_reason(why));
}

static void on_gone(void *arg, uint64_t box)
{
	struct worker *worker = arg;
	box_local_gone(worker->native, box);
}

static void on_held(void *arg, uint64_t artifact_bytes)
{
	struct worker *worker = arg;
	worker->runtime->artifact_bytes = artifact_bytes;
}

static void open_door(struct worker *worker)
{
	const struct box_acceptor_rules rules = {
		.tokens = worker->tokens,
		.unauthenticated = worker->settings.flags & BOX_BOXD_START_UNAUTHENTICATED,
		.uid = worker->start.start.uid,
		.operator_uid = worker->start.start.operator_uid,
		.socket_group = worker->settings.flags & BOX_BOXD_START_SOCKET_GROUP,
		.loopback_names_only = !(worker->settings.flags & BOX_BOXD_START_EXPLICIT_HOST),
	};
	worker->door = box_acceptor_new(
		&worker->loop, worker->runtime, worker->dispatch, worker->ws, &rules);
	int listeners = 0;
	for (size_t i = 0; i < worker->listener_count; i++) {
		int r = box_acceptor_listen(worker->door, worker->listeners[i]);
		listeners += r > 0;
		if (r < 0) {
			BOX_LOG(BOX_LOG_ERROR, "listener.unusable", box_log_errno("why", r));
		}
	}
	BOX_LOG(BOX_LOG_INFO, "serving", box_log_int("listeners", listeners));
}

/* Whoever asks what became of a process shall not be told what was true of it once. */
static void adopting_cb(uv_timer_t *timer)
{
	struct worker *worker = timer->data;
	if (worker->runtime->stopping) {
		(void)uv_timer_stop(timer);
	} else if (box_process_all_known(worker->runtime->sessions) ||
		box_clock_ms() >= worker->adopt_by_ms) {
		(void)uv_timer_stop(timer);
		open_door(worker);
	}
}

/* Whether a box would be made now is in the log once, and again whenever it changes. */
static void note_readiness(struct worker *worker)
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
	if (worker->told && ready == worker->ready && strcmp(why, worker->why) == 0) {
		return;
	}
	if (!ready) {
		BOX_LOG(BOX_LOG_ERROR, "not_ready", box_log_str("why", why));
	} else if (worker->told && !worker->ready) {
		BOX_LOG(BOX_LOG_INFO, "ready");
	}
	worker->told = true;
	worker->ready = ready;
	memcpy(worker->why, why, sizeof(why));
}

static struct box_local_support means_of(const struct box_boxd_host *host)
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
	struct worker *worker = arg;
	worker->host = *host;
	worker->looks = 0;
	const struct box_local_support means = means_of(&worker->host);
	box_local_set_support(worker->native, &means);
	if (host->sealed) {
		/* By what boxd has sealed, whatever the file says now. */
		box_local_allow_degraded(worker->native, host->degraded != 0);
	}
	/* One that was chosen tells by itself what it lacks. */
	if (!worker->runtime->backend) {
		box_runtime_choose_backend(worker->runtime);
	}
	if (worker->runtime->backend == box_local_microvm_backend(worker->native)) {
		box_local_probe_microvm_again(worker->native);
	}
	note_readiness(worker);
}

static void on_listen(void *arg, int *fds, size_t count)
{
	struct worker *worker = arg;
	count = BOX_MIN(count, BOX_PACKET_FDS_MAX);
	memcpy(worker->listeners, fds, count * sizeof(*fds));
	worker->listener_count = count;
	/* All boxes of a predecessor are here now. */
	box_sessions_adopt(worker->runtime->sessions);
	box_local_end_inherited(worker->native);
	if (box_process_all_known(worker->runtime->sessions)) {
		open_door(worker);
		return;
	}
	worker->adopt_by_ms = box_clock_ms() + BOX_INHERIT_MS;
	(void)uv_timer_start(&worker->adopting, adopting_cb, 1, 1);
}

/* What of the present file counts from the next start of boxd on: it is told until then. */
static void note_restart(struct worker *worker)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	const char *names = box_config_members_need_restart(
		arena, &worker->first, &worker->runtime->layers[BOX_RUNTIME_LAYER_FILE].map);
	box_runtime_needs_restart(worker->runtime, names);
	if (names[0]) {
		BOX_LOG(BOX_LOG_WARNING, "config.needs_restart", box_log_str("members", names));
	}
}

static bool is_unauthenticated(const struct worker *worker)
{
	return worker->settings.tokens.count == 0 &&
		(worker->settings.flags & BOX_BOXD_START_UNAUTHENTICATED ||
			worker->runtime->config->unauthenticated);
}

static void warn_unauthenticated(void)
{
	BOX_LOG(BOX_LOG_WARNING, "listening.unauthenticated",
		box_log_str("why",
			"ANYONE WHO REACHES THIS PORT CAN RUN COMMANDS AND READ AND WRITE ALL FOLDERS "
			"THAT MAY BE MOUNTED: there is no token, and nobody is asked who they are"));
}

static void on_reload(void *arg, int fd)
{
	struct worker *worker = arg;
	_cleanup_(box_config_report_free_p) struct box_config_report *verdict =
		box_config_report_new();
	bool unauthenticated = is_unauthenticated(worker);
	if (box_settings_apply_file(
		    worker->runtime, worker->settings.config_path, fd, false, verdict) < 0) {
		box_config_report_log(verdict, "config.reload_refused");
		BOX_LOG(BOX_LOG_WARNING, "config.unchanged",
			box_log_str("why", "the file has errors: all of it stays as it was"),
			box_log_int("errors", (int64_t)verdict->errors));
		return;
	}
	box_config_report_log(verdict, "config.reload_refused");
	(void)box_boxd_client_confirm_reload(worker->link);
	note_restart(worker);
	if (is_unauthenticated(worker) && !unauthenticated) {
		warn_unauthenticated();
	}
	BOX_LOG(BOX_LOG_INFO, "config.reloaded");
}

static void use_tokens(struct worker *worker)
{
	struct box_settings_tokens *tokens = &worker->settings.tokens;
	for (size_t i = 0; i < BOX_TOKENS_MAX; i++) {
		worker->tokens[i] = i < tokens->count ? tokens->texts[i] : NULL;
	}
}

/* Who is connected stays so: a token is asked for once. */
static void on_tokens(void *arg, const char *text, size_t size)
{
	struct worker *worker = arg;
	struct box_err err;
	struct box_str whole = {text, strnlen(text, size)};
	if (box_settings_read_tokens(whole, &worker->settings.tokens, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "token.reload_refused", box_log_str("why", err.text),
			box_log_str("so", "the tokens stay as they were"));
		return;
	}
	use_tokens(worker);
	(void)box_boxd_client_confirm_tokens(worker->link);
	BOX_LOG(BOX_LOG_INFO, "token.reloaded",
		box_log_int("tokens", (int64_t)worker->settings.tokens.count));
}

static void on_stop(void *arg)
{
	stop(arg, BOX_SHUTDOWN_GRACE_MS);
}

/* Without boxd nobody can make or keep boxes: every client would wait for nothing. */
static void on_lost(void *arg)
{
	struct worker *worker = arg;
	BOX_LOG(BOX_LOG_ERROR, "keeper.lost");
	worker->exit_code = 1;
	finish(worker);
}

static const struct box_boxd_client_events link_events = {
	.kept = on_kept,
	.gone = on_gone,
	.held = on_held,
	.ends = on_ends,
	.listen = on_listen,
	.reload = on_reload,
	.tokens = on_tokens,
	.host = on_host,
	.stop = on_stop,
	.lost = on_lost,
};

static void on_stdio_ended(void *arg, bool clean)
{
	struct worker *worker = arg;
	worker->exit_code = clean ? 0 : 1;
	stop(worker, 0);
}

static void tick_cb(uv_timer_t *timer)
{
	struct worker *worker = timer->data;
	box_sessions_tick(worker->runtime->sessions, box_clock_ms());
	box_ws_tick(worker->ws);
	box_log_limit_tick(&worker->runtime->ignored);
	if (worker->door) {
		box_acceptor_tick(worker->door);
	}
	if (++worker->looks >= BOX_HOST_STATE_TICKS) {
		worker->looks = 0;
		(void)box_boxd_client_refresh_host(worker->link);
	}
	note_readiness(worker);
	/* A second without a message: give back what large ones have used. */
	uint64_t messages = worker->runtime->metrics.messages;
	if (messages == worker->messages_at_tick && messages != worker->messages_at_trim) {
		(void)malloc_trim(0);
		worker->messages_at_trim = messages;
	}
	worker->messages_at_tick = messages;
}

/* --- the beginning --- */

/* Both are judged, whatever is wrong with the first. */
static int read_texts(struct worker *worker, struct box_err *err)
{
	struct box_settings *settings = &worker->settings;
	bool good = true;
	bool look = settings->flags & BOX_BOXD_START_CHECK_CONFIG;
	worker->of_file = box_config_report_new();
	worker->of_variable = box_config_report_new();
	if (settings->config_fd >= 0) {
		good = box_settings_apply_file(worker->runtime, settings->config_path,
			       settings->config_fd, look, worker->of_file) == 0;
	}
	if (settings->variable_fd >= 0) {
		good = box_settings_apply_variable(worker->runtime, settings->variable_fd, look,
			       worker->of_variable) == 0 &&
			good;
	}
	return good ? 0 : box_err_set(err, BOX_ERR_VALUE, EINVAL, "the configuration has errors");
}

/* What boxd was started with, which a predecessor may have read. */
static void remember_first(struct worker *worker)
{
	struct box_arena *arena = box_arena_new();
	worker->first_arena = arena;
	if (worker->settings.first_fd < 0 ||
		box_settings_read_first(arena, worker->settings.first_fd, &worker->first) < 0) {
		worker->first = box_value_copy(
			arena, &worker->runtime->layers[BOX_RUNTIME_LAYER_FILE].map);
	}
	note_restart(worker);
}

/* Without a token nobody but root and our own user speaks here, unless the operator has said in so
 * many words that anyone may. */
static int check_openness(const struct worker *worker, struct box_err *err)
{
	const struct box_settings *settings = &worker->settings;
	if (settings->tokens.count > 0) {
		return 0;
	}
	if (settings->flags & BOX_BOXD_START_WIDE_OPEN && !is_unauthenticated(worker)) {
		return box_err_set(err, BOX_ERR_VALUE, EPERM,
			"--host is wider than loopback and there is no token: set "
			"LANGBOT_BOX_CONTROL_TOKEN or --token-file, or leave out --host; "
			"--unauthenticated lets in everyone who reaches the port");
	}
	if (is_unauthenticated(worker) && !(settings->flags & BOX_BOXD_START_CHECK_CONFIG)) {
		warn_unauthenticated();
	}
	return 0;
}

static int configure(struct worker *worker, struct box_err *err)
{
	struct box_settings *settings = &worker->settings;
	bool stdio = settings->flags & BOX_BOXD_START_STDIO;
	use_tokens(worker);
	int r = uv_loop_init(&worker->loop);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "event loop: %s", uv_strerror(r));
	}
	r = box_boxd_client_open(&worker->loop, &link_events, worker, &worker->link);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "event loop: %s", uv_strerror(r));
	}
	worker->skills = box_skills_client_new(&worker->loop, worker->link);
	worker->host = worker->start.start.host;
	const struct box_local_support means = means_of(&worker->host);
	worker->native = box_local_new(
		&worker->loop, &means, &box_boxd_client_local_ops, worker->link);
	const struct box_runtime_setup setup = {
		.loop = &worker->loop,
		.local = worker->native,
		.host_size = {.memory_mb = worker->start.start.host.memory_mb,
			.cpus = worker->start.start.host.cpus},
		.working_folder = settings->working_folder,
		.mount_roots = settings->mount_roots,
		.host_backend_allowed = stdio || settings->tokens.count > 0,
		.soft_storage = settings->flags & BOX_BOXD_START_SOFT_STORAGE,
		.wide_open = settings->flags & BOX_BOXD_START_WIDE_OPEN,
	};
	worker->runtime = box_runtime_new(&setup, &host_ops, worker);
	worker->runtime->metrics.worker_restarts = settings->restarts;
	if (settings->instance) {
		worker->runtime->instance = box_strdup(settings->instance);
	} else if (stdio) {
		BOX_LOG(BOX_LOG_INFO, "stdio.unnamed",
			box_log_str("why",
				"LANGBOT_BOX_TRUSTED_INSTANCE_UUID is not set: requests without a "
				"context, as of SDK 0.4, are served, and no others"));
		worker->runtime->instance = box_strdup(BOX_INSTANCE_UNNAMED);
	}
	struct box_value nothing = box_map_value();
	r = box_runtime_configure(worker->runtime, BOX_RUNTIME_LAYER_FILE, &nothing, err);
	r = r < 0 ? r : read_texts(worker, err);
	r = r < 0 ? r : check_openness(worker, err);
	worker->policy = box_alloc(sizeof(*worker->policy));
	r = r < 0 ? r
		  : box_policy_read(worker->runtime, worker->runtime->config, worker->policy, err);
	if (r == 0 && worker->policy->degraded) {
		BOX_LOG(BOX_LOG_WARNING, "boxes.degraded",
			box_log_str("why",
				"local.degraded is true: where there is no cgroup boxes have no "
				"limits, and workspaces of the host no quota"));
		box_local_allow_degraded(worker->native, true);
		box_runtime_choose_backend(worker->runtime);
	}
	return r;
}

/* Large messages come and go: giving their memory back to the kernel after each and faulting it in
 * again cost half of the time of a 1 MiB message. It is kept, and given back when nothing is under
 * way (tick_cb). */
static void keep_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	(void)mallopt(M_TRIM_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
}

/* Everything that opens files or makes sockets. */
static int open_parts(struct worker *worker, struct box_err *err)
{
	worker->page_size = sysconf(_SC_PAGESIZE);
	worker->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	worker->dispatch = box_dispatch_new(worker->runtime);
	int r = uv_timer_init(&worker->loop, &worker->tick);
	if (r == 0) {
		r = uv_timer_init(&worker->loop, &worker->stopping);
	}
	if (r == 0) {
		r = uv_timer_init(&worker->loop, &worker->adopting);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "event loop: %s", uv_strerror(r));
	}
	worker->tick.data = worker;
	worker->stopping.data = worker;
	worker->adopting.data = worker;
	if (!box_ws_recv_is_hooked()) {
		return box_err_set(err, BOX_ERR_OS, ENOTSUP,
			"box-rpc's own recv is not the one that libwebsockets calls: frames of clients "
			"would not be judged; build box-rpc so that it exports recv");
	}
	worker->ws = box_ws_new(&worker->loop,
		&(struct box_keepalive_times){BOX_PING_INTERVAL_SEC, BOX_PING_HANGUP_SEC});
	if (!worker->ws) {
		return box_err_set(err, BOX_ERR_OS, ENOENT,
			"libwebsockets cannot start; is its libuv plugin installed "
			"(Debian: libwebsockets-evlib-uv)?");
	}
	if (worker->settings.flags & BOX_BOXD_START_STDIO) {
		r = box_stdio_open(&worker->loop, worker->dispatch, worker->runtime, on_stdio_ended,
			worker, &worker->stdio);
	}
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "stdio: %s", uv_strerror(r)) : 0;
}

static int fail(const char *event, const struct box_err *err, int exit_code)
{
	BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", err->text));
	return exit_code;
}

/* The errors of the texts, each with its place; else the one that there is. */
static int refuse(const struct worker *worker, bool check, const struct box_err *err)
{
	if (check) {
		(void)printf("%s\n", err->text);
		return fflush(stdout) == 0 ? BOX_BOXD_EXIT_CONFIG : 1;
	}
	size_t errors = 0;
	for (int i = 0; i < 2; i++) {
		const struct box_config_report *verdict = i == 0 ? worker->of_file
								 : worker->of_variable;
		if (verdict) {
			box_config_report_log(verdict, "config.refused");
			errors += verdict->errors;
		}
	}
	return errors > 0 ? BOX_BOXD_EXIT_CONFIG
			  : fail("config.refused", err, BOX_BOXD_EXIT_CONFIG);
}

/* --check-config: a verdict for each text that there is. */
static int tell_verdict(const struct worker *worker, const struct box_err *err)
{
	const struct box_settings *settings = &worker->settings;
	bool file = settings->flags & BOX_BOXD_START_HAS_FILE;
	bool variable = settings->flags & BOX_BOXD_START_HAS_VARIABLE;
	int file_code = file ? box_config_report_print(worker->of_file, settings->config_path) : 0;
	int code = variable
		? box_config_report_print(worker->of_variable, BOX_SETTINGS_CONFIG_VARIABLE)
		: 0;
	if (!file && !variable && !err) {
		(void)puts("no configuration: all is as it is by default: good");
	}
	code = file_code != 0 ? file_code : code;
	/* What is wrong with neither alone. */
	return err && code == 0 ? refuse(worker, true, err) : fflush(stdout) == 0 ? code : 1;
}

static int serve(struct worker *worker)
{
	struct box_err err;
	if (box_confine_enter(&err) < 0) {
		return fail("fence.failed", &err, 1);
	}
	int r = box_boxd_client_send_policy(worker->link, worker->policy);
	free(worker->policy);
	worker->policy = NULL;
	(void)malloc_trim(0);
	if (r < 0) {
		return 1;
	}
	worker->state = box_saved_state_open(worker->runtime, worker->link);
	(void)uv_timer_start(&worker->tick, tick_cb, TICK_MS, TICK_MS);
	if (box_boxd_client_send_ready(worker->link) < 0) {
		return 1;
	}
	(void)uv_run(&worker->loop, UV_RUN_DEFAULT);
	return worker->exit_code;
}

#ifdef BOX_SANITIZED
/* The leak checker stops all threads with ptrace at exit, which the fence forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

int main(void)
{
	static struct worker worker;
	struct box_err err;
	box_log_setup("box-rpc", BOX_LOG_INFO, BOX_LOG_TEXT);
	(void)signal(SIGPIPE, SIG_IGN);
	keep_memory();
	if (box_confine_prepare(&err) < 0) {
		return fail("fence.failed", &err, 1);
	}
	int r = box_boxd_client_receive_start(&worker.start);
	if (r < 0) {
		(void)fprintf(stderr, "box-rpc: is started by boxd, not by hand\n");
		return 2;
	}
	box_log_setup("box-rpc", (enum box_log_level)worker.start.start.log_level,
		(enum box_log_format)worker.start.start.log_format);
	bool check = worker.start.start.flags & BOX_BOXD_START_CHECK_CONFIG;
	if (box_settings_read(&worker.start, &worker.settings, &err) < 0) {
		return refuse(&worker, check, &err);
	}
	r = configure(&worker, &err);
	if (check) {
		return tell_verdict(&worker, r < 0 ? &err : NULL);
	}
	if (r < 0) {
		return refuse(&worker, false, &err);
	}
	box_config_report_log(worker.of_file, "config.refused");
	box_config_report_log(worker.of_variable, "config.refused");
	remember_first(&worker);
	if (open_parts(&worker, &err) < 0) {
		return fail("start.failed", &err, 1);
	}
	box_saved_state_replay(worker.runtime, worker.settings.state_fd);
	return serve(&worker);
}
