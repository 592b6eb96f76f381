/* box skill: the table of its commands, those that only show something, and what all of them share. */
#include "cli/skill/cli_skill.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli_usage.h"
#include "cli/safe_text.h"

#define NAME_WIDTH 24
#define TIME_LEN 19 /* up to the second */
#define DESCRIPTION_LEAST 20

/* --- what all of them share --- */

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
			int r = box_err_set(&err, BOX_ERR_VALUE, EILSEQ, "the name is no UTF-8");
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
	/* Only the actions that need a skill say why one is left out. */
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

/* BOX_SAFE_TEXT_WHOLE where nobody looks, or the terminal does not know. */
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
	size_t left = columns > used + DESCRIPTION_LEAST ? columns - used : DESCRIPTION_LEAST;
	(void)print_line(description, columns == BOX_SAFE_TEXT_WHOLE ? columns : left, 0);
	(void)putchar('\n');
}

/* Packages that could not be read are no skills, but somebody will miss them. */
static void tell_left_out(const struct box_value *answer)
{
	const struct box_value *list = box_map_get(answer, "left_out");
	for (uint32_t i = 0; list && list->type == BOX_LIST && i < list->count; i++) {
		struct box_str path = box_get_str(&list->items[i], "path");
		struct box_str message = box_get_str(&list->items[i], "message");
		box_cli_warn("left out: %.*s: %.*s", (int)path.len, path.bytes, (int)message.len,
			message.bytes);
	}
}

static int print_skills(const struct cli *cli, const struct box_value *answer)
{
	const struct box_value *skills = box_map_get(answer, "skills");
	struct box_value none = box_list_value();
	skills = skills && skills->type == BOX_LIST ? skills : &none;
	tell_left_out(answer);
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
		return box_cli_usage_error(cli, "takes no NAME");
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
		return box_cli_usage_error(cli, "one NAME is needed");
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
		return box_cli_usage_error(cli, "NAME is needed, and perhaps PATH");
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

/* --- cat --- */

static int skill_cat(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_line *line;
	struct box_value answer;
	struct box_err err;
	if (words->count != 2) {
		return box_cli_usage_error(cli, "NAME and PATH are needed");
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
	/* A file gets what is there; a terminal obeys nothing of it. */
	if (isatty(STDOUT_FILENO)) {
		print_text(content);
	} else {
		(void)fwrite(content.bytes, 1, content.len, stdout);
	}
	return box_cli_flush();
}

/* --- the table --- */

const char box_cli_skill_usage[] =
	"Usage: box skill [OPTION]... COMMAND ...\n"
	"Skills that a runtime keeps for a workspace, in the Agent Skills format.\n"
	"\n"
	"  ls       list skills\n"
	"  show     show one, with its instructions\n"
	"  add      install one, of a folder or a ZIP\n"
	"  rm       remove skills\n"
	"  check    tell whether one conforms to the format\n"
	"  files    list files of one\n"
	"  cat      print a file of one\n"
	"  edit     change a file of one\n"
	"\n" BOX_CLI_COMMON_USAGE;

const struct box_cli_command box_cli_skill_commands[BOX_CLI_SKILL_COMMANDS] = {
	{"ls", BOX_CLI_COMMON | BOX_CLI_LIST, SIZE_MAX, skill_ls, "list skills",
		"Usage: box skill ls [OPTION]...\n"
		"Lists the skills of a workspace, the newest first.\n"
		"\n"
		"      --json             as JSON, with everything that is known\n" BOX_CLI_COMMON_USAGE},
	{"show", BOX_CLI_COMMON | BOX_CLI_LIST, SIZE_MAX, skill_show,
		"show one, with its instructions",
		"Usage: box skill show [OPTION]... NAME\n"
		"Shows what is known of a skill, where it does not conform to the Agent Skills\n"
		"format, and its instructions.\n"
		"\n"
		"      --json             as JSON\n" BOX_CLI_COMMON_USAGE},
	{"add", BOX_CLI_COMMON | BOX_CLI_SKILL_ADD, SIZE_MAX, box_cli_skill_add,
		"install one, of a folder or a ZIP",
		"Usage: box skill add [OPTION]... PATH\n"
		"Installs the skill in a folder or in a ZIP. Its name is printed. A folder with\n"
		"links, special files or too much is refused, and nothing is sent.\n"
		"\n"
		"      --from FOLDER      which one, where there are several; repeatable\n"
		"      --all              all of them\n"
		"      --name NAME        what its folder is called in the runtime (as the skill;\n"
		"                         for several as PATH, with their own folder behind it)\n"
		"      --suffix TEXT      what comes behind that name\n"
		"      --dry-run          only show what would be installed\n" BOX_CLI_COMMON_USAGE},
	{"rm", BOX_CLI_COMMON | BOX_CLI_SURE, SIZE_MAX, box_cli_skill_rm, "remove skills",
		"Usage: box skill rm [OPTION]... NAME...\n"
		"Removes skills, with the folder that each was installed in.\n"
		"\n"
		"  -y, --yes              do not ask\n" BOX_CLI_COMMON_USAGE},
	{"check", BOX_CLI_COMMON, SIZE_MAX, box_cli_skill_check,
		"tell whether one conforms to the format",
		"Usage: box skill check [OPTION]... PATH|NAME\n"
		"Tells where a skill does not conform to the Agent Skills format. For a folder of\n"
		"ours no runtime is needed. Exit status: 0 when it conforms, 1 when not.\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"files", BOX_CLI_COMMON | BOX_CLI_LIST | BOX_CLI_HIDDEN, SIZE_MAX, skill_files,
		"list files of one",
		"Usage: box skill files [OPTION]... NAME [PATH]\n"
		"Lists what is in a skill's folder, or in one below it.\n"
		"\n"
		"  -a, --all              hidden ones too\n"
		"      --json             as JSON\n" BOX_CLI_COMMON_USAGE},
	{"cat", BOX_CLI_COMMON, SIZE_MAX, skill_cat, "print a file of one",
		"Usage: box skill cat [OPTION]... NAME PATH\n"
		"Prints a text file of a skill. On a terminal control characters become \"?\".\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"edit", BOX_CLI_COMMON, SIZE_MAX, box_cli_skill_edit, "change a file of one",
		"Usage: box skill edit [OPTION]... NAME [PATH]\n"
		"Opens SKILL.md, or another file of a skill, in $VISUAL or $EDITOR (vi). It is\n"
		"written back when it was changed, unless somebody else changed it meanwhile.\n"
		"With PATH it may be a new file.\n"
		"\n" BOX_CLI_COMMON_USAGE},
};
