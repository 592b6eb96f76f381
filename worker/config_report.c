/* Remarks in an arena, and how they are told to people. */
#include "worker/config_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "protocol/boxd.h"

#define REMARK_BYTES_MAX 8192 /* a path, and what is said of it */

struct box_config_report *box_config_report_new(void)
{
	struct box_config_report *verdict = box_alloc(sizeof(*verdict));
	verdict->arena = box_arena_new();
	return verdict;
}

void box_config_report_free(struct box_config_report *verdict)
{
	if (verdict) {
		box_arena_free(verdict->arena);
		free(verdict);
	}
}

/* One line, whatever a file's name or a key has in it. */
static void clean(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f) {
			*text = *text == '\n' ? ' ' : '?';
		}
	}
}

void box_config_report_add(struct box_config_report *verdict, bool wrong, const char *format, ...)
{
	char text[REMARK_BYTES_MAX];
	va_list arguments;
	verdict->errors += wrong;
	if (verdict->count == BOX_CONFIG_REPORT_ENTRIES_MAX) {
		return;
	}
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	clean(text);
	verdict->remarks[verdict->count++] = (struct box_config_report_entry){
		wrong, box_arena_printf(verdict->arena, "%s", text)};
}

void box_config_report_log(const struct box_config_report *verdict, const char *event)
{
	for (size_t i = 0; i < verdict->count; i++) {
		const struct box_config_report_entry *remark = &verdict->remarks[i];
		if (remark->wrong) {
			BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", remark->text));
		} else {
			BOX_LOG(BOX_LOG_WARNING, "config.warning",
				box_log_str("why", remark->text));
		}
	}
}

int box_config_report_print(const struct box_config_report *verdict, const char *from)
{
	for (size_t i = 0; i < verdict->count; i++) {
		const struct box_config_report_entry *remark = &verdict->remarks[i];
		(void)printf("%s%s\n", remark->text, remark->wrong ? "" : " (a warning)");
	}
	if (verdict->errors == 0) {
		(void)printf("%s: good\n", from);
	} else {
		(void)printf("%s: refused: %zu error%s\n", from, verdict->errors,
			verdict->errors == 1 ? "" : "s");
	}
	/* A verdict that nobody gets is none. */
	return fflush(stdout) != 0 ? 1 : verdict->errors > 0 ? BOX_BOXD_EXIT_CONFIG : 0;
}
