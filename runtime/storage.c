/* Collects the host's measurements, and builds the answer in the reference's form. */
#include "runtime/storage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fair_queue.h"
#include "base/limits.h"
#include "base/list.h"
#include "runtime/runtime.h"
#include "runtime/session/output.h"
#include "runtime/session/process.h"

struct box_storage_analysis {
	struct box_list links; /* in the runtime's list, while something is left to measure */
	struct box_runtime *runtime;
	struct box_arena *arena; /* its own */
	box_storage_done *done;  /* NULL: cancelled */
	void *arg;
	uint64_t give_up_ms;
	const char *folder; /* NULL: requested already */
	char below[sizeof("tenants/") + BOX_NAMESPACE_SIZE];
	char tenant[BOX_NAMESPACE_SIZE];
	const struct box_session_box *boxes;
	size_t box_next;
	size_t box_count;
	unsigned asked; /* pending measurements */
	struct box_storage_report report;
};

/* --- the answer --- */

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return b > INT64_MAX || a > INT64_MAX - b ? INT64_MAX : a + b;
}

static struct box_value number(uint64_t value)
{
	return box_int(value < INT64_MAX ? (int64_t)value : INT64_MAX);
}

struct entry {
	const char *key;
	const char *path;
	const char *parent_key; /* NULL: a root */
	const char *scope;
	const struct box_storage_measured_part *part;
	uint64_t error_count;
};

static void add_entry(struct box_arena *arena, struct box_value *list, const struct entry *entry)
{
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "key", box_cstr(entry->key));
	/* Our working folder, which it may begin with, can be called anything. */
	box_map_add(arena, &map, "path", box_text(box_output_repair(arena, box_str(entry->path))));
	box_map_add(arena, &map, "kind", box_cstr(entry->parent_key ? "detail" : "root"));
	box_map_add(arena, &map, "exists", box_bool(entry->part->exists));
	box_map_add(arena, &map, "size_bytes", number(entry->part->size_bytes));
	box_map_add(arena, &map, "file_count", number(entry->part->file_count));
	box_map_add(arena, &map, "error_count", number(entry->error_count));
	if (entry->parent_key) {
		box_map_add(arena, &map, "parent_key", box_cstr(entry->parent_key));
	}
	box_map_add(arena, &map, "scope", box_cstr(entry->scope));
	box_list_add(arena, list, map);
}

static void add_folders(const struct box_storage_report *report, struct box_arena *arena,
	struct box_value *list, uint64_t *total)
{
	static const struct {
		const char *key;
		const char *name;
	} rows[BOX_STORAGE_FOLDER_PARTS_] = {
		[BOX_STORAGE_WHOLE] = {"workspace", ""},
		[BOX_STORAGE_MCP] = {"mcp", "/.mcp"},
		[BOX_STORAGE_INBOX] = {"inbox", "/inbox"},
		[BOX_STORAGE_OUTBOX] = {"outbox", "/outbox"},
	};
	for (size_t i = 0; report->workspace && i < BOX_STORAGE_FOLDER_PARTS_; i++) {
		struct entry entry = {
			.key = rows[i].key,
			.path = box_arena_printf(arena, "%s%s", report->workspace, rows[i].name),
			.parent_key = i == BOX_STORAGE_WHOLE ? NULL : "workspace",
			.scope = "runtime_host",
			.part = &report->folder[i],
			.error_count = report->folder[i].error_count,
		};
		add_entry(arena, list, &entry);
	}
	if (report->workspace) {
		*total = add_capped(*total, report->folder[BOX_STORAGE_WHOLE].size_bytes);
	}
}

static void add_sessions(const struct box_storage_report *report, struct box_arena *arena,
	struct box_value *list, uint64_t *total)
{
	/* The wire's name for the cache, whatever HOME is. */
	static const struct {
		const char *key;
		const char *path;
	} rows[BOX_STORAGE_BOX_PARTS_] = {
		[BOX_STORAGE_WORKSPACE] = {"session_workspaces", "/workspace"},
		[BOX_STORAGE_CACHE] = {"session_caches", "/root/.cache"},
		[BOX_STORAGE_TEMP] = {"session_temp", "/tmp"},
	};
	for (size_t i = 0; report->session_count > 0 && i < BOX_STORAGE_BOX_PARTS_; i++) {
		struct entry entry = {
			.key = rows[i].key,
			.path = box_arena_printf(arena, "%s (%zu sandbox sessions)", rows[i].path,
				report->measured_count),
			.scope = "sandbox_sessions",
			.part = &report->boxes[i],
			.error_count = report->failed_count,
		};
		add_entry(arena, list, &entry);
		*total = add_capped(*total, report->boxes[i].size_bytes);
	}
	if (report->managed_session_count > 0) {
		struct entry entry = {
			.key = "managed_process_workspaces",
			.path = box_arena_printf(arena, "/workspace (%zu managed-process sessions)",
				report->managed_session_count),
			.parent_key = "session_workspaces",
			.scope = "sandbox_sessions",
			.part = &report->managed_workspaces,
			.error_count = report->failed_count,
		};
		add_entry(arena, list, &entry);
	}
}

struct box_value box_storage_value(const struct box_storage_report *report, struct box_arena *arena)
{
	struct box_value directories = box_list_value();
	struct box_value answer = box_map_value();
	uint64_t total = 0;
	add_folders(report, arena, &directories, &total);
	add_sessions(report, arena, &directories, &total);
	box_map_add(arena, &answer, "size_bytes", number(total));
	box_map_add(arena, &answer, "directories", directories);
	box_map_add(arena, &answer, "active_sessions", number(report->session_count));
	box_map_add(arena, &answer, "managed_processes", number(report->managed_process_count));
	return answer;
}

/* --- collecting --- */

static bool has_more(const struct box_storage_analysis *analysis)
{
	return analysis->folder || analysis->box_next < analysis->box_count;
}

static void analysis_free(struct box_storage_analysis *analysis)
{
	box_list_drop(&analysis->links);
	box_arena_free(analysis->arena);
}

static void finish_if_over(struct box_storage_analysis *analysis)
{
	if (analysis->asked > 0 || (analysis->done && has_more(analysis))) {
		return;
	}
	if (analysis->done) {
		analysis->done(analysis->arg, &analysis->report);
	}
	analysis_free(analysis);
}

static void ask_more(struct box_runtime *runtime);

static void answered(struct box_storage_analysis *analysis)
{
	struct box_runtime *runtime = analysis->runtime;
	analysis->asked--;
	runtime->measures_asked--;
	runtime->measures_of[box_fair_queue_bucket(analysis->tenant)]--;
	finish_if_over(analysis);
	ask_more(runtime);
}

/* A folder that a box may not have, or that does not exist, counts as none; one that could not be measured is an
 * error. */
static void folder_measured(void *arg, const struct box_storage_measured *measured)
{
	struct box_storage_analysis *analysis = arg;
	struct box_storage_report *report = &analysis->report;
	switch (measured->result) {
	case 0:
		memcpy(report->folder, measured->parts, sizeof(report->folder));
		break;
	case -ENOENT:
	case -ENOTDIR:
	case -EPERM:
	case -EXDEV:
		report->workspace = NULL;
		break;
	default:
		report->folder[BOX_STORAGE_WHOLE].error_count = 1;
		break;
	}
	answered(analysis);
}

static void add_part(
	struct box_storage_measured_part *sum, const struct box_storage_measured_part *part)
{
	sum->exists = sum->exists || part->exists;
	sum->size_bytes = add_capped(sum->size_bytes, part->size_bytes);
	sum->file_count = add_capped(sum->file_count, part->file_count);
}

static void box_storage_measured(struct box_storage_analysis *analysis,
	const struct box_storage_measured *measured, bool managed)
{
	struct box_storage_report *report = &analysis->report;
	if (measured->result < 0) {
		report->failed_count++;
	} else {
		report->measured_count++;
		for (size_t i = 0; i < BOX_STORAGE_BOX_PARTS_; i++) {
			add_part(&report->boxes[i], &measured->parts[i]);
		}
	}
	if (managed && measured->result == 0) {
		report->managed_session_count++;
		add_part(&report->managed_workspaces, &measured->parts[BOX_STORAGE_WORKSPACE]);
	}
	answered(analysis);
}

static void plain_box_measured(void *arg, const struct box_storage_measured *measured)
{
	box_storage_measured(arg, measured, false);
}

static void managed_box_measured(void *arg, const struct box_storage_measured *measured)
{
	box_storage_measured(arg, measured, true);
}

static void ask_next(struct box_storage_analysis *analysis)
{
	struct box_runtime *runtime = analysis->runtime;
	struct box_storage_measure what = {
		.path = analysis->folder, .below = analysis->below, .tenant = analysis->tenant};
	box_storage_measure_done *done = folder_measured;
	if (!analysis->folder) {
		const struct box_session_box *box = &analysis->boxes[analysis->box_next++];
		what.box = box->number;
		done = box->managed ? managed_box_measured : plain_box_measured;
	}
	analysis->folder = NULL;
	analysis->asked++;
	runtime->measures_asked++;
	runtime->measures_of[box_fair_queue_bucket(analysis->tenant)]++;
	runtime->host->measure(runtime->host_arg, &what, done, analysis);
}

/* The client does not wait for ever: what had no turn by then is not measured. */
static void give_up_rest(struct box_storage_analysis *analysis)
{
	if (analysis->folder) {
		analysis->folder = NULL;
		analysis->report.folder[BOX_STORAGE_WHOLE].error_count = 1;
	}
	analysis->report.failed_count += analysis->box_count - analysis->box_next;
	analysis->box_next = analysis->box_count;
}

/* The next analysis whose tenant has fewer measurements pending than the maximum. */
static struct box_storage_analysis *next_analysis(struct box_runtime *runtime)
{
	for (struct box_list *at = runtime->analyses.next; at != &runtime->analyses;
		at = at->next) {
		struct box_storage_analysis *analysis = BOX_CONTAINER_OF(
			at, struct box_storage_analysis, links);
		if (runtime->measures_of[box_fair_queue_bucket(analysis->tenant)] <
			BOX_MEASURES_MAX) {
			box_list_drop(&analysis->links);
			return analysis;
		}
	}
	return NULL;
}

/* Takes analyses in turn, so that one with many boxes does not delay the others. The host takes waiting measurements in
 * turn by tenant, so every tenant may have one waiting there. */
static void ask_more(struct box_runtime *runtime)
{
	struct box_storage_analysis *analysis;
	while (runtime->measures_asked < BOX_MEASURES_WAITING_MAX &&
		(analysis = next_analysis(runtime))) {
		if (box_clock_ms() >= analysis->give_up_ms) {
			give_up_rest(analysis);
			finish_if_over(analysis);
			continue;
		}
		ask_next(analysis);
		if (has_more(analysis)) {
			box_list_push(&runtime->analyses, &analysis->links);
		}
	}
}

struct box_storage_analysis *box_storage_analyse(struct box_runtime *runtime,
	const struct box_context *context, box_storage_done *done, void *arg,
	struct box_storage_report *ret_report)
{
	struct box_arena *arena = box_arena_new();
	struct box_storage_analysis *analysis = box_arena_alloc(arena, sizeof(*analysis));
	struct box_storage_report *report = &analysis->report;
	const char *workspace = runtime->config->default_workspace;
	box_list_init(&analysis->links);
	analysis->runtime = runtime;
	analysis->arena = arena;
	analysis->done = done;
	analysis->arg = arg;
	analysis->give_up_ms = box_clock_ms() + BOX_ANALYSIS_MS;
	box_tenant_namespace(context, analysis->tenant);
	if (workspace) {
		(void)snprintf(
			analysis->below, sizeof(analysis->below), "tenants/%s", analysis->tenant);
		analysis->folder = box_arena_strndup(arena, workspace, strlen(workspace));
		report->workspace = box_arena_printf(arena, "%s/%s",
			strcmp(workspace, "/") == 0 ? "" : workspace, analysis->below);
	}
	analysis->box_count = box_sessions_boxes(
		runtime->sessions, context, arena, &analysis->boxes, &report->session_count);
	struct box_process_counts processes = box_process_count(runtime->sessions, context);
	report->managed_process_count = processes.running + processes.completed;
	/* The others contain nothing that could be measured. */
	report->measured_count = report->session_count - analysis->box_count;
	if (!has_more(analysis)) {
		*ret_report = *report;
		analysis_free(analysis);
		return NULL;
	}
	box_list_push(&runtime->analyses, &analysis->links);
	ask_more(runtime);
	return analysis;
}

void box_storage_cancel(struct box_storage_analysis *analysis)
{
	analysis->done = NULL;
	box_list_drop(&analysis->links);
	finish_if_over(analysis);
}
