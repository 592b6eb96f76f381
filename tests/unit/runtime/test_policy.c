/* The operator's policy for boxes: read only from the operator's own file, refused when a member is
 * invalid. */
#include <errno.h>

#include "runtime/config/policy.h"
#include "tests/unit/lib/runtime_fixture.h"

static struct box_policy policy; /* static because it is large */

static const struct box_policy *read_file(const char *text)
{
	struct box_err err = {0};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, text);
	memset(&policy, 0xff, sizeof(policy));
	struct box_value file = tree(arena, text);
	if (box_policy_check(&file, runtime->config, "/w", &err) < 0 ||
		box_policy_read(runtime, runtime->config, &policy, &err) < 0) {
		TEST_FAIL("%s is refused: %s", text, err.text);
	}
	finish(runtime);
	return &policy;
}

TEST(without_a_word_nothing_is_set)
{
	static const char *const rows[] = {
		"{}",
		"{\"local\":{}}",
		"{\"local\":{\"rootfs\":null,\"seccomp\":null,\"degraded\":null}}",
		"{\"local\":{\"rootfs\":\"\",\"seccomp\":\" \",\"degraded\":false}}",
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct box_policy *read = read_file(rows[i]);
		ASSERT_STR(read->rootfs, "");
		ASSERT_INT(read->profile, BOX_FILTER_DEFAULT);
		ASSERT_INT(read->degraded, 0);
		ASSERT_INT(read->roots.count, 1);
		ASSERT_STR(read->roots.paths[0], "/w/data/box");
		ASSERT_STR(read->skills_root, "/w/data/box/skills");
		ASSERT_STR(read->client_skills, "");
		ASSERT_INT(read->narrower.count, 0);
	}
}

TEST(each_member_is_read)
{
	static const struct {
		const char *local;
		const char *rootfs;
		uint32_t profile;
		bool degraded;
	} rows[] = {
		{"{\"rootfs\":\"/srv/root\"}", "/srv/root", BOX_FILTER_DEFAULT, false},
		{"{\"rootfs\":\" /srv//./x/../root/ \"}", "/srv/root", BOX_FILTER_DEFAULT, false},
		{"{\"rootfs\":\"root\"}", "/w/root", BOX_FILTER_DEFAULT, false},
		{"{\"seccomp\":\"default\"}", "", BOX_FILTER_DEFAULT, false},
		{"{\"seccomp\":\" strict\\n\"}", "", BOX_FILTER_STRICT, false},
		{"{\"degraded\":true}", "", BOX_FILTER_DEFAULT, true},
		{"{\"degraded\":\"yes\"}", "", BOX_FILTER_DEFAULT, true},
		{"{\"degraded\":\"off\"}", "", BOX_FILTER_DEFAULT, false},
		{"{\"degraded\":1}", "", BOX_FILTER_DEFAULT, true},
		{"{\"rootfs\":\"/r\",\"seccomp\":\"strict\",\"degraded\":true}", "/r",
			BOX_FILTER_STRICT, true},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[256];
		(void)snprintf(text, sizeof(text), "{\"local\":%s}", rows[i].local);
		const struct box_policy *read = read_file(text);
		ASSERT_STR(read->rootfs, rows[i].rootfs);
		ASSERT_INT(read->profile, rows[i].profile);
		ASSERT_INT(read->degraded, rows[i].degraded);
	}
}

/* Such a file is refused, and the previous policy stays in force. */
static void expect_refused(struct box_runtime *runtime, const char *text, const char *error)
{
	struct box_err err = {0};
	struct box_value file = tree(arena, text);
	ASSERT_INT(box_policy_check(&file, runtime->config, "/w", &err), -EINVAL);
	ASSERT_STR(err.text, error);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	err = (struct box_err){0};
	ASSERT_INT(box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &file, &err), -EINVAL);
	ASSERT_STR(err.text, error);
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_STR(policy.rootfs, "/good");
}

TEST(a_file_with_a_wrong_member_is_refused)
{
	static const char text_rootfs[] = "box.local.rootfs must be a string";
	static const char path_rootfs[] = "box.local.rootfs is not a usable path";
	static const char text_seccomp[] = "box.local.seccomp must be a string";
	static const char word_seccomp[] = "box.local.seccomp must be \"default\" or \"strict\"";
	static const char degraded[] = "box.local.degraded must be a boolean";
	static const struct {
		const char *local;
		const char *error;
	} rows[] = {
		{"{\"rootfs\":5}", text_rootfs},
		{"{\"rootfs\":[\"/a\"]}", text_rootfs},
		{"{\"rootfs\":\"/a\\u0000b\"}", text_rootfs},
		{"{\"rootfs\":\"/\"}", path_rootfs},
		{"{\"rootfs\":\"//..//.\"}", path_rootfs},
		{"{\"rootfs\":\"..\"}", path_rootfs},
		{"{\"seccomp\":true}", text_seccomp},
		{"{\"seccomp\":\"strict\\u0000\"}", text_seccomp},
		{"{\"seccomp\":\"none\"}", word_seccomp},
		{"{\"seccomp\":\"Strict\"}", word_seccomp},
		{"{\"seccomp\":\"stric\"}", word_seccomp},
		{"{\"degraded\":\"perhaps\"}", degraded},
		{"{\"degraded\":2}", degraded},
		{"{\"degraded\":{}}", degraded},
		{"{\"rootfs\":\"/r\",\"seccomp\":\"strict\",\"degraded\":[]}", degraded},
	};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"local\":{\"rootfs\":\"/good\"}}");
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[256];
		(void)snprintf(text, sizeof(text), "{\"local\":%s}", rows[i].local);
		expect_refused(runtime, text, rows[i].error);
	}
	finish(runtime);
}

TEST(a_root_too_long_is_refused)
{
	static char text[2 * BOX_PATH_MAX];
	static char path[BOX_PATH_MAX + 1];
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"local\":{\"rootfs\":\"/good\"}}");
	memset(path, 'a', BOX_PATH_MAX);
	path[0] = '/';
	(void)snprintf(text, sizeof(text), "{\"local\":{\"rootfs\":\"%s\"}}", path);
	expect_refused(runtime, text, "box.local.rootfs is not a usable path");
	finish(runtime);
	path[BOX_PATH_MAX - 1] = '\0';
	(void)snprintf(text, sizeof(text), "{\"local\":{\"rootfs\":\"%s\"}}", path);
	ASSERT_STR(read_file(text)->rootfs, path);
}

#define LOOSE "{\"local\":{\"rootfs\":\"/evil\",\"seccomp\":\"default\",\"degraded\":true}}"

TEST(only_the_operators_file_counts)
{
	struct box_err err = {0};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"local\":{\"seccomp\":\"strict\"}}");
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, LOOSE);
	init_now(runtime, LOOSE);
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_STR(policy.rootfs, "");
	ASSERT_INT(policy.profile, BOX_FILTER_STRICT);
	ASSERT_INT(policy.degraded, 0);
	/* Nor does a client's mistake make it fail. */
	init_now(runtime, "{\"local\":{\"rootfs\":5}}");
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	/* A reload does apply. */
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"local\":{\"rootfs\":\"/srv/r\"}}");
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_STR(policy.rootfs, "/srv/r");
	ASSERT_INT(policy.profile, BOX_FILTER_DEFAULT);
	finish(runtime);
}

/* --- images --- */

TEST(images_are_read)
{
	const struct box_policy *read = read_file(
		"{\"images\":{\"a\":\"/srv//a/\",\"x/y:1.2-z_@\":\"img/b.ext4\"}}");
	ASSERT_INT(read->image_count, 2);
	ASSERT_STR(read->images[0].name, "a");
	ASSERT_STR(read->images[0].path, "/srv/a");
	ASSERT_STR(read->images[1].name, "x/y:1.2-z_@");
	ASSERT_STR(read->images[1].path, "/w/img/b.ext4");
	ASSERT_INT(read_file("{\"images\":null}")->image_count, 0);
	ASSERT_INT(read_file("{\"images\":{}}")->image_count, 0);
}

static void expect_no_images(const char *images, const char *error)
{
	struct box_err err = {0};
	static char text[64 * BOX_KIB];
	(void)snprintf(text, sizeof(text), "{\"images\":%s}", images);
	struct box_runtime *runtime = start();
	struct box_value file = tree(arena, text);
	ASSERT_INT(box_policy_check(&file, runtime->config, "/w", &err), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	if (!strstr(err.text, error)) {
		TEST_FAIL("%.200s gives %s", images, err.text);
	}
	finish(runtime);
}

TEST(images_that_are_wrong)
{
	static const char name[] = "is not a valid image name";
	static const char path[] = "is not a usable path";
	struct box_runtime *runtime = start();
	expect_no_images("[]", "box.images must be an object of names and paths");
	expect_no_images("\"a\"", "box.images must be an object of names and paths");
	expect_no_images("{\"\":\"/a\"}", name);
	expect_no_images("{\"/a\":\"/a\"}", name);
	expect_no_images("{\"./a\":\"/a\"}", name);
	expect_no_images("{\"a b\":\"/a\"}", name);
	expect_no_images("{\"a\\n\":\"/a\"}", name);
	expect_no_images("{\"\u00e9\":\"/a\"}", name);
	expect_no_images("{\"a\":5}", path);
	expect_no_images("{\"a\":null}", path);
	expect_no_images("{\"a\":\"\"}", path);
	expect_no_images("{\"a\":\"/\"}", path);
	expect_no_images("{\"a\":\"/a\\u0000b\"}", path);
	struct box_buf many = box_buf(BOX_MIB);
	for (int i = 0; i <= BOX_IMAGES_MAX; i++) {
		ASSERT_INT(box_buf_printf(&many, "%s\"n%d\":\"/a\"", i ? "," : "{", i), 0);
	}
	ASSERT_INT(box_buf_append(&many, "}", 2), 0);
	expect_no_images(many.bytes, "box.images must have at most 32 members");
	box_buf_free(&many);
	char longest[BOX_IMAGE_NAME_MAX + 32] = "{\"";
	memset(longest + 2, 'n', BOX_IMAGE_NAME_MAX + 1);
	memcpy(longest + 3 + BOX_IMAGE_NAME_MAX, "\":\"/a\"}", 8);
	expect_no_images(longest, name);
	finish(runtime);
}

TEST(a_client_names_no_images)
{
	struct box_err err = {0};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"images\":{\"a\":\"/srv/a\"}}");
	configure(runtime, BOX_RUNTIME_LAYER_VARIABLE, "{\"images\":{\"a\":\"/evil\"}}");
	init_now(runtime, "{\"images\":{\"b\":\"/evil\"}}");
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_INT(policy.image_count, 1);
	ASSERT_STR(policy.images[0].path, "/srv/a");
	finish(runtime);
}

TEST(mount_roots_are_those_in_force)
{
	struct box_err err = {0};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"local\":{\"allowed_mount_roots\":[\"/srv/a\",\"b\",\"/c/../d/\"]}}");
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_INT(policy.roots.count, 3);
	ASSERT_STR(policy.roots.paths[0], "/srv/a");
	ASSERT_STR(policy.roots.paths[1], "/w/b");
	ASSERT_STR(policy.roots.paths[2], "/d");
	ASSERT_INT(policy.narrower.count, 0);
	/* No client can relax them. */
	struct note note = {0};
	struct box_init *pending = NULL;
	ASSERT_INT(init(runtime,
			   "{\"local\":{\"host_root\":\"/evil\",\"allowed_mount_roots\":"
			   "[\"/srv/a/x\"]}}",
			   &note, &pending),
		1);
	/* Its workspace is outside of the roots: that is no reason to refuse the configuration. */
	folder_done(0, -EXDEV);
	ASSERT_INT(note.calls, 1);
	ASSERT_INT(note.err.code, BOX_ERR_NONE);
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_INT(policy.roots.count, 3);
	ASSERT_INT(policy.narrower.count, 1);
	ASSERT_STR(policy.narrower.paths[0], "/srv/a/x");
	ASSERT_STR(policy.skills_root, "/w/data/box/skills");
	ASSERT_STR(policy.client_skills, "/evil/skills");
	finish(runtime);
}

TEST(every_mount_root_has_its_place)
{
	struct box_err err = {0};
	struct box_runtime *runtime = start();
	struct box_buf text = box_buf(BOX_MIB);
	for (int i = 0; i < BOX_MOUNT_ROOTS_MAX; i++) {
		ASSERT_INT(box_buf_printf(&text, "%s\"/srv/%d\"",
				   i ? "," : "{\"local\":{\"allowed_mount_roots\":[", i),
			0);
	}
	ASSERT_INT(box_buf_append(&text, "]}}", 4), 0);
	configure(runtime, BOX_RUNTIME_LAYER_FILE, text.bytes);
	ASSERT_INT(box_policy_read(runtime, runtime->config, &policy, &err), 0);
	ASSERT_INT(policy.roots.count, BOX_MOUNT_ROOTS_MAX);
	ASSERT_STR(policy.roots.paths[BOX_MOUNT_ROOTS_MAX - 1], "/srv/63");
	box_buf_free(&text);
	finish(runtime);
}

/* --- where rootfs and images may be --- */

TEST(layouts)
{
	static const struct {
		const char *file;
		const char *text; /* NULL: it is one */
	} rows[] = {
		{"{\"local\":{\"host_root\":\"/srv/box\",\"rootfs\":\"/srv/root\"},"
		 "\"images\":{\"a\":\"/srv/images/a.img\"}}",
			NULL},
		{"{\"local\":{\"host_root\":\"/srv/box\",\"rootfs\":\"/srv/box/root\"}}",
			"box.local.rootfs: /srv/box/root is in the mount root /srv/box, so that"},
		{"{\"local\":{\"host_root\":\"/srv/box\",\"rootfs\":\"/srv/box\"}}",
			"box.local.rootfs: /srv/box is in the mount root /srv/box, so that"},
		{"{\"local\":{\"host_root\":\"/srv/box\",\"rootfs\":\"/srv\"}}",
			"box.local.rootfs: /srv contains the mount root /srv/box, so that"},
		{"{\"local\":{\"host_root\":\"/srv/box\"},\"images\":{\"a\":\"/srv/box/i/a.img\"}}",
			"box.images.a: /srv/box/i/a.img is in the mount root /srv/box, so that"},
		{"{\"local\":{\"host_root\":\"/srv/box\",\"allowed_mount_roots\":[\"/x\",\"/srv/r\"],"
		 "\"rootfs\":\"/srv/r/u\"}}",
			"box.local.rootfs: /srv/r/u is in the mount root /srv/r, so that"},
		{"{\"local\":{\"rootfs\":\"data/box/root\"}}",
			"box.local.rootfs: /w/data/box/root is in the mount root /w/data/box, so"},
		{"{\"local\":{\"allowed_mount_roots\":[\"/\"],\"rootfs\":\"/srv/root\"}}", NULL},
		{"{\"local\":{\"allowed_mount_roots\":[],\"host_root\":\"/srv\",\"rootfs\":\"/srv/r\"}}",
			NULL},
		{"{\"local\":{\"host_root\":\"/srv/box\",\"rootfs\":\"/srv/boxes\"}}", NULL},
		/* The skill store may be in a root, but no root in the store. */
		{"{\"local\":{\"allowed_mount_roots\":[\"/srv/s/x\"],\"skills_root\":\"/srv/s\"}}",
			"box.local.skills_root: /srv/s contains the mount root /srv/s/x, so that"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_err err = {0};
		struct box_runtime *runtime = start();
		struct box_value map = tree(arena, rows[i].file);
		int r = box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &map, &err);
		ASSERT_INT(r, rows[i].text ? -EINVAL : 0);
		if (rows[i].text) {
			ASSERT(strncmp(err.text, rows[i].text, strlen(rows[i].text)) == 0);
		}
		finish(runtime);
	}
}
