/* The paths of a configuration: folders, allowed mount roots, whether the workspace may be made. */
#include <errno.h>

#include "base/arena.h"
#include "runtime/config.h"
#include "tests/unit/config_merge.h"

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
		{BOX_CONFIG_OPERATOR, "[\"/a\",\"b\"]", "/a /here/b "},
		{BOX_CONFIG_OPERATOR, "\"./b\"", "/here/b "},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
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
	ASSERT_STR(joined(config->enforced_mount_roots), "/here/data ");
	ASSERT_STR(joined(config->allowed_mount_roots), "/here/data/box /tmp ");
	ASSERT_INT(merge(&config, "{\"local\":{\"allowed_mount_roots\":[\"/\"]}}"), 0);
	ASSERT_STR(joined(config->enforced_mount_roots), "/here/data ");
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
