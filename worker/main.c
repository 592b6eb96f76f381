/* box-rpc: starts the parts and runs the loop.
 *
 * The order matters: the configuration is read and everything that needs a file is opened before any byte
 * from outside is read; then box-rpc confines itself; only then boxd hands over the listening sockets.
 * worker.c is what happens afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/operator.h"
#include "handlers/dispatch.h"
#include "runtime/config/policy.h"
#include "transport/stdio.h"
#include "transport/ws.h"
#include "worker/config_report.h"
#include "worker/confine.h"
#include "worker/saved_state.h"
#include "worker/skills_client.h"
#include "worker/worker.h"

/* Reads both texts, even if the first has errors. */
static int read_texts(struct box_worker *worker, struct box_err *err)
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

/* Keeps the configuration file that boxd was started with; an earlier box-rpc may have read it. */
static void remember_first(struct box_worker *worker)
{
	struct box_arena *arena = box_arena_new();
	worker->first_arena = arena;
	if (worker->settings.first_fd < 0 ||
		box_settings_read_first(arena, worker->settings.first_fd, &worker->first) < 0) {
		worker->first = box_value_copy(
			arena, &worker->runtime->layers[BOX_RUNTIME_LAYER_FILE].map);
	}
	box_worker_note_restart(worker);
}

/* Without a token only root and our own user are admitted, unless the operator has explicitly allowed
 * everyone. */
static int check_openness(const struct box_worker *worker, struct box_err *err)
{
	const struct box_settings *settings = &worker->settings;
	if (settings->tokens.count > 0) {
		return 0;
	}
	if (settings->flags & BOX_BOXD_START_WIDE_OPEN && !box_worker_is_unauthenticated(worker)) {
		return box_err_set(err, BOX_ERR_VALUE, EPERM,
			"--host is wider than loopback and there is no token: set "
			"LANGBOT_BOX_CONTROL_TOKEN or --token-file, or leave out --host; "
			"--unauthenticated lets in everyone who reaches the port");
	}
	if (box_worker_is_unauthenticated(worker) &&
		!(settings->flags & BOX_BOXD_START_CHECK_CONFIG)) {
		box_worker_warn_unauthenticated();
	}
	return 0;
}

static int configure(struct box_worker *worker, struct box_err *err)
{
	struct box_settings *settings = &worker->settings;
	bool stdio = settings->flags & BOX_BOXD_START_STDIO;
	box_worker_use_tokens(worker);
	int r = uv_loop_init(&worker->loop);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "event loop: %s", uv_strerror(r));
	}
	r = box_boxd_client_open(&worker->loop, &box_worker_boxd_events, worker, &worker->boxd);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "event loop: %s", uv_strerror(r));
	}
	worker->skills = box_skills_client_new(&worker->loop, worker->boxd);
	worker->host = worker->start.start.host;
	const struct box_local_support means = box_worker_local_support(&worker->host);
	worker->local = box_local_new(
		&worker->loop, &means, &box_boxd_client_local_ops, worker->boxd);
	const struct box_runtime_setup setup = {
		.loop = &worker->loop,
		.local = worker->local,
		.host_size = {.memory_mb = worker->start.start.host.memory_mb,
			.cpus = worker->start.start.host.cpus},
		.working_folder = settings->working_folder,
		.mount_roots = settings->mount_roots,
		.host_backend_allowed = stdio || settings->tokens.count > 0,
		.soft_storage = settings->flags & BOX_BOXD_START_SOFT_STORAGE,
		.wide_open = settings->flags & BOX_BOXD_START_WIDE_OPEN,
	};
	worker->runtime = box_runtime_new(&setup, &box_worker_host_ops, worker);
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
	if (r < 0) {
		return r;
	}
	r = read_texts(worker, err);
	if (r < 0) {
		return r;
	}
	r = check_openness(worker, err);
	worker->policy = box_alloc(sizeof(*worker->policy));
	if (r < 0) {
		return r;
	}
	r = box_policy_read(worker->runtime, worker->runtime->config, worker->policy, err);
	if (r == 0 && worker->policy->degraded) {
		BOX_LOG(BOX_LOG_WARNING, "boxes.degraded",
			box_log_str("why",
				"local.degraded is true: where there is no cgroup boxes have no "
				"limits, and workspaces of the host no quota"));
		box_local_allow_degraded(worker->local, true);
		box_runtime_choose_backend(worker->runtime);
	}
	return r;
}

/* Returning the memory of a large message to the kernel, and faulting it in again for the next one, took half
 * of the time of a 1 MiB message. So it is kept until a second passes without a message (tick_cb in
 * worker.c). */
static void keep_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	(void)mallopt(M_TRIM_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
}

/* Opens everything that needs files or sockets. */
static int open_parts(struct box_worker *worker, struct box_err *err)
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
			"would not be checked; build box-rpc so that it exports recv");
	}
	worker->ws = box_ws_new(&worker->loop,
		&(struct box_keepalive_times){BOX_PING_INTERVAL_SEC, BOX_PING_HANGUP_SEC});
	if (!worker->ws) {
		return box_err_set(err, BOX_ERR_OS, ENOENT,
			"libwebsockets cannot start; is its libuv plugin installed "
			"(Debian: libwebsockets-evlib-uv)?");
	}
	if (worker->settings.flags & BOX_BOXD_START_STDIO) {
		r = box_stdio_open(&worker->loop, worker->dispatch, worker->runtime,
			box_worker_stdio_ended, worker, &worker->stdio);
	}
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "stdio: %s", uv_strerror(r)) : 0;
}

static int fail(const char *event, const struct box_err *err, int exit_code)
{
	BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", err->text));
	return exit_code;
}

/* Reports the errors of the configuration texts, each with its position, or else this error. */
static int refuse(const struct box_worker *worker, bool check, const struct box_err *err)
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

/* --check-config: prints a verdict for each configuration text. */
static int print_verdict(const struct box_worker *worker, const struct box_err *err)
{
	const struct box_settings *settings = &worker->settings;
	bool file = settings->flags & BOX_BOXD_START_HAS_FILE;
	bool variable = settings->flags & BOX_BOXD_START_HAS_VARIABLE;
	int file_code = file ? box_config_report_print(worker->of_file, settings->config_path) : 0;
	int code = variable
		? box_config_report_print(worker->of_variable, BOX_SETTINGS_CONFIG_VARIABLE)
		: 0;
	if (!file && !variable && !err) {
		(void)puts("no configuration, defaults apply: good");
	}
	code = file_code != 0 ? file_code : code;
	/* An error that is in neither text. */
	return err && code == 0 ? refuse(worker, true, err) : fflush(stdout) == 0 ? code : 1;
}

static int serve(struct box_worker *worker)
{
	struct box_err err;
	if (box_confine_enter(&err) < 0) {
		return fail("confine.failed", &err, 1);
	}
	int r = box_boxd_client_send_policy(worker->boxd, worker->policy);
	free(worker->policy);
	worker->policy = NULL;
	(void)malloc_trim(0);
	if (r < 0) {
		return 1;
	}
	worker->state = box_saved_state_open(worker->runtime, worker->boxd);
	box_worker_start_tick(worker);
	if (box_boxd_client_send_ready(worker->boxd) < 0) {
		return 1;
	}
	(void)uv_run(&worker->loop, UV_RUN_DEFAULT);
	return worker->exit_code;
}

#ifdef BOX_SANITIZED
/* The leak checker stops all threads with ptrace at exit, which the seccomp filter forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

int main(void)
{
	static struct box_worker worker;
	struct box_err err;
	box_log_setup("box-rpc", BOX_LOG_INFO, BOX_LOG_TEXT);
	(void)signal(SIGPIPE, SIG_IGN);
	keep_memory();
	if (box_confine_prepare(&err) < 0) {
		return fail("confine.failed", &err, 1);
	}
	int r = box_boxd_client_receive_start(&worker.start);
	if (r < 0) {
		(void)fprintf(stderr, "box-rpc is started by boxd, not by hand\n");
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
		return print_verdict(&worker, r < 0 ? &err : NULL);
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
