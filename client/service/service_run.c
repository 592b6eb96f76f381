/* The way of one run: the workspace is measured, the runtime asked, the workspace measured again, and a
 * session that has written too much removed. Nothing waits: walks go on by pieces with each step.
 * State is changed first and called up last. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "client/service/service_job.h"

static void unlink_job(struct box_service_job *job)
{
	struct box_service_job **at = &job->service->jobs;
	while (*at != job) {
		at = &(*at)->next;
	}
	*at = job->next;
	job->service->job_count--;
}

static void job_free(struct box_service_job *job)
{
	box_quota_walk_close(job->walk);
	box_arena_free(job->arena);
	free(job);
}

void box_service_job_free(struct box_service_job *job)
{
	unlink_job(job);
	job_free(job);
}

static void keep_error(
	struct box_service *service, const struct box_err *err, struct box_str query_id)
{
	box_error_ring_add(&service->errors, box_clock_utc_us(), err, query_id);
}

/* The end: the job is out of the list before its caller hears of it. */
static void finish(
	struct box_service_job *job, const struct box_value *data, const struct box_err *err)
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

/* 1 when the walk has begun, 0 when there is nothing to measure. */
static int begin_walk(struct box_service_job *job, struct box_err *err)
{
	if (!job->folder) {
		return 0;
	}
	int r = box_quota_walk_open(job->folder, &job->quota, &job->walk, err);
	/* A folder that only the runtime can see is the runtime's to guard. */
	if (r == -ENOENT || (r < 0 && !box_line_shares_filesystem(job->service->line))) {
		return 0;
	}
	return r < 0 ? r : 1;
}

static void cleaned(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_service_job *job = arg;
	(void)data, (void)err, (void)last;
	struct box_err why = *job->err;
	finish(job, NULL, &why);
}

/* The session goes, the files stay: they are the tenant's. */
static void clean_up(struct box_service_job *job, const struct box_err *why)
{
	struct box_value data = box_map_value();
	box_map_add(job->arena, &data, "session_id", box_cstr(job->session_id));
	job->err = box_arena_alloc(job->arena, sizeof(*job->err));
	*job->err = *why;
	job->phase = BOX_SERVICE_JOB_CLEAN;
	if (box_line_submit(job->service->line, "box_delete_session", &data, cleaned, job,
		    &job->seq_id, NULL) < 0) {
		finish(job, NULL, why);
	}
}

static void asked(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_service_job *job = arg;
	struct box_err why;
	(void)last;
	if (job->is_status) {
		struct box_value status = box_service_describe(
			job->service, job->arena, err ? NULL : data, err ? err->text : NULL);
		finish(job, &status, NULL);
		return;
	}
	if (err) {
		finish(job, NULL, err);
		return;
	}
	struct box_value result = box_service_build_result(job->service, job, data);
	int r = begin_walk(job, &why);
	if (r == 1) {
		job->answer = box_value_copy(job->arena, &result);
		job->phase = BOX_SERVICE_JOB_AFTER;
	} else if (r < 0) {
		clean_up(job, &why);
	} else {
		finish(job, &result, NULL);
	}
}

static int ask(struct box_service_job *job, struct box_err *err)
{
	const char *action = job->is_status ? "box_status"
		: job->create_only          ? "box_create_session"
					    : "box_exec";
	job->phase = BOX_SERVICE_JOB_ASKED;
	return box_line_submit(job->service->line, action, job->is_status ? NULL : &job->spec,
		asked, job, &job->seq_id, err);
}

/* What was found is good or not: the next phase. */
static void walked(struct box_service_job *job, const struct box_quota_walk_found *found)
{
	bool before = job->phase == BOX_SERVICE_JOB_BEFORE;
	struct box_err err;
	const char *verdict = box_quota_walk_verdict(job->arena, &job->quota, found,
		before ? "before execution" : "after execution", job->folder, job->session_id);
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
	} else if (ask(job, &err) < 0) {
		finish(job, NULL, &err);
	}
}

static void walk_on(struct box_service_job *job)
{
	static const struct box_quota_walk_found nothing;
	struct box_quota_walk_found found;
	struct box_err err;
	int r = box_quota_walk_step(job->walk, BOX_WORKSPACE_STEP_ENTRIES, &found, &err);
	if (r == 0) {
		walked(job, &found);
	} else if (r < 0 && !box_line_shares_filesystem(job->service->line)) {
		walked(job, &nothing); /* it is the runtime's to guard */
	} else if (r < 0 && job->phase == BOX_SERVICE_JOB_BEFORE) {
		finish(job, NULL, &err);
	} else if (r < 0) {
		clean_up(job, &err);
	}
}

static bool is_walking(const struct box_service_job *job)
{
	return job->phase == BOX_SERVICE_JOB_BEFORE || job->phase == BOX_SERVICE_JOB_AFTER;
}

bool box_service_has_local_work(const struct box_service *service)
{
	for (const struct box_service_job *job = service->jobs; job; job = job->next) {
		if (is_walking(job) || job->phase == BOX_SERVICE_JOB_TELL) {
			return true;
		}
	}
	return false;
}

/* One after the other: each level of a walk is an open fd, and whoever fills workspaces chooses how
 * deep they are. */
static struct box_service_job *pick_walk(struct box_service *service)
{
	struct box_service_job *first = NULL;
	for (struct box_service_job *job = service->jobs; job; job = job->next) {
		if (is_walking(job) && job->id == service->walking) {
			return job;
		}
		first = !first && is_walking(job) ? job : first;
	}
	service->walking = first ? first->id : 0;
	return first;
}

static struct box_service_job *pick_status(struct box_service *service)
{
	struct box_service_job *job = service->jobs;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is freed is out of the list */
	while (job && job->phase != BOX_SERVICE_JOB_TELL) {
		job = job->next;
	}
	return job;
}

void box_service_step_local(struct box_service *service)
{
	struct box_service_job *job;
	const int64_t last =
		service->last_id; /* those that a callback adds are for the next turn */
	while ((job = pick_status(service)) && job->id <= last) {
		const struct box_err *why = service->line ? box_line_why(service->line) : NULL;
		struct box_value status = box_service_describe(
			service, job->arena, NULL, why ? why->text : NULL);
		finish(job, &status, NULL);
	}
	job = pick_walk(service);
	if (job) {
		walk_on(job);
	}
}

/* --- beginning --- */

static struct box_service_job *job_new(
	struct box_service *service, box_client_answered *answered, void *arg)
{
	struct box_service_job *job = box_alloc(sizeof(*job));
	*job = (struct box_service_job){
		.service = service,
		.id = ++service->last_id,
		.arena = box_arena_new(),
		.answered = answered,
		.arg = arg,
	};
	struct box_service_job **at = &service->jobs;
	while (*at) {
		at = &(*at)->next;
	}
	*at = job;
	service->job_count++;
	return job;
}

/* With the new one among them. */
static int check_room(const struct box_service *service, struct box_err *err)
{
	return service->job_count <= BOX_SERVICE_JOBS_MAX
		? 0
		: box_err_set(err, BOX_ERR_BUSY, EBUSY, "%d runs are under way already",
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

/* The query's own number, which may be one. */
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
	struct box_service_job *job = job_new(service, answered, arg);
	job->create_only = run->create_only;
	job->query_id = read_query_id(job->arena, run->query);
	int r = check_room(service, &why);
	if (r == 0) {
		r = check_up(service, &why);
	}
	if (r == 0) {
		r = box_service_build_spec(service, run, job, &why);
	}
	if (r == 0) {
		job->phase = BOX_SERVICE_JOB_BEFORE;
		r = begin_walk(job, &why);
		r = r == 0 ? ask(job, &why) : r;
	}
	if (r < 0) {
		keep_error(service, &why, job->query_id);
		box_service_job_free(job);
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
	struct box_service_job *job = job_new(service, answered, arg);
	int r = check_room(service, err);
	if (r < 0) {
		box_service_job_free(job);
		return r;
	}
	job->is_status = true;
	if (check_up(service, NULL) < 0 || ask(job, NULL) < 0) {
		job->phase = BOX_SERVICE_JOB_TELL;
	}
	if (ret_id) {
		*ret_id = job->id;
	}
	return 0;
}

void box_service_cancel(struct box_service *service, int64_t id)
{
	struct box_service_job *job = service->jobs;
	while (job && job->id != id) {
		job = job->next;
	}
	if (!job) {
		return;
	}
	if (job->phase == BOX_SERVICE_JOB_CLEAN) {
		job->answered = NULL; /* that goes on to its end */
		return;
	}
	if (job->phase == BOX_SERVICE_JOB_ASKED) {
		box_line_cancel(service->line, job->seq_id);
	}
	box_service_job_free(job);
}
