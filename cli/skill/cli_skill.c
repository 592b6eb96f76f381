/* box skill: the list of its commands, what they share, and those that need no file of their own: ls, show,
 * files, cat and rm. */
#include "cli/skill/cli_skill.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/safe_text.h"

#define NAME_WIDTH 24
#define TIME_LEN 19 /* up to the second */
#define DESCRIPTION_MIN 20
#define ANSWER_SIZE 16

/* --- shared by the commands --- */

int box_cli_skill_connect(const struct cli *cli, struct box_line **ret_line)
{
	struct box_client *client;
	int r = box_cli_connect(cli, false, &client);
	if (r < 0) {
		return r;
	}
	*ret_line = box_line_adopt(client);
	return 0;
}

int box_cli_skill_check_words(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	for (size_t i = 0; i < words->count; i++) {
		if (!box_utf8_valid(words->items[i], strlen(words->items[i]))) {
			struct box_err err;
			int r = box_err_set(
				&err, BOX_ERR_VALUE, EILSEQ, "the name is not valid UTF-8");
			(void)box_cli_fail(&err);
			return r;
		}
	}
	return 0;
}

int box_cli_skill_find(
	const struct cli *cli, struct box_line *line, const char *name, struct box_value *ret_skill)
{
	const struct box_skill_args args = {.name = name};
	const struct box_skill_files_args files = {.name = name};
	struct box_value answer;
	struct box_err err;
	int r = box_call_get_skill(line, &args, cli->arena, &answer, &err);
	const struct box_value *skill = r < 0 ? NULL : box_map_get(&answer, "skill");
	if (skill && skill->type == BOX_MAP) {
		*ret_skill = *skill;
		return 0;
	}
	/* Only actions on an existing skill tell why a package was skipped. */
	if (r == 0 && box_call_list_skill_files(line, &files, cli->arena, &answer, &err) == 0) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, ENOENT, "Skill \"%s\" not found", name);
	}
	(void)box_cli_fail(&err);
	return -ENOENT;
}

static size_t print_line(struct box_str text, size_t columns, size_t width)
{
	struct box_buf line = box_buf(2 * BOX_MESSAGE_BYTES_MAX);
	size_t used = box_safe_text_line(&line, text, columns);
	(void)printf("%.*s%*s", (int)line.len, line.len ? line.bytes : "",
		used < width ? (int)(width - used) : 0, "");
	box_buf_free(&line);
	return used < width ? width : used;
}

void box_cli_skill_print(const struct box_value *map, const char *key, size_t columns, size_t width)
{
	(void)print_line(box_get_str(map, key), columns, width);
}

void box_cli_skill_warn(const struct box_value *warnings, const char *name)
{
	uint32_t count = warnings && warnings->type == BOX_LIST ? warnings->count : 0;
	for (uint32_t i = 0; i < count; i++) {
		struct box_str field = box_get_str(&warnings->items[i], "field");
		struct box_str message = box_get_str(&warnings->items[i], "message");
		box_cli_warn("%s: %.*s: %.*s", name, (int)field.len, field.bytes, (int)message.len,
			message.bytes);
	}
}

/* --- ls --- */

/* BOX_SAFE_TEXT_WHOLE where stdout is not a terminal, or its width is not known. */
static size_t columns_of_stdout(void)
{
	struct winsize size;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
		? size.ws_col
		: BOX_SAFE_TEXT_WHOLE;
}

static void print_row(struct box_str name, struct box_str updated, const char *python,
	struct box_str description, size_t columns)
{
	updated.len = BOX_MIN(updated.len, TIME_LEN);
	size_t used = print_line(name, BOX_SAFE_TEXT_WHOLE, NAME_WIDTH);
	(void)putchar(' ');
	used += 1 + print_line(updated, BOX_SAFE_TEXT_WHOLE, TIME_LEN);
	used += (size_t)printf(" %-6s ", python);
	size_t left = columns > used + DESCRIPTION_MIN ? columns - used : DESCRIPTION_MIN;
	(void)print_line(description, columns == BOX_SAFE_TEXT_WHOLE ? columns : left, 0);
	(void)putchar('\n');
}

/* Warns of packages that could not be read: they are missing in the list. */
static void warn_skipped(const struct box_value *answer)
{
	const struct box_value *list = box_map_get(answer, "left_out");
	for (uint32_t i = 0; list && list->type == BOX_LIST && i < list->count; i++) {
		struct box_str path = box_get_str(&list->items[i], "path");
		struct box_str message = box_get_str(&list->items[i], "message");
		box_cli_warn("skipped: %.*s: %.*s", (int)path.len, path.bytes, (int)message.len,
			message.bytes);
	}
}

static int print_skills(const struct cli *cli, const struct box_value *answer)
{
	const struct box_value *skills = box_map_get(answer, "skills");
	struct box_value none = box_list_value();
	skills = skills && skills->type == BOX_LIST ? skills : &none;
	warn_skipped(answer);
	if (cli->options.json) {
		return box_cli_print_json(skills);
	}
	size_t columns = columns_of_stdout();
	print_row(box_str("NAME"), box_str("UPDATED"), "PYTHON", box_str("DESCRIPTION"), columns);
	for (uint32_t i = 0; i < skills->count; i++) {
		const struct box_value *skill = &skills->items[i];
		print_row(box_get_str(skill, "name"), box_get_str(skill, "updated_at"),
			box_get_bool(skill, "python_project", false) ? "yes" : "no",
			box_get_str(skill, "description"), columns);
	}
	return box_cli_flush();
}

static int skill_ls(const struct cli *cli)
{
	struct box_line *line;
	struct box_value answer;
	struct box_err err;
	if (cli->options.words.count > 0) {
		return box_cli_usage_error(cli, "takes no arguments");
	}
	if (box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = box_call_list_skills(line, cli->arena, &answer, &err) < 0
		? box_cli_fail(&err)
		: print_skills(cli, &answer);
	box_line_close(line);
	return code;
}

static const struct box_cli_command ls_command = {
	.name = "ls",
	.options = {box_cli_options_common, box_cli_options_json},
	.plain_words = SIZE_MAX,
	.run = skill_ls,
	.summary = "list skills",
	.usage = "Usage: box skill ls [OPTION]...\n"
		 "Lists the skills of a workspace, newest first.\n"
		 "\n"
		 "      --json             print JSON with all details\n" BOX_CLI_COMMON_USAGE,
};

/* --- show --- */

static void print_text(struct box_str text)
{
	struct box_buf shown = box_buf(2 * BOX_MESSAGE_BYTES_MAX);
	box_safe_text_lines(&shown, text);
	(void)fwrite(shown.len ? shown.bytes : "", 1, shown.len, stdout);
	box_buf_free(&shown);
}

static int print_skill(const struct cli *cli, const struct box_value *skill)
{
	static const struct {
		const char *label, *key;
	} rows[] = {
		{"Name:", "name"},
		{"Display name:", "display_name"},
		{"Description:", "description"},
		{"Folder:", "package_root"},
		{"Entry file:", "entry_file"},
		{"Created:", "created_at"},
		{"Updated:", "updated_at"},
	};
	if (cli->options.json) {
		return box_cli_print_json(skill);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		(void)printf("%-14s ", rows[i].label);
		box_cli_skill_print(skill, rows[i].key, BOX_SAFE_TEXT_WHOLE, 0);
		(void)putchar('\n');
	}
	(void)printf("%-14s %s\n",
		"Python:", box_get_bool(skill, "python_project", false) ? "yes" : "no");
	const struct box_value *warnings = box_map_get(skill, "warnings");
	for (uint32_t i = 0; warnings && warnings->type == BOX_LIST && i < warnings->count; i++) {
		(void)printf("%-14s ", i == 0 ? "Warnings:" : "");
		box_cli_skill_print(&warnings->items[i], "field", BOX_SAFE_TEXT_WHOLE, 0);
		(void)fputs(": ", stdout);
		box_cli_skill_print(&warnings->items[i], "message", BOX_SAFE_TEXT_WHOLE, 0);
		(void)putchar('\n');
	}
	struct box_str instructions = box_get_str(skill, "instructions");
	(void)putchar('\n');
	print_text(instructions);
	if (instructions.len > 0 && instructions.bytes[instructions.len - 1] != '\n') {
		(void)putchar('\n');
	}
	return box_cli_flush();
}

static int skill_show(const struct cli *cli)
{
	struct box_line *line;
	struct box_value skill;
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "expected one NAME");
	}
	if (box_cli_skill_check_words(cli) < 0 || box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = box_cli_skill_find(cli, line, cli->options.words.items[0], &skill) < 0
		? BOX_CLI_EXIT_FAILED
		: print_skill(cli, &skill);
	box_line_close(line);
	return code;
}

static const struct box_cli_command show_command = {
	.name = "show",
	.options = {box_cli_options_common, box_cli_options_json},
	.plain_words = SIZE_MAX,
	.run = skill_show,
	.summary = "show a skill and its instructions",
	.usage = "Usage: box skill show [OPTION]... NAME\n"
		 "Shows the details of a skill, warnings about its format, and its instructions.\n"
		 "\n"
		 "      --json             print JSON\n" BOX_CLI_COMMON_USAGE,
};

/* --- files --- */

static int print_files(const struct cli *cli, const struct box_value *answer)
{
	const struct box_value *entries = box_map_get(answer, "entries");
	struct box_value none = box_list_value();
	entries = entries && entries->type == BOX_LIST ? entries : &none;
	if (box_get_bool(answer, "truncated", false)) {
		box_cli_warn("only the first %u are shown", (unsigned)entries->count);
	}
	if (cli->options.json) {
		return box_cli_print_json(entries);
	}
	(void)printf("%10s %s\n", "SIZE", "PATH");
	for (uint32_t i = 0; i < entries->count; i++) {
		const struct box_value *entry = &entries->items[i];
		bool folder = box_get_bool(entry, "is_dir", false);
		if (folder) {
			(void)printf("%10s ", "-");
		} else {
			(void)printf("%10lld ", (long long)box_get_int(entry, "size", 0));
		}
		box_cli_skill_print(entry, "path", BOX_SAFE_TEXT_WHOLE, 0);
		(void)puts(folder ? "/" : "");
	}
	return box_cli_flush();
}

static int skill_files(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_line *line;
	struct box_value answer;
	struct box_err err;
	if (words->count < 1 || words->count > 2) {
		return box_cli_usage_error(cli, "expected NAME [PATH]");
	}
	if (box_cli_skill_check_words(cli) < 0 || box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	const struct box_skill_files_args args = {
		.name = words->items[0],
		.path = words->count > 1 ? words->items[1] : NULL,
		.include_hidden = cli->options.all,
		.max_entries = BOX_SKILL_FILES_MAX,
	};
	int code = box_call_list_skill_files(line, &args, cli->arena, &answer, &err) < 0
		? box_cli_fail(&err)
		: print_files(cli, &answer);
	box_line_close(line);
	return code;
}

static const struct box_cli_option files_options[] = {
	BOX_CLI_OPTION("--all", 'a', FLAG, all),
	{0},
};

static const struct box_cli_command files_command = {
	.name = "files",
	.options = {box_cli_options_common, box_cli_options_json, files_options},
	.plain_words = SIZE_MAX,
	.run = skill_files,
	.summary = "list the files of a skill",
	.usage = "Usage: box skill files [OPTION]... NAME [PATH]\n"
		 "Lists the files in the folder of a skill, or in a subfolder.\n"
		 "\n"
		 "  -a, --all              include hidden files\n"
		 "      --json             print JSON\n" BOX_CLI_COMMON_USAGE,
};

/* --- cat --- */

static int skill_cat(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_line *line;
	struct box_value answer;
	struct box_err err;
	if (words->count != 2) {
		return box_cli_usage_error(cli, "expected NAME PATH");
	}
	if (box_cli_skill_check_words(cli) < 0 || box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	const struct box_skill_file_args args = {.name = words->items[0], .path = words->items[1]};
	int r = box_call_read_skill_file(line, &args, cli->arena, &answer, &err);
	box_line_close(line);
	if (r < 0) {
		return box_cli_fail(&err);
	}
	struct box_str content = box_get_str(&answer, "content");
	/* A terminal gets no control characters; a file gets the exact content. */
	if (isatty(STDOUT_FILENO)) {
		print_text(content);
	} else {
		(void)fwrite(content.bytes, 1, content.len, stdout);
	}
	return box_cli_flush();
}

static const struct box_cli_command cat_command = {
	.name = "cat",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = skill_cat,
	.summary = "print a file of a skill",
	.usage = "Usage: box skill cat [OPTION]... NAME PATH\n"
		 "Prints a text file of a skill. On a terminal control characters become \"?\".\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};

/* --- rm --- */

/* Whether "y" or "yes" was typed. */
static bool confirm(const struct box_cli_words *names)
{
	char answer[ANSWER_SIZE] = "";
	struct box_buf question = box_buf(BOX_MESSAGE_BYTES_MAX);
	for (size_t i = 0; i < names->count; i++) {
		(void)box_buf_append_str(&question, i > 0 ? ", " : "");
		(void)box_safe_text_line(&question, box_str(names->items[i]), BOX_SAFE_TEXT_WHOLE);
	}
	(void)fprintf(stderr, "Remove %s %.*s with all files? [y/N] ",
		names->count == 1 ? "skill" : "skills", (int)question.len,
		question.len ? question.bytes : "");
	box_buf_free(&question);
	if (!fgets(answer, sizeof(answer), stdin)) {
		(void)fputc('\n', stderr);
	}
	answer[strcspn(answer, "\n")] = '\0';
	return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

static int remove_all(const struct cli *cli, struct box_line *line)
{
	const struct box_cli_words *words = &cli->options.words;
	int code = 0;
	for (size_t i = 0; i < words->count; i++) {
		const struct box_skill_args args = {.name = words->items[i]};
		struct box_value answer;
		struct box_err err;
		if (box_call_delete_skill(line, &args, cli->arena, &answer, &err) < 0) {
			code = box_cli_fail(&err);
			continue;
		}
		struct box_value name = box_cstr(words->items[i]);
		box_cli_print_text(&name, 0);
		(void)putchar('\n');
	}
	return box_cli_flush() ? BOX_CLI_EXIT_FAILED : code;
}

static int skill_rm(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_line *line;
	if (words->count == 0) {
		return box_cli_usage_error(cli, "expected at least one NAME");
	}
	if (box_cli_skill_check_words(cli) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (!cli->options.yes && !isatty(STDIN_FILENO)) {
		return box_cli_usage_error(
			cli, "stdin is not a terminal, cannot ask for confirmation: use -y");
	}
	if (!cli->options.yes && !confirm(words)) {
		(void)fputs("box: nothing was removed\n", stderr);
		return BOX_CLI_EXIT_FAILED;
	}
	if (box_cli_skill_connect(cli, &line) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = remove_all(cli, line);
	box_line_close(line);
	return code;
}

static const struct box_cli_option rm_options[] = {
	BOX_CLI_OPTION("--yes", 'y', FLAG, yes),
	{0},
};

static const struct box_cli_command rm_command = {
	.name = "rm",
	.options = {box_cli_options_common, rm_options},
	.plain_words = SIZE_MAX,
	.run = skill_rm,
	.summary = "remove skills",
	.usage = "Usage: box skill rm [OPTION]... NAME...\n"
		 "Removes skills with all their files.\n"
		 "\n"
		 "  -y, --yes              do not ask for confirmation\n" BOX_CLI_COMMON_USAGE,
};

/* --- the family --- */

static const struct box_cli_command *const commands[] = {&ls_command, &show_command,
	&box_cli_skill_add, &rm_command, &box_cli_skill_check, &files_command, &cat_command,
	&box_cli_skill_edit, NULL};

BOX_CLI_VERB(skill) = {
	.name = "skill",
	.options = {box_cli_options_common},
	.summary = "manage skills (Agent Skills format)",
	.usage = "Usage: box skill [OPTION]... COMMAND ...\n"
		 "Manages the skills of a workspace, which are in the Agent Skills format.\n"
		 "\n"
		 "  ls       list skills\n"
		 "  show     show a skill and its instructions\n"
		 "  add      install a skill from a folder or a ZIP\n"
		 "  rm       remove skills\n"
		 "  check    check whether a skill conforms to the format\n"
		 "  files    list the files of a skill\n"
		 "  cat      print a file of a skill\n"
		 "  edit     edit a file of a skill\n"
		 "\n" BOX_CLI_COMMON_USAGE,
	.subs = commands,
};
