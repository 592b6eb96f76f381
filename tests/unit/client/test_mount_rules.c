/* Which folders may be mounted: by their text, by links, and in every mount of a spec. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "client/service/mount_rules.h"
#include "tests/unit/lib/json_tree.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
	(void)about, (void)kind, (void)at;
	return remove(path);
}

static void clean(void)
{
	(void)nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* root/in, root/link -> out, out */
static void furnish(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/box-rules-XXXXXX");
	ASSERT(mkdtemp(folder) != NULL);
	ASSERT_INT(atexit(clean), 0);
	ASSERT_INT(chdir(folder), 0);
	ASSERT_INT(mkdir("root", 0700), 0);
	ASSERT_INT(mkdir("root/in", 0700), 0);
	ASSERT_INT(mkdir("out", 0700), 0);
	ASSERT_INT(symlink("../out", "root/link"), 0);
	ASSERT_INT(symlink("root", "alias"), 0);
}

static const char *below(struct box_arena *arena, const char *path)
{
	return box_arena_printf(arena, "%s/%s", folder, path);
}

TEST(inside_by_text)
{
	static const char *const roots[] = {"/a/b", "/c", NULL};
	static const char *const all[] = {"/", NULL};
	static const char *const none[] = {NULL};
	ASSERT(box_mount_rules_is_inside("/a/b", roots));
	ASSERT(box_mount_rules_is_inside("/a/b/x", roots));
	ASSERT(box_mount_rules_is_inside("/c/d", roots));
	ASSERT(!box_mount_rules_is_inside("/a/bc", roots));
	ASSERT(!box_mount_rules_is_inside("/a", roots));
	ASSERT(box_mount_rules_is_inside("/anything", all));
	ASSERT(!box_mount_rules_is_inside("/a", none));
}

TEST(real_paths_as_far_as_they_go)
{
	struct box_arena *arena = box_arena_new();
	furnish();
	ASSERT_STR(box_mount_rules_real(arena, below(arena, "alias/in")), below(arena, "root/in"));
	ASSERT_STR(box_mount_rules_real(arena, below(arena, "root/link/new/deep")),
		below(arena, "out/new/deep"));
	ASSERT_STR(box_mount_rules_real(arena, "/none/at/all"), "/none/at/all");
	ASSERT_STR(box_mount_rules_real(arena, "/"), "/");
	box_arena_free(arena);
}

TEST(the_default_workspace)
{
	struct box_arena *arena = box_arena_new();
	struct box_err err;
	struct stat about;
	furnish();
	const char *const roots[] = {below(arena, "root"), NULL};
	const char *const none[] = {NULL};
	const char *made = below(arena, "root/a/b/c");
	ASSERT_INT(box_mount_rules_make_folder(arena, made, none, &err), -EPERM);
	ASSERT_STR(err.text,
		"box.local.default_workspace cannot be created because no allowed_mount_roots are "
		"configured");
	ASSERT_INT(box_mount_rules_make_folder(arena, below(arena, "out/x"), roots, &err), -EPERM);
	ASSERT(strstr(err.text, "is outside allowed_mount_roots: /tmp/box-rules-") != NULL);
	ASSERT(stat(below(arena, "out/x"), &about) < 0);
	ASSERT_INT(box_mount_rules_make_folder(arena, made, roots, &err), 0);
	ASSERT(stat(made, &about) == 0 && S_ISDIR(about.st_mode));
	ASSERT_INT(box_mount_rules_make_folder(arena, made, roots, &err), 0);
	/* An existing folder may be anywhere, as for LangBot: it is checked when it is mounted. */
	ASSERT_INT(box_mount_rules_make_folder(arena, below(arena, "out"), roots, &err), 0);
	ASSERT_INT(close(open("root/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	ASSERT_INT(box_mount_rules_make_folder(arena, below(arena, "root/file"), roots, &err),
		-ENOTDIR);
	ASSERT_INT(box_mount_rules_make_folder(arena, below(arena, "root/file/x"), roots, &err),
		-ENOTDIR);
	box_arena_free(arena);
}

static int check(
	struct box_arena *arena, const char *text, struct box_value *ret_spec, struct box_err *err)
{
	const char *const roots[] = {below(arena, "root"), NULL};
	*ret_spec = tree(arena, text);
	return box_mount_rules_check_spec(arena, ret_spec, roots, err);
}

TEST(what_a_spec_may_mount)
{
	struct box_arena *arena = box_arena_new();
	struct box_value spec;
	struct box_err err;
	furnish();
	ASSERT_INT(check(arena, "{\"cmd\":\"x\"}", &spec, &err), 0);
	ASSERT_INT(check(arena, "{\"host_path\":null}", &spec, &err), 0);
	/* The path that was checked is the path that is requested. */
	ASSERT_INT(
		check(arena, box_arena_printf(arena, "{\"host_path\":\" %s/alias/in \"}", folder),
			&spec, &err),
		0);
	ASSERT(box_str_eq(box_map_get(&spec, "host_path")->str, below(arena, "root/in")));
	static const char *const refused[][2] = {
		{"out", "host_path is outside allowed_mount_roots: "},
		{"root/link", "host_path is outside allowed_mount_roots: "},
		{"root/../out", "host_path is outside allowed_mount_roots: "},
		{"root/none", "host_path must point to an existing directory on the host"},
		{"", "host_path is outside allowed_mount_roots: "},
	};
	for (size_t i = 0; i < COUNT(refused); i++) {
		const char *path = below(arena, refused[i][0]);
		const char *texts[] = {box_arena_printf(arena, "{\"host_path\":\"%s\"}", path),
			box_arena_printf(arena,
				"{\"extra_mounts\":[{\"host_path\":\"%s\",\"mount_path\":\"/x\"}]}",
				path)};
		for (size_t j = 0; j < COUNT(texts); j++) {
			ASSERT(check(arena, texts[j], &spec, &err) < 0);
			ASSERT_INT(err.code, BOX_ERR_VALIDATION);
			ASSERT_INT(strncmp(err.text, refused[i][1], strlen(refused[i][1])), 0);
		}
	}
	ASSERT_INT(check(arena, "{\"host_path\":\"root/in\"}", &spec, &err), -EINVAL);
	ASSERT_STR(err.text, "host_path must be an absolute host path");
	/* Values that are not strings are left for the runtime to refuse. */
	ASSERT_INT(check(arena, "{\"host_path\":7,\"extra_mounts\":\"x\"}", &spec, &err), 0);
	box_arena_free(arena);
}

TEST(no_roots_no_mounts)
{
	struct box_arena *arena = box_arena_new();
	const char *const none[] = {NULL};
	struct box_value spec = tree(arena, "{\"host_path\":\"/usr\"}");
	struct box_err err;
	ASSERT_INT(box_mount_rules_check_spec(arena, &spec, none, &err), -EPERM);
	ASSERT_STR(err.text,
		"host_path mounting is disabled because no allowed_mount_roots are configured");
	box_arena_free(arena);
}
