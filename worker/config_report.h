/* The errors and warnings about a configuration, each one line that begins with its position. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

struct box_arena;

struct box_config_report_entry {
	bool wrong;       /* an error; else a warning */
	const char *text; /* "box.yaml:3: local.rootf: unknown member; did you mean rootfs?" */
};

struct box_config_report {
	struct box_arena *arena;
	size_t errors;
	size_t count;
	/* Further ones are only counted. */
	struct box_config_report_entry remarks[BOX_CONFIG_REPORT_ENTRIES_MAX];
};

struct box_config_report *box_config_report_new(void);
void box_config_report_free(struct box_config_report *report);
static inline void box_config_report_free_p(struct box_config_report **report)
{
	box_config_report_free(*report);
}

void box_config_report_add(struct box_config_report *report, bool wrong, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Logs all: errors as `event`, warnings as config.warning. */
void box_config_report_log(const struct box_config_report *report, const char *event);

/* For --check-config: prints each on a line of stdout, and whether `from` is valid. 0, or the exit code. */
int box_config_report_print(const struct box_config_report *report, const char *from);
