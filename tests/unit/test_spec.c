/* Box specs and process specs against a table whose verdicts were checked on the reference's
 * models (0.7.18; `skill_name` on 0.5.5). Rows marked OURS are where this runtime differs on
 * purpose. */
#include <errno.h>
#include <math.h>

#include "base/arena.h"
#include "base/limits.h"
#include "runtime/spec.h"
#include "tests/unit/test.h"
#include "transport/json.h"

#define OURS true
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct box_value tree(struct box_arena *arena, const char *text)
{
	struct box_value value = box_null();
	const char *why = NULL;
	char *copy = box_arena_strndup(arena, text, strlen(text));
	if (box_json_decode(arena, copy, strlen(copy), &value, &why) < 0) {
		TEST_FAIL("test input is no JSON: %s: %s", text, why);
	}
	return value;
}

static int parse(
	struct box_arena *arena, const char *text, struct box_spec *spec, struct box_err *err)
{
	struct box_value value = tree(arena, text);
	return box_spec_parse(arena, &value, spec, err);
}

/* {"session_id": "s", MEMBERS} */
static int parse_with(
	struct box_arena *arena, const char *members, struct box_spec *spec, struct box_err *err)
{
	return parse(arena,
		box_arena_printf(
			arena, "{\"session_id\":\"s\"%s%s}", members[0] ? "," : "", members),
		spec, err);
}

static void expect_refusal(const char *input, int result, const struct box_err *err,
	const char *model, const char *expected)
{
	char wanted[2048];
	snprintf(wanted, sizeof(wanted), "1 validation error for %s\n%s", model, expected);
	if (result != -EINVAL || err->code != BOX_ERR_VALIDATION || err->errnum != EINVAL ||
		strcmp(err->text, wanted) != 0) {
		TEST_FAIL("%s gives %d, code %d, \"%s\", not \"%s\"", input, result, (int)err->code,
			result < 0 ? err->text : "", wanted);
	}
}

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
			   "{\"cmd\": \"  ls  \\n\", \"workdir\": \"/work/sub\", \"timeout_sec\": "
			   "120, \"network\": \"on\", \"session_id\": \" person:1/a b \", "
			   "\"env\": {\"A\": \"1\", \"B\": \"\"}, \"image\": \"img\", "
			   "\"host_path\": \"/srv/box/x\", \"host_path_mode\": \"ro\", "
			   "\"mount_path\": \"/work\", \"extra_mounts\": [{\"host_path\": "
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
	ASSERT_STR(spec.workdir, "/work/sub");
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
	ASSERT_STR(spec.mount_path, "/work");
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

#define NOT_INT "\n  Input should be a valid integer"
#define NOT_INT_TEXT NOT_INT ", unable to parse string as an integer"
#define INT_SIZE "\n  Unable to parse input string as an integer, exceeded maximum size"
#define NOT_REAL "cpus\n  Input should be a valid number"
#define NOT_REAL_TEXT NOT_REAL ", unable to parse string as a number"
#define NOT_FINITE "cpus\n  Input should be a finite number"
#define NOT_BOOL "persistent\n  Input should be a valid boolean"
#define NOT_BOOL_WORD NOT_BOOL ", unable to interpret input"
#define NOT_STR "\n  Input should be a valid string"
#define TIMEOUT "timeout_sec\n  Value error, timeout_sec must be greater than 0"
#define CPUS "cpus\n  Value error, cpus must be greater than 0"
#define NETWORK "network\n  Input should be 'off' or 'on'"
#define MODE "\n  Input should be 'none', 'ro' or 'rw'"
#define WORKDIR "workdir\n  Value error, workdir must be an absolute path inside the sandbox"
#define MOUNT_PATH \
	"mount_path\n  Value error, mount_path must be an absolute path inside the sandbox"
#define HOST_PATH "host_path\n  Value error, host_path must be an absolute host path"
#define UNDER "  Value error, workdir must stay under mount_path when host_path is provided"
#define NORMAL "extra_mounts.0.mount_path\n  Value error, mount_path must be normalized"
#define ARTIFACT                                                                              \
	"extra_mounts.0\n  Value error, Artifact paths require a read-only digest-addressed " \
	"mount and manifest"
#define SKILL                                                                                \
	"skill_name\n  Value error, skill_name can only contain up to 64 letters, numbers, " \
	"hyphens and underscores"
#define ENV_NAME "\n  Value error, env names must not be empty or contain = or NUL"
#define MOUNT(members) "\"extra_mounts\":[{\"host_path\":\"/a\"," members "}]"

static const struct verdict {
	const char *members;
	const char *refusal; /* after the first line; NULL: accepted */
	bool ours;
} verdicts[] = {
	/* integers */
	{"\"timeout_sec\":1", NULL},
	{"\"timeout_sec\":30.0", NULL},
	{"\"timeout_sec\":\"30\"", NULL},
	{"\"timeout_sec\":\" 30 \"", NULL},
	{"\"timeout_sec\":\"+30\"", NULL},
	{"\"timeout_sec\":\"30.0\"", NULL},
	{"\"timeout_sec\":\"30.00\"", NULL},
	{"\"timeout_sec\":\"1_0\"", NULL},
	{"\"timeout_sec\":\"030\"", NULL},
	{"\"timeout_sec\":\"1_000.0\"", NULL},
	{"\"timeout_sec\":\"9223372036854775807.0\"", NULL},
	{"\"timeout_sec\":true", NULL},
	{"\"timeout_sec\":false", TIMEOUT},
	{"\"timeout_sec\":0", TIMEOUT},
	{"\"timeout_sec\":-1", TIMEOUT},
	{"\"timeout_sec\":\"-30\"", TIMEOUT},
	{"\"timeout_sec\":\"-0\"", TIMEOUT},
	{"\"timeout_sec\":\"00\"", TIMEOUT},
	{"\"timeout_sec\":\"-9223372036854775808\"", TIMEOUT},
	{"\"timeout_sec\":30.5", "timeout_sec" NOT_INT ", got a number with a fractional part"},
	{"\"timeout_sec\":null", "timeout_sec" NOT_INT},
	{"\"timeout_sec\":[]", "timeout_sec" NOT_INT},
	{"\"timeout_sec\":{}", "timeout_sec" NOT_INT},
	{"\"timeout_sec\":\"\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"x\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"30.5\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"30.\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\".0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1e2\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"_1\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1_\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1__0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1_.0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"30.0_0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"0x10\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"+-3\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"- 3\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1 0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"1,0\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"infinity\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":\"\\u0663\"", "timeout_sec" NOT_INT_TEXT},
	{"\"timeout_sec\":1e300", "timeout_sec" INT_SIZE},
	{"\"timeout_sec\":9.3e18", "timeout_sec" INT_SIZE},
	{"\"timeout_sec\":\"9223372036854775808\"", "timeout_sec" INT_SIZE, OURS},
	{"\"timeout_sec\":\"0__1\"", "timeout_sec" NOT_INT_TEXT, OURS},
	{"\"timeout_sec\":\"\\u00a030\"", "timeout_sec" NOT_INT_TEXT, OURS},
	{"\"memory_mb\":32", NULL},
	{"\"memory_mb\":\"64\"", NULL},
	{"\"memory_mb\":31", "memory_mb\n  Value error, memory_mb must be at least 32"},
	{"\"memory_mb\":true", "memory_mb\n  Value error, memory_mb must be at least 32"},
	{"\"memory_mb\":\"x\"", "memory_mb" NOT_INT_TEXT},
	{"\"pids_limit\":1", NULL},
	{"\"pids_limit\":0", "pids_limit\n  Value error, pids_limit must be at least 1"},
	{"\"pids_limit\":null", "pids_limit" NOT_INT},
	{"\"workspace_quota_mb\":0", NULL},
	{"\"workspace_quota_mb\":-1",
		"workspace_quota_mb\n  Value error, workspace_quota_mb must be greater than or "
		"equal to 0"},
	/* numbers */
	{"\"cpus\":1", NULL},
	{"\"cpus\":0.25", NULL},
	{"\"cpus\":true", NULL},
	{"\"cpus\":\"1.5\"", NULL},
	{"\"cpus\":\" 1.5 \"", NULL},
	{"\"cpus\":\"+1.5\"", NULL},
	{"\"cpus\":\"1_0.5\"", NULL},
	{"\"cpus\":\"1_.5\"", NULL},
	{"\"cpus\":\"1._5\"", NULL},
	{"\"cpus\":\"1e3\"", NULL},
	{"\"cpus\":\"1e+5\"", NULL},
	{"\"cpus\":\"1e5_0\"", NULL},
	{"\"cpus\":\".5\"", NULL},
	{"\"cpus\":\"5.\"", NULL},
	{"\"cpus\":0", CPUS},
	{"\"cpus\":0.0", CPUS},
	{"\"cpus\":false", CPUS},
	{"\"cpus\":-1", CPUS},
	{"\"cpus\":\"-1\"", CPUS},
	{"\"cpus\":\"-.5\"", CPUS},
	{"\"cpus\":null", NOT_REAL},
	{"\"cpus\":[]", NOT_REAL},
	{"\"cpus\":\"\"", NOT_REAL_TEXT},
	{"\"cpus\":\" \"", NOT_REAL_TEXT},
	{"\"cpus\":\"x\"", NOT_REAL_TEXT},
	{"\"cpus\":\"0x1p3\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1__0\"", NOT_REAL_TEXT},
	{"\"cpus\":\"_1\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1_\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1e\"", NOT_REAL_TEXT},
	{"\"cpus\":\"e1\"", NOT_REAL_TEXT},
	{"\"cpus\":\".\"", NOT_REAL_TEXT},
	{"\"cpus\":\".e5\"", NOT_REAL_TEXT},
	{"\"cpus\":\"+\"", NOT_REAL_TEXT},
	{"\"cpus\":\"+-3\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1d\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1 2\"", NOT_REAL_TEXT},
	{"\"cpus\":\"1\\u0000\"", NOT_REAL_TEXT},
	{"\"cpus\":\"inf\"", NOT_FINITE, OURS},
	{"\"cpus\":\"+Infinity\"", NOT_FINITE, OURS},
	{"\"cpus\":\"nan\"", NOT_FINITE, OURS},
	{"\"cpus\":\"1e400\"", NOT_FINITE, OURS},
	/* booleans */
	{"\"persistent\":true", NULL},
	{"\"persistent\":0", NULL},
	{"\"persistent\":1", NULL},
	{"\"persistent\":0.0", NULL},
	{"\"persistent\":1.0", NULL},
	{"\"persistent\":\"TRUE\"", NULL},
	{"\"persistent\":\"Yes\"", NULL},
	{"\"persistent\":\"oN\"", NULL},
	{"\"persistent\":\"t\"", NULL},
	{"\"persistent\":\"Y\"", NULL},
	{"\"persistent\":\"1\"", NULL},
	{"\"persistent\":\"f\"", NULL},
	{"\"persistent\":\"no\"", NULL},
	{"\"persistent\":\"N\"", NULL},
	{"\"persistent\":\"off\"", NULL},
	{"\"persistent\":\"False\"", NULL},
	{"\"persistent\":\"0\"", NULL},
	{"\"persistent\":2", NOT_BOOL_WORD},
	{"\"persistent\":-1", NOT_BOOL_WORD},
	{"\"persistent\":2.0", NOT_BOOL_WORD},
	{"\"persistent\":\"\"", NOT_BOOL_WORD},
	{"\"persistent\":\" true\"", NOT_BOOL_WORD},
	{"\"persistent\":\"2\"", NOT_BOOL_WORD},
	{"\"persistent\":\"tru\"", NOT_BOOL_WORD},
	{"\"persistent\":0.5", NOT_BOOL},
	{"\"persistent\":1e300", NOT_BOOL},
	{"\"persistent\":null", NOT_BOOL},
	{"\"persistent\":[]", NOT_BOOL},
	{"\"read_only_rootfs\":null", "read_only_rootfs\n  Input should be a valid boolean"},
	/* words */
	{"\"network\":\"on\"", NULL},
	{"\"network\":\"OFF\"", NETWORK},
	{"\"network\":\" on\"", NETWORK},
	{"\"network\":\"none\"", NETWORK},
	{"\"network\":null", NETWORK},
	{"\"network\":true", NETWORK},
	{"\"network\":0", NETWORK},
	{"\"host_path_mode\":\"none\"", NULL},
	{"\"host_path_mode\":\"x\"", "host_path_mode" MODE},
	{"\"host_path_mode\":null", "host_path_mode" MODE},
	/* texts and paths */
	{"\"cmd\":null", "cmd" NOT_STR},
	{"\"cmd\":1", "cmd" NOT_STR},
	{"\"cmd\":\"a\\u0000b\"", "cmd\n  Value error, cmd must not contain NUL", OURS},
	{"\"image\":\"\"", NULL},
	{"\"image\":null", "image" NOT_STR},
	{"\"image\":true", "image" NOT_STR},
	{"\"image\":\"a\\u0000\"", "image\n  Value error, image must not contain NUL", OURS},
	{"\"workdir\":null,\"mount_path\":\"/m\"", NULL},
	{"\"workdir\":\"\",\"mount_path\":\"/m\"", NULL},
	{"\"workdir\":null", NULL, OURS},
	{"\"workdir\":\"\"", NULL, OURS},
	{"\"workdir\":\" /a \"", NULL},
	{"\"workdir\":\"x\"", WORKDIR},
	{"\"workdir\":\" \"", WORKDIR},
	{"\"workdir\":1", "workdir" NOT_STR},
	{"\"workdir\":\"/a\\u0000\"", "workdir\n  Value error, workdir must not contain NUL", OURS},
	{"\"mount_path\":\"/a/../b\"", NULL},
	{"\"mount_path\":\"m\",\"workdir\":\"/a\"", MOUNT_PATH},
	{"\"mount_path\":\"\",\"workdir\":\"/a\"", MOUNT_PATH},
	{"\"mount_path\":null", "mount_path" NOT_STR},
	{"\"mount_path\":\"/\\u0000\"",
		"mount_path\n  Value error, mount_path must not contain NUL", OURS},
	{"\"host_path\":null", NULL},
	{"\"host_path\":\" /a \"", NULL},
	{"\"host_path\":\"\"", HOST_PATH},
	{"\"host_path\":\"a\"", HOST_PATH},
	{"\"host_path\":\"C:\\\\x\"", HOST_PATH, OURS},
	{"\"host_path\":\"/\\u0000\"", "host_path\n  Value error, host_path must not contain NUL",
		OURS},
	{"\"host_path\":\"/a\",\"workdir\":\"/workspace/..\"", NULL},
	{"\"host_path\":\"/a\",\"workdir\":\"/tmp\",\"host_path_mode\":\"none\"", NULL},
	{"\"host_path\":\"/a\",\"workdir\":\"/workspace/\",\"mount_path\":\"/workspace/\"", NULL},
	{"\"host_path\":\"/a\",\"workdir\":\"/tmp\"", UNDER},
	{"\"host_path\":\"/a\",\"workdir\":\"/workspacex\"", UNDER},
	{"\"host_path\":\"/a\",\"workdir\":\"/x\",\"mount_path\":\"/\"", UNDER},
	{"\"host_path\":\"/a\",\"workdir\":\"/m/x\",\"mount_path\":\"/m/\"", UNDER},
	{"\"skill_name\":null", NULL},
	{"\"skill_name\":\"\"", NULL},
	{"\"skill_name\":\" \"", NULL},
	{"\"skill_name\":\"a-b_1\"", NULL},
	{"\"skill_name\":\"\\u6280\\u80fd\"", NULL},
	{"\"skill_name\":\"" HEX64 "\"", NULL},
	{"\"skill_name\":\"" HEX64 "x\"", SKILL},
	{"\"skill_name\":\"---\"", SKILL},
	{"\"skill_name\":\"a b\"", SKILL},
	{"\"skill_name\":\"../a\"", SKILL},
	{"\"skill_name\":1", "skill_name" NOT_STR},
	/* environment */
	{"\"env\":{}", NULL},
	{"\"env\":{\"A\":\"\"}", NULL},
	{"\"env\":null", "env\n  Input should be a valid dictionary"},
	{"\"env\":[]", "env\n  Input should be a valid dictionary"},
	{"\"env\":{\"A\":1}", "env.A" NOT_STR},
	{"\"env\":{\"A\":null}", "env.A" NOT_STR},
	{"\"env\":{\"A\":\"1\",\"B\":true}", "env.B" NOT_STR},
	{"\"env\":{\"a b.c\":1}", "env.`a b.c`" NOT_STR},
	{"\"env\":{\"\":\"x\"}", "env..[key]" ENV_NAME, OURS},
	{"\"env\":{\"A=B\":\"x\"}", "env.A=B.[key]" ENV_NAME, OURS},
	{"\"env\":{\"A\\u0000\":\"x\"}", "env.A?.[key]" ENV_NAME, OURS},
	{"\"env\":{\"A\":\"\\u0000\"}", "env.A\n  Value error, env values must not contain NUL",
		OURS},
	/* extra mounts */
	{"\"extra_mounts\":[]", NULL},
	{"\"extra_mounts\":null", "extra_mounts\n  Input should be a valid list"},
	{"\"extra_mounts\":{}", "extra_mounts\n  Input should be a valid list"},
	{"\"extra_mounts\":[1]",
		"extra_mounts.0\n  Input should be a valid dictionary or instance of BoxMountSpec"},
	{"\"extra_mounts\":[{}]", "extra_mounts.0.host_path\n  Field required"},
	{"\"extra_mounts\":[{\"host_path\":\"/a\"}]",
		"extra_mounts.0.mount_path\n  Field required"},
	{"\"extra_mounts\":[{\"host_path\":\"a\",\"mount_path\":\"/b\"}]",
		"extra_mounts.0." HOST_PATH},
	{"\"extra_mounts\":[{\"host_path\":\"/\\u0000\",\"mount_path\":\"/b\"}]",
		"extra_mounts.0.host_path\n  Value error, host_path must not contain NUL", OURS},
	{"\"extra_mounts\":[{\"host_path\":\"C:\\\\x\",\"mount_path\":\"/b\"}]",
		"extra_mounts.0." HOST_PATH, OURS},
	{MOUNT("\"mount_path\":\"/b\",\"zzz\":1"), NULL},
	{MOUNT("\"mount_path\":\" /b \""), NULL},
	{MOUNT("\"mount_path\":\"/\""), NULL},
	{MOUNT("\"mount_path\":\"/..b/.c\""), NULL},
	{MOUNT("\"mount_path\":\"b\""), "extra_mounts.0." MOUNT_PATH},
	{MOUNT("\"mount_path\":\"/b/\""), NORMAL},
	{MOUNT("\"mount_path\":\"/b//c\""), NORMAL},
	{MOUNT("\"mount_path\":\"///b\""), NORMAL},
	{MOUNT("\"mount_path\":\"/b/../c\""), NORMAL},
	{MOUNT("\"mount_path\":\"/b/.\""), NORMAL},
	{MOUNT("\"mount_path\":\"/..\""), NORMAL},
	{MOUNT("\"mount_path\":\"//b\""), NORMAL, OURS},
	{MOUNT("\"mount_path\":\"//\""), NORMAL, OURS},
	{MOUNT("\"mount_path\":\"/b\",\"mode\":\"q\""), "extra_mounts.0.mode" MODE},
	{MOUNT("\"mount_path\":\"/b\",\"mode\":null"), "extra_mounts.0.mode" MODE},
	{MOUNT("\"mount_path\":\"/b/\",\"mode\":\"q\""), NORMAL},
	{MOUNT("\"mount_path\":\"/b\",\"content_digest\":\"sha256:" HEX64 "\""), NULL},
	{MOUNT("\"mount_path\":\"/b\",\"content_digest\":\"\""),
		"extra_mounts.0.content_digest\n  Value error, content_digest must use "
		"sha256:<hex>"},
	{MOUNT("\"mount_path\":\"/b\",\"content_digest\":\"sha256:AB\""),
		"extra_mounts.0.content_digest\n  Value error, content_digest must use sha256:<64 "
		"lowercase hex>"},
	{MOUNT("\"mount_path\":\"/b\",\"content_digest\":\"sha256:" HEX64 "0\""),
		"extra_mounts.0.content_digest\n  Value error, content_digest must use sha256:<64 "
		"lowercase hex>"},
	{MOUNT("\"mount_path\":\"/b\",\"manifest_path\":\"x\""),
		"extra_mounts.0.manifest_path\n  Value error, manifest_path must be an absolute "
		"host path"},
	{MOUNT("\"mount_path\":\"/b\",\"manifest_path\":\"\""),
		"extra_mounts.0.manifest_path\n  Value error, manifest_path must be an absolute "
		"host path"},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifactsx\""), NULL},
	{MOUNT("\"mount_path\":\"/opt\""), NULL},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifacts\""), ARTIFACT},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifacts/x\""), ARTIFACT},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifacts/" HEX64
	       "\",\"mode\":\"rw\",\"content_digest\":\"sha256:" HEX64
	       "\",\"manifest_path\":\"/m\""),
		ARTIFACT},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifacts/" HEX64
	       "\",\"mode\":\"ro\",\"content_digest\":\"sha256:" HEX64 "\""),
		ARTIFACT},
	{MOUNT("\"mount_path\":\"/opt/langbot-artifacts/" HEX64
	       "\",\"mode\":\"ro\",\"content_digest\":\" sha256:" HEX64
	       " \",\"manifest_path\":\"/m\""),
		NULL},
	{"\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"},{\"host_path\":\"x\","
	 "\"mount_path\":\"/b\"}]",
		"extra_mounts.1." HOST_PATH},
	/* members */
	{"\"foo\":1,\"bar\":2", "foo\n  Extra inputs are not permitted"},
	{"\"foo\":1,\"timeout_sec\":0", TIMEOUT},
	{"\"host_path\":\"/a\",\"workdir\":\"/tmp\",\"foo\":1",
		"foo\n  Extra inputs are not permitted"},
	{"\"egress\":null", NULL, OURS},
	{"\"egress\":{\"allow\":[]}",
		"egress\n  Value error, egress is not supported by this runtime", OURS},
	{"\"egress\":false", "egress\n  Value error, egress is not supported by this runtime",
		OURS},
};

TEST(verdict_table)
{
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_spec spec = {.timeout_sec = -77};
		struct box_err err = {0};
		int result = parse_with(arena, verdicts[i].members, &spec, &err);
		if (verdicts[i].refusal) {
			expect_refusal(
				verdicts[i].members, result, &err, "BoxSpec", verdicts[i].refusal);
			ASSERT_INT(spec.timeout_sec, -77);
		} else if (result != 0) {
			TEST_FAIL("%s is refused: %s", verdicts[i].members, err.text);
		}
		box_arena_free(arena);
	}
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
		/* The order is that of the members, not of the message. */
		{"{\"session_id\":\"\",\"foo\":1,\"timeout_sec\":\"x\"}",
			"timeout_sec" NOT_INT_TEXT},
		{"{\"pids_limit\":0,\"env\":1,\"session_id\":\"\"}",
			"session_id\n  Value error, session_id must not be empty"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
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

/* What only msgpack can carry: bytes, and numbers that are none. */
TEST(msgpack_values)
{
	static const struct {
		const char *name;
		struct box_value value;
		const char *refusal;
	} rows[] = {
		{"image", {.type = BOX_BIN, .str = {"abc", 3}}, NULL},
		{"timeout_sec", {.type = BOX_BIN, .str = {"30", 2}}, NULL},
		{"cpus", {.type = BOX_BIN, .str = {"1.5", 3}}, NULL},
		{"persistent", {.type = BOX_BIN, .str = {"true", 4}}, NULL},
		{"network", {.type = BOX_BIN, .str = {"on", 2}}, NULL},
		{"image", {.type = BOX_BIN, .str = {"\xff", 1}},
			"image" NOT_STR ", unable to parse raw data as a unicode string"},
		{"timeout_sec", {.type = BOX_BIN, .str = {"\xff", 1}}, "timeout_sec" NOT_INT_TEXT},
		{"timeout_sec", {.type = BOX_REAL, .real = INFINITY},
			"timeout_sec\n  Input should be a finite number"},
		{"timeout_sec", {.type = BOX_REAL, .real = NAN},
			"timeout_sec\n  Input should be a finite number"},
		{"timeout_sec", {.type = BOX_REAL, .real = -0x1p63}, "timeout_sec" INT_SIZE},
		{"cpus", {.type = BOX_REAL, .real = NAN}, NOT_FINITE},
		{"cpus", {.type = BOX_REAL, .real = INFINITY}, NOT_FINITE},
		{"persistent", {.type = BOX_REAL, .real = NAN}, NOT_BOOL},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value map = box_map_value();
		struct box_spec spec;
		struct box_err err = {0};
		box_map_add(arena, &map, "session_id", box_cstr("s"));
		box_map_add(arena, &map, rows[i].name, rows[i].value);
		int result = box_spec_parse(arena, &map, &spec, &err);
		if (rows[i].refusal) {
			expect_refusal(rows[i].name, result, &err, "BoxSpec", rows[i].refusal);
		} else {
			ASSERT_INT(result, 0);
		}
		box_arena_free(arena);
	}
}

TEST(error_may_be_null)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	ASSERT_INT(parse(arena, "{}", &spec, NULL), -EINVAL);
	box_arena_free(arena);
}

static char *repeated(struct box_arena *arena, const char *head, char c, size_t count)
{
	size_t len = strlen(head);
	char *text = box_arena_bytes(arena, len + count + 1);
	memcpy(text, head, len);
	memset(text + len, c, count);
	text[len + count] = '\0';
	return text;
}

TEST(lengths)
{
	static const struct {
		const char *name;
		const char *head;
		size_t most;
	} rows[] = {
		{"session_id", "", BOX_SESSION_ID_MAX},
		{"workdir", "/", BOX_PATH_MAX - 1},
		{"mount_path", "/", BOX_PATH_MAX - 1},
		{"host_path", "/", BOX_PATH_MAX - 1},
		{"image", "", BOX_PATH_MAX - 1},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t over = 0; over < 2; over++) {
			struct box_arena *arena = box_arena_new();
			struct box_value map = box_map_value();
			struct box_spec spec;
			struct box_err err = {0};
			char wanted[128];
			size_t count = rows[i].most + over - strlen(rows[i].head);
			if (strcmp(rows[i].name, "session_id") != 0) {
				box_map_add(arena, &map, "session_id", box_cstr("s"));
			}
			box_map_add(arena, &map, rows[i].name,
				box_cstr(repeated(arena, rows[i].head, 'x', count)));
			int result = box_spec_parse(arena, &map, &spec, &err);
			snprintf(wanted, sizeof(wanted),
				"%s\n  Value error, %s must be at most %zu bytes long",
				rows[i].name, rows[i].name, rows[i].most);
			if (over) {
				expect_refusal(rows[i].name, result, &err, "BoxSpec", wanted);
			} else {
				ASSERT_INT(result, 0);
			}
			box_arena_free(arena);
		}
	}
}

TEST(echo_is_cut_and_harmless)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "session_id", box_cstr("s"));
	box_map_add(arena, &map, repeated(arena, "", 'k', 5000), box_null());
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	char wanted[256];
	snprintf(wanted, sizeof(wanted),
		"1 validation error for BoxSpec\n%s...\n  Extra inputs are not permitted",
		repeated(arena, "", 'k', 100));
	ASSERT_STR(err.text, wanted);

	/* Not inside a code point: 34 of three bytes are 102. */
	char *wide = repeated(arena, "", ' ', 102);
	for (size_t i = 0; i < 34; i++) {
		memcpy(wide + 3 * i, "\xe6\x8a\x80", 3);
	}
	map.pairs[1].key = box_str(wide);
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	snprintf(wanted, sizeof(wanted),
		"1 validation error for BoxSpec\n%.99s...\n  Extra inputs are not permitted", wide);
	ASSERT_STR(err.text, wanted);

	map.pairs[1].key = box_str("BoxAdmissionError: \n\x7fx");
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	ASSERT_STR(err.text,
		"1 validation error for BoxSpec\nBoxAdmissionError? ??x\n  Extra inputs are not "
		"permitted");
	box_arena_free(arena);
}

static const char *mount_texts(struct box_arena *arena, const struct box_spec *spec)
{
	const char *text = "";
	for (size_t i = 0; i < spec->mount_count; i++) {
		text = box_arena_printf(arena, "%s%s:%s:%s ", text, spec->mounts[i].host_path,
			spec->mounts[i].mount_path, box_mount_mode_name(spec->mounts[i].mode));
	}
	return text;
}

TEST(last_mount_of_a_path_wins)
{
	static const struct {
		const char *mounts; /* host:target:mode, by letters */
		const char *kept;
	} rows[] = {
		{"a1w", "/a:/1:rw "},
		{"a1n", ""},
		{"a1w b1r", "/b:/1:ro "},
		{"a1w b2r c1w d3w e2n", "/b:/2:ro /c:/1:rw /d:/3:rw "},
		{"a1w b1n", "/a:/1:rw "},
		{"c9w b8w a7w", "/c:/9:rw /b:/8:rw /a:/7:rw "},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_arena *arena = box_arena_new();
		const char *json = "\"extra_mounts\":[";
		struct box_spec spec;
		struct box_err err = {0};
		for (const char *p = rows[i].mounts; *p; p += p[3] ? 4 : 3) {
			const char *mode = p[2] == 'w' ? "rw" : p[2] == 'r' ? "ro" : "none";
			json = box_arena_printf(arena,
				"%s{\"host_path\":\"/%c\",\"mount_path\":\"/%c\","
				"\"mode\":\"%s\"}%s",
				json, p[0], p[1], mode, p[3] ? "," : "]");
		}
		ASSERT_INT(parse_with(arena, json, &spec, &err), 0);
		ASSERT_STR(mount_texts(arena, &spec), rows[i].kept);
		box_arena_free(arena);
	}
}

/* A message full of mounts: 60,000 at two paths must not take a quadratic time. */
TEST(many_mounts)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	struct box_value list = box_list_value();
	struct box_spec spec;
	struct box_err err = {0};
	for (int i = 0; i < 60000; i++) {
		struct box_value mount = box_map_value();
		box_map_add(
			arena, &mount, "host_path", box_cstr(box_arena_printf(arena, "/h%d", i)));
		box_map_add(arena, &mount, "mount_path", box_cstr(i % 2 ? "/odd" : "/even"));
		box_list_add(arena, &list, mount);
	}
	box_map_add(arena, &map, "session_id", box_cstr("s"));
	box_map_add(arena, &map, "extra_mounts", list);
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), 0);
	ASSERT_STR(mount_texts(arena, &spec), "/h59998:/even:rw /h59999:/odd:rw ");
	box_arena_free(arena);
}

TEST(conflict_table)
{
	static const struct {
		const char *present;
		const char *asked;
		const char *field; /* NULL: they agree */
		const char *value;
	} rows[] = {
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
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_spec present;
		struct box_spec asked;
		struct box_err err = {0};
		const char *value = NULL;
		ASSERT_INT(parse_with(arena, rows[i].present, &present, &err), 0);
		ASSERT_INT(parse_with(arena, rows[i].asked, &asked, &err), 0);
		const char *field = box_spec_conflict(arena, &present, &asked, &value);
		if (rows[i].field) {
			ASSERT_STR(field, rows[i].field);
			ASSERT_STR(value, rows[i].value);
		} else {
			ASSERT(field == NULL);
			ASSERT(value == NULL);
		}
		box_arena_free(arena);
	}
}

TEST(copy_for_the_session)
{
	struct box_arena *arena = box_arena_new();
	struct box_arena *other = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	const char *value = NULL;
	ASSERT_INT(parse_with(arena,
			   "\"cmd\":\"ls\",\"env\":{\"A\":\"1\"},\"image\":\"i\",\"host_path\":"
			   "\"/a\",\"workdir\":\"/workspace/x\",\"skill_name\":\"k\",\"cpus\":2,"
			   "\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\"}]",
			   &spec, &err),
		0);
	struct box_spec copy = box_spec_copy_session(other, &spec);
	ASSERT(box_spec_conflict(arena, &spec, &copy, &value) == NULL);
	/* The sanitizer sees to it that nothing of the first arena is left in the copy. */
	box_arena_free(arena);
	ASSERT_STR(copy.session_id, "s");
	ASSERT_STR(copy.workdir, "/workspace/x");
	ASSERT_STR(copy.image, "i");
	ASSERT_STR(copy.host_path, "/a");
	ASSERT_STR(copy.mount_path, "/workspace");
	ASSERT_STR(copy.skill_name, "k");
	ASSERT(copy.cpus == 2.0);
	ASSERT_INT(copy.cmd.len, 0);
	ASSERT(copy.env == NULL && copy.env_count == 0);
	ASSERT(copy.mounts == NULL && copy.mount_count == 0);
	box_arena_free(other);
}

TEST(mode_names)
{
	ASSERT_STR(box_mount_mode_name(BOX_MOUNT_NONE), "none");
	ASSERT_STR(box_mount_mode_name(BOX_MOUNT_RO), "ro");
	ASSERT_STR(box_mount_mode_name(BOX_MOUNT_RW), "rw");
}

TEST(process_spec)
{
	struct box_arena *arena = box_arena_new();
	struct box_process_spec spec;
	struct box_err err = {0};
	struct box_value value = tree(arena,
		"{\"process_id\": \"default\", \"command\": \"cat\", \"args\": [], "
		"\"env\": {\"K\": "
		"\"v\"}, \"cwd\": \"/workspace\", \"memory_mb\": 0}");
	ASSERT_INT(box_process_spec_parse(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, "default");
	ASSERT_STR(spec.command, "cat");
	ASSERT_INT(spec.arg_count, 0);
	ASSERT(spec.args[0] == NULL);
	ASSERT_INT(spec.env_count, 1);
	ASSERT_STR(spec.env[0].name, "K");
	ASSERT_STR(spec.env[0].value, "v");
	ASSERT_STR(spec.cwd, "/workspace");
	ASSERT_INT(spec.memory_mb, 0);

	value = tree(arena,
		"{\"process_id\":\" a \",\"command\":\" x \",\"args\":[\"-c\",\"\"],\"cwd\":\" /a "
		"\",\"memory_mb\":\"64\",\"foo\":1}");
	ASSERT_INT(box_process_spec_parse(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, " a ");
	ASSERT_STR(spec.command, "x");
	ASSERT_INT(spec.arg_count, 2);
	ASSERT_STR(spec.args[0], "-c");
	ASSERT_STR(spec.args[1], "");
	ASSERT(spec.args[2] == NULL);
	ASSERT_STR(spec.cwd, "/a");
	ASSERT_INT(spec.memory_mb, 64);

	value = tree(arena, "{\"command\":\"x\",\"memory_mb\":-5}");
	ASSERT_INT(box_process_spec_parse(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, "default");
	ASSERT_STR(spec.cwd, "/workspace");
	ASSERT(spec.args && spec.args[0] == NULL);
	ASSERT_INT(spec.memory_mb, 0);
	box_arena_free(arena);
}

TEST(process_refusals)
{
	static const struct {
		const char *text;
		const char *refusal;
	} rows[] = {
		{"[]", "  Input should be a valid dictionary or instance of BoxManagedProcessSpec"},
		{"{}", "command\n  Field required"},
		{"{\"command\":1}", "command" NOT_STR},
		{"{\"command\":\" \"}", "command\n  Value error, command must not be empty"},
		{"{\"command\":\"a\\u0000\"}",
			"command\n  Value error, command must not contain NUL"},
		{"{\"command\":\"x\",\"args\":null}", "args\n  Input should be a valid list"},
		{"{\"command\":\"x\",\"args\":\"a\"}", "args\n  Input should be a valid list"},
		{"{\"command\":\"x\",\"args\":[\"a\",1]}", "args.1" NOT_STR},
		{"{\"command\":\"x\",\"args\":[\"\\u0000\"]}",
			"args.0\n  Value error, args must not contain NUL"},
		{"{\"command\":\"x\",\"env\":{\"A\":1}}", "env.A" NOT_STR},
		{"{\"command\":\"x\",\"env\":{\"A=\":\"\"}}", "env.A=.[key]" ENV_NAME},
		{"{\"command\":\"x\",\"cwd\":\"a\"}",
			"cwd\n  Value error, cwd must be an absolute path inside the sandbox"},
		{"{\"command\":\"x\",\"cwd\":null}", "cwd" NOT_STR},
		{"{\"command\":\"x\",\"memory_mb\":null}", "memory_mb" NOT_INT},
		{"{\"command\":\"x\",\"process_id\":1}", "process_id" NOT_STR},
		{"{\"command\":\"x\",\"process_id\":\"\\u0000\"}",
			"process_id\n  Value error, process_id must not contain NUL"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_process_spec spec;
		struct box_err err = {0};
		struct box_value value = tree(arena, rows[i].text);
		int result = box_process_spec_parse(arena, &value, &spec, &err);
		expect_refusal(
			rows[i].text, result, &err, "BoxManagedProcessSpec", rows[i].refusal);
		box_arena_free(arena);
	}
}
