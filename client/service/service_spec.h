/* Builds what is sent to the runtime for a run, and the caller's answer. Pure, except that folders are checked
 * if both sides share a file system. For service.c. */
#pragma once

#include "client/service.h"
#include "client/service/quota_walk.h"
#include "client/service/service_config.h"

struct box_service_spec {
	struct box_value spec;
	struct box_value notes; /* a list of texts: what was requested and is not done */
	const char *session_id;
	const char *folder; /* the folder that is measured against the quota, or NULL */
	struct box_quota_walk_limits quota;
};

/* In the arena. `line` is NULL when the service is disabled. */
int box_service_spec_build(const struct box_service_config *config, const struct box_line *line,
	const struct box_service_run *run, struct box_arena *arena,
	struct box_service_spec *ret_spec, struct box_err *err);

/* The caller's answer. `is_exec`: it is the answer of a command, whose output is cut to chars_max. */
struct box_value box_service_spec_result(struct box_arena *arena, const struct box_value *notes,
	bool is_exec, size_t chars_max, const struct box_value *answer);
