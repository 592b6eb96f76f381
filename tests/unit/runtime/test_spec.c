/* Box specs that are accepted: defaults, what clients really send, values, conflicts, copies. */
#include "base/arena.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/spec_parse.h"

TEST(defaults)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT_INT(parse_with(arena, "", &spec, &err), 0);
	ASSERT_STR(spec.session_id, "s");
	ASSERT_INT(spec.cmd.len, 0);
	ASSERT_STR(spec.workdir, "/workspace");
	ASSERT_INT(spec.timeout_sec, 30);
	ASSERT(!spec.network_on);
	ASSERT_INT(spec.env_count, 0);
	ASSERT_STR(spec.image, "rockchin/langbot-sandbox:latest");
	ASSERT(spec.host_path == NULL);
	ASSERT_INT(spec.host_path_mode, BOX_MOUNT_RW);
	ASSERT_STR(spec.mount_path, "/workspace");
	ASSERT_INT(spec.mount_count, 0);
	ASSERT(spec.skill_name == NULL);
	ASSERT(!spec.persistent);
	ASSERT(spec.cpus == 1.0);
	ASSERT_INT(spec.memory_mb, 512);
	ASSERT_INT(spec.pids_limit, 128);
	ASSERT(spec.read_only_rootfs);
	ASSERT_INT(spec.workspace_quota_mb, 0);
	ASSERT(spec.egress == NULL);
	box_arena_free(arena);
}

/* As 0.5.5 really sends it. */
TEST(old_client)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT_INT(parse(arena,
			   "{\"cmd\": \"echo hi; echo err >&2; exit 3\", \"workdir\": "
			   "\"/workspace\", \"timeout_sec\": 30, \"network\": \"off\", "
			   "\"session_id\": \"w1\", \"env\": {}, \"image\": "
			   "\"rockchin/langbot-sandbox:latest\", \"host_path\": null, "
			   "\"host_path_mode\": \"rw\", \"mount_path\": \"/workspace\", "
			   "\"extra_mounts\": [], \"skill_name\": null, \"persistent\": false, "
			   "\"cpus\": 1.0, \"memory_mb\": 512, \"pids_limit\": 128, "
			   "\"read_only_rootfs\": true, \"workspace_quota_mb\": 0}",
			   &spec, &err),
		0);
	ASSERT_STR(spec.session_id, "w1");
	ASSERT_BYTES(spec.cmd.bytes, spec.cmd.len, "echo hi; echo err >&2; exit 3", 29);
	ASSERT(spec.skill_name == NULL);
	box_arena_free(arena);
}

/* As 0.7.18 sends it: no skill_name, an artifact mount and a plain one with null members. */
TEST(new_client)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT_INT(parse(arena,
			   "{\"cmd\": \"  ls  \\n\", \"workdir\": \"/here/sub\", \"timeout_sec\": "
			   "120, \"network\": \"on\", \"session_id\": \" person:1/a b \", "
			   "\"env\": {\"A\": \"1\", \"B\": \"\"}, \"image\": \"img\", "
			   "\"host_path\": \"/srv/box/x\", \"host_path_mode\": \"ro\", "
			   "\"mount_path\": \"/here\", \"extra_mounts\": [{\"host_path\": "
			   "\"/srv/p\", \"mount_path\": \"/opt/langbot-artifacts/" HEX64
			   "\", \"mode\": \"ro\", \"content_digest\": \"sha256:" HEX64
			   "\", \"manifest_path\": \"/srv/m.json\"}, {\"host_path\": \"/srv/q\", "
			   "\"mount_path\": \"/q\", \"mode\": \"rw\", \"content_digest\": null, "
			   "\"manifest_path\": null}], \"persistent\": true, \"cpus\": 0.5, "
			   "\"memory_mb\": 1536, \"pids_limit\": 64, \"read_only_rootfs\": "
			   "false, \"workspace_quota_mb\": 7}",
			   &spec, &err),
		0);
	ASSERT_STR(spec.session_id, "person:1/a b");
	ASSERT_BYTES(spec.cmd.bytes, spec.cmd.len, "ls", 2);
	ASSERT_STR(spec.workdir, "/here/sub");
	ASSERT_INT(spec.timeout_sec, 120);
	ASSERT(spec.network_on);
	ASSERT_INT(spec.env_count, 2);
	ASSERT_STR(spec.env[0].name, "A");
	ASSERT_STR(spec.env[0].value, "1");
	ASSERT_STR(spec.env[1].name, "B");
	ASSERT_STR(spec.env[1].value, "");
	ASSERT_STR(spec.image, "img");
	ASSERT_STR(spec.host_path, "/srv/box/x");
	ASSERT_INT(spec.host_path_mode, BOX_MOUNT_RO);
	ASSERT_STR(spec.mount_path, "/here");
	ASSERT_INT(spec.mount_count, 2);
	ASSERT_STR(spec.mounts[0].host_path, "/srv/p");
	ASSERT_STR(spec.mounts[0].mount_path, BOX_ARTIFACT_ROOT "/" HEX64);
	ASSERT_INT(spec.mounts[0].mode, BOX_MOUNT_RO);
	ASSERT_STR(spec.mounts[0].content_digest, "sha256:" HEX64);
	ASSERT_STR(spec.mounts[0].manifest_path, "/srv/m.json");
	ASSERT_STR(spec.mounts[1].host_path, "/srv/q");
	ASSERT(spec.mounts[1].content_digest == NULL && spec.mounts[1].manifest_path == NULL);
	ASSERT(spec.persistent);
	ASSERT(spec.cpus == 0.5);
	ASSERT_INT(spec.memory_mb, 1536);
	ASSERT_INT(spec.pids_limit, 64);
	ASSERT(!spec.read_only_rootfs);
	ASSERT_INT(spec.workspace_quota_mb, 7);
	box_arena_free(arena);
}

TEST(whole_values)
{
	static const struct {
		const char *text;
		const char *refusal;
	} rows[] = {
		{"[]", "  Input should be a valid dictionary or instance of BoxSpec"},
		{"null", "  Input should be a valid dictionary or instance of BoxSpec"},
		{"\"x\"", "  Input should be a valid dictionary or instance of BoxSpec"},
		{"{}", "session_id\n  Field required"},
		{"{\"session_id\":null}", "session_id" NOT_STR},
		{"{\"session_id\":1}", "session_id" NOT_STR},
		{"{\"session_id\":\"\"}",
			"session_id\n  Value error, session_id must not be empty"},
		{"{\"session_id\":\" \\t\"}",
			"session_id\n  Value error, session_id must not be empty"},
		{"{\"session_id\":\"a\\u0000b\"}",
			"session_id\n  Value error, session_id must not contain NUL"},
		{"{\"foo\":1}", "session_id\n  Field required"},
		/* In the order of the members, not of the message. */
		{"{\"session_id\":\"\",\"foo\":1,\"timeout_sec\":\"x\"}",
			"timeout_sec" NOT_INT_TEXT},
		{"{\"pids_limit\":0,\"env\":1,\"session_id\":\"\"}",
			"session_id\n  Value error, session_id must not be empty"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_spec spec;
		struct box_err err = {0};
		int result = parse(arena, rows[i].text, &spec, &err);
		expect_refusal(rows[i].text, result, &err, "BoxSpec", rows[i].refusal);
		box_arena_free(arena);
	}
}

TEST(accepted_values)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT_INT(parse_with(arena, "\"timeout_sec\":\" 1_000.00 \"", &spec, &err), 0);
	ASSERT_INT(spec.timeout_sec, 1000);
	ASSERT_INT(parse_with(arena, "\"timeout_sec\":\"9223372036854775807\"", &spec, &err), 0);
	ASSERT_INT(spec.timeout_sec, INT64_MAX);
	ASSERT_INT(parse_with(arena, "\"timeout_sec\":true", &spec, &err), 0);
	ASSERT_INT(spec.timeout_sec, 1);
	ASSERT_INT(parse_with(arena, "\"cpus\":\"1_0.5e1\"", &spec, &err), 0);
	ASSERT(spec.cpus == 105.0);
	ASSERT_INT(
		parse_with(arena, "\"persistent\":\"Y\",\"read_only_rootfs\":0", &spec, &err), 0);
	ASSERT(spec.persistent && !spec.read_only_rootfs);
	ASSERT_INT(parse_with(arena, "\"workdir\":null,\"mount_path\":\" /m \"", &spec, &err), 0);
	ASSERT_STR(spec.workdir, "/m");
	ASSERT_STR(spec.mount_path, "/m");
	ASSERT_INT(parse_with(arena, "\"mount_path\":\"/m\"", &spec, &err), 0);
	ASSERT_STR(spec.workdir, "/m");
	ASSERT_INT(parse_with(arena, "\"skill_name\":\" a \"", &spec, &err), 0);
	ASSERT_STR(spec.skill_name, "a");
	ASSERT_INT(parse_with(arena, "\"skill_name\":\" \"", &spec, &err), 0);
	ASSERT(spec.skill_name == NULL);
	ASSERT_INT(parse_with(arena, "\"cmd\":\" \\n a b\\t \"", &spec, &err), 0);
	ASSERT_BYTES(spec.cmd.bytes, spec.cmd.len, "a b", 3);
	box_arena_free(arena);
}

#define ON "\"network\":\"on\","
#define ALLOW(entries) "\"egress\":{\"allow\":[" entries "]}"

struct conflict {
	const char *present;
	const char *asked;
	const char *field; /* NULL: they agree */
	const char *value;
};

static void check_conflict(const struct conflict *row)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec present;
	struct box_spec asked;
	struct box_err err = {0};
	const char *value = NULL;
	ASSERT_INT(parse_with(arena, row->present, &present, &err), 0);
	ASSERT_INT(parse_with(arena, row->asked, &asked, &err), 0);
	const char *field = box_spec_conflict(arena, &present, &asked, &value);
	if (row->field) {
		ASSERT_STR(field, row->field);
		ASSERT_STR(value, row->value);
	} else {
		ASSERT(field == NULL);
		ASSERT(value == NULL);
	}
	box_arena_free(arena);
}

TEST(conflict_table)
{
	static const struct conflict rows[] = {
		{"", "", NULL, NULL},
		{"\"cpus\":1", "\"cpus\":\"1.0\"", NULL, NULL},
		{"", "\"cmd\":\"x\",\"env\":{\"A\":\"1\"},\"timeout_sec\":5", NULL, NULL},
		{"", "\"workdir\":\"/tmp\",\"skill_name\":\"a\"", NULL, NULL},
		{"", "\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"}]", NULL, NULL},
		{"", "\"network\":\"on\"", "network", "off"},
		{"\"network\":\"on\"", "", "network", "on"},
		{"", "\"image\":\"x\"", "image", "rockchin/langbot-sandbox:latest"},
		{"\"image\":\"\"", "", "image", ""},
		{"\"image\":\"BoxAdmissionError: x\"", "", "image", "BoxAdmissionError? x"},
		{"", "\"host_path\":\"/a\"", "host_path", "None"},
		{"\"host_path\":\"/a\"", "", "host_path", "/a"},
		{"\"host_path\":\"/a\"", "\"host_path\":\"/b\"", "host_path", "/a"},
		{"", "\"host_path_mode\":\"ro\"", "host_path_mode", "rw"},
		{"\"host_path_mode\":\"none\"", "", "host_path_mode", "none"},
		{"", "\"mount_path\":\"/m\"", "mount_path", "/workspace"},
		{"", "\"persistent\":true", "persistent", "False"},
		{"\"persistent\":true", "", "persistent", "True"},
		{"", "\"cpus\":2", "cpus", "1.0"},
		{"\"cpus\":0.5", "", "cpus", "0.5"},
		{"\"cpus\":100", "", "cpus", "100.0"},
		{"\"cpus\":0.30000000000000004", "", "cpus", "0.30000000000000004"},
		{"\"cpus\":0.0001", "", "cpus", "0.0001"},
		{"\"cpus\":0.00001", "", "cpus", "1e-05"},
		{"\"cpus\":0.00000025", "", "cpus", "2.5e-07"},
		{"\"cpus\":123456789.125", "", "cpus", "123456789.125"},
		{"\"cpus\":1e15", "", "cpus", "1000000000000000.0"},
		{"\"cpus\":9007199254740993", "", "cpus", "9007199254740992.0"},
		{"\"cpus\":1e16", "", "cpus", "1e+16"},
		{"\"cpus\":1e22", "", "cpus", "1e+22"},
		{"\"cpus\":1.5e300", "", "cpus", "1.5e+300"},
		{"", "\"memory_mb\":64", "memory_mb", "512"},
		{"", "\"pids_limit\":1", "pids_limit", "128"},
		{"", "\"read_only_rootfs\":false", "read_only_rootfs", "True"},
		{"", "\"workspace_quota_mb\":1", "workspace_quota_mb", "0"},
		/* The order. */
		{"", "\"workspace_quota_mb\":1,\"read_only_rootfs\":0", "read_only_rootfs", "True"},
		{"", "\"read_only_rootfs\":0,\"pids_limit\":1", "pids_limit", "128"},
		{"", "\"pids_limit\":1,\"memory_mb\":32", "memory_mb", "512"},
		{"", "\"memory_mb\":32,\"cpus\":3", "cpus", "1.0"},
		{"", "\"cpus\":3,\"persistent\":1", "persistent", "False"},
		{"", "\"persistent\":1,\"mount_path\":\"/m\"", "mount_path", "/workspace"},
		{"", "\"mount_path\":\"/m\",\"host_path_mode\":\"ro\"", "host_path_mode", "rw"},
		{"", "\"host_path_mode\":\"ro\",\"host_path\":\"/a\"", "host_path", "None"},
		{"\"image\":\"i\"", "\"host_path\":\"/a\"", "image", "i"},
		{"", "\"image\":\"i\",\"network\":\"on\"", "network", "off"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		check_conflict(&rows[i]);
	}
}

TEST(conflicts_of_egress)
{
	static const struct conflict rows[] = {
		{ON ALLOW("\"10.0.0.0/8\""), "\"network\":\"on\"", "egress",
			"allow 10.0.0.0/8, host_ports none"},
		{"\"network\":\"on\"", ON ALLOW(""), "egress", "None"},
		{ON ALLOW(""), "\"network\":\"on\"", "egress", "allow nothing, host_ports none"},
		{ON "\"egress\":{\"allow\":[\"1.2.3.4:5\",\"1.0.0.0/8\"],\"host_ports\":[8,7]}",
			ON ALLOW("\"1.2.3.4:5\",\"1.0.0.0/8\""), "egress",
			"allow 1.0.0.0/8 1.2.3.4/32:5, host_ports 7 8"},
		{ON ALLOW("\"10.0.0.0/8\""), ON ALLOW("\"10.0.0.0/9\""), "egress",
			"allow 10.0.0.0/8, host_ports none"},
		{ON ALLOW("\"10.0.0.0/8\""), ON ALLOW("\"10.0.0.0/8:1\""), "egress",
			"allow 10.0.0.0/8, host_ports none"},
		/* The same in another form. */
		{ON ALLOW("\"1.1.1.1\",\"2.2.2.2/32\""),
			ON ALLOW("\"2.2.2.2\",\"1.1.1.1/32\",\"2.2.2.2\""), NULL, NULL},
		/* The order. */
		{"", ON ALLOW(""), "network", "off"},
		{"\"network\":\"on\"", ON ALLOW("") ",\"workspace_quota_mb\":1",
			"workspace_quota_mb", "0"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		check_conflict(&rows[i]);
	}
}

TEST(copy_for_the_session)
{
	struct box_arena *arena = box_arena_new();
	struct box_arena *other = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	const char *value = NULL;
	ASSERT_INT(
		parse_with(arena,
			"\"cmd\":\"ls\",\"env\":{\"A\":\"1\"},\"image\":\"i\",\"host_path\":"
			"\"/a\",\"workdir\":\"/workspace/x\",\"skill_name\":\"k\",\"cpus\":2,"
			"\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"}]," ON ALLOW(
				"\"10.0.0.0/8:53\""),
			&spec, &err),
		0);
	struct box_spec copy = box_spec_copy_session(other, &spec);
	ASSERT(box_spec_conflict(arena, &spec, &copy, &value) == NULL);
	/* The sanitizer detects pointers into the first arena. */
	box_arena_free(arena);
	ASSERT_STR(copy.session_id, "s");
	ASSERT_STR(copy.workdir, "/workspace/x");
	ASSERT_STR(copy.image, "i");
	ASSERT_STR(copy.host_path, "/a");
	ASSERT_STR(copy.mount_path, "/workspace");
	ASSERT_STR(copy.skill_name, "k");
	ASSERT(copy.cpus == 2.0);
	ASSERT_INT(copy.egress->allow_count, 1);
	ASSERT_INT(copy.egress->allow[0].port, 53);
	ASSERT_INT(copy.cmd.len, 0);
	ASSERT(copy.env == NULL && copy.env_count == 0);
	ASSERT(copy.mounts == NULL && copy.mount_count == 0);
	box_arena_free(other);
}

TEST(mode_names)
{
	ASSERT_STR(box_spec_mount_mode_name(BOX_MOUNT_NONE), "none");
	ASSERT_STR(box_spec_mount_mode_name(BOX_MOUNT_RO), "ro");
	ASSERT_STR(box_spec_mount_mode_name(BOX_MOUNT_RW), "rw");
}
