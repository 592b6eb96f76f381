/* Limits that follow from others when they are not set, and the checks against them. */
#include "runtime/config/ceilings.h"

#include <errno.h>
#include <math.h>

#include "base/limits.h"
#include "base/value.h"
#include "runtime/config/config.h"
#include "runtime/spec/spec.h"

#define SHARE_PARTS 8 /* one workspace gets all but the last of these parts */

int64_t box_ceilings_share(int64_t all)
{
	return all - all / SHARE_PARTS;
}

int64_t box_ceilings_artifact_share(int64_t all_mb)
{
	const int64_t one_mb = (int64_t)(BOX_ARTIFACT_BYTES_MAX / BOX_MIB);
	return all_mb >= 2 * one_mb ? all_mb - one_mb : all_mb - all_mb / 2;
}

static int64_t at_least(int64_t value, int64_t min)
{
	return value > 0 && value < min ? min : value;
}

static int64_t set_or(int64_t set, int64_t otherwise)
{
	return set > 0 ? set : otherwise;
}

struct box_ceilings box_ceilings_from_limits(
	const struct box_limits *limits, const struct box_ceilings_host_size *host)
{
	/* On a small host the usual profiles still fit: more memory may be promised to boxes than there is,
	 * and the reserve limits what they really take. */
	int64_t host_mb = at_least(host->memory_mb, BOX_CEILING_MEMORY_MB_MIN);
	int64_t host_cpus = at_least(host->cpus, BOX_CEILING_CPUS_MIN);
	return (struct box_ceilings){
		.memory_mb = set_or(limits->max_memory_mb, host_mb),
		.cpus = set_or(limits->max_cpus, host_cpus),
		.pids = limits->max_pids,
		.timeout_sec = limits->max_timeout_sec,
		.workspace_sessions = set_or(limits->max_sessions_per_workspace,
			box_ceilings_share(limits->max_sessions)),
		.workspace_processes = set_or(limits->max_processes_per_workspace,
			box_ceilings_share(limits->max_managed_processes)),
		.workspace_memory_mb = set_or(limits->max_memory_mb_per_workspace,
			box_ceilings_share(limits->max_promised_memory_mb)),
		.workspace_artifact_mb = set_or(limits->max_artifact_memory_mb_per_workspace,
			box_ceilings_artifact_share(limits->max_artifact_memory_mb)),
		.promised_memory_mb = limits->max_promised_memory_mb,
	};
}

static int64_t or_negative(int64_t ceiling)
{
	return ceiling > 0 ? ceiling : -1;
}

struct box_limits box_ceilings_limits_in_force(
	const struct box_ceilings *ceilings, const struct box_limits *limits)
{
	struct box_limits in_force = *limits;
	in_force.max_memory_mb = or_negative(ceilings->memory_mb);
	in_force.max_cpus = or_negative(ceilings->cpus);
	in_force.max_pids = or_negative(ceilings->pids);
	in_force.max_timeout_sec = or_negative(ceilings->timeout_sec);
	in_force.max_sessions_per_workspace = ceilings->workspace_sessions;
	in_force.max_processes_per_workspace = ceilings->workspace_processes;
	in_force.max_memory_mb_per_workspace = or_negative(ceilings->workspace_memory_mb);
	in_force.max_promised_memory_mb = or_negative(ceilings->promised_memory_mb);
	in_force.max_artifact_memory_mb_per_workspace = ceilings->workspace_artifact_mb;
	return in_force;
}

static int check(
	const char *what, int64_t asked, const char *limit, int64_t max, struct box_err *err)
{
	if (max == 0 || asked <= max) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_VALIDATION, ERANGE,
		"%s %lld is above this runtime's limits.%s, %lld: ask for less, or have the "
		"operator raise it",
		what, (long long)asked, limit, (long long)max);
}

static int64_t whole(double cpus)
{
	const double max = 1e15;
	return (int64_t)(cpus < max ? ceil(cpus) : max);
}

void box_ceilings_clamp_timeout(
	const struct box_ceilings *ceilings, const struct box_value *data, struct box_spec *spec)
{
	const struct box_value *asked = box_map_get(data, "timeout_sec");
	bool is_set = asked && asked->type != BOX_NULL && spec->timeout_sec < BOX_TIMEOUT_NONE_SEC;
	if (!is_set && ceilings->timeout_sec > 0 && spec->timeout_sec > ceilings->timeout_sec) {
		spec->timeout_sec = ceilings->timeout_sec;
	}
}

int box_ceilings_check_spec(
	const struct box_ceilings *ceilings, const struct box_spec *spec, struct box_err *err)
{
	int r = check("memory_mb", spec->memory_mb, "max_memory_mb", ceilings->memory_mb, err);
	if (r == 0) {
		r = check("cpus", whole(spec->cpus), "max_cpus", ceilings->cpus, err);
	}
	if (r == 0) {
		r = check("pids_limit", spec->pids_limit, "max_pids", ceilings->pids, err);
	}
	if (r == 0) {
		r = check("timeout_sec", spec->timeout_sec, "max_timeout_sec",
			ceilings->timeout_sec, err);
	}
	return r;
}

int box_ceilings_check_process(const struct box_ceilings *ceilings,
	const struct box_process_spec *spec, struct box_err *err)
{
	return check("memory_mb", spec->memory_mb, "max_memory_mb", ceilings->memory_mb, err);
}

static bool is_above(int64_t has, int64_t more, int64_t max)
{
	return max > 0 && (has > max || more > max - has);
}

int box_ceilings_check_box(const struct box_ceilings *ceilings,
	const struct box_ceilings_usage *use, int64_t memory_mb, struct box_err *err)
{
	if (is_above(use->workspace_sessions, 1, ceilings->workspace_sessions)) {
		return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
			"Box session capacity of this workspace reached "
			"(limits.max_sessions_per_workspace %lld): remove a session",
			(long long)ceilings->workspace_sessions);
	}
	if (is_above(use->workspace_memory_mb, memory_mb, ceilings->workspace_memory_mb)) {
		return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
			"memory_mb %lld does not fit: the boxes of this workspace were promised "
			"%lld MB of limits.max_memory_mb_per_workspace %lld; remove a session, or "
			"ask for less",
			(long long)memory_mb, (long long)use->workspace_memory_mb,
			(long long)ceilings->workspace_memory_mb);
	}
	if (is_above(use->memory_mb, memory_mb, ceilings->promised_memory_mb)) {
		return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
			"memory_mb %lld does not fit: boxes were promised %lld MB of "
			"limits.max_promised_memory_mb %lld; wait until one is removed, or ask for "
			"less",
			(long long)memory_mb, (long long)use->memory_mb,
			(long long)ceilings->promised_memory_mb);
	}
	return 0;
}

int box_ceilings_check_processes(
	const struct box_ceilings *ceilings, int64_t workspace_processes, struct box_err *err)
{
	if (!is_above(workspace_processes, 1, ceilings->workspace_processes)) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
		"Box managed process capacity of this workspace reached "
		"(limits.max_processes_per_workspace %lld): stop one",
		(long long)ceilings->workspace_processes);
}
