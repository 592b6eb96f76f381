/* The life of a service, what it says of itself, and the calls that wait. What it does with a run is in
 * service_run.c, what it makes of one in service_build.c. */
#include "client/service.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "client/service/mount_rules.h"
#include "client/service/service_job.h"
#include "client/service/service_status.h"

/* --- begin and end --- */

/* Where a folder is the same for both sides it is known by its real path, and made if it is to be
 * there. */
static int settle_folders(struct box_service *service, struct box_err *err)
{
	struct box_service_config *config = &service->config;
	if (!box_line_shares_filesystem(service->line)) {
		return 0;
	}
	for (size_t i = 0; config->mount_roots[i]; i++) {
		config->mount_roots[i] = box_mount_rules_real(
			service->arena, config->mount_roots[i]);
	}
	if (!config->default_workspace) {
		return 0;
	}
	config->default_workspace = box_mount_rules_real(service->arena, config->default_workspace);
	return box_mount_rules_make_folder(
		service->arena, config->default_workspace, config->mount_roots, err);
}

static int open_line(
	struct box_service *service, const struct box_service_options *options, struct box_err *err)
{
	struct box_line_options line = options->line;
	bool named = line.client.endpoint && line.client.endpoint[0] != '\0';
	if (!service->config.enabled) {
		return 0;
	}
	if (service->line) {
		return settle_folders(service, err);
	}
	line.config = &service->config.init;
	if (!named && !line.client.spawn) {
		line.client.endpoint = service->config.endpoint;
	}
	int r = box_line_open(&line, &service->line, err);
	return r < 0 ? r : settle_folders(service, err);
}

int box_service_open(const struct box_service_options *options, struct box_service **ret_service,
	struct box_err *err)
{
	char here[PATH_MAX];
	const char *folder = options->working_folder;
	if (!folder) {
		folder = getcwd(here, sizeof(here));
	}
	if (!folder) {
		box_line_close(options->given);
		return box_err_set(
			err, BOX_ERR_OS, errno, "the working folder: %s", box_err_strerror(errno));
	}
	struct box_service *service = box_alloc(sizeof(*service));
	*service = (struct box_service){.arena = box_arena_new(), .line = options->given};
	int r = box_service_config_read(
		service->arena, options->config, folder, &service->config, err);
	if (r == 0 && !service->config.enabled) {
		box_line_close(service->line);
		service->line = NULL;
	}
	if (r == 0) {
		r = open_line(service, options, err);
	}
	if (r < 0) {
		box_service_close(service);
		return r;
	}
	*ret_service = service;
	return 0;
}

void box_service_close(struct box_service *service)
{
	if (!service) {
		return;
	}
	/* Its requests point to the jobs. */
	box_line_close(service->line);
	while (service->jobs) {
		box_service_job_free(service->jobs);
	}
	box_error_ring_free(&service->errors);
	box_arena_free(service->arena);
	free(service);
}

bool box_service_is_enabled(const struct box_service *service)
{
	return service->config.enabled;
}

struct box_line *box_service_line(struct box_service *service)
{
	return service->line;
}

const char *box_service_default_workspace(const struct box_service *service)
{
	return service->config.default_workspace;
}

/* --- what it says --- */

struct box_value box_service_describe(const struct box_service *service, struct box_arena *arena,
	const struct box_value *runtime, const char *why)
{
	const struct box_service_status_facts facts = {
		.enabled = service->config.enabled,
		.runtime = runtime,
		.why = why,
		.profile = service->config.profile->name,
		.recent_errors = service->errors.count,
	};
	return box_service_status_value(arena, &facts);
}

struct box_value box_service_errors(const struct box_service *service, struct box_arena *arena)
{
	return box_error_ring_list(&service->errors, arena);
}

int box_service_profiles(struct box_arena *arena, const struct box_value *own, const char *name,
	struct box_value *ret_list, struct box_err *err)
{
	const struct box_profile *only = NULL;
	struct box_profile_set profiles;
	int r = box_profile_read_all(arena, own, &profiles, err);
	if (r < 0) {
		return r;
	}
	if (name && !(only = box_profile_find(&profiles, name, err))) {
		return -EINVAL;
	}
	*ret_list = box_list_value();
	for (size_t i = 0; i < profiles.count; i++) {
		if (!only || &profiles.items[i] == only) {
			box_list_add(arena, ret_list, box_profile_value(arena, &profiles.items[i]));
		}
	}
	return 0;
}

int box_service_explain(struct box_service *service, const struct box_service_run *run,
	struct box_arena *arena, struct box_value *ret_spec, struct box_value *ret_notes,
	struct box_err *err)
{
	struct box_service_job job = {
		.service = service, .arena = arena, .create_only = run->create_only};
	int r = box_service_build_spec(service, run, &job, err);
	if (r == 0) {
		*ret_spec = job.spec;
		*ret_notes = job.notes;
	}
	return r;
}

/* --- a loop --- */

int box_service_fd(const struct box_service *service)
{
	return service->line ? box_line_fd(service->line) : -1;
}

short box_service_poll_events(const struct box_service *service)
{
	return service->line ? box_line_poll_events(service->line) : 0;
}

int box_service_timeout_ms(const struct box_service *service)
{
	if (box_service_has_local_work(service)) {
		return 0;
	}
	return service->line ? box_line_timeout_ms(service->line) : -1;
}

void box_service_step(struct box_service *service)
{
	if (service->line) {
		box_line_step(service->line);
	}
	box_service_step_local(service);
}

/* --- waiting --- */

int box_service_wait(struct box_service *service, int timeout_ms)
{
	struct pollfd ready = {
		.fd = box_service_fd(service), .events = box_service_poll_events(service)};
	int own_ms = box_service_timeout_ms(service);
	bool own = own_ms >= 0 && (timeout_ms < 0 || own_ms < timeout_ms);
	if (poll(&ready, 1, own ? own_ms : timeout_ms) < 0) {
		return -errno;
	}
	box_service_step(service);
	return 0;
}

/* Waits for `done`, or where there is none for the line: to be up, or with `once` to have failed. */
struct until {
	const bool *done;
	bool once;
	uint64_t ms;
};

static bool is_over(const struct box_service *service, const struct until *until)
{
	if (until->done) {
		return *until->done;
	}
	return !service->line || box_line_is_up(service->line) ||
		(until->once && box_line_why(service->line));
}

static int wait_until(struct box_service *service, const struct until *until)
{
	while (!is_over(service, until)) {
		uint64_t now = box_clock_ms();
		if (now >= until->ms) {
			return -ETIMEDOUT;
		}
		uint64_t left = until->ms - now;
		(void)box_service_wait(service, left < INT_MAX ? (int)left : INT_MAX);
	}
	return 0;
}

static uint64_t deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : box_clock_ms() + (uint64_t)timeout_ms;
}

int box_service_wait_up(struct box_service *service, int timeout_ms, struct box_err *err)
{
	const struct until until = {.ms = deadline(timeout_ms)};
	if (!service->line) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECANCELED,
			"Box runtime is disabled in config (box.enabled = false)");
	}
	if (wait_until(service, &until) == 0) {
		return 0;
	}
	const struct box_err *why = box_line_why(service->line);
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT, "%s",
		why ? why->text : "Box runtime is not connected yet");
}

struct call {
	struct box_arena *arena;
	struct box_value data;
	struct box_err *err;
	bool done;
	int result;
};

static void answered(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct call *call = arg;
	(void)last;
	call->done = true;
	if (err) {
		call->result = box_err_set(call->err, err->code, err->errnum, "%s", err->text);
	} else {
		call->data = box_value_copy(call->arena, data);
	}
}

int box_service_exec(struct box_service *service, const struct box_service_run *run, int timeout_ms,
	struct box_arena *arena, struct box_value *ret_result, struct box_err *err)
{
	struct call call = {.arena = arena, .err = err};
	const struct until up = {.once = true, .ms = deadline(timeout_ms)};
	const struct until done = {.done = &call.done, .ms = up.ms};
	int64_t id;
	(void)wait_until(service, &up);
	int r = box_service_submit(service, run, answered, &call, &id, err);
	if (r < 0) {
		return r;
	}
	if (wait_until(service, &done) < 0) {
		box_service_cancel(service, id);
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"no answer within %d ms", timeout_ms);
	}
	if (call.result == 0) {
		*ret_result = call.data;
	}
	return call.result;
}

struct box_value box_service_status(
	struct box_service *service, int timeout_ms, struct box_arena *arena)
{
	struct call call = {.arena = arena};
	const struct until up = {.once = true, .ms = deadline(timeout_ms)};
	const struct until done = {.done = &call.done, .ms = up.ms};
	struct box_err err;
	int64_t id;
	(void)wait_until(service, &up);
	if (box_service_submit_status(service, answered, &call, &id, &err) < 0) {
		return box_service_describe(service, arena, NULL, err.text);
	}
	if (wait_until(service, &done) < 0) {
		box_service_cancel(service, id);
		return box_service_describe(service, arena, NULL, "the runtime does not answer");
	}
	return call.data;
}
