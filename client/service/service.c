/* The service: its configuration, its line, and the runs on it.
 *
 * A run is a job: the workspace is measured, the request sent, the workspace measured again, and a session
 * that has written too much is removed. Nothing here blocks except the calls that say so: a workspace is
 * measured piece by piece, one piece with each step. State is changed before a callback is called. What is
 * sent for a run is built in service_spec.c. */
#include "client/service.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "client/answer.h"
#include "client/service/error_ring.h"
#include "client/service/mount_rules.h"
#include "client/service/quota_walk.h"
#include "client/service/service_config.h"
#include "client/service/service_spec.h"
#include "client/service/service_status.h"

enum phase {
	JOB_LOCAL_STATUS, /* a status without the runtime, answered in the next step */
	JOB_BEFORE,       /* the workspace is measured */
	JOB_SENT,         /* the runtime has the request */
	JOB_AFTER,        /* the workspace is measured again */
	JOB_CLEAN_UP,     /* the workspace is over its quota: the session is removed */
};

struct job {
	struct job *next; /* by ascending id */
	struct box_service *service;
	int64_t id;
	struct box_arena *arena;
	enum phase phase;
	bool is_status;
	bool create_only;
	struct box_service_spec spec;
	struct box_value answer;
	struct box_str query_id;
	struct box_quota_walk *walk;
	struct box_err *err; /* JOB_CLEAN_UP: the result once that is done */
	int64_t seq_id;      /* of the request on the line */
	box_client_answered *answered;
	void *arg;
};

struct box_service {
	struct box_arena *arena; /* of the configuration */
	struct box_service_config config;
	struct box_line *line; /* NULL when disabled */
	struct box_error_ring errors;
	struct job *jobs;
	size_t job_count;
	int64_t last_id;
	int64_t walking; /* the id of the job whose workspace is being measured */
};

/* The status of the service, with the answer of the runtime to box_status or the reason why there is none. */
static struct box_value describe(const struct box_service *service, struct box_arena *arena,
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

/* --- jobs --- */

static void unlink_job(struct job *job)
{
	struct job **at = &job->service->jobs;
	while (*at != job) {
		at = &(*at)->next;
	}
	*at = job->next;
	job->service->job_count--;
}

static void job_free(struct job *job)
{
	box_quota_walk_close(job->walk);
	box_arena_free(job->arena);
	free(job);
}

/* Frees the job without calling back. */
static void drop_job(struct job *job)
{
	unlink_job(job);
	job_free(job);
}

static void keep_error(
	struct box_service *service, const struct box_err *err, struct box_str query_id)
{
	box_error_ring_add(&service->errors, box_clock_utc_us(), err, query_id);
}

/* Ends the job, which is out of the list before its callback is called. */
static void finish(struct job *job, const struct box_value *data, const struct box_err *err)
{
	unlink_job(job);
	if (err && !job->is_status) {
		keep_error(job->service, err, job->query_id);
	}
	if (job->answered) {
		job->answered(job->arg, err ? NULL : data, err, true);
	}
	job_free(job);
}

/* --- measuring --- */

/* 1 if a walk has started, 0 if there is nothing to measure. */
static int begin_walk(struct job *job, struct box_err *err)
{
	if (!job->spec.folder) {
		return 0;
	}
	int r = box_quota_walk_open(job->spec.folder, &job->spec.quota, &job->walk, err);
	/* A folder that only the runtime can see is measured by the runtime. */
	if (r == -ENOENT || (r < 0 && !box_line_shares_filesystem(job->service->line))) {
		return 0;
	}
	return r < 0 ? r : 1;
}

static void cleaned(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct job *job = arg;
	(void)data, (void)err, (void)last;
	struct box_err why = *job->err;
	finish(job, NULL, &why);
}

/* The session is removed; the files stay, because they are the tenant's. */
static void clean_up(struct job *job, const struct box_err *why)
{
	struct box_value data = box_map_value();
	box_map_add(job->arena, &data, "session_id", box_cstr(job->spec.session_id));
	job->err = box_arena_alloc(job->arena, sizeof(*job->err));
	*job->err = *why;
	job->phase = JOB_CLEAN_UP;
	if (box_line_submit(job->service->line, "box_delete_session", &data, cleaned, job,
		    &job->seq_id, NULL) < 0) {
		finish(job, NULL, why);
	}
}

static void exec_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct job *job = arg;
	struct box_err why;
	(void)last;
	if (job->is_status) {
		struct box_value status = describe(
			job->service, job->arena, err ? NULL : data, err ? err->text : NULL);
		finish(job, &status, NULL);
		return;
	}
	if (err) {
		finish(job, NULL, err);
		return;
	}
	struct box_value result = box_service_spec_result(job->arena, &job->spec.notes,
		!job->create_only, job->service->config.output_chars, data);
	int r = begin_walk(job, &why);
	if (r == 1) {
		job->answer = box_value_copy(job->arena, &result);
		job->phase = JOB_AFTER;
	} else if (r < 0) {
		clean_up(job, &why);
	} else {
		finish(job, &result, NULL);
	}
}

static int send_job(struct job *job, struct box_err *err)
{
	const char *action = job->is_status ? "box_status"
		: job->create_only          ? "box_create_session"
					    : "box_exec";
	job->phase = JOB_SENT;
	return box_line_submit(job->service->line, action, job->is_status ? NULL : &job->spec.spec,
		exec_answered, job, &job->seq_id, err);
}

/* Compares the result with the quota, and enters the next phase. */
static void end_walk(struct job *job, const struct box_quota_walk_found *found)
{
	bool before = job->phase == JOB_BEFORE;
	struct box_err err;
	const char *verdict = box_quota_walk_verdict(job->arena, &job->spec.quota, found,
		before ? "before execution" : "after execution", job->spec.folder,
		job->spec.session_id);
	box_quota_walk_close(job->walk);
	job->walk = NULL;
	if (verdict) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, EDQUOT, "%s", verdict);
		if (before) {
			finish(job, NULL, &err);
		} else {
			clean_up(job, &err);
		}
	} else if (!before) {
		finish(job, &job->answer, NULL);
	} else if (send_job(job, &err) < 0) {
		finish(job, NULL, &err);
	}
}

static void walk_on(struct job *job)
{
	static const struct box_quota_walk_found nothing;
	struct box_quota_walk_found found;
	struct box_err err;
	int r = box_quota_walk_step(job->walk, BOX_WORKSPACE_STEP_ENTRIES, &found, &err);
	if (r == 0) {
		end_walk(job, &found);
	} else if (r < 0 && !box_line_shares_filesystem(job->service->line)) {
		end_walk(job, &nothing); /* measured by the runtime */
	} else if (r < 0 && job->phase == JOB_BEFORE) {
		finish(job, NULL, &err);
	} else if (r < 0) {
		clean_up(job, &err);
	}
}

static bool is_walking(const struct job *job)
{
	return job->phase == JOB_BEFORE || job->phase == JOB_AFTER;
}

static bool has_local_work(const struct box_service *service)
{
	for (const struct job *job = service->jobs; job; job = job->next) {
		if (is_walking(job) || job->phase == JOB_LOCAL_STATUS) {
			return true;
		}
	}
	return false;
}

/* One workspace at a time: each level of a walk is an open fd, and the depth of a workspace is not ours to
 * choose. */
static struct job *pick_walk(struct box_service *service)
{
	struct job *first = NULL;
	for (struct job *job = service->jobs; job; job = job->next) {
		if (is_walking(job) && job->id == service->walking) {
			return job;
		}
		first = !first && is_walking(job) ? job : first;
	}
	service->walking = first ? first->id : 0;
	return first;
}

static struct job *pick_status(struct box_service *service)
{
	struct job *job = service->jobs;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed job is not in the list */
	while (job && job->phase != JOB_LOCAL_STATUS) {
		job = job->next;
	}
	return job;
}

static void step_local(struct box_service *service)
{
	struct job *job;
	const int64_t last =
		service->last_id; /* jobs that a callback adds wait for the next step */
	while ((job = pick_status(service)) && job->id <= last) {
		const struct box_err *why = service->line ? box_line_why(service->line) : NULL;
		struct box_value status = describe(
			service, job->arena, NULL, why ? why->text : NULL);
		finish(job, &status, NULL);
	}
	job = pick_walk(service);
	if (job) {
		walk_on(job);
	}
}

/* --- new jobs --- */

static struct job *job_new(struct box_service *service, box_client_answered *answered, void *arg)
{
	struct job *job = box_alloc(sizeof(*job));
	*job = (struct job){
		.service = service,
		.id = ++service->last_id,
		.arena = box_arena_new(),
		.answered = answered,
		.arg = arg,
	};
	struct job **at = &service->jobs;
	while (*at) {
		at = &(*at)->next;
	}
	*at = job;
	service->job_count++;
	return job;
}

/* The new job is already counted. */
static int check_room(const struct box_service *service, struct box_err *err)
{
	return service->job_count <= BOX_SERVICE_JOBS_MAX
		? 0
		: box_err_set(err, BOX_ERR_BUSY, EBUSY, "%d runs are pending already",
			  BOX_SERVICE_JOBS_MAX);
}

static int check_up(const struct box_service *service, struct box_err *err)
{
	if (!service->line) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECANCELED,
			"Box runtime is disabled in config (box.enabled = false)");
	}
	if (box_line_is_up(service->line)) {
		return 0;
	}
	const struct box_err *why = box_line_why(service->line);
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ENOTCONN,
		"Box runtime is not available: %s", why ? why->text : "not connected yet");
}

/* The id of the query, which may be a number. */
static struct box_str read_query_id(struct box_arena *arena, const struct box_value *query)
{
	const struct box_value *value = query ? box_map_get(query, "query_id") : NULL;
	if (value && value->type == BOX_INT) {
		return box_str(box_arena_printf(arena, "%lld", (long long)value->integer));
	}
	if (value && value->type == BOX_STR) {
		const char *copy = box_arena_strndup(arena, value->str.bytes, value->str.len);
		return (struct box_str){copy, value->str.len};
	}
	return (struct box_str){"", 0};
}

int box_service_submit(struct box_service *service, const struct box_service_run *run,
	box_client_answered *answered, void *arg, int64_t *ret_id, struct box_err *err)
{
	struct box_err why;
	struct job *job = job_new(service, answered, arg);
	job->create_only = run->create_only;
	job->query_id = read_query_id(job->arena, run->query);
	int r = check_room(service, &why);
	if (r == 0) {
		r = check_up(service, &why);
	}
	if (r == 0) {
		r = box_service_spec_build(
			&service->config, service->line, run, job->arena, &job->spec, &why);
	}
	if (r == 0) {
		job->phase = JOB_BEFORE;
		r = begin_walk(job, &why);
		r = r == 0 ? send_job(job, &why) : r;
	}
	if (r < 0) {
		keep_error(service, &why, job->query_id);
		drop_job(job);
		return box_err_set(err, why.code, -r, "%s", why.text);
	}
	if (ret_id) {
		*ret_id = job->id;
	}
	return 0;
}

int box_service_submit_status(struct box_service *service, box_client_answered *answered, void *arg,
	int64_t *ret_id, struct box_err *err)
{
	struct job *job = job_new(service, answered, arg);
	int r = check_room(service, err);
	if (r < 0) {
		drop_job(job);
		return r;
	}
	job->is_status = true;
	if (check_up(service, NULL) < 0 || send_job(job, NULL) < 0) {
		job->phase = JOB_LOCAL_STATUS;
	}
	if (ret_id) {
		*ret_id = job->id;
	}
	return 0;
}

void box_service_cancel(struct box_service *service, int64_t id)
{
	struct job *job = service->jobs;
	while (job && job->id != id) {
		job = job->next;
	}
	if (!job) {
		return;
	}
	if (job->phase == JOB_CLEAN_UP) {
		job->answered = NULL; /* the session is removed nevertheless */
		return;
	}
	if (job->phase == JOB_SENT) {
		box_line_cancel(service->line, job->seq_id);
	}
	drop_job(job);
}

/* --- begin and end --- */

/* Where both sides share a file system, folders are known by their real paths, and the default workspace is
 * made. */
static int resolve_folders(struct box_service *service, struct box_err *err)
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
		return resolve_folders(service, err);
	}
	line.config = &service->config.init;
	if (!named && !line.client.spawn) {
		line.client.endpoint = service->config.endpoint;
	}
	int r = box_line_open(&line, &service->line, err);
	return r < 0 ? r : resolve_folders(service, err);
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
	/* The requests of the line point to the jobs, so it is closed first. */
	box_line_close(service->line);
	while (service->jobs) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): drop_job takes it off the list */
		drop_job(service->jobs);
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

/* --- errors, profiles, explain --- */

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
	struct box_service_spec spec;
	int r = box_service_spec_build(&service->config, service->line, run, arena, &spec, err);
	if (r == 0) {
		*ret_spec = spec.spec;
		*ret_notes = spec.notes;
	}
	return r;
}

/* --- for an event loop --- */

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
	if (has_local_work(service)) {
		return 0;
	}
	return service->line ? box_line_timeout_ms(service->line) : -1;
}

void box_service_step(struct box_service *service)
{
	if (service->line) {
		box_line_step(service->line);
	}
	step_local(service);
}

/* --- blocking --- */

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

/* What to wait for: that *done is set; or, if `done` is NULL, that the line is up or, with `once`, has
 * failed. */
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

int box_service_exec(struct box_service *service, const struct box_service_run *run, int timeout_ms,
	struct box_arena *arena, struct box_value *ret_result, struct box_err *err)
{
	struct box_answer_wait call = {.arena = arena, .err = err};
	const struct until up = {.once = true, .ms = deadline(timeout_ms)};
	const struct until done = {.done = &call.done, .ms = up.ms};
	int64_t id = 0;
	(void)wait_until(service, &up);
	int r = box_service_submit(service, run, box_answer_wait_take, &call, &id, err);
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
	struct box_answer_wait call = {.arena = arena};
	const struct until up = {.once = true, .ms = deadline(timeout_ms)};
	const struct until done = {.done = &call.done, .ms = up.ms};
	struct box_err err;
	int64_t id = 0;
	(void)wait_until(service, &up);
	if (box_service_submit_status(service, box_answer_wait_take, &call, &id, &err) < 0) {
		return describe(service, arena, NULL, err.text);
	}
	if (wait_until(service, &done) < 0) {
		box_service_cancel(service, id);
		return describe(service, arena, NULL, "the runtime does not answer");
	}
	return call.data;
}
