/* box skill rm: what is removed is gone, so a person is asked. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/safe_text.h"
#include "cli/skill/cli_skill.h"

#define ANSWER_SIZE 16

/* Whether "y" or "yes" was typed. */
static bool ask(const struct box_cli_words *names)
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

int box_cli_skill_rm(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_line *line;
	if (words->count == 0) {
		return box_cli_usage_error(cli, "at least one NAME is needed");
	}
	if (box_cli_skill_check_words(cli) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (!cli->options.yes && !isatty(STDIN_FILENO)) {
		return box_cli_usage_error(cli, "nobody can be asked here: say -y");
	}
	if (!cli->options.yes && !ask(words)) {
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
