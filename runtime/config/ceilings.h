/* Limits for one spec, and for one workspace, of what all workspaces share.
 *
 * Pure: the operator's limits and the size of the host go in, plain numbers come out, and specs are checked against
 * them. A limit that the operator has not written follows from the host or from the limit for all workspaces together,
 * so that no single workspace can take everything.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct box_limits;
struct box_process_spec;
struct box_spec;
struct box_value;

/* What the host has; 0: not known. */
struct box_ceilings_host_size {
	int64_t memory_mb;
	int64_t cpus;
};

/* 0: no limit. */
struct box_ceilings {
	/* of one spec */
	int64_t memory_mb;
	int64_t cpus;
	int64_t pids;
	int64_t timeout_sec;
	/* of one workspace */
	int64_t workspace_sessions;
	int64_t workspace_processes;
	int64_t workspace_memory_mb;
	int64_t workspace_artifact_mb;
	/* of all boxes together */
	int64_t promised_memory_mb;
};

struct box_ceilings box_ceilings_from_limits(
	const struct box_limits *limits, const struct box_ceilings_host_size *host);

/* The limits in force: limits that were not configured are derived from others; negative means no
 * limit. */
struct box_limits box_ceilings_limits_in_force(
	const struct box_ceilings *ceilings, const struct box_limits *limits);

/* The share of one workspace in the memory for artifacts: all but the size of the largest possible artifact, or half
 * of it when there is memory for less than two of these. */
int64_t box_ceilings_artifact_share(int64_t all_mb);

/* The default share of one workspace: all but an eighth, rounded up. */
int64_t box_ceilings_share(int64_t all);

/* Lowers a timeout to the limit if it was not set (`data` is the spec as received) or means "none". */
void box_ceilings_clamp_timeout(
	const struct box_ceilings *ceilings, const struct box_value *data, struct box_spec *spec);
/* 0, or -ERANGE with BOX_ERR_VALIDATION and the name of the limit. */
int box_ceilings_check_spec(
	const struct box_ceilings *ceilings, const struct box_spec *spec, struct box_err *err);
int box_ceilings_check_process(const struct box_ceilings *ceilings,
	const struct box_process_spec *spec, struct box_err *err);

/* What exists already when a box is to be made. */
struct box_ceilings_usage {
	int64_t workspace_sessions;
	int64_t workspace_memory_mb;
	int64_t memory_mb; /* of all workspaces */
};

/* Whether a box with this much memory may be added: 0, or -ENOSPC with BOX_ERR_CAPACITY. */
int box_ceilings_check_box(const struct box_ceilings *ceilings,
	const struct box_ceilings_usage *use, int64_t memory_mb, struct box_err *err);
/* Whether one more managed process may be added. */
int box_ceilings_check_processes(
	const struct box_ceilings *ceilings, int64_t workspace_processes, struct box_err *err);
