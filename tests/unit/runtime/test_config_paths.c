/* The paths of a configuration: folders, allowed mount roots, whether the workspace may be created.
 */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "runtime/config/config.h"
#include "tests/unit/lib/config_merge.h"

TEST(paths)
{
	static const struct {
		const char *local;
		const char *host_root;
		const char *workspace;
		const char *skills;
		const char *allowed;
	} rows[] = {
		{"", NULL, NULL, "/here/data/box/skills", ""},
		{"\"host_root\":\"/srv/box\"", "/srv/box", "/srv/box/default", "/srv/box/skills",
			"/srv/box "},
		{"\"host_root\":\" ./data/../box/ \"", "/here/box", "/here/box/default",
			"/here/box/skills", "/here/box "},
		{"\"host_root\":\"\",\"default_workspace\":\"w\"", NULL, "/here/w",
			"/here/data/box/skills", ""},
		{"\"host_root\":null,\"skills_root\":\"s\"", NULL, NULL, "/here/data/box/s", ""},
		{"\"host_root\":\"/r\",\"default_workspace\":\"a/b\",\"skills_root\":\"../s\"",
			"/r", "/r/a/b", "/s", "/r "},
		{"\"host_root\":\"/r\",\"default_workspace\":\"/abs\",\"skills_root\":\"/k\"", "/r",
			"/abs", "/k", "/r "},
		{"\"host_root\":\"~/x\"", "/here/~/x", "/here/~/x/default", "/here/~/x/skills",
			"/here/~/x "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":\" /a , b ,,\"", "/r", "/r/default",
			"/r/skills", "/a /here/b "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":[]", "/r", "/r/default", "/r/skills",
			"/r "},
		{"\"host_root\":\"/r\",\"allowed_mount_roots\":[null,\" \"]", "/r", "/r/default",
			"/r/skills", "/r "},
		{"\"allowed_mount_roots\":null", NULL, NULL, "/here/data/box/skills", ""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(merge_as(&config,
				   box_arena_printf(arena, "{\"local\":{%s}}", rows[i].local),
				   BOX_CONFIG_OPERATOR),
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

TEST(what_may_be_mounted)
{
	static const struct {
		enum box_config_origin origin;
		const char *local;
		const char *roots;
		const char *narrower;
	} rows[] = {
		/* set in the file; an empty list is empty, a relative path is resolved by us */
		{BOX_CONFIG_OPERATOR, "\"host_root\":\"/r\"", "/r ", ""},
		{BOX_CONFIG_OPERATOR, "\"backend\":null", "/here/data/box ", ""},
		{BOX_CONFIG_OPERATOR, "\"host_root\":\"/r\",\"allowed_mount_roots\":[]", "", ""},
		{BOX_CONFIG_OPERATOR, "\"host_root\":\"/r\",\"allowed_mount_roots\":null", "/r ",
			""},
		{BOX_CONFIG_OPERATOR, "\"allowed_mount_roots\":[\"/a\",\"b\"]", "/a /here/b ", ""},
		{BOX_CONFIG_OPERATOR, "\"allowed_mount_roots\":\"./b\"", "/here/b ", ""},
		{BOX_CONFIG_OPERATOR, "\"allowed_mount_roots\":[\"/\"]", "/ ", ""},
		/* set on the command line, if not in the file */
		{BOX_CONFIG_PARENT, "\"host_root\":\"/r\"", "/r ", ""},
		{BOX_CONFIG_PARENT, "\"host_root\":\"/r\",\"allowed_mount_roots\":[]", "/r ", ""},
		{BOX_CONFIG_PARENT,
			"\"host_root\":\"./r\",\"allowed_mount_roots\":[\"./r\",\"/t\"]",
			"/here/r /t ", ""},
		/* a client may narrow the roots where their meaning is known */
		{BOX_CONFIG_CLIENT, "\"host_root\":\"/r\"", "/here/data/box ", ""},
		{BOX_CONFIG_CLIENT, "\"host_root\":\"/r\",\"allowed_mount_roots\":[]",
			"/here/data/box ", ""},
		{BOX_CONFIG_CLIENT, "\"allowed_mount_roots\":[\"/a\",\"/b/../c\"]",
			"/here/data/box ", "/a /c "},
		{BOX_CONFIG_CLIENT, "\"allowed_mount_roots\":[\"/a\",\"b\"]", "/here/data/box ",
			""},
		{BOX_CONFIG_CLIENT, "\"allowed_mount_roots\":\"b\"", "/here/data/box ", ""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(merge_as(&config,
				   box_arena_printf(arena, "{\"local\":{%s}}", rows[i].local),
				   rows[i].origin),
			0);
		ASSERT_STR(joined(config->mount_roots), rows[i].roots);
		ASSERT_STR(joined(config->narrower_roots), rows[i].narrower);
		/* Without the section, a map does not change the roots. */
		ASSERT_INT(merge(&config, "{\"backend\":\"x\"}"), 0);
		ASSERT_STR(joined(config->mount_roots), rows[i].roots);
		ASSERT_STR(joined(config->narrower_roots), rows[i].narrower);
		finish(config);
	}
}

TEST(the_file_is_not_loosened)
{
	static const char *const files[] = {
		"{\"local\":{\"allowed_mount_roots\":[\"data\"]}}",
		"{\"local\":{\"host_root\":\"data\"}}",
	};
	static const char wide[] =
		"{\"local\":{\"host_root\":\"/evil\",\"skills_root\":\"/evil/s\","
		"\"allowed_mount_roots\":[\"/\"]}}";
	for (size_t i = 0; i < COUNT(files); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(merge_as(&config, files[i], BOX_CONFIG_OPERATOR), 0);
		const char *skills = box_arena_printf(arena, "%s", config->skills_root);
		for (int origin = BOX_CONFIG_PARENT; origin <= BOX_CONFIG_CLIENT; origin++) {
			ASSERT_INT(merge_as(&config, wide, (enum box_config_origin)origin), 0);
			ASSERT_STR(joined(config->mount_roots), "/here/data ");
			ASSERT_STR(joined(config->narrower_roots), "/ ");
			ASSERT_STR(config->skills_root, skills);
			ASSERT_STR(config->client_skills, "/evil/s");
		}
		ASSERT_INT(merge_as(&config, "{\"local\":{\"allowed_mount_roots\":[\"/o\"]}}",
				   BOX_CONFIG_OPERATOR),
			0);
		ASSERT_STR(joined(config->mount_roots), "/o ");
		finish(config);
	}
}

TEST(only_who_started_us_moves_the_skills)
{
	static const struct {
		enum box_config_origin origin;
		const char *skills;
	} rows[] = {
		{BOX_CONFIG_OPERATOR, "/r/s"},
		{BOX_CONFIG_PARENT, "/r/s"},
		{BOX_CONFIG_CLIENT, "/here/data/box/skills"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(merge_as(&config,
				   "{\"local\":{\"host_root\":\"/r\",\"skills_root\":\"s\"}}",
				   rows[i].origin),
			0);
		ASSERT_STR(config->skills_root, rows[i].skills);
		finish(config);
	}
}

TEST(roots_of_the_command_line)
{
	static const char *const more[] = {"/x", "/a", NULL};
	struct box_config *config = box_config_default();
	ASSERT_INT(merge_as(&config, "{\"local\":{\"allowed_mount_roots\":[\"/a\"]}}",
			   BOX_CONFIG_OPERATOR),
		0);
	ASSERT_INT(box_config_add_mount_roots(config, more, &err), 0);
	ASSERT_STR(joined(config->mount_roots), "/a /x ");
	/* They stay, without duplicates. */
	ASSERT_INT(merge(&config, "{\"local\":{}}"), 0);
	ASSERT_INT(box_config_add_mount_roots(config, more, &err), 0);
	ASSERT_INT(box_config_add_mount_roots(config, NULL, &err), 0);
	ASSERT_STR(joined(config->mount_roots), "/a /x ");
	const char *many[BOX_MOUNT_ROOTS_MAX + 1] = {0};
	for (int i = 0; i < BOX_MOUNT_ROOTS_MAX; i++) {
		many[i] = box_arena_printf(arena, "/m%d", i);
	}
	ASSERT_INT(box_config_add_mount_roots(config, many, &err), -EINVAL);
	ASSERT(strstr(err.text, "at most 64 entries together") != NULL);
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
		int result = merge_as(&config,
			box_arena_printf(
				arena, "{\"local\":{\"allowed_mount_roots\":\"%s\"}}", roots),
			BOX_CONFIG_OPERATOR);
		if (count == BOX_MOUNT_ROOTS_MAX) {
			ASSERT_INT(result, 0);
			ASSERT_STR(config->mount_roots[BOX_MOUNT_ROOTS_MAX - 1], "/r63");
			ASSERT(config->mount_roots[BOX_MOUNT_ROOTS_MAX] == NULL);
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
	for (size_t i = 0; i < COUNT(rows); i++) {
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
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_STR(box_config_resolve_path(arena, rows[i].base, box_str(rows[i].path)),
			rows[i].resolved);
	}
	ASSERT(box_config_resolve_path(arena, "/", (struct box_str){"a\0b", 3}) == NULL);
	char longest[BOX_PATH_MAX + 1];
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	const char *path = box_config_resolve_path(
		arena, "/", (struct box_str){longest, BOX_PATH_MAX - 1});
	ASSERT(path && strlen(path) == BOX_PATH_MAX - 1);
	ASSERT(box_config_resolve_path(arena, "/", (struct box_str){longest, BOX_PATH_MAX}) ==
		NULL);
	ASSERT(box_config_resolve_path(
		       arena, "/b", (struct box_str){longest + 1, BOX_PATH_MAX - 3}) == NULL);
	box_arena_free(arena);
}
