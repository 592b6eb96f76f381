/* The runtime as a whole over a host that waits for the test: layers of configuration, box_init,
 * admission, the record for a successor, and what it says of itself. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/runtime.h"
#include "tests/unit/headless.h"
#include "tests/unit/test.h"
#include "transport/json.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* What the runtime asked of its host. */
static struct {
	int folders;
	char path[BOX_PATH_MAX];
	enum box_folder_wish wish;
	box_folder_done *done[8];
	void *arg[8];
	int records;
	char *recorded[64];
} asked;

static struct box_arena *arena; /* of the test */

static const char *json(const struct box_value *value)
{
	struct box_buf out = box_buf(BOX_MIB);
	ASSERT_INT(box_json_encode(&out, value), 0);
	const char *text = box_arena_strndup(arena, out.bytes, out.len);
	box_buf_free(&out);
	return text;
}

static struct box_value tree(const char *text)
{
	struct box_value value = box_null();
	const char *why = NULL;
	char *copy = box_arena_strndup(arena, text, strlen(text));
	if (box_json_decode(arena, copy, strlen(copy), &value, &why) < 0) {
		TEST_FAIL("test input is no JSON: %s: %s", text, why);
	}
	return value;
}

static void host_folder(
	void *host, const char *path, enum box_folder_wish wish, box_folder_done *done, void *arg)
{
	(void)host;
	ASSERT(asked.folders < 8);
	(void)snprintf(asked.path, sizeof(asked.path), "%s", path);
	asked.wish = wish;
	asked.done[asked.folders] = done;
	asked.arg[asked.folders++] = arg;
}

static uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static void host_record(void *host, const struct box_value *change)
{
	(void)host;
	ASSERT(asked.records < 64);
	asked.recorded[asked.records++] = box_strdup(json(change));
}

static const struct box_host host_ops = {
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static struct box_runtime *start_with(const struct box_runtime_setup *setup)
{
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	arena = arena ? arena : box_arena_new();
	return box_runtime_new(setup, &host_ops, NULL);
}

static struct box_runtime *start(void)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	return start_with(&setup);
}

static void finish(struct box_runtime *runtime)
{
	box_runtime_free(runtime);
	for (int i = 0; i < asked.records; i++) {
		free(asked.recorded[i]);
	}
	asked.records = 0;
	box_arena_free(arena);
	arena = NULL;
}

static void configure(struct box_runtime *runtime, enum box_config_layer layer, const char *text)
{
	struct box_err err = {0};
	struct box_value map = tree(text);
	if (box_runtime_configure(runtime, layer, &map, &err) < 0) {
		TEST_FAIL("refused: %s: %s", text, err.text);
	}
}

struct note {
	int calls;
	bool failed;
	struct box_err err;
};

static void on_init(void *arg, const struct box_err *err)
{
	struct note *note = arg;
	note->calls++;
	note->failed = err != NULL;
	if (err) {
		note->err = *err;
	}
}

static int init(struct box_runtime *runtime, const char *text, struct note *note,
	struct box_init **ret_init)
{
	struct box_value map = tree(text);
	return box_runtime_init(runtime, &map, on_init, note, ret_init, &note->err);
}

static void init_now(struct box_runtime *runtime, const char *text)
{
	struct note note = {0};
	struct box_init *pending = NULL;
	if (init(runtime, text, &note, &pending) != 0) {
		TEST_FAIL("not done at once: %s: %s", text, note.err.text);
	}
}

static void folder_done(int which, int result)
{
	asked.done[which](asked.arg[which], result);
}

static const struct box_context place = {{"inst", 4}, {"ws", 2}, 1};

static const char *status(struct box_runtime *runtime)
{
	struct box_value value = box_runtime_status(runtime, &place, arena);
	return json(&value);
}

static const char *status_member(struct box_runtime *runtime, const char *name)
{
	struct box_value value = box_runtime_status(runtime, &place, arena);
	return json(box_map_get(&value, name));
}

/* --- layers --- */

TEST(layers_fold)
{
	struct box_runtime *runtime = start();
	configure(runtime, BOX_LAYER_FILE,
		"{\"limits\":{\"max_sessions\":5,\"max_managed_processes\":6},"
		"\"session_ttl_sec\":100,\"require_context\":true}");
	configure(runtime, BOX_LAYER_VARIABLE,
		"{\"limits\":{\"max_sessions\":7},\"session_ttl_sec\":80}");
	init_now(runtime, "{\"session_ttl_sec\":50,\"require_context\":false}");
	const struct box_config *config = runtime->config;
	ASSERT_INT(config->limits.max_sessions, 7);
	ASSERT_INT(config->limits.max_managed_processes, 6);
	ASSERT_INT(config->session_ttl_sec, 50);
	ASSERT(config->require_context); /* the operator's alone */
	ASSERT_INT(runtime->session_rules.max_sessions, 7);
	ASSERT_INT(runtime->session_rules.session_ttl_sec, 50);

	/* A reload of the file keeps what the others said. */
	configure(runtime, BOX_LAYER_FILE,
		"{\"limits\":{\"max_managed_processes\":9},\"session_ttl_sec\":10}");
	config = runtime->config;
	ASSERT_INT(config->limits.max_sessions, 7);
	ASSERT_INT(config->limits.max_managed_processes, 9);
	ASSERT_INT(config->session_ttl_sec, 50);
	ASSERT(!config->require_context);
	configure(runtime, BOX_LAYER_VARIABLE, "{}");
	ASSERT_INT(runtime->config->limits.max_sessions, 64);
	ASSERT_INT(runtime->session_rules.max_sessions, 64);
	finish(runtime);
}

TEST(inits_add_up)
{
	struct box_runtime *runtime = start();
	init_now(runtime, "{\"limits\":{\"max_sessions\":3},\"session_ttl_sec\":9}");
	init_now(runtime, "{\"limits\":{\"max_output_bytes\":5000},\"nonsense\":1}");
	init_now(runtime, "{}");
	for (int round = 0; round < 2; round++) {
		ASSERT_INT(runtime->config->limits.max_sessions, 3);
		ASSERT_INT(runtime->config->limits.max_output_bytes, 5000);
		ASSERT_INT(runtime->session_rules.max_output_bytes, 5000);
		ASSERT_INT(runtime->config->session_ttl_sec, 9);
		configure(runtime, BOX_LAYER_FILE, "{\"limits\":{\"max_sessions\":40}}");
	}
	ASSERT_INT(asked.records, 3);
	ASSERT_STR(asked.recorded[2],
		"{\"init\":{\"limits\":{\"max_sessions\":3,\"max_output_bytes\":5000},"
		"\"session_ttl_sec\":9}}");
	finish(runtime);
}

TEST(refused_leaves_everything)
{
	static const struct {
		const char *map;
		const char *text;
	} rows[] = {
		{"{\"session_ttl_sec\":7,\"limits\":{\"max_sessions\":\"x\"}}",
			"box.limits.max_sessions must be an integer"},
		{"{\"session_ttl_sec\":7,\"limits\":{\"max_sessions\":5001}}",
			"box.limits.max_sessions must be between 0 and 5000"},
		{"{\"session_ttl_sec\":-1}",
			"box.session_ttl_sec must be between 0 and 2147483647"},
		{"{\"backend\":7}", "box.backend must be a string"},
		{"[]", "box config must be an object"},
	};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_LAYER_FILE, "{\"limits\":{\"max_sessions\":5}}");
	init_now(runtime, "{\"session_ttl_sec\":50}");
	const char *before = status(runtime);
	const struct box_config *config = runtime->config;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct note note = {0};
		struct box_err err = {0};
		struct box_init *pending = NULL;
		ASSERT(init(runtime, rows[i].map, &note, &pending) < 0);
		ASSERT_INT(note.err.code, BOX_ERR_VALUE);
		ASSERT_STR(note.err.text, rows[i].text);
		struct box_value map = tree(rows[i].map);
		for (int layer = 0; layer < BOX_LAYERS_; layer++) {
			ASSERT(box_runtime_configure(
				       runtime, (enum box_config_layer)layer, &map, &err) < 0);
			ASSERT_STR(err.text, rows[i].text);
		}
		ASSERT_INT(note.calls, 0);
	}
	ASSERT(runtime->config == config);
	ASSERT_STR(status(runtime), before);
	ASSERT_INT(asked.records, 1);
	ASSERT_INT(asked.folders, 0);
	configure(runtime, BOX_LAYER_VARIABLE, "{}");
	ASSERT_STR(status(runtime), before);
	finish(runtime);
}

TEST(host_backend)
{
	static const struct {
		bool allowed;
		const char *text;
	} rows[] = {
		{false,
			"host backend requires local stdio control or WebSocket control protected "
			"by LANGBOT_BOX_CONTROL_TOKEN"},
		{true, "host backend is not supported"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct box_runtime_setup setup = {
			.working_folder = "/w", .host_backend_allowed = rows[i].allowed};
		struct box_runtime *runtime = start_with(&setup);
		struct note note = {0};
		struct box_err err = {0};
		struct box_init *pending = NULL;
		configure(runtime, BOX_LAYER_FILE, "{\"backend\":\"docker\"}");
		const char *before = status(runtime);
		ASSERT(init(runtime, "{\"backend\":\" host \"}", &note, &pending) < 0);
		ASSERT_INT(note.err.code, BOX_ERR_VALIDATION);
		ASSERT_STR(note.err.text, rows[i].text);
		struct box_value map = tree("{\"backend\":\"host\"}");
		ASSERT(box_runtime_configure(runtime, BOX_LAYER_VARIABLE, &map, &err) < 0);
		ASSERT_STR(err.text, rows[i].text);
		ASSERT_STR(runtime->config->backend, "docker");
		ASSERT_STR(status(runtime), before);
		finish(runtime);
	}
}

/* --- the default workspace --- */

#define LOCAL "{\"session_ttl_sec\":77,\"local\":{\"host_root\":\"/srv/box\"}}"
#define OUTSIDE                                                          \
	"{\"session_ttl_sec\":77,\"local\":{\"host_root\":\"/srv/box\"," \
	"\"default_workspace\":\"/else/where\",\"allowed_mount_roots\":[\"/srv/box\",\"/b\"]}}"

TEST(folder_made)
{
	struct box_runtime *runtime = start();
	struct note note = {0};
	struct box_init *pending = NULL;
	ASSERT_INT(init(runtime, LOCAL, &note, &pending), 1);
	ASSERT_STR(asked.path, "/srv/box/default");
	ASSERT_INT(asked.wish, BOX_FOLDER_MAKE);
	ASSERT_INT(runtime->config->session_ttl_sec, 300); /* not yet */
	ASSERT_INT(asked.records, 0);
	folder_done(0, 0);
	ASSERT_INT(note.calls, 1);
	ASSERT(!note.failed);
	ASSERT_INT(runtime->config->session_ttl_sec, 77);
	ASSERT_STR(runtime->config->default_workspace, "/srv/box/default");
	ASSERT_INT(asked.records, 1);
	finish(runtime);
}

TEST(folder_found)
{
	struct box_runtime *runtime = start();
	struct note note = {0};
	struct box_init *pending = NULL;
	ASSERT_INT(init(runtime, OUTSIDE, &note, &pending), 1);
	ASSERT_STR(asked.path, "/else/where");
	ASSERT_INT(asked.wish, BOX_FOLDER_LOOK);
	folder_done(0, 0);
	ASSERT_INT(note.calls, 1);
	ASSERT(!note.failed);
	ASSERT_STR(runtime->config->default_workspace, "/else/where");
	finish(runtime);
}

TEST(folder_refused)
{
	static const struct {
		const char *map;
		int result;
		enum box_code code;
		const char *text;
	} rows[] = {
		{OUTSIDE, -ENOENT, BOX_ERR_VALIDATION,
			"box.local.default_workspace is outside allowed_mount_roots: /srv/box, /b"},
		{LOCAL, -ENOTDIR, BOX_ERR_VALIDATION,
			"box.local.default_workspace must point to a directory on the Box runtime "
			"host"},
		{OUTSIDE, -ENOTDIR, BOX_ERR_VALIDATION,
			"box.local.default_workspace must point to a directory on the Box runtime "
			"host"},
		{LOCAL, -EPERM, BOX_ERR_VALIDATION,
			"box.local.default_workspace /srv/box/default is blocked for security"},
		{OUTSIDE, -EPERM, BOX_ERR_VALIDATION,
			"box.local.default_workspace /else/where is blocked for security"},
		{LOCAL, -EACCES, BOX_ERR_OS,
			"box.local.default_workspace /srv/box/default cannot be made: Permission "
			"denied"},
		{LOCAL, -ENOSPC, BOX_ERR_OS,
			"box.local.default_workspace /srv/box/default cannot be made: No space "
			"left on device"},
		{LOCAL, -EROFS, BOX_ERR_OS,
			"box.local.default_workspace /srv/box/default cannot be made: Read-only "
			"file system"},
		/* One that should have been made and was not is no success either. */
		{LOCAL, -ENOENT, BOX_ERR_OS,
			"box.local.default_workspace /srv/box/default cannot be made: No such file "
			"or directory"},
	};
	struct box_runtime *runtime = start();
	const char *before = status(runtime);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct note note = {0};
		struct box_init *pending = NULL;
		asked.folders = 0;
		ASSERT_INT(init(runtime, rows[i].map, &note, &pending), 1);
		folder_done(0, rows[i].result);
		ASSERT_INT(note.calls, 1);
		if (!note.failed) {
			TEST_FAIL("taken in spite of %s", strerror(-rows[i].result));
		}
		ASSERT_STR(note.err.text, rows[i].text);
		ASSERT_INT(note.err.code, rows[i].code);
		ASSERT_STR(status(runtime), before);
		ASSERT(runtime->config->default_workspace == NULL);
	}
	ASSERT_INT(asked.records, 0);
	finish(runtime);
}

TEST(interleaved)
{
	struct box_runtime *runtime = start();
	struct note a = {0};
	struct note b = {0};
	struct box_init *pending = NULL;
	ASSERT_INT(init(runtime, "{\"session_ttl_sec\":11,\"local\":{\"host_root\":\"/a\"}}", &a,
			   &pending),
		1);
	ASSERT_INT(
		init(runtime, "{\"limits\":{\"max_sessions\":2},\"local\":{\"host_root\":\"/b\"}}",
			&b, &pending),
		1);
	init_now(runtime, "{\"limits\":{\"max_managed_processes\":3}}");
	configure(runtime, BOX_LAYER_FILE, "{\"limits\":{\"max_completed_processes\":4}}");
	folder_done(1, 0);
	folder_done(0, 0);
	ASSERT_INT(a.calls + b.calls, 2);
	ASSERT(!a.failed && !b.failed);
	for (int round = 0; round < 2; round++) {
		const struct box_config *config = runtime->config;
		ASSERT_INT(config->session_ttl_sec, 11);
		ASSERT_INT(config->limits.max_sessions, 2);
		ASSERT_INT(config->limits.max_managed_processes, 3);
		ASSERT_INT(config->limits.max_completed_processes, 4);
		ASSERT_STR(config->host_root, "/a"); /* the one that was done last */
		configure(runtime, BOX_LAYER_VARIABLE, "{}");
	}
	finish(runtime);
}

TEST(cancelled_init)
{
	struct box_runtime *runtime = start();
	for (int result = 0; result >= -1; result--) {
		const char *before = status(runtime);
		struct note note = {0};
		struct box_init *pending = NULL;
		asked.folders = 0;
		ASSERT_INT(init(runtime, LOCAL, &note, &pending), 1);
		box_runtime_init_cancel(pending);
		folder_done(0, result);
		ASSERT_INT(note.calls, 0);
		ASSERT_INT(asked.records, 0);
		ASSERT_STR(status(runtime), before);
		ASSERT(runtime->config->default_workspace == NULL);
	}
	finish(runtime);
}

/* --- admission --- */

#define REQUIRED "{\"admission\":{\"required\":true}}"

static void expect_required(struct box_runtime *runtime)
{
	struct box_err err = {0};
	ASSERT(runtime->config->admission.required);
	ASSERT(box_runtime_require_ready(runtime, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_READINESS);
}

/* A reload that would turn it off is refused; one under a client's malformed section is not, as that
 * section keeps it on. */
static void expect_reload_keeps(struct box_runtime *runtime, const char *text)
{
	struct box_err err = {0};
	struct box_value map = tree(text);
	if (box_runtime_configure(runtime, BOX_LAYER_FILE, &map, &err) < 0) {
		ASSERT_INT(err.code, BOX_ERR_VALUE);
		ASSERT_STR(err.text, "box.admission cannot be turned off without a restart");
	} else {
		ASSERT(runtime->config->admission.error != NULL);
	}
	expect_required(runtime);
}

TEST(admission_stays)
{
	static const char *const attempts[] = {"{\"admission\":{\"required\":false}}",
		"{\"admission\":null}", "{\"admission\":{}}", "{\"admission\":7}",
		"{\"admission\":{\"required\":\"maybe\"}}", "{}", "{\"session_ttl_sec\":4}"};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_LAYER_FILE, REQUIRED);
	for (size_t i = 0; i < COUNT(attempts); i++) {
		struct note note = {0};
		struct box_init *pending = NULL;
		(void)init(runtime, attempts[i], &note, &pending);
		expect_required(runtime);
		configure(runtime, BOX_LAYER_FILE, REQUIRED);
		expect_required(runtime);
		expect_reload_keeps(runtime, "{}");
		expect_reload_keeps(runtime, "{\"admission\":{\"required\":false}}");
	}
	ASSERT_INT(runtime->config->session_ttl_sec, 4);
	finish(runtime);
}

TEST(admission_by_init)
{
	struct box_runtime *runtime = start();
	init_now(runtime, REQUIRED);
	expect_required(runtime);
	configure(runtime, BOX_LAYER_FILE, "{}");
	expect_required(runtime);
	configure(runtime, BOX_LAYER_VARIABLE, "{\"admission\":{\"required\":false}}");
	expect_required(runtime);
	init_now(runtime, "{\"admission\":{\"required\":false}}");
	expect_required(runtime);
	configure(runtime, BOX_LAYER_FILE, "{}");
	expect_required(runtime);
	finish(runtime);
}

/* --- the successor --- */

static void emitted(void *arg, const struct box_value *change)
{
	box_list_add(arena, arg, box_value_copy(arena, change));
}

static struct box_value dump(const struct box_runtime *runtime)
{
	struct box_value list = box_list_value();
	box_runtime_dump(runtime, emitted, &list);
	return list;
}

static void enter(struct box_runtime *runtime, const char *workspace, int64_t generation)
{
	struct box_context context = {box_str("inst"), box_str(workspace), generation};
	bool advanced = false;
	ASSERT_INT(box_runtime_enter(runtime, &context, &advanced, NULL), 0);
}

static void expect_same(struct box_runtime *a, struct box_runtime *b)
{
	uint64_t position = 0;
	struct box_context context;
	size_t count = 0;
	ASSERT_STR(status(b), status(a));
	ASSERT_STR(b->instance, a->instance);
	while (box_fence_next(a->fence, &position, &context)) {
		ASSERT_INT(box_fence_current(b->fence, &context), context.generation);
		count++;
	}
	position = 0;
	while (box_fence_next(b->fence, &position, &context)) {
		count--;
	}
	ASSERT_INT(count, 0);
	ASSERT_INT(b->config->admission.required, a->config->admission.required);
	ASSERT_STR(json(&b->config->map), json(&a->config->map));
}

#define OPERATORS "{\"limits\":{\"max_managed_processes\":5}}"

static struct box_runtime *lived(void)
{
	struct box_runtime *runtime = start();
	struct note note = {0};
	struct box_init *pending = NULL;
	configure(runtime, BOX_LAYER_FILE, OPERATORS);
	box_runtime_pin(runtime, box_str("inst"));
	box_runtime_pin(runtime, box_str("other")); /* the first one counts */
	init_now(runtime, "{\"limits\":{\"max_sessions\":3},\"backend\":\"docker\"}");
	ASSERT_INT(init(runtime, LOCAL, &note, &pending), 1);
	folder_done(0, 0);
	enter(runtime, "ws", 4);
	enter(runtime, "ws", 7);
	enter(runtime, "", 1);
	enter(runtime, "\xe4\xbd\xa0 with space", INT64_MAX);
	return runtime;
}

TEST(dump_and_replay)
{
	struct box_runtime *old = lived();
	struct box_runtime *fresh = start();
	configure(fresh, BOX_LAYER_FILE, OPERATORS);
	struct box_value changes = dump(old);
	ASSERT_INT(changes.count, 5); /* pin, init, three workspaces */
	int records = asked.records;
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	ASSERT_INT(asked.records, records); /* what is taken in is not news */
	ASSERT_INT(asked.folders, 1);       /* nor is a folder made again */
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

TEST(records_and_replay)
{
	struct box_runtime *old = lived();
	struct box_runtime *fresh = start();
	configure(fresh, BOX_LAYER_FILE, OPERATORS);
	ASSERT_STR(asked.recorded[0], "{\"pin\":\"inst\"}");
	ASSERT_STR(asked.recorded[3], "{\"fence\":[\"inst\",\"ws\",4]}");
	ASSERT_STR(asked.recorded[4], "{\"fence\":[\"inst\",\"ws\",7]}");
	ASSERT_INT(asked.records, 7);
	for (int i = 0; i < asked.records; i++) {
		struct box_value change = tree(asked.recorded[i]);
		box_runtime_replay(fresh, &change);
	}
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

/* An init that tried to turn admission off means the same after a reload and for a successor. */
TEST(refused_admission_and_replay)
{
	struct box_runtime *old = start();
	struct box_runtime *fresh = start();
	configure(old, BOX_LAYER_FILE, REQUIRED);
	configure(fresh, BOX_LAYER_FILE, REQUIRED);
	init_now(old, "{\"admission\":{\"required\":false},\"session_ttl_sec\":5}");
	const char *before = status(old);
	struct box_value changes = dump(old);
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	expect_required(fresh);
	ASSERT_STR(status(fresh), before);
	configure(old, BOX_LAYER_FILE, REQUIRED);
	ASSERT_STR(status(old), before);
	box_runtime_free(fresh);
	finish(old);
}

/* A limit that was lowered later makes nobody forget: the fence only moves forward. */
TEST(replay_keeps_the_whole_fence)
{
	struct box_runtime *old = start();
	struct box_runtime *fresh = start();
	box_runtime_pin(old, box_str("inst"));
	enter(old, "a", 5);
	enter(old, "b", 6);
	enter(old, "c", 7);
	init_now(old, "{\"limits\":{\"max_admission_records\":1}}");
	struct box_value changes = dump(old);
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

TEST(replay_of_garbage)
{
	static const char *const rows[] = {"null", "7", "\"pin\"", "[]", "{}", "[{\"pin\":\"x\"}]",
		"{\"pin\":7}", "{\"pin\":null}", "{\"pin\":[\"x\"]}", "{\"pin\":\"a\\u0000b\"}",
		"{\"init\":7}", "{\"init\":[]}", "{\"init\":{\"limits\":7}}",
		"{\"init\":{\"limits\":{\"max_sessions\":-1}}}",
		"{\"init\":{\"backend\":\"host\"}}", "{\"init\":{\"local\":\"x\"}}",
		"{\"fence\":7}", "{\"fence\":[]}", "{\"fence\":[\"a\",\"b\"]}",
		"{\"fence\":[\"a\",\"b\",\"1\"]}", "{\"fence\":[\"a\",\"b\",1.5]}",
		"{\"fence\":[1,2,3]}", "{\"fence\":[\"a\",\"b\",1,2]}",
		"{\"fence\":[\"a\\u0000\",\"b\",1]}", "{\"fence\":{\"a\":1,\"b\":2,\"c\":3}}",
		"{\"sessions\":[1]}"};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_LAYER_FILE, OPERATORS);
	const char *before = status(runtime);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value change = tree(rows[i]);
		box_runtime_replay(runtime, &change);
		if (runtime->instance || dump(runtime).count > 0) {
			TEST_FAIL("not ignored: %s", rows[i]);
		}
		ASSERT_STR(status(runtime), before);
	}
	/* All in one, and an instance that is there stays. */
	struct box_value change = tree(
		"{\"pin\":\"inst\",\"init\":{\"session_ttl_sec\":1},\"fence\":[\"i\",\"w\",3]}");
	box_runtime_replay(runtime, &change);
	change = tree("{\"pin\":\"other\",\"fence\":[\"i\",\"w\",2]}");
	box_runtime_replay(runtime, &change);
	ASSERT_STR(runtime->instance, "inst");
	ASSERT_INT(runtime->config->session_ttl_sec, 1);
	struct box_context context = {box_str("i"), box_str("w"), 0};
	ASSERT_INT(box_fence_current(runtime->fence, &context), 3);
	finish(runtime);
}

TEST(replay_turns_no_admission_off)
{
	struct box_runtime *runtime = start();
	configure(runtime, BOX_LAYER_FILE, REQUIRED);
	struct box_value change = tree("{\"init\":{\"admission\":{\"required\":false}}}");
	box_runtime_replay(runtime, &change);
	expect_required(runtime);
	finish(runtime);
}

/* --- the fence and sessions --- */

static void unused_opened(void *arg, struct box_session *session, const struct box_err *err)
{
	(void)arg;
	(void)session;
	(void)err;
}

static void use_headless(struct box_runtime *runtime)
{
	runtime->backend = &headless_backend;
	runtime->session_rules.backend = &headless_backend;
	runtime->session_rules.backend_name = "headless";
	runtime->session_rules.backend_missing = NULL;
}

static void open_session(
	struct box_runtime *runtime, const struct box_context *context, const struct box_spec *spec)
{
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	char id[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str("s"), id, NULL), 0);
	ASSERT_INT(box_sessions_open(runtime->sessions, id, context, spec, unused_opened, NULL,
			   &session, &op, NULL),
		1);
	headless_made();
}

TEST(entering)
{
	struct box_runtime *runtime = start();
	struct box_spec spec = {.session_id = "s", .image = "i", .mount_path = "/workspace"};
	struct box_context newer = place;
	struct box_err err = {0};
	bool advanced = false;
	newer.generation = 2;
	configure(runtime, BOX_LAYER_FILE, "{\"limits\":{\"max_admission_records\":1}}");
	use_headless(runtime);
	enter(runtime, "ws", 1);
	open_session(runtime, &place, &spec);
	enter(runtime, "ws", 1);
	ASSERT_INT(asked.records, 1);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	ASSERT_INT(box_runtime_enter(runtime, &newer, &advanced, &err), 0);
	ASSERT(advanced);
	ASSERT_INT(asked.records, 2);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0); /* the caller's to do */
	box_sessions_retire(runtime->sessions, &newer);
	headless_gone();
	ASSERT_INT(box_runtime_enter(runtime, &place, &advanced, &err), -EPERM);
	ASSERT_STR(err.text, "Stale Box placement generation");
	struct box_context other = {box_str("inst"), box_str("more"), 1};
	ASSERT_INT(box_runtime_enter(runtime, &other, &advanced, &err), -EPERM);
	ASSERT_STR(err.text,
		"Box generation fence capacity reached; "
		"refusing an unbounded Workspace allocation");
	ASSERT_INT(asked.records, 2);
	finish(runtime);
}

/* A backend in use is not changed under its sessions. */
TEST(sessions_keep_their_backend)
{
	struct box_runtime *runtime = start();
	struct box_spec spec = {.session_id = "s", .image = "i", .mount_path = "/workspace"};
	use_headless(runtime);
	runtime->session_rules.max_sessions = 2;
	open_session(runtime, &place, &spec);
	init_now(runtime, "{\"backend\":\"docker\",\"limits\":{\"max_sessions\":9}}");
	ASSERT(runtime->backend == &headless_backend);
	ASSERT_INT(runtime->session_rules.max_sessions, 9);
	box_sessions_remove_all(runtime->sessions);
	headless_gone();
	init_now(runtime, "{}");
	ASSERT(runtime->backend == NULL);
	finish(runtime);
}

/* --- what it says of itself --- */

TEST(status_and_capacity)
{
	const struct box_runtime_setup setup = {.working_folder = "/w", .wide_open = true};
	struct box_runtime *runtime = start_with(&setup);
	struct box_spec spec = {.session_id = "s", .image = "i", .mount_path = "/workspace"};
	struct box_context other = {box_str("inst"), box_str("other"), 1};
	configure(runtime, BOX_LAYER_FILE,
		"{\"backend\":\"docker\",\"limits\":{\"max_sessions\":3}}");
	ASSERT_STR(status_member(runtime, "backend"), "{\"name\":null,\"available\":false}");
	ASSERT_STR(status_member(runtime, "limits"),
		"{\"max_sessions\":3,\"max_managed_processes\":64,\"max_completed_processes\":256,"
		"\"max_admission_records\":100000,\"max_rpc_file_bytes\":20971520,"
		"\"max_output_bytes\":8388608,\"completed_process_retention_sec\":300}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":3,\"used\":0,\"remaining\":3}");
	ASSERT_STR(status_member(runtime, "warnings"),
		"[\"the control port is open beyond loopback without a token\"]");
	use_headless(runtime);
	open_session(runtime, &place, &spec);
	open_session(runtime, &other, &spec);
	ASSERT_STR(status_member(runtime, "backend"), "{\"name\":\"headless\",\"available\":true}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":3,\"used\":1,\"remaining\":1}");
	ASSERT_STR(status_member(runtime, "active_sessions"), "1");
	configure(runtime, BOX_LAYER_FILE, "{\"limits\":{\"max_sessions\":1}}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":1,\"used\":1,\"remaining\":0}");
	runtime->requests_under_way = 5;
	struct box_value resources = box_runtime_resources(runtime, arena);
	ASSERT_STR(json(&resources),
		"{\"sessions\":2,\"managed_processes\":0,"
		"\"completed_processes\":0,\"requests_under_way\":5}");
	box_sessions_remove_all(runtime->sessions);
	headless_gone();
	headless_gone();
	finish(runtime);
}

TEST(readiness_standard)
{
	struct box_runtime *runtime = start();
	struct box_err err = {0};
	bool ready = true;
	configure(runtime, BOX_LAYER_FILE, "{\"backend\":\"docker\"}");
	struct box_value map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(&map),
		box_arena_printf(arena,
			"{\"ready\":false,\"mode\":\"standard\",\"backend\":{\"name\":null,"
			"\"available\":false},\"checks\":{\"backend_available\":false},"
			"\"error\":%s}",
			json(&(struct box_value){.type = BOX_STR,
				.str = box_str(runtime->session_rules.backend_missing)})));
	ASSERT_INT(box_runtime_require_ready(runtime, &err), 0);
	use_headless(runtime);
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(ready);
	ASSERT_STR(json(&map),
		"{\"ready\":true,\"mode\":\"standard\",\"backend\":{\"name\":"
		"\"headless\",\"available\":true},\"checks\":"
		"{\"backend_available\":true}}");
	headless.unavailable = true;
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT(box_map_get(&map, "error") == NULL);
	finish(runtime);
}

#define CHECKS(configuration)                                                             \
	"{\"configuration\":" configuration ",\"required_backend\":false,"                \
	"\"workspace_mount\":false,\"backend_available\":false,\"cgroup_v2\":false,"      \
	"\"namespace_isolation\":false,\"mount_isolation\":false,"                        \
	"\"network_isolation\":false,\"hard_workspace_quota\":false,"                     \
	"\"hard_skill_storage_quota\":false,\"hard_read_only_mount_quota\":false,"        \
	"\"bounded_ephemeral_storage\":false,\"inode_quota\":false,\"session_cap\":true," \
	"\"managed_process_cap\":true}"

TEST(readiness_under_admission)
{
	const struct box_runtime_setup setup = {.working_folder = "/w", .soft_storage = true};
	struct box_runtime *runtime = start_with(&setup);
	struct box_err err = {0};
	bool ready = true;
	configure(runtime, BOX_LAYER_FILE,
		"{\"backend\":\"docker\",\"admission\":{\"required\":true}}");
	struct box_value map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(box_map_get(&map, "mode")), "\"grant_enforced\"");
	ASSERT_STR(json(box_map_get(&map, "checks")), CHECKS("true"));
	ASSERT_STR(json(box_map_get(&map, "unsafe_soft_storage_limits")), "true");
	ASSERT_INT(box_runtime_require_ready(runtime, &err), -EAGAIN);
	ASSERT_INT(err.code, BOX_ERR_READINESS);
	ASSERT_STR(err.text,
		"Managed sandbox isolation is not ready (failed checks: required_backend, "
		"workspace_mount, backend_available, cgroup_v2, namespace_isolation, "
		"mount_isolation, network_isolation, hard_workspace_quota, "
		"hard_skill_storage_quota, hard_read_only_mount_quota, "
		"bounded_ephemeral_storage, inode_quota)");
	struct box_value info = box_runtime_backend_info(runtime, arena);
	ASSERT_INT(info.count, 3);
	ASSERT_STR(json(box_map_get(&info, "name")), "null");
	ASSERT_STR(json(box_map_get(&info, "available")), "false");
	ASSERT_STR(json(box_map_get(&info, "readiness")), json(&map));
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":0,\"used\":0,\"remaining\":0}");

	/* A malformed section: required, and the reason is told. */
	configure(
		runtime, BOX_LAYER_FILE, "{\"backend\":\"docker\",\"admission\":{\"required\":7}}");
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(box_map_get(&map, "checks")), CHECKS("false"));
	ASSERT_STR(json(box_map_get(&map, "error")),
		"\"1 validation error for SandboxAdmissionPolicy\\nrequired\\n  Input should be a "
		"valid boolean, unable to interpret input\"");
	finish(runtime);
}
