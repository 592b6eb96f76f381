/* box skill: its commands, and what they share. */
#pragma once

#include "cli/cli.h"
#include "client/calls.h"

/* The commands that have a file of their own. */
extern const struct box_cli_command box_cli_skill_add;
extern const struct box_cli_command box_cli_skill_check;
extern const struct box_cli_command box_cli_skill_edit;

/* Connects to the runtime of the options. Prints the reason when it fails. */
int box_cli_skill_connect(const struct cli *cli, struct box_line **ret_line);

/* -EILSEQ, after printing the reason, when a word is not valid UTF-8: messages carry nothing else. */
int box_cli_skill_check_words(const struct cli *cli);

/* Finds a skill by its name. Prints the reason when there is none. */
int box_cli_skill_find(const struct cli *cli, struct box_line *line, const char *name,
	struct box_value *ret_skill);

/* Prints a member of an answer as one line of at most `columns`, padded to `width`. */
void box_cli_skill_print(
	const struct box_value *map, const char *key, size_t columns, size_t width);

/* Prints a warning for each way in which a skill does not conform: a list of {field, message}, or NULL. */
void box_cli_skill_warn(const struct box_value *warnings, const char *name);

/* The list of skills in an archive, from a preview of the runtime. Prints the reason when it fails. */
int box_cli_skill_preview(const struct cli *cli, struct box_line *line, const struct box_buf *zip,
	const char *stem, struct box_value *ret_skills);
