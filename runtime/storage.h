/* Storage analysis: how much is in the folder and in the boxes of one workspace.
 *
 * The host makes a few measurements at a time for all requests together, in turns; the answer is built after the last
 * result. Boxes are measured from outside, so a busy session answers like any other; the host asks microVMs
 * themselves (worker/storage_measure.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"
#include "runtime/tenant.h"

struct box_storage_analysis;
struct box_arena;
struct box_runtime;

/* What a host can measure: a box, or a folder. */
struct box_storage_measure {
	uint64_t box;       /* 0: the folder */
	const char *path;   /* absolute */
	const char *below;  /* the measured part of it, relative */
	const char *tenant; /* the namespace of the requesting workspace */
};

struct box_storage_measured_part {
	bool exists;
	uint64_t size_bytes;
	uint64_t file_count;
	uint64_t error_count;
};

enum box_storage_folder_part {
	BOX_STORAGE_WHOLE,
	BOX_STORAGE_MCP,
	BOX_STORAGE_INBOX,
	BOX_STORAGE_OUTBOX,
	BOX_STORAGE_FOLDER_PARTS_
};

enum box_storage_box_part {
	BOX_STORAGE_WORKSPACE, /* if it is the box's own */
	BOX_STORAGE_CACHE,
	BOX_STORAGE_TEMP,
	BOX_STORAGE_BOX_PARTS_
};

struct box_storage_measured {
	int result; /* 0, or a negative errno: then there are no parts */
	struct box_storage_measured_part parts[BOX_STORAGE_FOLDER_PARTS_];
};

/* The contents of the answer. */
struct box_storage_report {
	const char *workspace; /* the tenant's folder; NULL: none */
	struct box_storage_measured_part folder[BOX_STORAGE_FOLDER_PARTS_];
	size_t session_count;
	size_t measured_count;
	size_t failed_count; /* boxes that could not be measured */
	struct box_storage_measured_part boxes[BOX_STORAGE_BOX_PARTS_];
	size_t managed_session_count; /* sessions with processes and a workspace of their own */
	struct box_storage_measured_part managed_workspaces;
	size_t managed_process_count;
};

/* The data of the answer. */
struct box_value box_storage_value(
	const struct box_storage_report *report, struct box_arena *arena);

/* The report is valid during the call. */
typedef void box_storage_done(void *arg, const struct box_storage_report *report);

/* Starts an analysis; `done` is called once, later, unless it is cancelled. NULL: there is nothing to measure, and
 * *ret_report is complete. */
struct box_storage_analysis *box_storage_analyse(struct box_runtime *runtime,
	const struct box_context *context, box_storage_done *done, void *arg,
	struct box_storage_report *ret_report);
void box_storage_cancel(struct box_storage_analysis *analysis);
