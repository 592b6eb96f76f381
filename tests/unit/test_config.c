/* The configuration: merging, ranges, paths, the admission section, and what is unknown. */
#include <errno.h>

#include "base/arena.h"
#include "runtime/config.h"
#include "tests/unit/test.h"
#include "transport/json.h"

/* What LangBot 4.11 sends when nobody changed anything. */
static const char langbot_default[] =
	"{\"enabled\": true, \"backend\": \"local\", \"limits\": {\"max_sessions\": 64, "
	"\"max_managed_processes\": 64, \"max_completed_processes\": 256, "
	"\"max_workspace_entries\": 100000, \"max_admission_records\": 100000, "
	"\"max_rpc_file_bytes\": 20971520}, \"admission\": {\"required\": false, "
	"\"logical_session_id\": \"global\", \"required_backend\": \"nsjail\", "
	"\"max_sessions\": 1, "
	"\"max_managed_processes\": 0, \"max_grant_ttl_sec\": 300, \"max_timeout_sec\": 120, "
	"\"cpus\": 1.0, \"memory_mb\": 512, \"pids_limit\": 128, \"read_only_rootfs\": true, "
	"\"workspace_quota_mb\": 0, \"readiness_cache_sec\": 15}, \"local\": {\"profile\": "
	"\"default\", \"image\": \"\", \"host_root\": \"./data/box\", \"default_workspace\": \"\", "
	"\"allowed_mount_roots\": [\"./data/box\", \"/tmp\"], \"workspace_quota_mb\": null}, "
	"\"default_memory_mb\": 1536, \"docker\": {\"cpu_limit_enabled\": true}, \"e2b\": "
	"{\"api_key\": \"\", \"api_url\": \"\", \"template\": \"\"}}";

static struct box_arena *arena; /* of the test: each runs in a process of its own */
static struct box_value unknown = {.type = BOX_LIST};
static struct box_err err;

static int merge_value(
	struct box_config **config, const struct box_value *map, enum box_config_origin origin)
{
	struct box_config *fresh = NULL;
	int result = box_config_merge(*config, map, origin, "/work", arena, &unknown, &fresh, &err);
	if (result == 0) {
		box_config_free(*config);
		*config = fresh;
	} else {
		ASSERT(fresh == NULL);
	}
	return result;
}

static int merge_as(struct box_config **config, const char *text, enum box_config_origin origin)
{
	struct box_value map = box_null();
	const char *why = NULL;
	if (!arena) {
		arena = box_arena_new();
	}
	char *copy = box_arena_strndup(arena, text, strlen(text));
	if (box_json_decode(arena, copy, strlen(copy), &map, &why) < 0) {
		TEST_FAIL("test input is no JSON: %s: %s", text, why);
	}
	return merge_value(config, &map, origin);
}

static int merge(struct box_config **config, const char *text)
{
	return merge_as(config, text, BOX_CONFIG_CLIENT);
}

static const char *joined(const char *const *texts)
{
	const char *all = "";
	for (; texts && *texts; texts++) {
		all = box_arena_printf(arena, "%s%s ", all, *texts);
	}
	return all;
}

static void finish(struct box_config *config)
{
	box_config_free(config);
	box_arena_free(arena);
}

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
		ASSERT(config->enforced_mount_roots[0] == NULL);
		ASSERT_INT(box_config_may_make_workspace(config, &err), 0);
		ASSERT_INT(merge(&config, "{}"), 0);
	}
	ASSERT_STR(config->skills_root, "/work/data/box/skills");
	finish(config);
	box_config_free(NULL);
}

TEST(langbot_default_map)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config, langbot_default), 0);
	ASSERT_INT(unknown.count, 0);
	ASSERT_STR(config->backend, "local");
	ASSERT_INT(config->limits.max_sessions, 64);
	ASSERT(!config->admission.required);
	ASSERT(config->admission.error == NULL);
	ASSERT_STR(config->host_root, "/work/data/box");
	ASSERT_STR(config->default_workspace, "/work/data/box/default");
	ASSERT_STR(config->skills_root, "/work/data/box/skills");
	ASSERT_STR(joined(config->allowed_mount_roots), "/work/data/box /tmp ");
	/* LangBot's own folder is its relative root: enforcing /tmp alone would refuse it. */
	ASSERT_STR(joined(config->enforced_mount_roots), "");
	ASSERT_INT(box_config_may_make_workspace(config, &err), 0);
	finish(config);
}

TEST(unknown_members)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(
		merge(&config,
			"{\"foo\":1,\"limits\":{\"bar\":2,\"max_sessions\":1,\"zed\":3},\"local\":"
			"{\"baz\":{},\"image\":\"x\"},\"docker\":{\"any\":1},\"BoxError:\\n\":1}"),
		0);
	ASSERT_INT(unknown.count, 5);
	static const char *const names[] = {
		"foo", "limits.bar", "limits.zed", "local.baz", "BoxError??"};
	for (uint32_t i = 0; i < unknown.count; i++) {
		ASSERT_BYTES(unknown.items[i].str.bytes, unknown.items[i].str.len, names[i],
			strlen(names[i]));
	}
	/* Named once, and not kept. */
	ASSERT_INT(merge(&config, "{\"backend\":\"nsjail\"}"), 0);
	ASSERT_INT(unknown.count, 5);
	ASSERT(box_map_get(&config->map, "foo") == NULL);
	ASSERT(box_map_get(&config->map, "docker") != NULL);
	/* Nothing is named when nothing is merged. */
	ASSERT_INT(merge(&config, "{\"what\":1,\"limits\":5}"), -EINVAL);
	ASSERT_INT(unknown.count, 5);
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
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const int64_t values[] = {limits[i].least, limits[i].most, limits[i].least - 1,
			limits[i].most + 1, INT64_MIN, INT64_MAX};
		for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
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
		for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
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
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
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
			   "\"allowed_origins\":\"http://a, http://b,,\"}", BOX_CONFIG_OPERATOR),
		0);
	ASSERT_STR(config->backend, "nsjail");
	ASSERT_INT(config->session_ttl_sec, 60);
	ASSERT(config->require_context);
	ASSERT_STR(joined(config->allowed_origins), "http://a http://b ");
	ASSERT_STR(config->host_root, "/srv");

	/* A section replaces the one before, but limits that it does not name stay. */
	ASSERT_INT(merge_as(&config, "{\"limits\":{\"max_sessions\":6},\"local\":{}}", BOX_CONFIG_OPERATOR), 0);
	ASSERT_INT(config->limits.max_sessions, 6);
	ASSERT_INT(config->limits.max_rpc_file_bytes, 9);
	ASSERT(config->host_root == NULL);
	ASSERT_STR(config->backend, "nsjail");
	ASSERT_INT(config->session_ttl_sec, 60);
	ASSERT(config->require_context);
	ASSERT_INT(box_map_get(&config->map, "limits")->count, 1);

	/* null unsets, and what is false is no section. */
	ASSERT_INT(merge_as(&config,
			   "{\"backend\":null,\"session_ttl_sec\":null,\"require_context\":null,"
			   "\"allowed_origins\":[],\"limits\":[],\"local\":false}", BOX_CONFIG_OPERATOR),
		0);
	ASSERT_STR(config->backend, "");
	ASSERT_INT(config->session_ttl_sec, 300);
	ASSERT(!config->require_context);
	ASSERT(config->allowed_origins == NULL);
	ASSERT_INT(config->limits.max_sessions, 6);
	ASSERT_INT(merge_as(&config, "{\"session_ttl_sec\":0,\"allowed_origins\":[\" x \",null]}", BOX_CONFIG_OPERATOR), 0);
	ASSERT_INT(config->session_ttl_sec, 0);
	ASSERT_STR(joined(config->allowed_origins), "x ");
	ASSERT_INT(config->map.count, 6);
	finish(config);
}

/* The result must not point into the map it came from. */
/* A client may ask for less, never open a door. */
TEST(operators_own)
{
	struct box_config *config = box_config_default();
	const char *text = "{\"require_context\":false,\"allowed_origins\":[\"http://x\"]}";
	ASSERT_INT(merge_as(&config, "{\"require_context\":true}", BOX_CONFIG_OPERATOR), 0);
	ASSERT_INT(merge(&config, text), 0);
	ASSERT(config->require_context);
	ASSERT(config->allowed_origins == NULL);
	ASSERT_INT(unknown.count, 2);
	ASSERT(!box_config_takes(box_str("allowed_origins"), BOX_CONFIG_CLIENT));
	ASSERT(box_config_takes(box_str("limits"), BOX_CONFIG_CLIENT));
	finish(config);
}

TEST(owns_what_it_keeps)
{
	struct box_config *config = box_config_default();
	struct box_arena *outer = box_arena_new();
	arena = outer;
	ASSERT_INT(merge(&config, langbot_default), 0);
	arena = box_arena_new();
	unknown = box_list_value();
	box_arena_free(outer);
	ASSERT_STR(config->backend, "local");
	ASSERT_INT(merge(&config, "{}"), 0);
	ASSERT_STR(joined(config->allowed_mount_roots), "/work/data/box /tmp ");
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

TEST(paths)
{
	static const struct {
		const char *local;
		const char *host_root;
		const char *workspace;
		const char *skills;
		const char *allowed;
	} rows[] = {
		{"", NULL, NULL, "/work/data/box/skills", ""},
		{"\"host_root\":\"/srv/box\"", "/srv/box", "/srv/box/default", "/srv/box/skills",
			"/srv/box "},
		{"\"host_root\":\" ./data/../box/ \"", "/work/box", "/work/box/default",
			"/work/box/skills", "/work/box "},
		{"\"host_root\":\"\",\"default_workspace\":\"w\"", NULL, "/work/w",
			"/work/data/box/skills", ""},
		{"\"host_root\":null,\"skills_root\":\"s\"", NULL, NULL, "/work/data/box/s", ""},
		{"\"host_root\":\"/r\",\"default_workspace\":\"a/b\",\"skills_root\":\"../s\"",
			"/r", "/r/a/b", "/s", "/r "},
		{"\"host_root\":\"/r\",\"default_workspace\":\"/abs\",\"skills_root\":\"/k\"", "/r",
			"/abs", "/k", "/r "},
		{"\"host_root\":\"~/x\"", "/work/~/x", "/work/~/x/default", "/work/~/x/skills",
			"/work/~/x "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":\" /a , b ,,\"", "/r", "/r/default",
			"/r/skills", "/a /work/b "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":[]", "/r", "/r/default", "/r/skills",
			"/r "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":[null,\" \"]", "/r", "/r/default",
			"/r/skills", "/r "},
		{"\"allowed_mount_roots\":null", NULL, NULL, "/work/data/box/skills", ""},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(
			merge(&config, box_arena_printf(arena, "{\"local\":{%s}}", rows[i].local)),
			0);
		ASSERT((config->host_root == NULL) == (rows[i].host_root == NULL));
		if (rows[i].host_root) {
			ASSERT_STR(config->host_root, rows[i].host_root);
		}
		ASSERT((config->default_workspace == NULL) == (rows[i].workspace == NULL));
		if (rows[i].workspace) {
			ASSERT_STR(config->default_workspace, rows[i].workspace);
		}
		ASSERT_STR(config->skills_root, rows[i].skills);
		ASSERT_STR(joined(config->allowed_mount_roots), rows[i].allowed);
		finish(config);
	}
}

TEST(enforced_roots)
{
	static const struct {
		enum box_config_origin origin;
		const char *roots;
		const char *enforced;
	} rows[] = {
		{BOX_CONFIG_CLIENT, "[]", ""},
		{BOX_CONFIG_OPERATOR, "[]", ""},
		{BOX_CONFIG_CLIENT, "[\"/a\",\"/b/../c\"]", "/a /c "},
		{BOX_CONFIG_CLIENT, "[\"/a\",\"b\"]", ""},
		{BOX_CONFIG_CLIENT, "\"b\"", ""},
		{BOX_CONFIG_OPERATOR, "[\"/a\",\"b\"]", "/a /work/b "},
		{BOX_CONFIG_OPERATOR, "\"./b\"", "/work/b "},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(
			merge_as(&config,
				box_arena_printf(arena,
					"{\"local\":{\"host_root\":\"/r\",\"allowed_mount_roots\":"
					"%s}}",
					rows[i].roots),
				rows[i].origin),
			0);
		ASSERT_STR(joined(config->enforced_mount_roots), rows[i].enforced);
		/* A map without the section leaves it with the meaning it has. */
		ASSERT_INT(merge(&config, "{\"backend\":\"x\"}"), 0);
		ASSERT_STR(joined(config->enforced_mount_roots), rows[i].enforced);
		finish(config);
	}
}

TEST(operator_roots_stay)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(merge_as(&config, "{\"local\":{\"allowed_mount_roots\":[\"data\"]}}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT(config->operator_mount_roots);
	ASSERT_INT(merge(&config, langbot_default), 0);
	ASSERT_STR(joined(config->enforced_mount_roots), "/work/data ");
	ASSERT_STR(joined(config->allowed_mount_roots), "/work/data/box /tmp ");
	ASSERT_INT(merge(&config, "{\"local\":{\"allowed_mount_roots\":[\"/\"]}}"), 0);
	ASSERT_STR(joined(config->enforced_mount_roots), "/work/data ");
	ASSERT_INT(merge_as(&config, "{\"local\":{\"allowed_mount_roots\":[\"/o\"]}}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT_STR(joined(config->enforced_mount_roots), "/o ");
	finish(config);

	/* A client's own are replaced by the next ones. */
	config = box_config_default();
	arena = box_arena_new();
	ASSERT_INT(merge(&config, "{\"local\":{\"allowed_mount_roots\":[\"/a\"]}}"), 0);
	ASSERT(!config->operator_mount_roots);
	ASSERT_INT(merge(&config, "{\"local\":{\"allowed_mount_roots\":[\"/b\"]}}"), 0);
	ASSERT_STR(joined(config->enforced_mount_roots), "/b ");
	finish(config);
}

TEST(number_of_roots)
{
	for (int count = BOX_MOUNT_ROOTS_MAX; count <= BOX_MOUNT_ROOTS_MAX + 1; count++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		const char *roots = "/r0";
		for (int i = 1; i < count; i++) {
			roots = box_arena_printf(arena, "%s,/r%d", roots, i);
		}
		int result = merge(&config,
			box_arena_printf(
				arena, "{\"local\":{\"allowed_mount_roots\":\"%s\"}}", roots));
		if (count == BOX_MOUNT_ROOTS_MAX) {
			ASSERT_INT(result, 0);
			ASSERT_STR(config->enforced_mount_roots[BOX_MOUNT_ROOTS_MAX - 1], "/r63");
			ASSERT(config->enforced_mount_roots[BOX_MOUNT_ROOTS_MAX] == NULL);
		} else {
			ASSERT_INT(result, -EINVAL);
			ASSERT_STR(err.text,
				"box.local.allowed_mount_roots must have at most 64 entries");
		}
		finish(config);
	}
}

TEST(making_the_workspace)
{
	static const struct {
		const char *local;
		const char *refusal;
	} rows[] = {
		{"\"host_root\":\"/r\"", NULL},
		{"\"host_root\":\"/r\",\"default_workspace\":\"/r\"", NULL},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":\"/a,/r/default\"", NULL},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":\"/\"", NULL},
		{"\"default_workspace\":\"/w\"",
			"box.local.default_workspace cannot be created because no "
			"allowed_mount_roots are configured"},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":\"/a,/rr\"",
			"box.local.default_workspace is outside allowed_mount_roots: /a, /rr"},
		{"\"host_root\":\"/r\",\"default_workspace\":\"../x\"",
			"box.local.default_workspace is outside allowed_mount_roots: /r"},
		{"\"host_root\":\"/r\",\"default_workspace\":\"../rr\"",
			"box.local.default_workspace is outside allowed_mount_roots: /r"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(
			merge(&config, box_arena_printf(arena, "{\"local\":{%s}}", rows[i].local)),
			0);
		int result = box_config_may_make_workspace(config, &err);
		ASSERT_INT(result, rows[i].refusal ? -EPERM : 0);
		if (rows[i].refusal) {
			ASSERT_STR(err.text, rows[i].refusal);
			ASSERT_INT(err.code, BOX_ERR_VALIDATION);
			ASSERT_INT(err.errnum, EPERM);
		}
		finish(config);
	}
}

#define POLICY(field, text) "1 validation error for SandboxAdmissionPolicy\n" field "\n  " text
#define INTEGER(field) POLICY(field, "Value error, must be an integer")

/* Verdicts and texts as the reference's policy model gives them. */
static const struct {
	const char *section;
	bool required;
	const char *error;
} policies[] = {
	{"null", false, NULL},
	{"{}", false, NULL},
	{"{\"required\":false}", false, NULL},
	{"{\"required\":true}", true, NULL},
	{"{\"required\":\"yes\"}", true, NULL},
	{"{\"required\":\"off\"}", false, NULL},
	{"{\"required\":1}", true, NULL},
	{"{\"required\":false,\"cpus\":2,\"read_only_rootfs\":\"off\"}", false, NULL},
	{"{\"required\":2}", true,
		POLICY("required", "Input should be a valid boolean, unable to interpret input")},
	{"{\"required\":null}", true, POLICY("required", "Input should be a valid boolean")},
	{"[]", true,
		"1 validation error for SandboxAdmissionPolicy\n  Input should be a valid "
		"dictionary "
		"or instance of SandboxAdmissionPolicy"},
	{"false", true,
		"1 validation error for SandboxAdmissionPolicy\n  Input should be a valid "
		"dictionary "
		"or instance of SandboxAdmissionPolicy"},
	{"{\"logical_session_id\":\"x\"}", true,
		POLICY("logical_session_id", "Input should be 'global'")},
	{"{\"logical_session_id\":null}", true,
		POLICY("logical_session_id", "Input should be 'global'")},
	{"{\"required_backend\":\"docker\"}", true,
		POLICY("required_backend", "Input should be 'nsjail'")},
	{"{\"max_sessions\":0}", false, NULL},
	{"{\"max_sessions\":2}", true,
		POLICY("max_sessions", "Value error, max_sessions must be between 0 and 1")},
	{"{\"max_sessions\":-1}", true,
		POLICY("max_sessions", "Value error, max_sessions must be between 0 and 1")},
	{"{\"max_sessions\":true}", true, INTEGER("max_sessions")},
	{"{\"max_sessions\":\"1\"}", true, INTEGER("max_sessions")},
	{"{\"max_sessions\":1.0}", true, INTEGER("max_sessions")},
	{"{\"max_managed_processes\":1}", true,
		POLICY("max_managed_processes", "Value error, max_managed_processes must be 0")},
	{"{\"max_managed_processes\":false}", true, INTEGER("max_managed_processes")},
	{"{\"max_grant_ttl_sec\":0}", true,
		POLICY("max_grant_ttl_sec", "Value error, must be greater than 0")},
	{"{\"max_timeout_sec\":0}", true,
		POLICY("max_timeout_sec", "Value error, must be greater than 0")},
	{"{\"cpus\":\"1\"}", true, POLICY("cpus", "Value error, cpus must be a number")},
	{"{\"cpus\":true}", true, POLICY("cpus", "Value error, cpus must be a number")},
	{"{\"cpus\":0}", true, POLICY("cpus", "Value error, cpus must be greater than 0")},
	{"{\"memory_mb\":31}", true,
		POLICY("memory_mb", "Value error, memory_mb must be at least 32")},
	{"{\"memory_mb\":null}", true, INTEGER("memory_mb")},
	{"{\"pids_limit\":0}", true, POLICY("pids_limit", "Value error, must be greater than 0")},
	{"{\"read_only_rootfs\":3}", true,
		POLICY("read_only_rootfs",
			"Input should be a valid boolean, unable to interpret input")},
	{"{\"workspace_quota_mb\":-1}", true,
		POLICY("workspace_quota_mb", "Value error, must be greater than or equal to 0")},
	{"{\"readiness_cache_sec\":-1}", true,
		POLICY("readiness_cache_sec", "Value error, must be greater than or equal to 0")},
	{"{\"foo\":1}", true, POLICY("foo", "Extra inputs are not permitted")},
	{"{\"required\":false,\"foo\":1}", true, POLICY("foo", "Extra inputs are not permitted")},
};

TEST(admission_table)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(
			merge(&config,
				box_arena_printf(arena, "{\"admission\":%s}", policies[i].section)),
			0);
		if (config->admission.required != policies[i].required) {
			TEST_FAIL("%s: required is %d", policies[i].section,
				config->admission.required);
		}
		if (policies[i].error) {
			ASSERT_STR(config->admission.error, policies[i].error);
			ASSERT_INT(config->admission.memory_mb, 512);
		} else {
			ASSERT(config->admission.error == NULL);
		}
		finish(config);
	}
}

TEST(admission_values)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(
		merge(&config,
			"{\"admission\":{\"required\":true,\"max_sessions\":0,"
			"\"max_grant_ttl_sec\":60,\"max_timeout_sec\":30,\"cpus\":2,\"memory_mb\":"
			"64,\"pids_limit\":9,\"read_only_rootfs\":false,\"workspace_quota_mb\":5,"
			"\"readiness_cache_sec\":0}}"),
		0);
	const struct box_admission_policy *policy = &config->admission;
	ASSERT(policy->required && policy->error == NULL);
	ASSERT_INT(policy->max_sessions, 0);
	ASSERT_INT(policy->max_managed_processes, 0);
	ASSERT_INT(policy->max_grant_ttl_sec, 60);
	ASSERT_INT(policy->max_timeout_sec, 30);
	ASSERT(policy->cpus == 2.0);
	ASSERT_INT(policy->memory_mb, 64);
	ASSERT_INT(policy->pids_limit, 9);
	ASSERT(!policy->read_only_rootfs);
	ASSERT_INT(policy->workspace_quota_mb, 5);
	ASSERT_INT(policy->readiness_cache_sec, 0);
	finish(config);
}

TEST(admission_stays_on)
{
	static const char locked[] = "Sandbox admission enforcement cannot be disabled without "
				     "restarting the Box Runtime";
	static const char *const tries[] = {"{\"admission\":null}", "{\"admission\":{}}",
		"{\"admission\":{\"required\":false,\"memory_mb\":99}}", "{\"backend\":\"x\"}"};
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":true,\"memory_mb\":64}}"), 0);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		ASSERT_INT(merge(&config, tries[i]), 0);
		ASSERT(config->admission.required);
		ASSERT_STR(config->admission.error, locked);
		ASSERT_INT(config->admission.memory_mb, 64);
	}
	/* A right section that keeps it on is taken and clears the error. */
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":true,\"memory_mb\":128}}"), 0);
	ASSERT(config->admission.error == NULL);
	ASSERT_INT(config->admission.memory_mb, 128);
	/* A malformed one turns it on, and it stays. */
	finish(config);
	config = box_config_default();
	arena = box_arena_new();
	ASSERT_INT(merge(&config, "{\"admission\":5}"), 0);
	ASSERT(config->admission.required);
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":false}}"), 0);
	ASSERT(config->admission.required);
	ASSERT_STR(config->admission.error, locked);
	finish(config);
}

TEST(path_resolve)
{
	static const struct {
		const char *base;
		const char *path;
		const char *resolved;
	} rows[] = {
		{"/b", "/", "/"},
		{"/b", "", "/b"},
		{"/b", ".", "/b"},
		{"/b", "..", "/"},
		{"/b", "../../..", "/"},
		{"/b", "a", "/b/a"},
		{"/b/", "./a//c/", "/b/a/c"},
		{"/b", "/x/./y/../z", "/x/z"},
		{"/b/..", "a", "/a"},
		{"/b", "...", "/b/..."},
		{"/b", "a/..", "/b"},
		{"/b", "//x", "/x"},
		{"/b", ".a/..b", "/b/.a/..b"},
		{NULL, "a", "/a"},
		{"/", "a", "/a"},
		{"/b", "~/a", "/b/~/a"},
	};
	arena = box_arena_new();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ASSERT_STR(box_path_resolve(arena, rows[i].base, box_str(rows[i].path)),
			rows[i].resolved);
	}
	ASSERT(box_path_resolve(arena, "/", (struct box_str){"a\0b", 3}) == NULL);
	char longest[BOX_PATH_MAX + 1];
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	const char *path = box_path_resolve(
		arena, "/", (struct box_str){longest, BOX_PATH_MAX - 1});
	ASSERT(path && strlen(path) == BOX_PATH_MAX - 1);
	ASSERT(box_path_resolve(arena, "/", (struct box_str){longest, BOX_PATH_MAX}) == NULL);
	ASSERT(box_path_resolve(arena, "/b", (struct box_str){longest + 1, BOX_PATH_MAX - 3}) ==
		NULL);
	box_arena_free(arena);
}
