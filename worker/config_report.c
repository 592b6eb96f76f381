/* Collects errors and warnings about a configuration in an arena, and logs or prints them. */
#include "worker/config_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "protocol/boxd.h"

#define REMARK_BYTES_MAX 8192 /* a path, and the remark about it */

struct box_config_report *box_config_report_new(void)
{
	struct box_config_report *report = box_alloc(sizeof(*report));
	report->arena = box_arena_new();
	return report;
}

void box_config_report_free(struct box_config_report *report)
{
	if (report) {
		box_arena_free(report->arena);
		free(report);
	}
}

/* Makes it one line, whatever a file name or a key contains. */
static void clean(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f) {
			*text = *text == '\n' ? ' ' : '?';
		}
	}
}

void box_config_report_add(struct box_config_report *report, bool wrong, const char *format, ...)
{
	char text[REMARK_BYTES_MAX];
	va_list arguments;
	report->errors += wrong;
	if (report->count == BOX_CONFIG_REPORT_ENTRIES_MAX) {
		return;
	}
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	clean(text);
	report->remarks[report->count++] = (struct box_config_report_entry){
		wrong, box_arena_printf(report->arena, "%s", text)};
}

void box_config_report_log(const struct box_config_report *report, const char *event)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct box_config_report_entry *entry = &report->remarks[i];
		if (entry->wrong) {
			BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", entry->text));
		} else {
			BOX_LOG(BOX_LOG_WARNING, "config.warning", box_log_str("why", entry->text));
		}
	}
}

int box_config_report_print(const struct box_config_report *report, const char *from)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct box_config_report_entry *entry = &report->remarks[i];
		(void)printf("%s%s\n", entry->text, entry->wrong ? "" : " (a warning)");
	}
	if (report->errors == 0) {
		(void)printf("%s: good\n", from);
	} else {
		(void)printf("%s: refused: %zu error%s\n", from, report->errors,
			report->errors == 1 ? "" : "s");
	}
	/* A report that could not be printed counts as a failure. */
	return fflush(stdout) != 0 ? 1 : report->errors > 0 ? BOX_BOXD_EXIT_CONFIG : 0;
}
