/* The names of the configuration: which are known, the warnings for others, and suggestions. */
#include "base/arena.h"
#include "runtime/config/config_members.h"
#include "tests/unit/lib/config_merge.h"

static struct box_config_findings found;

static void check_map(const char *text, enum box_config_member_rules rules, bool operators)
{
	arena = arena ? arena : box_arena_new();
	struct box_value map = tree(arena, text);
	memset(&found, 0, sizeof(found));
	box_config_members_check(arena, &map, rules, operators, &found);
}

/* "E path: text" of each finding, W for a warning. */
static const char *said(void)
{
	const char *all = "";
	for (size_t i = 0; i < found.count; i++) {
		all = box_arena_printf(arena, "%s%s%s %s: %s", all, i ? "|" : "",
			found.items[i].wrong ? "E" : "W", found.items[i].path, found.items[i].text);
	}
	return all;
}

#define UNKNOWN "unknown member"
#define MEANT(name) UNKNOWN "; did you mean " name "?"
#define UNDER(name) UNKNOWN "; it belongs under " name
#define TOP UNKNOWN "; it belongs at the top, beside the sections"

TEST(what_langbot_sends_is_known)
{
	static const enum box_config_member_rules rules[] = {
		BOX_CONFIG_MEMBERS_OWN, BOX_CONFIG_MEMBERS_LANGBOT, BOX_CONFIG_MEMBERS_CLIENT};
	for (size_t i = 0; i < COUNT(rules); i++) {
		check_map(langbot_default, rules[i], true);
		ASSERT_STR(said(), "");
		check_map("{\"runtime\":{\"endpoint\":\"\"},\"docker\":{\"new\":1},\"e2b\":null,"
			  "\"default_memory_mb\":1}",
			rules[i], true);
		ASSERT_STR(said(), "");
	}
	box_arena_free(arena);
}

/* A name, and the messages about it in a file for boxd alone. */
TEST(what_was_meant)
{
	static const struct {
		const char *map;
		const char *said;
	} rows[] = {
		/* Typos that would allow mounting everything. */
		{"{\"allowed_mount_roots\":[]}", "E allowed_mount_roots: " UNDER("local")},
		{"{\"local\":{\"allowed_mount_root\":[]}}",
			"E local.allowed_mount_root: " MEANT("allowed_mount_roots")},
		{"{\"local\":{\"allowed-mount-roots\":[]}}",
			"E local.allowed-mount-roots: " MEANT("allowed_mount_roots")},
		{"{\"allowed-mount-roots\":[]}",
			"E allowed-mount-roots: " MEANT("local.allowed_mount_roots")},
		/* Typical mistakes of new users. */
		{"{\"session_tll_sec\":1}", "E session_tll_sec: " MEANT("session_ttl_sec")},
		{"{\"admission\":{\"requird\":true}}", "E admission.requird: " MEANT("required")},
		{"{\"limits\":{\"max_sesions\":6}}",
			"E limits.max_sesions: " MEANT("max_sessions")},
		{"{\"local\":{\"rootf\":\"/x\"}}", "E local.rootf: " MEANT("rootfs")},
		/* Letters swapped, case, other dashes. */
		{"{\"bakcend\":1}", "E bakcend: " MEANT("backend")},
		{"{\"local\":{\"hostRoot\":1}}", "E local.hostRoot: " MEANT("host_root")},
		{"{\"Local\":{}}", "E Local: " MEANT("local")},
		{"{\"local\":{\"seccmop\":1}}", "E local.seccmop: " MEANT("seccomp")},
		/* The wrong section. */
		{"{\"rootfs\":1}", "E rootfs: " UNDER("local")},
		{"{\"seccomp\":1}", "E seccomp: " UNDER("local")},
		{"{\"degraded\":1}", "E degraded: " UNDER("local")},
		{"{\"max_sessions\":1}", "E max_sessions: " UNDER("limits")},
		{"{\"max_sesions\":1}", "E max_sesions: " MEANT("limits.max_sessions")},
		{"{\"required\":1}", "E required: " UNDER("admission")},
		{"{\"profile\":\"x\"}", "E profile: " UNDER("local")},
		{"{\"local\":{\"images\":{}}}", "E local.images: " TOP},
		{"{\"limits\":{\"images\":{}}}", "E limits.images: " TOP},
		{"{\"local\":{\"require_context\":1}}", "E local.require_context: " TOP},
		{"{\"local\":{\"requirecontext\":1}}",
			"E local.requirecontext: " MEANT("require_context, at the top")},
		{"{\"local\":{\"backend\":1}}", "E local.backend: " TOP},
		/* No similar name. */
		{"{\"foo\":1}", "E foo: " UNKNOWN},
		{"{\"\":1}", "E : " UNKNOWN},
		{"{\"_\":1}", "E _: " UNKNOWN},
		{"{\"limits\":{\"bar\":2}}", "E limits.bar: " UNKNOWN},
		{"{\"BoxError:\\n\":1}", "E BoxError??: " UNKNOWN},
		{"{\"allowed_host_mount_roots\":[]}",
			"E allowed_host_mount_roots: " MEANT("local.allowed_mount_roots")},
		/* Several, in order. */
		{"{\"foo\":1,\"local\":{\"x\":1,\"image\":\"y\"},\"bar\":2}",
			"E foo: " UNKNOWN "|E local.x: " UNKNOWN "|E bar: " UNKNOWN},
		/* Names that this table does not check. */
		{"{\"images\":{\"any\":\"/x\"},\"local\":{\"profiles\":{\"any\":{}}}}", ""},
		/* A section is a map or nothing. */
		{"{\"local\":null,\"limits\":null,\"admission\":null}", ""},
		{"{\"local\":[]}", "E local: must be a map of members"},
		{"{\"limits\":false}", "E limits: must be a map of members"},
		{"{\"admission\":\"\"}", "E admission: must be a map of members"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		check_map(rows[i].map, BOX_CONFIG_MEMBERS_OWN, true);
		if (strcmp(said(), rows[i].said) != 0) {
			TEST_FAIL("%s: \"%s\", not \"%s\"", rows[i].map, said(), rows[i].said);
		}
		size_t errors = 0;
		for (size_t j = 0; j < found.count; j++) {
			errors += found.items[j].wrong;
		}
		ASSERT_INT(found.errors, errors);
	}
	box_arena_free(arena);
}

/* New keys of LangBot do not stop boxd; a typo in one of ours does. */
TEST(under_langbots_own_section)
{
	static const struct {
		const char *map;
		const char *said;
	} rows[] = {
		{"{\"firecracker\":{\"kernel\":1},\"limits\":{\"max_uploads\":1}}",
			"W firecracker: " UNKNOWN "|W limits.max_uploads: " UNKNOWN},
		{"{\"local\":{\"allowed_mount_root\":[]}}",
			"E local.allowed_mount_root: " MEANT("allowed_mount_roots")},
		{"{\"allowed_mount_roots\":[]}", "E allowed_mount_roots: " UNDER("local")},
		{"{\"admission\":{\"requird\":true,\"zone\":1}}",
			"E admission.requird: " MEANT("required") "|W admission.zone: " UNKNOWN},
		{"{\"default_memory_mbs\":1}", "W default_memory_mbs: " MEANT("default_memory_mb")},
		{"{\"profile\":\"default\",\"allowed_host_mount_roots\":[]}",
			"W profile: a member of an older LangBot, which Box does not read|"
			"W allowed_host_mount_roots: a member of an older LangBot, which Box does "
			"not read"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		check_map(rows[i].map, BOX_CONFIG_MEMBERS_LANGBOT, true);
		if (strcmp(said(), rows[i].said) != 0) {
			TEST_FAIL("%s: \"%s\", not \"%s\"", rows[i].map, said(), rows[i].said);
		}
	}
	box_arena_free(arena);
}

TEST(a_client_is_never_refused)
{
	check_map("{\"foo\":1,\"limits\":5,\"local\":{\"allowed_mount_root\":[],\"rootfs\":\"/\"},"
		  "\"require_context\":false}",
		BOX_CONFIG_MEMBERS_CLIENT, false);
	ASSERT_INT(found.errors, 0);
	ASSERT_STR(said(),
		"W foo: " UNKNOWN "|W local.allowed_mount_root: " MEANT(
			"allowed_mount_roots") "|W local.rootfs: not read from here: only the --config file may set it"
					       "|W require_context: not read from here: only the --config file may set it");
	box_arena_free(arena);
}

/* Every error is counted, and errors are reported before warnings. */
TEST(many_findings)
{
	arena = box_arena_new();
	struct box_value map = box_map_value();
	for (int i = 0; i < 2 * BOX_CONFIG_FINDINGS_MAX; i++) {
		box_map_add(
			arena, &map, box_arena_printf(arena, "zzzz%dqqqqqqqqqq", i), box_null());
	}
	box_map_add(arena, &map, "bakcend", box_null());
	box_config_members_check(arena, &map, BOX_CONFIG_MEMBERS_LANGBOT, true, &found);
	ASSERT_INT(found.count, BOX_CONFIG_FINDINGS_MAX);
	ASSERT_INT(found.errors, 1);
	ASSERT_STR(found.items[0].path, "bakcend");
	/* A name of any length. */
	char *long_name = box_arena_bytes(arena, 100001);
	memset(long_name, 'a', 100000);
	long_name[100000] = '\0';
	map = box_map_value();
	box_map_add(arena, &map, long_name, box_null());
	memset(&found, 0, sizeof(found));
	box_config_members_check(arena, &map, BOX_CONFIG_MEMBERS_OWN, true, &found);
	ASSERT_INT(found.errors, 1);
	ASSERT(strlen(found.items[0].path) < 128);
	box_arena_free(arena);
}

TEST(what_needs_a_restart)
{
	static const struct {
		const char *before;
		const char *after;
		const char *names;
	} rows[] = {
		{"{}", "{}", ""},
		{"{}", "{\"limits\":{\"max_sessions\":1},\"backend\":\"local\"}", ""},
		{"{}", "{\"local\":{\"seccomp\":\"strict\"}}", "local.seccomp"},
		{"{\"local\":{\"seccomp\":\"strict\"}}", "{}", "local.seccomp"},
		{"{\"local\":{\"seccomp\":\"strict\"}}", "{\"local\":{\"seccomp\":\"strict\"}}",
			""},
		{"{\"local\":{\"seccomp\":null}}", "{\"local\":{}}", ""},
		{"{\"images\":{\"a\":\"/a\"}}",
			"{\"images\":{\"a\":\"/b\"},\"local\":{\"rootfs\":"
			"\"/r\"}}",
			"images, local.rootfs"},
		{"{\"images\":{\"a\":\"/a\"}}", "{\"images\":{\"a\":\"/a\",\"b\":\"/b\"}}",
			"images"},
		{"{\"local\":{\"degraded\":true}}", "{\"local\":{\"degraded\":1}}",
			"local.degraded"},
		{"{}", "{\"limits\":{\"max_memory_mb\":99,\"reserve_memory_mb\":1}}",
			"limits.reserve_memory_mb"},
		{"{\"local\":{\"host_root\":\"/a\"}}", "{\"local\":{\"host_root\":\"/b\"}}",
			"local.host_root"},
		{"{}", "{\"local\":{\"allowed_mount_roots\":[],\"skills_root\":\"/s\"}}",
			"local.skills_root, local.allowed_mount_roots"},
		{"{\"local\":{\"default_workspace\":\"a\"}}", "{}", ""},
	};
	arena = box_arena_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value before = tree(arena, rows[i].before);
		struct box_value after = tree(arena, rows[i].after);
		ASSERT_STR(box_config_members_need_restart(arena, &before, &after), rows[i].names);
	}
	box_arena_free(arena);
}
