/* The configuration: defaults, merging, ranges, refusals, sizes. */
#include <errno.h>

#include "base/arena.h"
#include "runtime/config/config.h"
#include "tests/unit/lib/config_merge.h"

TEST(nothing_set)
{
	struct box_config *config = box_config_default();
	for (int round = 0; round < 2; round++) {
		ASSERT_STR(config->backend, "");
		ASSERT_INT(config->session_ttl_sec, 300);
		ASSERT(!config->require_context);
		ASSERT(config->allowed_origins == NULL);
		ASSERT_INT(config->limits.max_sessions, 64);
		ASSERT_INT(config->limits.max_managed_processes, 64);
		ASSERT_INT(config->limits.max_completed_processes, 256);
		ASSERT_INT(config->limits.max_admission_records, 100000);
		ASSERT_INT(config->limits.max_rpc_file_bytes, 20971520);
		ASSERT_INT(config->limits.max_output_bytes, 8388608);
		ASSERT_INT(config->limits.completed_process_retention_sec, 300);
		ASSERT(!config->admission.required);
		ASSERT(config->admission.error == NULL);
		ASSERT(config->host_root == NULL);
		ASSERT(config->default_workspace == NULL);
		ASSERT(config->allowed_mount_roots[0] == NULL);
		ASSERT_INT(box_config_may_make_workspace(config, &err), 0);
		ASSERT_INT(merge(&config, "{}"), 0);
	}
	/* LangBot's default root is the default of what may be mounted. */
	ASSERT_STR(config->skills_root, "/here/data/box/skills");
	ASSERT_STR(joined(config->mount_roots), "/here/data/box ");
	ASSERT(config->narrower_roots[0] == NULL && config->client_skills == NULL);
	finish(config);
	box_config_free(NULL);
}

TEST(langbot_default_map)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config, langbot_default), 0);
	ASSERT_STR(config->backend, "local");
	ASSERT_INT(config->limits.max_sessions, 64);
	ASSERT(!config->admission.required);
	ASSERT(config->admission.error == NULL);
	ASSERT_STR(config->host_root, "/here/data/box");
	ASSERT_STR(config->default_workspace, "/here/data/box/default");
	ASSERT_STR(config->skills_root, "/here/data/box/skills");
	ASSERT_STR(joined(config->allowed_mount_roots), "/here/data/box /tmp ");
	/* LangBot's own folder is below its relative root: narrowing to /tmp alone would refuse it.
	 */
	ASSERT_STR(joined(config->mount_roots), "/here/data/box ");
	ASSERT_STR(joined(config->narrower_roots), "");
	ASSERT(config->client_skills == NULL);
	ASSERT_INT(box_config_may_make_workspace(config, &err), 0);
	finish(config);
}

TEST(unknown_members_are_not_kept)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config,
			   "{\"foo\":1,\"limits\":{\"bar\":2,\"max_sessions\":1},\"docker\":"
			   "{\"any\":1},\"BoxError:\\n\":1}"),
		0);
	ASSERT_INT(config->limits.max_sessions, 1);
	ASSERT_INT(config->map.count, 2);
	ASSERT(box_map_get(&config->map, "foo") == NULL);
	ASSERT(box_map_get(&config->map, "docker") != NULL);
	finish(config);
}

static const struct {
	const char *name;
	size_t offset;
	int64_t least;
	int64_t most;
} limits[] = {
	{"max_sessions", offsetof(struct box_limits, max_sessions), 0, 5000},
	{"max_managed_processes", offsetof(struct box_limits, max_managed_processes), 0, 1024},
	{"max_completed_processes", offsetof(struct box_limits, max_completed_processes), 0, 10000},
	{"max_admission_records", offsetof(struct box_limits, max_admission_records), 1, 250000},
	{"max_rpc_file_bytes", offsetof(struct box_limits, max_rpc_file_bytes), 1, 104857600},
	{"max_output_bytes", offsetof(struct box_limits, max_output_bytes), 4096, 15728640},
	{"completed_process_retention_sec",
		offsetof(struct box_limits, completed_process_retention_sec), 0, 86400},
};

TEST(limit_ranges)
{
	struct box_config *config = box_config_default();
	arena = box_arena_new();
	for (size_t i = 0; i < COUNT(limits); i++) {
		const int64_t values[] = {limits[i].least, limits[i].most, limits[i].least - 1,
			limits[i].most + 1, INT64_MIN, INT64_MAX};
		for (size_t j = 0; j < COUNT(values); j++) {
			const char *text = box_arena_printf(arena, "{\"limits\":{\"%s\":%lld}}",
				limits[i].name, (long long)values[j]);
			int result = merge(&config, text);
			const char *at = (const char *)&config->limits + limits[i].offset;
			int64_t present = *(const int64_t *)(const void *)at;
			if (j < 2) {
				ASSERT_INT(result, 0);
				ASSERT_INT(present, values[j]);
			} else {
				ASSERT_INT(result, -EINVAL);
				ASSERT_INT(err.code, BOX_ERR_VALUE);
				ASSERT_STR(err.text,
					box_arena_printf(arena,
						"box.limits.%s must be between %lld and %lld",
						limits[i].name, (long long)limits[i].least,
						(long long)limits[i].most));
				ASSERT_INT(present, limits[i].most);
			}
		}
		static const char *const wrong[] = {
			"true", "false", "null", "1.0", "\"64\"", "[]", "{}"};
		for (size_t j = 0; j < COUNT(wrong); j++) {
			ASSERT_INT(merge(&config,
					   box_arena_printf(arena, "{\"limits\":{\"%s\":%s}}",
						   limits[i].name, wrong[j])),
				-EINVAL);
			ASSERT_INT(err.code, BOX_ERR_VALUE);
			ASSERT_STR(err.text,
				box_arena_printf(
					arena, "box.limits.%s must be an integer", limits[i].name));
		}
	}
	finish(config);
}

TEST(refusals)
{
	static const struct {
		const char *text;
		const char *refusal;
	} rows[] = {
		{"[]", "box config must be an object"},
		{"null", "box config must be an object"},
		{"\"x\"", "box config must be an object"},
		{"{\"limits\":5}", "box.limits must be an object"},
		{"{\"limits\":[1]}", "box.limits must be an object"},
		{"{\"limits\":\"x\"}", "box.limits must be an object"},
		{"{\"local\":\"x\"}", "box.local must be an object"},
		{"{\"backend\":1}", "box.backend must be a string"},
		{"{\"backend\":\"a\\u0000\"}", "box.backend must be a string"},
		{"{\"session_ttl_sec\":-1}",
			"box.session_ttl_sec must be between 0 and 2147483647"},
		{"{\"session_ttl_sec\":2147483648}",
			"box.session_ttl_sec must be between 0 and 2147483647"},
		{"{\"session_ttl_sec\":true}", "box.session_ttl_sec must be an integer"},
		{"{\"session_ttl_sec\":\"x\"}", "box.session_ttl_sec must be an integer"},
		{"{\"session_ttl_sec\":1.5}", "box.session_ttl_sec must be an integer"},
		{"{\"require_context\":\"maybe\"}", "box.require_context must be a boolean"},
		{"{\"require_context\":[]}", "box.require_context must be a boolean"},
		{"{\"allowed_origins\":5}", "box.allowed_origins must be a list of strings"},
		{"{\"allowed_origins\":[1]}", "box.allowed_origins must be a list of strings"},
		{"{\"allowed_origins\":[\"\\u0000\"]}", "box.allowed_origins must not contain NUL"},
		{"{\"allowed_origins\":[\"*\"]}",
			"box.allowed_origins: * is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"allowed_origins\":[\"http://a/\"]}",
			"box.allowed_origins: http://a/ is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"allowed_origins\":[\"https://*.a\"]}",
			"box.allowed_origins: https://*.a is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"allowed_origins\":[\"a\"]}",
			"box.allowed_origins: a is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"allowed_origins\":[\"://a\"]}",
			"box.allowed_origins: ://a is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"allowed_origins\":[\"http://\"]}",
			"box.allowed_origins: http:// is not an origin: scheme://host or scheme://host:port, each written out, or null"},
		{"{\"local\":{\"host_root\":5}}", "box.local.host_root must be a string"},
		{"{\"local\":{\"host_root\":\"a\\u0000\"}}",
			"box.local.host_root is not a usable path"},
		{"{\"local\":{\"default_workspace\":[]}}",
			"box.local.default_workspace must be a string"},
		{"{\"local\":{\"skills_root\":{}}}", "box.local.skills_root must be a string"},
		{"{\"local\":{\"allowed_mount_roots\":5}}",
			"box.local.allowed_mount_roots must be a list of strings"},
		{"{\"local\":{\"allowed_mount_roots\":[[]]}}",
			"box.local.allowed_mount_roots must be a list of strings"},
		{"{\"local\":{\"allowed_mount_roots\":\"/a,/b\\u0000\"}}",
			"box.local.allowed_mount_roots must not contain NUL"},
	};
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config, "{\"backend\":\"krun\",\"limits\":{\"max_sessions\":7}}"), 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(merge_as(&config, rows[i].text, BOX_CONFIG_OPERATOR), -EINVAL);
		ASSERT_STR(err.text, rows[i].refusal);
		ASSERT_INT(err.code, BOX_ERR_VALUE);
		ASSERT_STR(config->backend, "krun");
		ASSERT_INT(config->limits.max_sessions, 7);
	}
	finish(config);
}

TEST(merging)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(merge_as(&config,
			   "{\"backend\":\" nsjail \",\"limits\":{\"max_sessions\":5,"
			   "\"max_rpc_file_bytes\":9},\"local\":{\"host_root\":\"/srv\"},"
			   "\"session_ttl_sec\":\"60\",\"require_context\":\"yes\","
			   "\"allowed_origins\":\"http://a, http://b,,\"}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT_STR(config->backend, "nsjail");
	ASSERT_INT(config->session_ttl_sec, 60);
	ASSERT(config->require_context);
	ASSERT_STR(joined(config->allowed_origins), "http://a http://b ");
	ASSERT_STR(config->host_root, "/srv");

	/* A section replaces the one before, but limits that it does not name stay. */
	ASSERT_INT(merge_as(&config, "{\"limits\":{\"max_sessions\":6},\"local\":{}}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT_INT(config->limits.max_sessions, 6);
	ASSERT_INT(config->limits.max_rpc_file_bytes, 9);
	ASSERT(config->host_root == NULL);
	ASSERT_STR(config->backend, "nsjail");
	ASSERT_INT(config->session_ttl_sec, 60);
	ASSERT(config->require_context);
	ASSERT_INT(box_map_get(&config->map, "limits")->count, 1);

	/* null unsets, and false is not a section. */
	ASSERT_INT(merge_as(&config,
			   "{\"backend\":null,\"session_ttl_sec\":null,\"require_context\":null,"
			   "\"allowed_origins\":[],\"limits\":[],\"local\":false}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT_STR(config->backend, "");
	ASSERT_INT(config->session_ttl_sec, 300);
	ASSERT(!config->require_context);
	ASSERT(config->allowed_origins == NULL);
	ASSERT_INT(config->limits.max_sessions, 6);
	ASSERT_INT(
		merge_as(&config, "{\"session_ttl_sec\":0,\"allowed_origins\":[\" a://x \",null]}",
			BOX_CONFIG_OPERATOR),
		0);
	ASSERT_INT(config->session_ttl_sec, 0);
	ASSERT_STR(joined(config->allowed_origins), "a://x ");
	ASSERT_INT(config->map.count, 6);
	finish(config);
}

/* The result must not point into the map it came from. */
/* A client may ask for less, never for more. */
TEST(operators_own)
{
	struct box_config *config = box_config_default();
	const char *text = "{\"require_context\":false,\"allowed_origins\":[\"http://x\"]}";
	ASSERT_INT(merge_as(&config, "{\"require_context\":true}", BOX_CONFIG_OPERATOR), 0);
	ASSERT_INT(merge(&config, text), 0);
	ASSERT(config->require_context);
	ASSERT(config->allowed_origins == NULL);
	ASSERT(!box_config_allows(box_str("allowed_origins"), BOX_CONFIG_CLIENT));
	ASSERT(box_config_allows(box_str("limits"), BOX_CONFIG_CLIENT));
	finish(config);
}

TEST(owns_what_it_keeps)
{
	struct box_config *config = box_config_default();
	struct box_arena *outer = box_arena_new();
	arena = outer;
	ASSERT_INT(merge(&config, langbot_default), 0);
	arena = box_arena_new();
	box_arena_free(outer);
	ASSERT_STR(config->backend, "local");
	ASSERT_INT(merge(&config, "{}"), 0);
	ASSERT_STR(joined(config->allowed_mount_roots), "/here/data/box /tmp ");
	finish(config);
}

TEST(size_is_bounded)
{
	struct box_config *config = box_config_default();
	arena = box_arena_new();
	struct box_value map = box_map_value();
	char *long_text = box_arena_bytes(arena, BOX_CONFIG_BYTES_MAX);
	memset(long_text, 'x', BOX_CONFIG_BYTES_MAX);
	box_map_add(arena, &map, "e2b",
		box_text((struct box_str){long_text, BOX_CONFIG_BYTES_MAX - 11}));
	ASSERT_INT(merge_value(&config, &map, BOX_CONFIG_CLIENT), 0);
	map.pairs[0].value.str.len++;
	ASSERT_INT(merge_value(&config, &map, BOX_CONFIG_CLIENT), -EINVAL);
	ASSERT_STR(err.text, "box config is larger than 1048576 bytes");
	/* A path that is too long. */
	map = box_map_value();
	struct box_value *local = box_map_add(arena, &map, "local", box_map_value());
	box_map_add(arena, local, "host_root", box_text((struct box_str){long_text, 4096}));
	ASSERT_INT(merge_value(&config, &map, BOX_CONFIG_CLIENT), -EINVAL);
	ASSERT_STR(err.text, "box.local.host_root is not a usable path");
	finish(config);
}
