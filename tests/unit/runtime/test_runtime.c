/* The runtime: layers of configuration, box_init and the folder it makes, admission. */
#include <errno.h>

#include "runtime/runtime.h"
#include "tests/unit/lib/runtime_fixture.h"

/* --- layers --- */

TEST(layers_fold)
{
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"limits\":{\"max_sessions\":5,\"max_managed_processes\":6},"
		"\"session_ttl_sec\":100,\"require_context\":true}");
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE,
		"{\"limits\":{\"max_sessions\":7},\"session_ttl_sec\":80}");
	init_now(runtime, "{\"session_ttl_sec\":50,\"require_context\":false}");
	const struct box_config *config = runtime->config;
	ASSERT_INT(config->limits.max_sessions, 7);
	ASSERT_INT(config->limits.max_managed_processes, 6);
	ASSERT_INT(config->session_ttl_sec, 50);
	ASSERT(config->require_context); /* only the operator can set it */
	ASSERT_INT(runtime->session_rules.max_sessions, 7);
	ASSERT_INT(runtime->session_rules.session_ttl_sec, 50);

	/* A reload of the file keeps the other layers. */
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"limits\":{\"max_managed_processes\":9},\"session_ttl_sec\":10}");
	config = runtime->config;
	ASSERT_INT(config->limits.max_sessions, 7);
	ASSERT_INT(config->limits.max_managed_processes, 9);
	ASSERT_INT(config->session_ttl_sec, 50);
	ASSERT(!config->require_context);
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, "{}");
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
		configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"limits\":{\"max_sessions\":40}}");
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
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"limits\":{\"max_sessions\":5}}");
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
		struct box_value map = tree(arena, rows[i].map);
		for (int layer = 0; layer < BOX_RUNTIME_LAYERS_; layer++) {
			ASSERT(box_runtime_configure(runtime, (enum box_runtime_layer_kind)layer,
				       &map, &err) < 0);
			ASSERT_STR(err.text, rows[i].text);
		}
		ASSERT_INT(note.calls, 0);
	}
	ASSERT(runtime->config == config);
	ASSERT_STR(status(runtime), before);
	ASSERT_INT(asked.records, 1);
	ASSERT_INT(asked.folders, 0);
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, "{}");
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
		configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"backend\":\"docker\"}");
		const char *before = status(runtime);
		ASSERT(init(runtime, "{\"backend\":\" host \"}", &note, &pending) < 0);
		ASSERT_INT(note.err.code, BOX_ERR_VALIDATION);
		ASSERT_STR(note.err.text, rows[i].text);
		struct box_value map = tree(arena, "{\"backend\":\"host\"}");
		ASSERT(box_runtime_configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, &map, &err) < 0);
		ASSERT_STR(err.text, rows[i].text);
		ASSERT_STR(runtime->config->backend, "docker");
		ASSERT_STR(status(runtime), before);
		finish(runtime);
	}
}

/* --- the default workspace --- */

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
	ASSERT_INT(asked.wish, BOX_RUNTIME_FOLDER_MAKE);
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
	ASSERT_INT(asked.wish, BOX_RUNTIME_FOLDER_CHECK);
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
		/* A folder that should exist and does not is no success, either. */
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
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"limits\":{\"max_completed_processes\":4}}");
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
		ASSERT_STR(config->host_root, "/a"); /* the one that finished last */
		configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, "{}");
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

/* A reload that would turn it off is refused, unless a client's malformed section keeps it on. */
static void expect_reload_keeps(struct box_runtime *runtime, const char *text)
{
	struct box_err err = {0};
	struct box_value map = tree(arena, text);
	if (box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &map, &err) < 0) {
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
	configure(runtime, BOX_RUNTIME_LAYER_FILE, REQUIRED);
	for (size_t i = 0; i < COUNT(attempts); i++) {
		struct note note = {0};
		struct box_init *pending = NULL;
		(void)init(runtime, attempts[i], &note, &pending);
		expect_required(runtime);
		configure(runtime, BOX_RUNTIME_LAYER_FILE, REQUIRED);
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
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{}");
	expect_required(runtime);
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, "{\"admission\":{\"required\":false}}");
	expect_required(runtime);
	init_now(runtime, "{\"admission\":{\"required\":false}}");
	expect_required(runtime);
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{}");
	expect_required(runtime);
	finish(runtime);
}
