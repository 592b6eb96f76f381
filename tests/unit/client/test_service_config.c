/* The service's part of the `box` map: valid values, defaults and refusals. */
#include <errno.h>

#include "base/buf.h"
#include "base/macros.h"
#include "client/service/service_config.h"
#include "tests/unit/lib/json_tree.h"

static struct box_service_config read_config(struct box_arena *arena, const char *text)
{
	struct box_value map = tree(arena, text);
	struct box_service_config config;
	struct box_err err;
	if (box_service_config_read(arena, &map, "/srv/bot", &config, &err) < 0) {
		TEST_FAIL("%s: %s", text, err.text);
	}
	return config;
}

TEST(nothing_set)
{
	struct box_arena *arena = box_arena_new();
	struct box_service_config config;
	struct box_err err;
	ASSERT_INT(box_service_config_read(arena, NULL, "/srv/bot", &config, &err), 0);
	ASSERT(config.enabled);
	ASSERT_STR(config.profile->name, "default");
	ASSERT(!config.default_workspace && !config.host_root && !config.mount_roots[0]);
	ASSERT(!config.endpoint && !config.forced_session_template && !config.session_template);
	ASSERT_INT(config.defaults.count, 0);
	ASSERT_INT(config.entries_max, 100000);
	ASSERT_INT(config.output_chars, 4000);
	box_arena_free(arena);
}

/* LangBot's default configuration. */
TEST(langbots_own_map)
{
	struct box_arena *arena = box_arena_new();
	struct box_service_config config = read_config(arena,
		"{\"enabled\":true,\"backend\":\"local\",\"runtime\":{\"endpoint\":\"ws://box:1\"},"
		"\"limits\":{\"max_sessions\":64,\"max_workspace_entries\":5000000},\"local\":{"
		"\"profile\":\"default\",\"image\":\"\",\"host_root\":\"./data/box\","
		"\"default_workspace\":\"\",\"allowed_mount_roots\":[\"./data/box\",\"/tmp\"],"
		"\"workspace_quota_mb\":null},\"default_memory_mb\":1536,"
		"\"docker\":{\"cpu_limit_enabled\":true}}");
	ASSERT_STR(config.host_root, "/srv/bot/data/box");
	ASSERT_STR(config.default_workspace, "/srv/bot/data/box/default");
	ASSERT_STR(config.mount_roots[0], "/srv/bot/data/box");
	ASSERT_STR(config.mount_roots[1], "/tmp");
	ASSERT(config.mount_roots[2] == NULL);
	ASSERT_STR(config.endpoint, "ws://box:1");
	ASSERT_INT(config.entries_max, 1000000);
	ASSERT_INT(config.defaults.count, 0);
	/* The endpoint of the runtime is not sent to the runtime. */
	ASSERT(box_map_get(&config.init, "runtime") == NULL);
	ASSERT(box_map_get(&config.init, "local") != NULL);
	box_arena_free(arena);
}

/* LangBot's own member for one sandbox scope, in its whole configuration and in its section. */
TEST(langbots_forced_template)
{
	static const struct {
		const char *text;
		const char *forced;
	} rows[] = {
		{"{\"box\":{\"local\":{\"image\":\"i\"}},\"system\":{\"limitation\":{"
		 "\"force_box_session_id_template\":\" {global} \"}},\"api\":{\"port\":1}}",
			"{global}"},
		{"{\"local\":{\"image\":\"i\",\"forced_session_template\":\"mine\"},\"system\":{"
		 "\"limitation\":{\"force_box_session_id_template\":\"x\"}}}",
			"x"},
		{"{\"local\":{\"image\":\"i\",\"forced_session_template\":\"mine\"},\"system\":{"
		 "\"limitation\":{\"force_box_session_id_template\":\"  \"}}}",
			"mine"},
		{"{\"local\":{\"image\":\"i\"},\"system\":{\"limitation\":{"
		 "\"force_box_session_id_template\":null}}}",
			NULL},
		{"{\"box\":{\"local\":{\"image\":\"i\"}},\"system\":{}}", NULL},
		{"{\"box\":{\"local\":{\"image\":\"i\"}},\"system\":null}", NULL},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_service_config config = read_config(arena, rows[i].text);
		ASSERT(!rows[i].forced == !config.forced_session_template);
		if (rows[i].forced) {
			ASSERT_STR(config.forced_session_template, rows[i].forced);
		}
		ASSERT_INT(config.defaults.count, 1);
		ASSERT_INT(config.init.count, 1); /* only its section is sent to the runtime */
		box_arena_free(arena);
	}
}

TEST(all_of_it)
{
	struct box_arena *arena = box_arena_new();
	struct box_service_config config = read_config(arena,
		"{\"local\":{\"profile\":\"mine\",\"profiles\":{\"mine\":{\"memory_mb\":64}},"
		"\"image\":\" python \",\"workspace_quota_mb\":\"12\",\"host_root\":\"/h\","
		"\"default_workspace\":\"w\",\"session_template\":\"{sender_id}\","
		"\"forced_session_template\":\"global\",\"output_chars\":100}}");
	ASSERT_INT(config.profile->memory_mb, 64);
	ASSERT(box_str_eq(box_map_get(&config.defaults, "image")->str, "python"));
	ASSERT_INT(box_map_get(&config.defaults, "workspace_quota_mb")->integer, 12);
	ASSERT_STR(config.default_workspace, "/h/w");
	ASSERT_STR(config.mount_roots[0], "/h");
	ASSERT_STR(config.session_template, "{sender_id}");
	ASSERT_STR(config.forced_session_template, "global");
	ASSERT_INT(config.output_chars, 100);
	box_arena_free(arena);
}

TEST(enabled_in_every_form)
{
	static const struct {
		const char *text;
		bool enabled;
	} rows[] = {{"true", true}, {"false", false}, {"\"false\"", false}, {"\" Off \"", false},
		{"\"no\"", false}, {"\"0\"", false}, {"0", false}, {"\"\"", false}, {"1", true},
		{"\"yes\"", true}, {"null", true}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_service_config config = read_config(
			arena, box_arena_printf(arena, "{\"enabled\":%s}", rows[i].text));
		ASSERT_INT(config.enabled, rows[i].enabled);
		box_arena_free(arena);
	}
}

TEST(what_is_refused)
{
	static const char *const rows[][2] = {
		{"[]", "box config must be an object"},
		{"{\"local\":{\"profile\":\"x\"}}",
			"unknown box profile 'x', available profiles: default, network_basic, "
			"network_extended, offline, offline_readonly"},
		{"{\"local\":{\"profile\":7}}", "box.local.profile must be a string"},
		{"{\"local\":{\"workspace_quota_mb\":-1}}",
			"box.local.workspace_quota_mb must be an integer between 0 and 2147483647"},
		{"{\"local\":{\"workspace_quota_mb\":\"much\"}}",
			"box.local.workspace_quota_mb must be an integer between 0 and 2147483647"},
		{"{\"local\":{\"session_template\":\"{\"}}",
			"box.local.session_template: session id template \"{\": \"{\" without \"}\""},
		{"{\"system\":{\"limitation\":{\"force_box_session_id_template\":7}}}",
			"system.limitation.force_box_session_id_template must be a string"},
		{"{\"system\":{\"limitation\":{\"force_box_session_id_template\":\"{\"}}}",
			"system.limitation.force_box_session_id_template: session id template \"{\": "
			"\"{\" without \"}\""},
		{"{\"local\":{\"output_chars\":-1}}",
			"box.local.output_chars must be an integer between 0 and 16777216"},
		{"{\"limits\":{\"max_sessions\":\"9\"}}",
			"box.limits.max_sessions must be an integer"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value map = tree(arena, rows[i][0]);
		struct box_service_config config;
		struct box_err err;
		ASSERT_INT(box_service_config_read(arena, &map, "/", &config, &err), -EINVAL);
		ASSERT_STR(err.text, rows[i][1]);
		box_arena_free(arena);
	}
}
