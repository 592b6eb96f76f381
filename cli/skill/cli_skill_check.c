/* box skill check: reports where a skill does not conform to the Agent Skills format. A local folder is read by
 * the code of the skill store and needs no runtime; a ZIP or an installed skill is checked by the runtime. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/safe_text.h"
#include "cli/skill/cli_skill.h"
#include "cli/skill/skill_pack.h"
#include "skills/store/package.h"
#include "skills/store/skill_tree.h"

#define EXIT_NONCONFORMING 1

static void print_part(const char *before, struct box_str text)
{
	struct box_buf line = box_buf(BOX_MESSAGE_BYTES_MAX);
	(void)box_safe_text_line(&line, text, BOX_SAFE_TEXT_WHOLE);
	(void)printf("%s%.*s", before, (int)line.len, line.len ? line.bytes : "");
	box_buf_free(&line);
}

/* Prints one line for each warning, or that the skill conforms. Gives the exit code. */
static int print_warnings(struct box_str name, const struct box_value *warnings)
{
	uint32_t count = warnings && warnings->type == BOX_LIST ? warnings->count : 0;
	for (uint32_t i = 0; i < count; i++) {
		print_part("", name);
		print_part(": ", box_get_str(&warnings->items[i], "field"));
		print_part(": ", box_get_str(&warnings->items[i], "message"));
		(void)putchar('\n');
	}
	if (count == 0) {
		print_part("", name);
		(void)puts(": conforms");
	}
	return count > 0 ? EXIT_NONCONFORMING : 0;
}

/* --- a folder --- */

static int print_found(const struct box_skill_tree *tree, const char *path)
{
	int code = 0;
	for (size_t i = 0; i < box_skill_tree_count(tree); i++) {
		struct box_skill_tree_found found = box_skill_tree_at(tree, i);
		if (found.skill) {
			code |= print_warnings(found.skill->name, &found.skill->warnings);
			continue;
		}
		print_part("", box_str(*found.path ? found.path : path));
		print_part(": ", box_str(found.why));
		(void)putchar('\n');
		code = EXIT_NONCONFORMING;
	}
	return code;
}

static int check_folder(const char *path)
{
	struct box_err err;
	_cleanup_(box_free_p) char *whole = realpath(path, NULL);
	_cleanup_(box_close_p) int fd = whole ? open(whole, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
		return box_cli_fail(&err);
	}
	struct box_skill_tree *tree = box_skill_tree_new(whole);
	int r = box_skill_tree_walk(tree, fd, BOX_SKILL_SCAN_DEPTH, &err);
	if (r == 0) {
		r = box_skill_tree_load(tree, fd, &err);
	}
	if (r == 0 && box_skill_tree_count(tree) == 0) {
		r = box_err_set(&err, BOX_ERR_VALIDATION, ENOENT,
			"No SKILL.md found in %s or its subdirectories (max depth: %d)", path,
			BOX_SKILL_SCAN_DEPTH);
	}
	int code = r < 0 ? box_cli_fail(&err) : print_found(tree, path);
	box_skill_tree_free(tree);
	return box_cli_flush() ? BOX_CLI_EXIT_FAILED : code;
}

/* --- by the runtime --- */

static int check_zip(const struct cli *cli, const char *path)
{
	struct box_buf zip = {0};
	struct box_line *line;
	struct box_value skills;
	struct box_err err;
	const char *stem;
	int code = 0;
	if (box_skill_pack(path, cli->arena, &zip, &stem, &err) < 0) {
		return box_cli_fail(&err);
	}
	int r = box_cli_skill_connect(cli, &line);
	if (r == 0) {
		r = box_cli_skill_preview(cli, line, &zip, "skill", &skills);
		box_line_close(line);
	}
	for (uint32_t i = 0; r == 0 && i < skills.count; i++) {
		const struct box_value *skill = &skills.items[i];
		code |= print_warnings(box_get_str(skill, "name"), box_map_get(skill, "warnings"));
	}
	box_buf_free(&zip);
	return r < 0 || box_cli_flush() ? BOX_CLI_EXIT_FAILED : code;
}

static int check_installed(const struct cli *cli, const char *name)
{
	struct box_line *line;
	struct box_value skill;
	if (box_cli_skill_check_words(cli) < 0 || box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int r = box_cli_skill_find(cli, line, name, &skill);
	box_line_close(line);
	if (r < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = print_warnings(box_get_str(&skill, "name"), box_map_get(&skill, "warnings"));
	return box_cli_flush() ? BOX_CLI_EXIT_FAILED : code;
}

static int skill_check(const struct cli *cli)
{
	struct stat status;
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "expected one PATH or NAME");
	}
	const char *word = cli->options.words.items[0];
	if (stat(word, &status) == 0) {
		return S_ISDIR(status.st_mode) ? check_folder(word) : check_zip(cli, word);
	}
	/* No skill has a slash in its name. */
	return strchr(word, '/') ? check_folder(word) : check_installed(cli, word);
}

const struct box_cli_command box_cli_skill_check = {
	.name = "check",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = skill_check,
	.summary = "check whether a skill conforms to the format",
	.usage = "Usage: box skill check [OPTION]... PATH|NAME\n"
		 "Reports where a skill does not conform to the Agent Skills format. A local\n"
		 "folder needs no runtime. Exit status: 0 when it conforms, else 1.\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};
