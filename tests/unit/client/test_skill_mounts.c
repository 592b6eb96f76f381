/* Which skills are mounted where, with a shared file system and without. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "client/skill_mounts.h"
#include "tests/unit/lib/test.h"

struct play {
	struct box_arena *arena;
	struct box_value skills;
	struct box_value mounts;
	struct box_value warnings;
	const char *missing;
	int asked;
};

static struct play play(void)
{
	return (struct play){.arena = box_arena_new(), .skills = box_list_value()};
}

static void add_value(struct play *self, struct box_value name, struct box_value root)
{
	struct box_value skill = box_map_value();
	box_map_add(self->arena, &skill, "name", name);
	box_map_add(self->arena, &skill, "package_root", root);
	box_list_add(self->arena, &self->skills, skill);
}

static void add(struct play *self, const char *name, const char *root)
{
	add_value(self, box_cstr(name), box_cstr(root));
}

static bool is_here(void *arg, const char *package_root)
{
	struct play *self = arg;
	self->asked++;
	return !self->missing || strcmp(package_root, self->missing) != 0;
}

static void build(struct play *self, bool shares)
{
	const struct box_skill_mounts_options options = {shares, is_here, self};
	box_skill_mounts(self->arena, &self->skills, &options, &self->mounts, &self->warnings);
}

static void assert_mount(const struct play *self, uint32_t at, const char *host, const char *path)
{
	ASSERT(at < self->mounts.count);
	const struct box_value *mount = &self->mounts.items[at];
	ASSERT_INT(mount->count, 3);
	ASSERT(box_str_eq(box_map_get(mount, "host_path")->str, host));
	ASSERT(box_str_eq(box_map_get(mount, "mount_path")->str, path));
	ASSERT(box_str_eq(box_map_get(mount, "mode")->str, "ro"));
}

static void assert_warning(const struct play *self, uint32_t at, const char *expected)
{
	ASSERT(at < self->warnings.count);
	struct box_str text = self->warnings.items[at].str;
	ASSERT_BYTES(text.bytes, text.len, expected, strlen(expected));
}

TEST(no_skills_no_mounts)
{
	for (int shares = 0; shares <= 1; shares++) {
		struct play self = play();
		build(&self, shares);
		ASSERT_INT(self.mounts.type, BOX_LIST);
		ASSERT_INT(self.mounts.count, 0);
		ASSERT_INT(self.warnings.count, 0);
		self.skills = box_null();
		build(&self, shares);
		ASSERT_INT(self.mounts.count, 0);
		self.skills = box_map_value(); /* an answer without the member */
		build(&self, shares);
		ASSERT_INT(self.mounts.count, 0);
		box_arena_free(self.arena);
	}
}

TEST(a_package_that_is_not_here_is_dropped_and_named_where_paths_are_shared)
{
	struct play self = play();
	self.missing = "/data/two";
	add(&self, "one", "/data/one");
	add(&self, "two", "/data/two");
	add(&self, "three", "/data/three");
	build(&self, true);
	ASSERT_INT(self.asked, 3);
	ASSERT_INT(self.mounts.count, 2);
	assert_mount(&self, 0, "/data/one", "/workspace/.skills/one");
	assert_mount(&self, 1, "/data/three", "/workspace/.skills/three");
	ASSERT_INT(self.warnings.count, 1);
	assert_warning(&self, 0,
		"Skill \"two\" is not mounted: its package folder does not exist here: /data/two");
	box_arena_free(self.arena);
}

TEST(paths_of_a_runtime_elsewhere_are_given_back_as_they_are)
{
	struct play self = play();
	self.missing = "/data/two";
	add(&self, "one", "/data/one");
	add(&self, "two", "/data/two");
	add(&self, "odd", "C:\\odd path/../x");
	build(&self, false);
	ASSERT_INT(self.asked, 0);
	ASSERT_INT(self.mounts.count, 3);
	ASSERT_INT(self.warnings.count, 0);
	assert_mount(&self, 1, "/data/two", "/workspace/.skills/two");
	assert_mount(&self, 2, "C:\\odd path/../x", "/workspace/.skills/odd");
	box_arena_free(self.arena);
}

TEST(an_empty_or_blank_path_is_dropped_in_both)
{
	for (int shares = 0; shares <= 1; shares++) {
		struct play self = play();
		add(&self, "empty", "");
		add(&self, "none", NULL);
		add_value(&self, box_cstr("number"), box_int(5));
		add_value(&self, box_cstr("nul"), box_text((struct box_str){"/a\0b", 4}));
		add(&self, "blank", "   ");
		add(&self, "lines", "\t\n");
		add(&self, "good", " /g ");
		build(&self, shares);
		ASSERT_INT(self.mounts.count, 1);
		assert_mount(&self, 0, "/g", "/workspace/.skills/good");
		ASSERT_INT(self.warnings.count, 6);
		assert_warning(
			&self, 4, "Skill \"blank\" is not mounted: it has no package folder");
		assert_warning(
			&self, 0, "Skill \"empty\" is not mounted: it has no package folder");
		ASSERT_INT(self.asked, shares);
		box_arena_free(self.arena);
	}
}

TEST(names_are_checked)
{
	static const char *const bad[] = {"", ".", "..", "a/b", "../x", "a b", "a.b", "\xc3\xa9"};
	char longest[BOX_SKILL_NAME_MAX + 2];
	struct play self = play();
	for (size_t i = 0; i < COUNT(bad); i++) {
		add(&self, bad[i], "/p");
	}
	add_value(&self, box_int(3), box_cstr("/p"));
	box_list_add(self.arena, &self.skills, box_cstr("no map"));
	memset(longest, 'a', sizeof(longest));
	add_value(
		&self, box_text((struct box_str){longest, BOX_SKILL_NAME_MAX + 1}), box_cstr("/p"));
	build(&self, false);
	ASSERT_INT(self.mounts.count, 0);
	ASSERT_INT(self.warnings.count, COUNT(bad) + 3);
	assert_warning(&self, 4, "Skill \"../x\" is not mounted: not a valid skill name: /p");
	add_value(&self, box_text((struct box_str){longest, BOX_SKILL_NAME_MAX}), box_cstr("/p"));
	add(&self, "A-z_09", "/q");
	add(&self, "A-z_09", "/r");
	build(&self, false);
	ASSERT_INT(self.mounts.count, 2);
	assert_mount(&self, 1, "/q", "/workspace/.skills/A-z_09");
	assert_warning(&self, COUNT(bad) + 3,
		"Skill \"A-z_09\" is not mounted: another skill has that name: /r");
	box_arena_free(self.arena);
}

TEST(the_answer_of_the_runtime_is_taken_as_it_is)
{
	struct play self = play();
	add(&self, "x", "/x");
	struct box_value answer = box_map_value();
	box_map_add(self.arena, &answer, "skills", self.skills);
	self.skills = answer;
	build(&self, false);
	ASSERT_INT(self.mounts.count, 1);
	box_arena_free(self.arena);
}

TEST(a_line_knows_whether_to_look)
{
	char folder[] = "/tmp/box-skill-XXXXXX";
	ASSERT(mkdtemp(folder));
	for (int remote = 0; remote <= 1; remote++) {
		const struct box_line_options options = {
			.client = {.spawn = true, .endpoint = remote ? "ws://127.0.0.1:1" : NULL}};
		struct play self = play();
		struct box_line *line;
		add(&self, "here", folder);
		add(&self, "gone", "/nowhere/at/all");
		add(&self, "file", "/proc/self/exe");
		ASSERT_INT(box_line_open(&options, &line, NULL), 0);
		box_skill_mounts_for_line(
			line, self.arena, &self.skills, &self.mounts, &self.warnings);
		ASSERT_INT(self.mounts.count, remote ? 3 : 1);
		ASSERT_INT(self.warnings.count, remote ? 0 : 2);
		assert_mount(&self, 0, folder, "/workspace/.skills/here");
		box_line_close(line);
		box_arena_free(self.arena);
	}
	ASSERT_INT(rmdir(folder), 0);
}

/* The target is 1 ms; sanitizers and other load take their part here. */
TEST(a_hundred_skills_take_no_time)
{
	uint64_t best_us = UINT64_MAX;
	for (int i = 0; i < 50; i++) {
		struct play self = play();
		for (int n = 0; n < 100; n++) {
			char *name = box_arena_printf(self.arena, "skill-%d", n);
			add(&self, name, box_arena_printf(self.arena, "/data/skills/%s", name));
		}
		uint64_t began = box_clock_us();
		build(&self, true);
		uint64_t took = box_clock_us() - began;
		best_us = took < best_us ? took : best_us;
		ASSERT_INT(self.mounts.count, 100);
		box_arena_free(self.arena);
	}
	printf("# 100 skills: %llu us\n", (unsigned long long)best_us);
	ASSERT(best_us <= 1000);
}
