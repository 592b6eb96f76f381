/* box skill add: packs and checks an archive, has the runtime preview it, chooses skills, and installs them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/safe_text.h"
#include "cli/skill/cli_skill.h"
#include "cli/skill/skill_pack.h"

#define NAME_WIDTH 24

struct adding {
	const struct cli *cli;
	struct box_line *line;
	struct box_buf zip;
	const char *stem;
	struct box_value skills; /* in the archive */
	struct box_value chosen; /* to be installed */
};

/* --- the archive and the runtime --- */

/* An upload can be used for one request. */
static int upload(
	struct box_line *line, const struct box_buf *zip, char ret_key[BOX_UPLOAD_KEY_SIZE])
{
	struct box_err err;
	int r = box_upload(line, zip->bytes, zip->len, ret_key, &err);
	if (r < 0) {
		(void)box_cli_fail(&err);
	}
	return r;
}

int box_cli_skill_preview(const struct cli *cli, struct box_line *line, const struct box_buf *zip,
	const char *stem, struct box_value *ret_skills)
{
	char key[BOX_UPLOAD_KEY_SIZE];
	struct box_value answer;
	struct box_err err;
	const struct box_skill_zip_args args = {
		.file_key = key,
		.filename = box_arena_printf(cli->arena, "%s.zip", stem),
		.target_suffix = "",
	};
	int r = upload(line, zip, key);
	if (r < 0) {
		return r;
	}
	r = box_call_preview_skill_zip(line, &args, cli->arena, &answer, &err);
	if (r < 0) {
		(void)box_cli_fail(&err);
		return r;
	}
	const struct box_value *skills = box_map_get(&answer, "skills");
	*ret_skills = skills && skills->type == BOX_LIST ? *skills : box_list_value();
	return 0;
}

/* --- choosing --- */

/* Normalizes a folder: "./a/" is "a", and "." is the archive itself, "". */
static struct box_str folder_of(const char *text)
{
	while (strncmp(text, "./", 2) == 0) {
		text += 2 + strspn(text + 2, "/");
	}
	struct box_str folder = box_str(text);
	while (folder.len > 0 && folder.bytes[folder.len - 1] == '/') {
		folder.len--;
	}
	return box_str_eq(folder, ".") ? box_str("") : folder;
}

static void print_one(FILE *to, const struct box_value *skill)
{
	struct box_buf line = box_buf(BOX_MESSAGE_BYTES_MAX);
	struct box_str source = box_get_str(skill, "source_path");
	size_t used = box_safe_text_line(&line, box_get_str(skill, "name"), BOX_SAFE_TEXT_WHOLE);
	(void)box_buf_printf(&line, "%*s ", used < NAME_WIDTH ? (int)(NAME_WIDTH - used) : 0, "");
	(void)box_safe_text_line(
		&line, source.len > 0 ? source : box_str("."), BOX_SAFE_TEXT_WHOLE);
	(void)fprintf(to, "%.*s\n", (int)line.len, line.bytes);
	box_buf_free(&line);
}

static const struct box_value *find_source(const struct adding *adding, struct box_str folder)
{
	for (uint32_t i = 0; i < adding->skills.count; i++) {
		const struct box_value *skill = &adding->skills.items[i];
		if (box_str_same(box_get_str(skill, "source_path"), folder)) {
			return skill;
		}
	}
	return NULL;
}

static int print_choice(const struct adding *adding)
{
	(void)fputs("box: several skills found: choose with --from, or use --all\n", stderr);
	for (uint32_t i = 0; i < adding->skills.count; i++) {
		print_one(stderr, &adding->skills.items[i]);
	}
	return -EINVAL;
}

static void take(struct adding *adding, const struct box_value *skill)
{
	struct box_str source = box_get_str(skill, "source_path");
	for (uint32_t i = 0; i < adding->chosen.count; i++) {
		if (box_str_same(box_get_str(&adding->chosen.items[i], "source_path"), source)) {
			return;
		}
	}
	box_list_add(adding->cli->arena, &adding->chosen, *skill);
}

static int choose(struct adding *adding)
{
	const struct box_cli_options *options = &adding->cli->options;
	uint32_t count = adding->skills.count;
	adding->chosen = box_list_value();
	for (size_t i = 0; i < options->from.count; i++) {
		const struct box_value *skill = find_source(
			adding, folder_of(options->from.items[i]));
		if (!skill) {
			struct box_err err;
			(void)box_err_set(&err, BOX_ERR_VALUE, ENOENT, "--from: no skill in \"%s\"",
				options->from.items[i]);
			(void)box_cli_fail(&err);
			return -ENOENT;
		}
		take(adding, skill);
	}
	if (count == 0) {
		(void)fputs("box: no skill found\n", stderr);
		return -ENOENT;
	}
	if (options->from.count == 0 && count != 1 && !options->all) {
		return print_choice(adding);
	}
	for (uint32_t i = 0; options->from.count == 0 && i < count; i++) {
		take(adding, &adding->skills.items[i]);
	}
	return 0;
}

/* --- installing --- */

static const char *name_of(const struct cli *cli, const struct box_value *skill)
{
	struct box_str name = box_get_str(skill, "name");
	return box_arena_strndup(cli->arena, name.bytes, name.len);
}

/* A single skill gets a folder of its own name, as the format requires; several are installed together or not
 * at all, in folders that the runtime names. */
static int install(const struct adding *adding, struct box_value *ret_skills)
{
	const struct cli *cli = adding->cli;
	const struct box_value *first = &adding->chosen.items[0];
	struct box_str source = box_get_str(first, "source_path");
	struct box_value sources = box_list_value();
	bool single = adding->chosen.count == 1;
	char key[BOX_UPLOAD_KEY_SIZE];
	struct box_value answer;
	struct box_err err;
	const char *stem = cli->options.folder_name ? cli->options.folder_name
		: single                            ? name_of(cli, first)
						    : adding->stem;
	for (uint32_t i = 0; i < adding->chosen.count; i++) {
		struct box_str path = box_get_str(&adding->chosen.items[i], "source_path");
		/* A single skill is at the top of its own folder. */
		box_list_add(cli->arena, &sources, box_text(single ? box_str("") : path));
	}
	const struct box_skill_zip_args args = {
		.file_key = key,
		.filename = box_arena_printf(cli->arena, "%s.zip", stem),
		.target_suffix = cli->options.suffix ? cli->options.suffix : "",
		.source_subdir = single && source.len > 0
			? box_arena_strndup(cli->arena, source.bytes, source.len)
			: NULL,
		.source_paths = &sources,
	};
	if (upload(adding->line, &adding->zip, key) < 0) {
		return -EIO;
	}
	int r = box_call_install_skill_zip(adding->line, &args, cli->arena, &answer, &err);
	if (r < 0) {
		(void)box_cli_fail(&err);
		return r;
	}
	const struct box_value *skills = box_map_get(&answer, "skills");
	*ret_skills = skills && skills->type == BOX_LIST ? *skills : box_list_value();
	return 0;
}

static int install_and_print(const struct adding *adding)
{
	struct box_value skills;
	if (install(adding, &skills) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	for (uint32_t i = 0; i < skills.count; i++) {
		/* The folders of several skills do not have their names, which is not worth a warning. */
		bool alone = adding->chosen.count == 1 || i >= adding->chosen.count;
		const struct box_value *judged = alone ? &skills.items[i]
						       : &adding->chosen.items[i];
		box_cli_skill_warn(box_map_get(judged, "warnings"), name_of(adding->cli, judged));
		box_cli_print_text(box_map_get(&skills.items[i], "name"), 0);
		(void)putchar('\n');
	}
	return box_cli_flush();
}

static int add(struct adding *adding)
{
	const struct cli *cli = adding->cli;
	if (box_cli_skill_preview(cli, adding->line, &adding->zip, adding->stem, &adding->skills) <
			0 ||
		choose(adding) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (!cli->options.dry_run) {
		return install_and_print(adding);
	}
	for (uint32_t i = 0; i < adding->chosen.count; i++) {
		const struct box_value *skill = &adding->chosen.items[i];
		box_cli_skill_warn(box_map_get(skill, "warnings"), name_of(cli, skill));
		print_one(stdout, skill);
	}
	return box_cli_flush();
}

/* What is sent must be UTF-8. */
static int check_text(const struct adding *adding, struct box_err *err)
{
	const struct box_cli_options *options = &adding->cli->options;
	const char *texts[] = {adding->stem, options->folder_name, options->suffix};
	for (size_t i = 0; i < BOX_COUNT_OF(texts); i++) {
		if (texts[i] && !box_utf8_valid(texts[i], strlen(texts[i]))) {
			return box_err_set(
				err, BOX_ERR_VALUE, EILSEQ, "the name is not valid UTF-8");
		}
	}
	return 0;
}

static int skill_add(const struct cli *cli)
{
	struct adding adding = {.cli = cli};
	struct box_err err;
	int code = BOX_CLI_EXIT_FAILED;
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "expected one PATH");
	}
	if (cli->options.all && cli->options.from.count > 0) {
		return box_cli_usage_error(cli, "--from and --all cannot be combined");
	}
	if (box_skill_pack(
		    cli->options.words.items[0], cli->arena, &adding.zip, &adding.stem, &err) < 0 ||
		check_text(&adding, &err) < 0) {
		box_buf_free(&adding.zip);
		return box_cli_fail(&err);
	}
	if (box_cli_skill_connect(cli, &adding.line) == 0) {
		code = add(&adding);
		box_line_close(adding.line);
	}
	box_buf_free(&adding.zip);
	return code;
}

static const struct box_cli_option options[] = {
	BOX_CLI_OPTION("--name", 0, TEXT, folder_name),
	BOX_CLI_OPTION("--suffix", 0, TEXT, suffix),
	BOX_CLI_OPTION("--from", 0, WORDS, from),
	BOX_CLI_OPTION("--dry-run", 0, FLAG, dry_run),
	BOX_CLI_OPTION("--all", 0, FLAG, all),
	{0},
};

const struct box_cli_command box_cli_skill_add = {
	.name = "add",
	.options = {box_cli_options_common, options},
	.plain_words = SIZE_MAX,
	.run = skill_add,
	.summary = "install a skill from a folder or a ZIP",
	.usage =
		"Usage: box skill add [OPTION]... PATH\n"
		"Installs the skill in a folder or a ZIP, and prints its name. A folder with\n"
		"links or special files, or one that is too large, is rejected before anything\n"
		"is sent.\n"
		"\n"
		"      --from FOLDER      which skill, if there are several; repeatable\n"
		"      --all              all of them\n"
		"      --name NAME        folder name in the runtime (default: the name of the\n"
		"                         skill; with several skills the name of PATH)\n"
		"      --suffix TEXT      appended to that name\n"
		"      --dry-run          only show what would be installed\n" BOX_CLI_COMMON_USAGE,
};
