/* Remarks in an arena, and how they are told to people. */
#include "worker/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "runtime/keeper/proto.h"

#define REMARK_BYTES_MAX 8192 /* a path, and what is said of it */

struct box_verdict *box_verdict_new(void)
{
	struct box_verdict *verdict = box_alloc(sizeof(*verdict));
	verdict->arena = box_arena_new();
	return verdict;
}

void box_verdict_free(struct box_verdict *verdict)
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

void box_verdict_add(struct box_verdict *verdict, bool wrong, const char *format, ...)
{
	char text[REMARK_BYTES_MAX];
	va_list arguments;
	verdict->errors += wrong;
	if (verdict->count == BOX_CONFIG_REMARKS_MAX) {
		return;
	}
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	clean(text);
	verdict->remarks[verdict->count++] = (struct box_remark){
		wrong, box_arena_printf(verdict->arena, "%s", text)};
}

void box_verdict_log(const struct box_verdict *verdict, const char *event)
{
	for (size_t i = 0; i < verdict->count; i++) {
		const struct box_remark *remark = &verdict->remarks[i];
		if (remark->wrong) {
			BOX_LOG(BOX_LOG_ERROR, event, box_kv_str("why", remark->text));
		} else {
			BOX_LOG(BOX_LOG_WARNING, "config.warning", box_kv_str("why", remark->text));
		}
	}
}

int box_verdict_print(const struct box_verdict *verdict, const char *from)
{
	for (size_t i = 0; i < verdict->count; i++) {
		const struct box_remark *remark = &verdict->remarks[i];
		(void)printf("%s%s\n", remark->text, remark->wrong ? "" : " (a warning)");
	}
	if (verdict->errors == 0) {
		(void)printf("%s: good\n", from);
	} else {
		(void)printf("%s: refused: %zu error%s\n", from, verdict->errors,
			verdict->errors == 1 ? "" : "s");
	}
	/* A verdict that nobody gets is none. */
	return fflush(stdout) != 0 ? 1 : verdict->errors > 0 ? BOX_EXIT_CONFIG : 0;
}
