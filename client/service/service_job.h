/* The inside of a service, for service.c, service_run.c and service_build.c. */
#pragma once

#include "client/service.h"
#include "client/service/error_ring.h"
#include "client/service/quota_walk.h"
#include "client/service/service_config.h"

enum box_service_job_phase {
	BOX_SERVICE_JOB_TELL,   /* a status that needs no runtime, told with the next step */
	BOX_SERVICE_JOB_BEFORE, /* the workspace is measured */
	BOX_SERVICE_JOB_ASKED,  /* the runtime has it */
	BOX_SERVICE_JOB_AFTER,  /* the workspace is measured again */
	BOX_SERVICE_JOB_CLEAN,  /* it was too much: the session is removed */
};

struct box_service_job {
	struct box_service_job *next; /* in the order of their numbers */
	struct box_service *service;
	int64_t id;
	struct box_arena *arena;
	enum box_service_job_phase phase;
	bool is_status;
	bool create_only;
	struct box_value spec;
	struct box_value notes;
	struct box_value answer;
	const char *session_id;
	const char *folder; /* that is measured, or NULL */
	struct box_str query_id;
	struct box_quota_walk_limits quota;
	struct box_quota_walk *walk;
	struct box_err *err; /* CLEAN: what is told when that is done */
	int64_t seq_id;      /* on the line */
	box_client_answered *answered;
	void *arg;
};

struct box_service {
	struct box_arena *arena; /* of the configuration */
	struct box_service_config config;
	struct box_line *line; /* NULL when disabled */
	struct box_error_ring errors;
	struct box_service_job *jobs;
	size_t job_count;
	int64_t last_id;
	int64_t walking; /* whose walk goes on */
};

/* The spec of a run, in the job's arena; fills session_id, folder and quota too. */
int box_service_build_spec(struct box_service *service, const struct box_service_run *run,
	struct box_service_job *job, struct box_err *err);

/* What the caller gets of the runtime's answer. */
struct box_value box_service_build_result(const struct box_service *service,
	struct box_service_job *job, const struct box_value *answer);

/* How the service is, with the runtime's answer to box_status, or without. */
struct box_value box_service_describe(const struct box_service *service, struct box_arena *arena,
	const struct box_value *runtime, const char *why);

/* What needs no runtime: states that are to be told, and one piece of one walk. */
void box_service_step_local(struct box_service *service);
/* Whether there is more of that. */
bool box_service_has_local_work(const struct box_service *service);
/* Takes it out of the list and frees it. */
void box_service_job_free(struct box_service_job *job);
