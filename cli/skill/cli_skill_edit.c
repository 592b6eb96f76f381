/* box skill edit: edits a file of a skill. While the editor runs there is no connection, because nobody would
 * answer its pings; the file is read again before it is written, to detect changes by others. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "cli/safe_text.h"
#include "cli/skill/cli_skill.h"
#include "cli/skill/draft.h"
#include "skills/store/package.h"

struct editing {
	const struct cli *cli;
	const char *name;
	const char *path; /* NULL: the entry file, until its path is known */
	const char *leaf; /* of it */
	const char *root; /* the folder of the skill at the runtime, after a slash */
	bool is_entry;    /* SKILL.md: it must stay readable */
	bool is_new;      /* it does not exist yet */
	struct box_str old;
	struct box_draft draft;
};

/* --- at the runtime --- */

/* Reads the file; *ret_missing when it does not exist. Prints the reason when it fails. */
static int read_file(const struct editing *editing, struct box_line *line, struct box_str *ret_text,
	bool *ret_missing)
{
	static const char missing[] = "Skill file not found";
	const struct box_skill_file_args args = {.name = editing->name, .path = editing->path};
	const struct box_skill_files_args folder = {.name = editing->name, .path = editing->path};
	struct box_value answer;
	struct box_err err;
	int r = box_call_read_skill_file(line, &args, editing->cli->arena, &answer, &err);
	*ret_missing = false;
	if (r == 0) {
		*ret_text = box_get_str(&answer, "content");
		return 0;
	}
	if (err.code == BOX_ERR_VALIDATION && strncmp(err.text, missing, strlen(missing)) == 0) {
		/* A folder gives the same error. */
		if (box_call_list_skill_files(line, &folder, editing->cli->arena, &answer, NULL) <
			0) {
			*ret_text = box_str("");
			*ret_missing = true;
			return 0;
		}
		(void)box_err_set(&err, BOX_ERR_VALUE, EISDIR, "%s: is a folder", editing->path);
	}
	(void)box_cli_fail(&err);
	return r;
}

static const char *leaf_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The skill must exist; the file too unless it was named. */
static int fetch(struct editing *editing, struct box_line *line)
{
	struct box_value skill;
	bool named = editing->path != NULL;
	int r = box_cli_skill_find(editing->cli, line, editing->name, &skill);
	if (r < 0) {
		return r;
	}
	struct box_str entry = box_get_str(&skill, "entry_file");
	struct box_str root = box_get_str(&skill, "package_root");
	editing->path = named ? editing->path
			      : box_arena_strndup(editing->cli->arena, entry.bytes, entry.len);
	editing->root = box_arena_printf(editing->cli->arena, "/%.*s", (int)root.len, root.bytes);
	editing->leaf = leaf_of(editing->path);
	const char *plain = editing->path;
	while (strncmp(plain, "./", 2) == 0) {
		plain += 2 + strspn(plain + 2, "/");
	}
	editing->is_entry = box_str_eq(entry, plain);
	r = read_file(editing, line, &editing->old, &editing->is_new);
	if (r == 0 && editing->is_new && !named) {
		struct box_err err;
		r = box_err_set(&err, BOX_ERR_VALIDATION, ENOENT, "%s does not exist any more",
			editing->path);
		(void)box_cli_fail(&err);
	}
	return r;
}

/* Writes unless somebody else did meanwhile. */
static int put(const struct editing *editing, struct box_line *line, struct box_str text,
	struct box_err *err)
{
	const struct box_skill_write_args args = {
		.name = editing->name, .path = editing->path, .content = text};
	struct box_value answer;
	struct box_str now = {NULL, 0};
	bool missing = false;
	if (read_file(editing, line, &now, &missing) < 0) {
		return box_err_set(err, BOX_ERR_VALUE, EIO, "nothing was written");
	}
	if (missing != editing->is_new || !box_str_same(now, editing->old)) {
		return box_err_set(err, BOX_ERR_VALUE, EBUSY,
			"%s of %s was changed by somebody else meanwhile: nothing was written",
			editing->path, editing->name);
	}
	return box_call_write_skill_file(line, &args, editing->cli->arena, &answer, err);
}

/* --- on this side --- */

/* With an unreadable SKILL.md the skill would disappear, and could not be edited again. */
static int check_entry(const struct editing *editing, struct box_err *err)
{
	struct box_package *skill = NULL;
	int r = box_package_load(
		editing->draft.folder_fd, editing->leaf, editing->root, &skill, NULL, err);
	if (r < 0) {
		return r;
	}
	if (!box_str_eq(skill->name, editing->name)) {
		box_cli_warn(
			"the skill is renamed to %.*s", (int)skill->name.len, skill->name.bytes);
	}
	box_cli_skill_warn(&skill->warnings, editing->name);
	box_package_free(skill);
	return 0;
}

static int check(const struct editing *editing, const struct box_buf *text, struct box_err *err)
{
	if (text->len > 0 && !box_utf8_valid(text->bytes, text->len)) {
		return box_err_set(
			err, BOX_ERR_VALUE, EILSEQ, "the edited text is not valid UTF-8");
	}
	return editing->is_entry ? check_entry(editing, err) : 0;
}

static int write_back(
	const struct editing *editing, const struct box_buf *text, struct box_err *err)
{
	struct box_line *line;
	int r = check(editing, text, err);
	if (r < 0) {
		return r;
	}
	if (box_cli_skill_connect(editing->cli, &line) < 0) {
		return box_err_set(err, BOX_ERR_VALUE, EIO, "nothing was written");
	}
	r = put(editing, line, (struct box_str){text->len ? text->bytes : "", text->len}, err);
	box_line_close(line);
	return r;
}

static void print_draft_path(const struct box_draft *draft)
{
	struct box_buf path = box_buf(2 * BOX_PATH_MAX);
	(void)box_safe_text_line(&path, box_str(draft->path), BOX_SAFE_TEXT_WHOLE);
	(void)fprintf(stderr, "box: your text is in %.*s\n", (int)path.len, path.bytes);
	box_buf_free(&path);
}

/* A text that could not be written back is kept as a draft. */
static int edit(struct editing *editing)
{
	struct box_buf text = {0};
	struct box_err err;
	int r = box_draft_edit(&editing->draft, &err);
	if (r == 0) {
		r = box_draft_read(&editing->draft, BOX_SKILL_TEXT_BYTES_MAX, &text, &err);
	}
	if (r < 0) {
		box_draft_close(&editing->draft, r == -EFBIG);
		(void)box_cli_fail(&err);
		if (r == -EFBIG) {
			print_draft_path(&editing->draft);
		}
		return BOX_CLI_EXIT_FAILED;
	}
	struct box_str now = {text.bytes, text.len};
	bool changed = !box_str_same(now, editing->old);
	r = changed ? write_back(editing, &text, &err) : 0;
	box_buf_free(&text);
	box_draft_close(&editing->draft, r < 0);
	if (r < 0) {
		(void)box_cli_fail(&err);
		print_draft_path(&editing->draft);
		return BOX_CLI_EXIT_FAILED;
	}
	if (!changed) {
		(void)fputs("box: nothing was changed\n", stderr);
	}
	return 0;
}

static int skill_edit(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct editing editing = {.cli = cli};
	struct box_line *line;
	struct box_err err;
	if (words->count < 1 || words->count > 2) {
		return box_cli_usage_error(cli, "expected NAME [PATH]");
	}
	editing.name = words->items[0];
	editing.path = words->count > 1 ? words->items[1] : NULL;
	if (box_cli_skill_check_words(cli) < 0 || box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int r = fetch(&editing, line);
	box_line_close(line);
	if (r < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (box_draft_open(&editing.draft, editing.leaf, editing.old, &err) < 0) {
		return box_cli_fail(&err);
	}
	return edit(&editing);
}

const struct box_cli_command box_cli_skill_edit = {
	.name = "edit",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = skill_edit,
	.summary = "edit a file of a skill",
	.usage = "Usage: box skill edit [OPTION]... NAME [PATH]\n"
		 "Opens SKILL.md, or another file of a skill, in $VISUAL or $EDITOR (default:\n"
		 "vi), and writes it back if it was changed, unless somebody else changed it\n"
		 "meanwhile. With PATH it may be a new file.\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};
