/* `msb`: boxes by the verbs and flags that agents call microsandbox's command with. */
#pragma once

#include "cli/cli.h"

#define BOX_MSB_COMMANDS 7

extern const struct box_cli_command box_msb_commands[BOX_MSB_COMMANDS];
extern const char box_msb_usage[];

int box_msb_create(const struct cli *cli);
