/* Profiles: the built-in ones, the operator's own, and the specs that they make of a caller's spec.
 */
#include <errno.h>

#include "base/buf.h"
#include "client/service/profile.h"
#include "tests/unit/lib/json_tree.h"

static void assert_json(const struct box_value *value, const char *expected)
{
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	ASSERT_INT(box_json_encode(&out, value), 0);
	ASSERT_BYTES(out.bytes, out.len, expected, strlen(expected));
	box_buf_free(&out);
}

static struct box_profile_set read_own(struct box_arena *arena, const char *own)
{
	struct box_value map = tree(arena, own);
	struct box_profile_set profiles;
	struct box_err err;
	if (box_profile_read_all(arena, &map, &profiles, &err) < 0) {
		TEST_FAIL("%s: %s", own, err.text);
	}
	return profiles;
}

static const struct box_profile *find(struct box_arena *arena, const char *own, const char *name)
{
	struct box_profile_set profiles = read_own(arena, own);
	struct box_err err;
	const struct box_profile *profile = box_profile_find(&profiles, name, &err);
	ASSERT(profile != NULL);
	return profile;
}

TEST(the_built_in_ones)
{
	static const struct {
		const char *name;
		const char *json;
	} rows[] = {
#define FIRST(name) "{\"name\":\"" name "\",\"image\":\"rockchin/langbot-sandbox:latest\","
		{"default",
			FIRST("default") "\"network\":\"on\",\"timeout_sec\":30,"
					 "\"host_path_mode\":\"rw\",\"cpus\":1.0,\"memory_mb\":512,"
					 "\"pids_limit\":128,\"read_only_rootfs\":true,\"workspace_quota_mb\":0,"
					 "\"max_timeout_sec\":120,\"locked\":[],\"built_in\":true}"},
		{"offline",
			FIRST("offline") "\"network\":\"off\",\"timeout_sec\":30,"
					 "\"host_path_mode\":\"rw\",\"cpus\":1.0,\"memory_mb\":512,"
					 "\"pids_limit\":128,\"read_only_rootfs\":true,\"workspace_quota_mb\":0,"
					 "\"max_timeout_sec\":120,\"locked\":[],\"built_in\":true}"},
		{"offline_readonly",
			FIRST("offline_readonly") "\"network\":\"off\",\"timeout_sec\":30,"
						  "\"host_path_mode\":\"ro\",\"cpus\":0.5,\"memory_mb\":256,"
						  "\"pids_limit\":64,\"read_only_rootfs\":true,\"workspace_quota_mb\":0,"
						  "\"max_timeout_sec\":60,\"locked\":[\"network\",\"host_path_mode\","
						  "\"read_only_rootfs\"],\"built_in\":true}"},
		{"network_basic",
			FIRST("network_basic") "\"network\":\"on\",\"timeout_sec\":30,"
					       "\"host_path_mode\":\"rw\",\"cpus\":1.0,\"memory_mb\":512,"
					       "\"pids_limit\":128,\"read_only_rootfs\":true,\"workspace_quota_mb\":0,"
					       "\"max_timeout_sec\":120,\"locked\":[],\"built_in\":true}"},
		{"network_extended",
			FIRST("network_extended") "\"network\":\"on\",\"timeout_sec\":30,"
						  "\"host_path_mode\":\"rw\",\"cpus\":2.0,\"memory_mb\":1024,"
						  "\"pids_limit\":256,\"read_only_rootfs\":false,\"workspace_quota_mb\":0,"
						  "\"max_timeout_sec\":300,\"locked\":[],\"built_in\":true}"},
	};
	struct box_arena *arena = box_arena_new();
	ASSERT_INT(read_own(arena, "null").count, COUNT(rows));
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value value = box_profile_value(arena, find(arena, "{}", rows[i].name));
		assert_json(&value, rows[i].json);
	}
	ASSERT_STR(find(arena, "{}", NULL)->name, "default");
	ASSERT_STR(find(arena, "{}", "")->name, "default");
	box_arena_free(arena);
}

TEST(an_unknown_one_lists_the_known)
{
	struct box_arena *arena = box_arena_new();
	struct box_profile_set profiles = read_own(arena, "{\"mine\":{}}");
	struct box_err err;
	ASSERT(box_profile_find(&profiles, "ofline", &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text,
		"unknown box profile 'ofline', available profiles: default, mine, network_basic, "
		"network_extended, offline, offline_readonly");
	box_arena_free(arena);
}

TEST(the_operators_own)
{
	struct box_arena *arena = box_arena_new();
	const struct box_profile *mine = find(arena,
		"{\"mine\":{\"base\":\"network_extended\",\"memory_mb\":\"2048\",\"locked\":"
		"[\"network\",\"memory_mb\"],\"read_only_rootfs\":\"yes\",\"cpus\":3,"
		"\"max_timeout_sec\":600.0}}",
		"mine");
	struct box_value value = box_profile_value(arena, mine);
	assert_json(&value,
		"{\"name\":\"mine\",\"image\":\"rockchin/langbot-sandbox:latest\","
		"\"network\":\"on\",\"timeout_sec\":30,\"host_path_mode\":\"rw\",\"cpus\":3.0,"
		"\"memory_mb\":2048,\"pids_limit\":256,\"read_only_rootfs\":true,"
		"\"workspace_quota_mb\":0,\"max_timeout_sec\":600,"
		"\"locked\":[\"network\",\"memory_mb\"],\"built_in\":false}");
	/* It is based on the most restricted one. */
	value = box_profile_value(arena, find(arena, "{\"m\":{\"locked\":\"image, cpus\"}}", "m"));
	ASSERT(box_str_eq(box_map_get(&value, "network")->str, "off"));
	ASSERT_INT(box_map_get(&value, "locked")->count, 2);
	/* In place of a built-in one. */
	struct box_profile_set all = read_own(arena, "{\"default\":{\"memory_mb\":64}}");
	ASSERT_INT(all.count, 5);
	ASSERT_INT(find(arena, "{\"default\":{\"memory_mb\":64}}", "default")->memory_mb, 64);
	/* Inconsistent timeouts. */
	ASSERT_INT(find(arena, "{\"m\":{\"max_timeout_sec\":5}}", "m")->timeout_sec, 5);
	ASSERT_INT(find(arena, "{\"m\":{\"timeout_sec\":500}}", "m")->max_timeout_sec, 500);
	box_arena_free(arena);
}

TEST(own_ones_that_are_wrong)
{
	static const char *const rows[][2] = {
		{"[]", "box.local.profiles must be an object"},
		{"{\"m\":7}",
			"1 validation error for box.local.profiles.m\n  a profile must be a map"},
		{"{\"\":{}}",
			"1 validation error for box.local.profiles.\n  a name has 1 to 64 bytes and "
			"no NUL"},
		{"{\"m\":{\"memory_mb\":31}}",
			"1 validation error for box.local.profiles.m\nmemory_mb\n  Value error, "
			"memory_mb must be at least 32"},
		{"{\"m\":{\"network\":\"maybe\"}}",
			"1 validation error for box.local.profiles.m\nnetwork\n  Input should be "
			"'off' or 'on'"},
		{"{\"m\":{\"lokced\":[]}}",
			"1 validation error for box.local.profiles.m\nlokced\n  Extra inputs are "
			"not permitted"},
		{"{\"m\":{\"locked\":[\"netwrok\"]}}",
			"1 validation error for box.local.profiles.m\nlocked\n  there is no member "
			"netwrok to lock"},
		{"{\"m\":{\"locked\":1}}",
			"1 validation error for box.local.profiles.m\nlocked\n  Input should be a "
			"list of names"},
		{"{\"m\":{\"base\":\"none\"}}",
			"1 validation error for box.local.profiles.m\nbase\n  no built-in profile "
			"is called none"},
		{"{\"m\":{\"timeout_sec\":9,\"max_timeout_sec\":8}}",
			"1 validation error for box.local.profiles.m\ntimeout_sec\n  is more than "
			"max_timeout_sec"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value own = tree(arena, rows[i][0]);
		struct box_profile_set profiles;
		struct box_err err;
		ASSERT_INT(box_profile_read_all(arena, &own, &profiles, &err), -EINVAL);
		ASSERT_STR(err.text, rows[i][1]);
		box_arena_free(arena);
	}
}

struct applied {
	struct box_value spec;
	struct box_value notes;
};

static struct applied apply(
	struct box_arena *arena, const char *profile, const char *usual, const char *spec)
{
	struct applied applied = {tree(arena, spec), box_list_value()};
	struct box_value map = tree(arena, usual);
	box_profile_apply(arena, find(arena, "{}", profile), &map, &applied.spec, &applied.notes);
	return applied;
}

static void assert_member(const struct applied *applied, const char *name, const char *json)
{
	const struct box_value *value = box_map_get(&applied->spec, name);
	ASSERT(value != NULL);
	assert_json(value, json);
}

TEST(defaults_fill_what_is_missing)
{
	struct box_arena *arena = box_arena_new();
	struct applied applied = apply(arena, "default",
		"{\"image\":\"own\",\"workspace_quota_mb\":5}",
		"{\"cmd\":\"x\",\"memory_mb\":64,\"network\":null}");
	assert_json(&applied.spec,
		"{\"cmd\":\"x\",\"memory_mb\":64,\"network\":\"on\",\"image\":\"own\","
		"\"timeout_sec\":30,\"host_path_mode\":\"rw\",\"cpus\":1.0,\"pids_limit\":128,"
		"\"read_only_rootfs\":true,\"workspace_quota_mb\":5}");
	ASSERT_INT(applied.notes.count, 0);
	/* The caller's value takes precedence over the operator's default. */
	applied = apply(arena, "default", "{\"image\":\"own\"}", "{\"image\":\"theirs\"}");
	assert_member(&applied, "image", "\"theirs\"");
	box_arena_free(arena);
}

TEST(locked_members_stay_and_are_noted)
{
	struct box_arena *arena = box_arena_new();
	struct applied applied = apply(arena, "offline_readonly", "{}",
		"{\"network\":\"on\",\"host_path_mode\":\"rw\",\"read_only_rootfs\":0,"
		"\"memory_mb\":999}");
	assert_member(&applied, "network", "\"off\"");
	assert_member(&applied, "host_path_mode", "\"ro\"");
	assert_member(&applied, "read_only_rootfs", "true");
	assert_member(&applied, "memory_mb", "999");
	assert_json(&applied.notes,
		"[\"network on is ignored: profile offline_readonly locks it to off\","
		"\"host_path_mode rw is ignored: profile offline_readonly locks it to ro\","
		"\"read_only_rootfs 0 is ignored: profile offline_readonly locks it to "
		"true\"]");
	/* The same value in another form is no conflict. */
	applied = apply(arena, "offline_readonly", "{}",
		"{\"network\":\"off\",\"read_only_rootfs\":\"yes\"}");
	ASSERT_INT(applied.notes.count, 0);
	box_arena_free(arena);
}

TEST(locked_mounts_have_no_back_door)
{
	struct box_arena *arena = box_arena_new();
	struct applied applied = apply(arena, "offline_readonly", "{}",
		"{\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"},"
		"{\"host_path\":\"/a\",\"mount_path\":\"/c\",\"mode\":\"rw\"},"
		"{\"host_path\":\"/a\",\"mount_path\":\"/d\",\"mode\":\"none\"}]}");
	assert_member(&applied, "extra_mounts",
		"[{\"host_path\":\"/a\",\"mount_path\":\"/b\",\"mode\":\"ro\"},"
		"{\"host_path\":\"/a\",\"mount_path\":\"/c\",\"mode\":\"ro\"},"
		"{\"host_path\":\"/a\",\"mount_path\":\"/d\",\"mode\":\"none\"}]");
	ASSERT_INT(applied.notes.count, 1);
	applied = apply(arena, "default", "{}",
		"{\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"}]}");
	assert_member(&applied, "extra_mounts", "[{\"host_path\":\"/a\",\"mount_path\":\"/b\"}]");
	ASSERT_INT(applied.notes.count, 0);
	box_arena_free(arena);
}

TEST(timeouts_are_cut_in_every_form)
{
	static const struct {
		const char *asked;
		const char *becomes;
		bool noted;
	} rows[] = {
		{"120", "120", false},
		{"\"120\"", "120", false},
		{"\" 120 \"", "120", false},
		{"120.0", "120", false},
		{"121", "120", true},
		{"\"121\"", "120", true},
		{"\" 121\\n\"", "120", true},
		{"121.0", "120", true},
		{"\"121.0\"", "120", true},
		{"\"+1_000\"", "120", true},
		{"9e18", "120", true},
		{"5", "5", false},
		{"true", "1", false},
		{"-1", "-1", false},
		/* Not integers: the runtime refuses them. */
		{"121.5", "121.5", false},
		{"\"soon\"", "\"soon\"", false},
		{"\"99999999999999999999\"", "\"99999999999999999999\"", false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct applied applied = apply(arena, "default", "{}",
			box_arena_printf(arena, "{\"timeout_sec\":%s}", rows[i].asked));
		assert_member(&applied, "timeout_sec", rows[i].becomes);
		ASSERT_INT(applied.notes.count, rows[i].noted);
		box_arena_free(arena);
	}
}
