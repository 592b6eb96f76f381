/* Storage analysis: how the answer is computed, and how its numbers are gathered from a fake host.
 * The clock is the test's. */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "runtime/runtime.h"
#include "runtime/storage.h"
#include "tests/unit/lib/json_tree.h"
#include "tests/unit/lib/manual_backend.h"

#define NS "ws-108378aeed2d7cca4480d35e" /* of "inst" and "ws" */
#define ASKED_MAX 64

static time_t skipped_seconds;

/* In place of libc's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): theirs are reserved */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	long r = syscall(SYS_clock_gettime, clock, now);
	now->tv_sec += skipped_seconds;
	return (int)r;
}

static struct box_arena *arena;

/* --- the answer --- */

/* One expected entry of `directories`. */
struct row {
	const char *key;
	const char *path;
	const char *parent; /* NULL: a root */
	const char *scope;
	struct box_storage_measured_part part;
};

static const char *entry_text(const struct row *row)
{
	const char *parent = !row->parent
		? ""
		: box_arena_printf(arena, "\"parent_key\":\"%s\",", row->parent);
	return box_arena_printf(arena,
		"{\"key\":\"%s\",\"path\":\"%s\",\"kind\":\"%s\",\"exists\":%s,"
		"\"size_bytes\":%" PRIu64 ",\"file_count\":%" PRIu64 ",\"error_count\":%" PRIu64
		",%s\"scope\":\"%s\"}",
		row->key, row->path, row->parent ? "detail" : "root",
		row->part.exists ? "true" : "false", row->part.size_bytes, row->part.file_count,
		row->part.error_count, parent, row->scope);
}

static void expect_answer(const struct box_storage_report *report, const struct row *rows,
	size_t count, uint64_t size, size_t sessions, size_t processes)
{
	arena = box_arena_new();
	const char *list = "";
	for (size_t i = 0; i < count; i++) {
		list = box_arena_printf(
			arena, "%s%s%s", list, i > 0 ? "," : "", entry_text(&rows[i]));
	}
	const char *expected = box_arena_printf(arena,
		"{\"size_bytes\":%" PRIu64 ",\"directories\":[%s],\"active_sessions\":%zu,"
		"\"managed_processes\":%zu}",
		size, list, sessions, processes);
	struct box_value value = box_storage_value(report, arena);
	ASSERT_STR(json(arena, &value), expected);
	box_arena_free(arena);
}

TEST(an_empty_answer)
{
	struct box_storage_report report = {0};
	expect_answer(&report, NULL, 0, 0, 0, 0);
}

#define TOP "/r/default/tenants/NS"
#define HOST "runtime_host"
#define BOXES "sandbox_sessions"

/* A real answer of the reference. */
TEST(the_answer_of_the_reference)
{
	static const struct row rows[] = {
		{"workspace", TOP, NULL, HOST, {0}},
		{"mcp", TOP "/.mcp", "workspace", HOST, {0}},
		{"inbox", TOP "/inbox", "workspace", HOST, {0}},
		{"outbox", TOP "/outbox", "workspace", HOST, {0}},
		{"session_workspaces", "/workspace (1 sandbox sessions)", NULL, BOXES,
			{true, 16384, 0, 0}},
		{"session_caches", "/root/.cache (1 sandbox sessions)", NULL, BOXES, {0}},
		{"session_temp", "/tmp (1 sandbox sessions)", NULL, BOXES, {true, 4096, 0, 0}},
	};
	struct box_storage_report report = {
		.workspace = TOP,
		.session_count = 1,
		.measured_count = 1,
		.boxes = {{true, 16384, 0, 0}, {0}, {true, 4096, 0, 0}},
		.managed_process_count = 2,
	};
	expect_answer(&report, rows, COUNT(rows), 20480, 1, 2);
}

/* A message with invalid UTF-8 would cost a client its connection. */
TEST(a_folder_whose_name_is_no_utf8)
{
	static const struct row rows[] = {
		{"workspace", "/r\xef\xbf\xbd/NS", NULL, HOST, {0}},
		{"mcp", "/r\xef\xbf\xbd/NS/.mcp", "workspace", HOST, {0}},
		{"inbox", "/r\xef\xbf\xbd/NS/inbox", "workspace", HOST, {0}},
		{"outbox", "/r\xef\xbf\xbd/NS/outbox", "workspace", HOST, {0}},
	};
	struct box_storage_report report = {.workspace = "/r\xff/NS"};
	expect_answer(&report, rows, COUNT(rows), 0, 0, 0);
}

/* Details are already part of their roots; sessions that failed are in no sum and no count. */
TEST(sums_are_of_roots)
{
	static const struct row rows[] = {
		{"workspace", TOP, NULL, HOST, {true, 1000, 9, 3}},
		{"mcp", TOP "/.mcp", "workspace", HOST, {true, 100, 2, 1}},
		{"inbox", TOP "/inbox", "workspace", HOST, {true, 10, 1, 0}},
		{"outbox", TOP "/outbox", "workspace", HOST, {0}},
		{"session_workspaces", "/workspace (3 sandbox sessions)", NULL, BOXES,
			{true, 20000, 4, 2}},
		{"session_caches", "/root/.cache (3 sandbox sessions)", NULL, BOXES,
			{true, 300000, 5, 2}},
		{"session_temp", "/tmp (3 sandbox sessions)", NULL, BOXES, {true, 4000000, 6, 2}},
		{"managed_process_workspaces", "/workspace (1 managed-process sessions)",
			"session_workspaces", BOXES, {true, 20000, 4, 2}},
	};
	struct box_storage_report report = {
		.workspace = TOP,
		.folder = {{true, 1000, 9, 3}, {true, 100, 2, 1}, {true, 10, 1, 0}, {0}},
		.session_count = 5,
		.measured_count = 3,
		.failed_count = 2,
		.boxes = {{true, 20000, 4, 0}, {true, 300000, 5, 0}, {true, 4000000, 6, 0}},
		.managed_session_count = 1,
		.managed_workspaces = {true, 20000, 4, 0},
		.managed_process_count = 7,
	};
	expect_answer(&report, rows, COUNT(rows), 4321000, 5, 7);
}

TEST(sums_stay_numbers_of_the_wire)
{
	struct box_storage_report report = {
		.session_count = 1,
		.measured_count = 1,
		.boxes = {{true, INT64_MAX, 1, 0}, {true, UINT64_MAX, 1, 0}, {true, 1, 1, 0}},
	};
	arena = box_arena_new();
	struct box_value value = box_storage_value(&report, arena);
	ASSERT_INT(box_map_get(&value, "size_bytes")->integer, INT64_MAX);
	const struct box_value *list = box_map_get(&value, "directories");
	ASSERT_INT(list->count, 3);
	ASSERT_INT(box_map_get(&list->items[1], "size_bytes")->integer, INT64_MAX);
	box_arena_free(arena);
}

/* --- gathering --- */

/* Requests to the host, in order. */
static struct {
	size_t count;
	uint64_t box[ASKED_MAX];
	char path[BOX_PATH_MAX];
	char below[64];
	box_storage_measure_done *done[ASKED_MAX];
	void *arg[ASKED_MAX];
} asked;

static void host_measure(void *host, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg)
{
	(void)host;
	ASSERT(asked.count < ASKED_MAX);
	if (what->box == 0) {
		(void)snprintf(asked.path, sizeof(asked.path), "%s", what->path);
		(void)snprintf(asked.below, sizeof(asked.below), "%s", what->below);
	}
	asked.box[asked.count] = what->box;
	asked.done[asked.count] = done;
	asked.arg[asked.count++] = arg;
}

static void host_record(void *host, const struct box_value *change)
{
	(void)host;
	(void)change;
}

static const struct box_runtime_host host = {.measure = host_measure, .record = host_record};

static const struct box_context here = {{"inst", 4}, {"ws", 2}, 1};
static const struct box_context other = {{"inst", 4}, {"other", 5}, 1};
static const struct box_context newer = {{"inst", 4}, {"ws", 2}, 2};

static struct box_runtime *start(const char *config)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	struct box_err err = {0};
	arena = box_arena_new();
	struct box_value map = tree(arena, config);
	struct box_runtime *runtime = box_runtime_new(&setup, &host, NULL);
	ASSERT_INT(box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &map, &err), 0);
	runtime->session_rules.backend = &headless_backend;
	runtime->session_rules.backend_name = "headless";
	return runtime;
}

static void finish(struct box_runtime *runtime)
{
	ASSERT_INT(runtime->measures_asked, 0);
	ASSERT(box_list_empty(&runtime->analyses));
	box_sessions_remove_all(runtime->sessions);
	while (headless.pending) {
		headless_gone();
	}
	box_runtime_free(runtime);
	box_arena_free(arena);
}

static void opened(void *arg, struct box_session *session, const struct box_err *err)
{
	(void)arg;
	(void)session;
	(void)err;
}

/* A session whose box has this number in boxd. */
static void open_session(struct box_runtime *runtime, const struct box_context *context,
	const char *id, uint64_t box)
{
	static const struct box_spec spec = {
		.session_id = "s", .image = "i", .mount_path = "/workspace"};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	char physical[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str(id), physical, NULL), 0);
	ASSERT_INT(box_sessions_open(runtime->sessions, physical, context, &spec, opened, NULL,
			   &session, &op, NULL),
		1);
	headless.mark = box;
	struct box_backend_op *make = headless_find(HEADLESS_MAKE, NULL);
	make->box->mark = box;
	headless_made();
}

struct note {
	int calls;
	struct box_storage_report report;
	char workspace[256];
};

static void done(void *arg, const struct box_storage_report *report)
{
	struct note *note = arg;
	note->calls++;
	note->report = *report;
	(void)snprintf(note->workspace, sizeof(note->workspace), "%s",
		report->workspace ? report->workspace : "-");
}

static struct box_storage_analysis *begin_for(
	struct box_runtime *runtime, const struct box_context *context, struct note *note)
{
	struct box_storage_report report;
	struct box_storage_analysis *analysis = box_storage_analyse(
		runtime, context, done, note, &report);
	if (!analysis) {
		done(note, &report);
	}
	return analysis;
}

static struct box_storage_analysis *begin(struct box_runtime *runtime, struct note *note)
{
	return begin_for(runtime, &here, note);
}

static void answer(size_t which, const struct box_storage_measured *measured)
{
	ASSERT(which < asked.count);
	asked.done[which](asked.arg[which], measured);
}

static const struct box_storage_measured failed = {.result = -ETIMEDOUT};
static const struct box_storage_measured small = {
	.parts = {{true, 4096, 1, 0}, {true, 8192, 2, 0}, {true, 512, 3, 0}, {0}}};

TEST(nothing_to_measure)
{
	struct note note = {0};
	struct box_runtime *runtime = start("{}");
	open_session(runtime, &here, "a", 0);
	open_session(runtime, &newer, "b", 7);
	open_session(runtime, &other, "c", 8);
	ASSERT(begin(runtime, &note) == NULL);
	ASSERT_INT(note.calls, 1);
	ASSERT_INT(asked.count, 0);
	ASSERT_STR(note.workspace, "-");
	ASSERT_INT(note.report.session_count, 1);
	ASSERT_INT(note.report.measured_count, 1);
	ASSERT_INT(note.report.failed_count, 0);
	finish(runtime);
}

#define CONFIG "{\"local\":{\"host_root\":\"/srv/box\"}}"

TEST(folder_and_boxes)
{
	struct note note = {0};
	struct box_runtime *runtime = start(CONFIG);
	struct box_storage_measured folder = {
		.parts = {{true, 10, 1, 2}, {true, 3, 1, 1}, {0}, {true, 0, 0, 0}}};
	open_session(runtime, &here, "a", 11);
	open_session(runtime, &here, "b", 12);
	open_session(runtime, &here, "c", 13);
	open_session(runtime, &here, "fake", 0);
	ASSERT(begin(runtime, &note));
	ASSERT_INT(asked.count, BOX_MEASURES_MAX);
	ASSERT_STR(asked.path, "/srv/box/default");
	ASSERT_STR(asked.below, "tenants/" NS);
	ASSERT_INT(asked.box[0], 0);
	ASSERT_INT(asked.box[1], 11);
	ASSERT_INT(asked.box[2], 12);
	ASSERT_INT(asked.box[3], 13);
	answer(2, &failed);
	answer(3, &small);
	answer(0, &folder);
	ASSERT_INT(note.calls, 0);
	answer(1, &small);
	ASSERT_INT(note.calls, 1);
	ASSERT_STR(note.workspace, "/srv/box/default/tenants/" NS);
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): it is a copy */
	ASSERT_INT(memcmp(note.report.folder, folder.parts, sizeof(folder.parts)), 0);
	ASSERT_INT(note.report.session_count, 4);
	ASSERT_INT(note.report.measured_count, 3);
	ASSERT_INT(note.report.failed_count, 1);
	ASSERT_INT(note.report.boxes[BOX_STORAGE_WORKSPACE].size_bytes, 8192);
	ASSERT_INT(note.report.boxes[BOX_STORAGE_CACHE].size_bytes, 16384);
	ASSERT_INT(note.report.boxes[BOX_STORAGE_CACHE].file_count, 4);
	ASSERT_INT(note.report.boxes[BOX_STORAGE_TEMP].size_bytes, 1024);
	finish(runtime);
}

/* The answer about the folder when it could not be measured. */
TEST(folders_that_fail)
{
	static const struct {
		int result;
		bool usable;
	} rows[] = {{-ENOENT, false}, {-ENOTDIR, false}, {-EPERM, false}, {-EXDEV, false},
		{-ETIMEDOUT, true}, {-EIO, true}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct note note = {0};
		struct box_runtime *runtime = start(CONFIG);
		struct box_storage_measured measured = {.result = rows[i].result};
		asked.count = 0;
		ASSERT(begin(runtime, &note));
		answer(0, &measured);
		ASSERT_INT(note.calls, 1);
		ASSERT_INT(note.report.workspace != NULL, rows[i].usable);
		ASSERT_INT(note.report.folder[BOX_STORAGE_WHOLE].error_count, rows[i].usable);
		finish(runtime);
	}
}

/* At most so many at once for all, and the analyses take turns. */
TEST(turns)
{
	struct note notes[2] = {0};
	struct box_runtime *runtime = start("{}");
	for (unsigned i = 0; i < 6; i++) {
		char id[2] = {(char)('a' + i), '\0'};
		open_session(runtime, &here, id, 1 + i);
	}
	ASSERT(begin(runtime, &notes[0]));
	ASSERT(begin(runtime, &notes[1]));
	ASSERT_INT(asked.count, BOX_MEASURES_MAX);
	for (size_t next = 0; next < asked.count; next++) {
		ASSERT(runtime->measures_asked <= BOX_MEASURES_MAX);
		answer(next, &small);
	}
	static const uint64_t expected[] = {1, 2, 3, 4, 5, 1, 6, 2, 3, 4, 5, 6};
	ASSERT_INT(asked.count, COUNT(expected));
	for (size_t i = 0; i < COUNT(expected); i++) {
		ASSERT_INT(asked.box[i], expected[i]);
	}
	for (size_t i = 0; i < 2; i++) {
		ASSERT_INT(notes[i].calls, 1);
		ASSERT_INT(notes[i].report.measured_count, 6);
	}
	finish(runtime);
}

/* A workspace whose boxes are slow to measure does not delay another one. */
TEST(turns_of_workspaces)
{
	struct note notes[3] = {0};
	struct box_runtime *runtime = start("{}");
	for (unsigned i = 0; i < 6; i++) {
		char id[2] = {(char)('a' + i), '\0'};
		open_session(runtime, &here, id, 1 + i);
	}
	open_session(runtime, &other, "x", 99);
	ASSERT(begin(runtime, &notes[0]));
	ASSERT(begin(runtime, &notes[1]));
	ASSERT_INT(asked.count, BOX_MEASURES_MAX);
	ASSERT(begin_for(runtime, &other, &notes[2]));
	ASSERT_INT(asked.count, BOX_MEASURES_MAX + 1);
	ASSERT_INT(asked.box[BOX_MEASURES_MAX], 99);
	answer(BOX_MEASURES_MAX, &small);
	ASSERT_INT(notes[2].calls, 1);
	ASSERT_INT(notes[0].calls, 0);
	for (size_t next = 0; next < asked.count; next++) {
		if (next != BOX_MEASURES_MAX) {
			answer(next, &small);
		}
	}
	ASSERT_INT(notes[0].calls + notes[1].calls, 2);
	finish(runtime);
}

TEST(cancelled)
{
	struct note notes[3] = {0};
	struct box_runtime *runtime = start("{}");
	for (unsigned i = 0; i < 6; i++) {
		char id[2] = {(char)('a' + i), '\0'};
		open_session(runtime, &here, id, 1 + i);
	}
	struct box_storage_analysis *asking = begin(runtime, &notes[0]);
	struct box_storage_analysis *waiting = begin(runtime, &notes[1]);
	ASSERT(begin(runtime, &notes[2]));
	box_storage_cancel(waiting);
	box_storage_cancel(asking);
	ASSERT_INT(asked.count, 4);
	for (size_t next = 0; next < asked.count; next++) {
		answer(next, &small);
	}
	/* The four that were in flight, and the six of the one that was not cancelled. */
	ASSERT_INT(asked.count, 10);
	ASSERT_INT(notes[0].calls, 0);
	ASSERT_INT(notes[1].calls, 0);
	ASSERT_INT(notes[2].calls, 1);
	finish(runtime);
}

/* The client waits 60 s: measurements that have not started after 25 s are dropped. */
TEST(too_late)
{
	struct note note = {0};
	struct box_runtime *runtime = start("{}");
	for (unsigned i = 0; i < 9; i++) {
		char id[2] = {(char)('a' + i), '\0'};
		open_session(runtime, &here, id, 1 + i);
	}
	ASSERT(begin(runtime, &note));
	skipped_seconds = BOX_ANALYSIS_MS / 1000 - 1;
	answer(0, &small);
	ASSERT_INT(asked.count, 5);
	skipped_seconds = BOX_ANALYSIS_MS / 1000 + 1;
	answer(1, &small);
	ASSERT_INT(asked.count, 5);
	answer(2, &failed);
	answer(3, &small);
	ASSERT_INT(note.calls, 0);
	answer(4, &small);
	ASSERT_INT(note.calls, 1);
	ASSERT_INT(note.report.session_count, 9);
	ASSERT_INT(note.report.measured_count, 4);
	ASSERT_INT(note.report.failed_count, 5);
	finish(runtime);
}
