/* A folder as a ZIP: the store's own reader finds the same files, and files that a skill must not
 * contain are refused with their names. The temporary file of an edit is private. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "cli/skill/draft.h"
#include "cli/skill/skill_pack.h"
#include "cli/skill/zip_writer.h"
#include "skills/archive/archive.h"
#include "skills/archive/zip.h"
#include "tests/unit/lib/test.h"

#define TEMPLATE "/tmp/box-pack-XXXXXX"

static char folder[] = TEMPLATE;
static struct box_err err;
static struct box_arena *arena;
static struct box_buf zip;
static const char *stem;

/* In the folder. */
static void run(const char *text)
{
	char command[1024];
	(void)snprintf(command, sizeof(command), "cd %s && umask 022 && { %s; }", folder, text);
	ASSERT_INT(system(command), 0);
}

/* A folder `skill`, filled by the shell command. */
static void make(const char *command)
{
	char text[512];
	arena = box_arena_new();
	memcpy(folder, TEMPLATE, sizeof(folder));
	ASSERT(mkdtemp(folder));
	(void)snprintf(text, sizeof(text), "mkdir skill && cd skill && %s", command);
	run(text);
}

static int pack(void)
{
	char path[sizeof(folder) + 8];
	(void)snprintf(path, sizeof(path), "%s/skill", folder);
	return box_skill_pack(path, arena, &zip, &stem, &err);
}

static void clean(void)
{
	run("rm -rf \"$PWD\"");
	box_buf_free(&zip);
	box_arena_free(arena);
}

static void assert_refused(const char *command, const char *text)
{
	make(command);
	ASSERT_INT(pack(), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text, text);
	clean();
}

/* --- packing --- */

TEST(comes_out_as_it_was)
{
	make("echo text > SKILL.md; mkdir -p a/b empty .hidden .git; echo x > .git/x;"
	     "echo s > a/b/s; chmod 755 a/b/s; : > none; echo h > .hidden/h;"
	     "seq 100000 > numbers; head -c 200000 /dev/zero > zeros");
	ASSERT_INT(pack(), 0);
	ASSERT_STR(stem, "skill");
	run("mkdir out");
	char path[sizeof(folder) + 8];
	(void)snprintf(path, sizeof(path), "%s/zip", folder);
	_cleanup_(box_close_p) int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_INT(write(file, zip.bytes, zip.len), zip.len);
	(void)snprintf(path, sizeof(path), "%s/out", folder);
	_cleanup_(box_close_p) int out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_INT(box_archive_unpack(file, out, &err), 0);
	run("rm -r skill/.git && diff -r skill out/skill && test -x out/skill/a/b/s &&"
	    "! test -x out/skill/SKILL.md && test -d out/skill/empty");
	/* Numbers are deflated; zeros would exceed the ratio, and are stored. */
	ASSERT(zip.len > 200000 && zip.len < 600000);
	clean();
}

TEST(same_files_same_bytes)
{
	make("echo 1 > b; echo 2 > a; mkdir c; echo 3 > c/d");
	ASSERT_INT(pack(), 0);
	struct box_buf first = zip;
	run("cd skill && rm a && echo 2 > a && touch -d 2001-01-01 b");
	ASSERT_INT(pack(), 0);
	ASSERT_BYTES(zip.bytes, zip.len, first.bytes, first.len);
	box_buf_free(&first);
	clean();
}

TEST(a_link_to_the_folder_is_followed)
{
	make("echo 1 > SKILL.md; mv ../skill ../other; ln -s other ../skill");
	ASSERT_INT(pack(), 0);
	ASSERT_STR(stem, "other");
	clean();
}

TEST(a_zip_is_read)
{
	make("echo 1 > SKILL.md");
	ASSERT_INT(pack(), 0);
	struct box_buf first = zip;
	char path[sizeof(folder) + 8];
	(void)snprintf(path, sizeof(path), "%s/My.Zip", folder);
	_cleanup_(box_close_p) int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_INT(write(file, zip.bytes, zip.len), zip.len);
	ASSERT_INT(box_skill_pack(path, arena, &zip, &stem, &err), 0);
	ASSERT_STR(stem, "My");
	ASSERT_BYTES(zip.bytes, zip.len, first.bytes, first.len);
	box_buf_free(&first);
	ASSERT_INT(ftruncate(file, 40), 0);
	box_buf_free(&zip);
	ASSERT_INT(box_skill_pack(path, arena, &zip, &stem, &err), -EINVAL);
	ASSERT_STR(err.text, "Uploaded file must be a valid .zip archive");
	ASSERT_INT(ftruncate(file, 0), 0);
	ASSERT_INT(box_skill_pack(path, arena, &zip, &stem, &err), -EINVAL);
	ASSERT_INT(ftruncate(file, 20 * BOX_MIB + 1), 0);
	ASSERT_INT(box_skill_pack(path, arena, &zip, &stem, &err), -EINVAL);
	ASSERT(strstr(err.text, "My.Zip: is larger than 20 MiB"));
	clean();
}

/* --- refusals --- */

TEST(links_and_special_files)
{
	assert_refused("mkdir a; ln -s /etc/passwd a/b",
		"skill/a/b: is a symbolic link, which is not allowed in a skill");
	assert_refused(
		"ln -s . up", "skill/up: is a symbolic link, which is not allowed in a skill");
	assert_refused("mkfifo f", "skill/f: is a FIFO, which is not allowed in a skill");
}

TEST(too_much)
{
	assert_refused(
		"seq 600 | xargs touch", "skill: has more than 512 entries, the limit of a skill");
	assert_refused("mkdir a b; (cd a; seq 300 | xargs touch); (cd b; seq -w 300 | xargs touch)",
		"skill/b/213: exceeds the limit of 512 entries of a skill");
	assert_refused("truncate -s 16777217 big", "skill/big: is larger than 16 MiB");
	assert_refused("for i in 1 2 3 4 5; do seq 2000000 | head -c 15000000 > $i; done",
		"skill/5: makes the skill larger than 64 MiB");
	assert_refused("for i in 1 2; do head -c 15000000 /dev/urandom > $i; done",
		"skill/2: makes the archive larger than 20 MiB");
	assert_refused("for i in $(seq 40); do mkdir d; cd d; done; touch x",
		"skill/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d: "
		"is more than 32 folders deep");
}

TEST(names)
{
	assert_refused("touch 'a\\b'", "Archive contains an unsafe path: skill/a\\b (backslash)");
	assert_refused("touch \"$(printf 'a\\033b')\"",
		"Archive contains an unsafe path: skill/a\\x1bb (control character)");
	assert_refused("touch \"$(printf 'a\\377b')\"",
		"Archive contains an unsafe path: skill/a\\xffb (not UTF-8)");
	assert_refused("touch Readme README", "Archive contains a duplicate path: skill/Readme");
}

TEST(not_there)
{
	arena = box_arena_new();
	ASSERT_INT(box_skill_pack("/nowhere/x", arena, &zip, &stem, &err), -ENOENT);
	ASSERT_INT(box_skill_pack("/dev/null", arena, &zip, &stem, &err), -EINVAL);
	ASSERT_STR(err.text, "/dev/null: is neither a folder nor a ZIP");
	box_arena_free(arena);
}

TEST(an_archive_of_nothing)
{
	struct box_zip checked;
	struct box_zip_writer *writer = box_zip_writer_new(40);
	arena = box_arena_new();
	ASSERT_INT(box_zip_writer_end(writer, &zip), 0);
	ASSERT_INT(box_zip_check((const uint8_t *)zip.bytes, zip.len, arena, &checked, &err), 0);
	ASSERT_INT(checked.count, 0);
	ASSERT_INT(box_zip_writer_add(writer, "a", "0123456789", 10, false), -EMSGSIZE);
	box_zip_writer_free(writer);
	box_buf_free(&zip);
	box_arena_free(arena);
}

/* --- texts being edited --- */

static unsigned mode_of(const char *path)
{
	struct stat status;
	return lstat(path, &status) < 0 ? 0 : status.st_mode & 07777;
}

TEST(edited_in_private)
{
	struct box_draft draft;
	struct box_buf text;
	ASSERT_INT(setenv("EDITOR", "f() { printf more >> \"$1\"; touch \"$1~\"; }; f", 1), 0);
	ASSERT_INT(unsetenv("VISUAL"), 0);
	ASSERT_INT(box_draft_open(&draft, "SKILL.md", box_str("old\n"), &err), 0);
	ASSERT_INT(mode_of(draft.folder), 0700);
	ASSERT_INT(mode_of(draft.path), 0600);
	ASSERT(strstr(draft.path, "/SKILL.md"));
	ASSERT_INT(box_draft_edit(&draft, &err), 0);
	ASSERT_INT(box_draft_read(&draft, 8, &text, &err), 0);
	ASSERT_BYTES(text.bytes, text.len, "old\nmore", 8);
	box_buf_free(&text);
	ASSERT_INT(box_draft_read(&draft, 7, &text, &err), -EFBIG);
	box_draft_close(&draft, false);
	ASSERT_INT(access(draft.folder, F_OK), -1);
}

TEST(visual_goes_first)
{
	struct box_draft draft;
	ASSERT_INT(setenv("EDITOR", "false", 1), 0);
	ASSERT_INT(setenv("VISUAL", "true", 1), 0);
	ASSERT_INT(box_draft_open(&draft, "..", box_str(""), &err), 0);
	ASSERT_INT(box_draft_edit(&draft, &err), 0);
	ASSERT_INT(setenv("VISUAL", "", 1), 0);
	ASSERT(box_draft_edit(&draft, &err) < 0);
	ASSERT_STR(err.text, "false exited with 1: nothing was written");
	ASSERT_INT(setenv("EDITOR", "kill -9 $$;", 1), 0);
	ASSERT(box_draft_edit(&draft, &err) < 0);
	ASSERT_STR(err.text, "kill -9 $$; was killed by signal 9: nothing was written");
	box_draft_close(&draft, false);
	ASSERT_INT(access(draft.folder, F_OK), -1);
}

TEST(what_the_editor_made_of_it)
{
	struct box_draft draft;
	struct box_buf text;
	ASSERT_INT(setenv("VISUAL", "f() { rm \"$1\"; mkfifo \"$1\"; }; f", 1), 0);
	ASSERT_INT(box_draft_open(&draft, "a", box_str("x"), &err), 0);
	ASSERT_INT(box_draft_edit(&draft, &err), 0);
	ASSERT_INT(box_draft_read(&draft, 8, &text, &err), -EINVAL);
	box_draft_close(&draft, false);
	ASSERT_INT(access(draft.folder, F_OK), -1);
}
