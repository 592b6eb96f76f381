/* Box specs, member by member: a table whose verdicts were checked on the reference's models
 * (0.7.18; `skill_name` on 0.5.5). Rows marked OURS are where this runtime differs on purpose. */
#include <math.h>

#include "base/arena.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/spec_parse.h"

#define OURS true
#define ON "\"network\":\"on\","
#define ALLOW(entries) ON "\"egress\":{\"allow\":[" entries "]}"
#define ENTRY(text) "egress.allow.0\n  Value error, " text
#define IPV6(text) ENTRY(text) " must be IPv4: boxes have no IPv6"
#define PREFIX(text) ENTRY(text) " has a prefix that is not a number from 0 to 32"
#define PORT(text) ENTRY(text) " has a port that is not a number from 1 to 65535"
#define NO_ENTRY(text) \
	ENTRY(text) " must be ADDRESS/PREFIX or ADDRESS/PREFIX:PORT, with an IPv4 address"
#define HOST_PORT(at) \
	"egress.host_ports." at "\n  Value error, a port must be a number from 1 to 65535"

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
	{ON "\"egress\":null", NULL, OURS},
	{ON "\"egress\":{}", NULL, OURS},
	{ON "\"egress\":{\"allow\":[],\"host_ports\":[]}", NULL, OURS},
	{ALLOW("\"10.0.0.0/8\",\"0.0.0.0/0\",\"1.2.3.4\",\"1.2.3.4:1\",\"1.2.3.4/32:65535\""), NULL,
		OURS},
	{ON "\"egress\":{\"host_ports\":[1,65535,8080,8080]}", NULL, OURS},
	{"\"egress\":{}", "egress\n  Value error, egress needs network 'on'", OURS},
	{"\"network\":\"off\",\"egress\":{\"allow\":[\"10.0.0.0/8\"]}",
		"egress\n  Value error, egress needs network 'on'", OURS},
	{ON "\"egress\":false", "egress\n  Input should be a valid dictionary", OURS},
	{ON "\"egress\":[]", "egress\n  Input should be a valid dictionary", OURS},
	{ON "\"egress\":{\"deny\":[]}", "egress.deny\n  Extra inputs are not permitted", OURS},
	{ON "\"egress\":{\"allow\":null}", "egress.allow\n  Input should be a valid list", OURS},
	{ON "\"egress\":{\"allow\":\"10.0.0.0/8\"}", "egress.allow\n  Input should be a valid list",
		OURS},
	{ON "\"egress\":{\"host_ports\":80}", "egress.host_ports\n  Input should be a valid list",
		OURS},
	{ALLOW("\"10.0.0.0/8\",7"), "egress.allow.1\n  Value error, an entry must be a text", OURS},
	{ALLOW("\"::/0\""), IPV6("::/0"), OURS},
	{ALLOW("\"[2001:db8::1]:80\""), IPV6("[2001:db8::1]:80"), OURS},
	{ALLOW("\"10.0.0.1/8\""),
		"egress.allow.0\n  Value error, 10.0.0.1/8 has an address with bits beyond its prefix",
		OURS},
	{ALLOW("\"10.0.0.0/33\""), PREFIX("10.0.0.0/33"), OURS},
	{ALLOW("\"10.0.0.0/\""), PREFIX("10.0.0.0/"), OURS},
	{ALLOW("\"10.0.0.0/08\""), PREFIX("10.0.0.0/08"), OURS},
	{ALLOW("\"10.0.0.0/-1\""), PREFIX("10.0.0.0/-1"), OURS},
	{ALLOW("\"10.0.0.0/8/8\""), PREFIX("10.0.0.0/8/8"), OURS},
	{ALLOW("\"10.0.0.0/8:0\""), PORT("10.0.0.0/8:0"), OURS},
	{ALLOW("\"10.0.0.0/8:65536\""), PORT("10.0.0.0/8:65536"), OURS},
	{ALLOW("\"10.0.0.0/8:\""), PORT("10.0.0.0/8:"), OURS},
	{ALLOW("\"10.0.0.0/8:+1\""), PORT("10.0.0.0/8:+1"), OURS},
	{ALLOW("\"10.0.0.0/8:080\""), PORT("10.0.0.0/8:080"), OURS},
	{ALLOW("\"\""), NO_ENTRY(""), OURS},
	{ALLOW("\"www.example.com\""), NO_ENTRY("www.example.com"), OURS},
	{ALLOW("\"10.0/8\""), NO_ENTRY("10.0/8"), OURS},
	{ALLOW("\"010.0.0.0/8\""), NO_ENTRY("010.0.0.0/8"), OURS},
	{ALLOW("\" 10.0.0.0/8\""), NO_ENTRY(" 10.0.0.0/8"), OURS},
	{ALLOW("\"10.0.0.0\\u0000/8\""), NO_ENTRY("10.0.0.0?/8"), OURS},
	{ON "\"egress\":{\"host_ports\":[80,0]}", HOST_PORT("1"), OURS},
	{ON "\"egress\":{\"host_ports\":[65536]}", HOST_PORT("0"), OURS},
	{ON "\"egress\":{\"host_ports\":[\"80\"]}", HOST_PORT("0"), OURS},
	{ON "\"egress\":{\"host_ports\":[true]}", HOST_PORT("0"), OURS},
	{ON "\"egress\":{\"host_ports\":[80.0]}", HOST_PORT("0"), OURS},
	{ON "\"egress\":{\"host_ports\":[1,2,3,4,5,6,7,8]}", NULL, OURS},
	{ON "\"egress\":{\"host_ports\":[1,2,3,4,5,6,7,8,9]}",
		"egress.host_ports\n  Value error, there may be at most 8 entries", OURS},
};

TEST(verdict_table)
{
	for (size_t i = 0; i < COUNT(verdicts); i++) {
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

/* Values that only msgpack can carry: bytes, NaN and infinities. */
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
	for (size_t i = 0; i < COUNT(rows); i++) {
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
