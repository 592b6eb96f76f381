/* box skill: its commands, and what they share. */
#pragma once

#include "cli/cli.h"
#include "client/calls.h"

#define BOX_CLI_SKILL_COMMANDS 8

extern const struct box_cli_command box_cli_skill_commands[BOX_CLI_SKILL_COMMANDS];
extern const char box_cli_skill_usage[];

/* A line to the runtime that the options name. Has said why when it fails. */
int box_cli_skill_connect(const struct cli *cli, struct box_line **ret_line);

/* -EILSEQ, and has said so, when one of the words is no UTF-8: messages carry nothing else. */
int box_cli_skill_check_words(const struct cli *cli);

/* One skill by its name. Has said why when there is none. */
int box_cli_skill_find(const struct cli *cli, struct box_line *line, const char *name,
	struct box_value *ret_skill);

/* One member of an answer, as one line of at most `columns`, filled up to `width`. */
void box_cli_skill_print(
	const struct box_value *map, const char *key, size_t columns, size_t width);

/* What keeps a skill from conforming, a line each: a list of {field, message}, or NULL. */
void box_cli_skill_warn(const struct box_value *warnings, const char *name);

int box_cli_skill_add(const struct cli *cli);
int box_cli_skill_check(const struct cli *cli);
int box_cli_skill_edit(const struct cli *cli);
int box_cli_skill_rm(const struct cli *cli);

/* What an archive has, by a preview of the runtime: a list. Has said why when it fails. */
int box_cli_skill_preview(const struct cli *cli, struct box_line *line, const struct box_buf *zip,
	const char *stem, struct box_value *ret_skills);
