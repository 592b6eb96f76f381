/* Logging: one line per event, to stderr only.
 *
 *   BOX_LOG(BOX_LOG_WARNING, "worker.restarted", box_log_int("pid", pid), box_log_str("why", text));
 *
 * The text form is `2026-01-02T03:04:05.678Z warning worker.restarted pid=7 why="..."`, the JSON form one
 * object per line. Values are escaped, so clients cannot forge lines. There is no printer for secrets:
 * never pass a token or the value of an environment variable.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/value.h"

enum box_log_level {
	BOX_LOG_DEBUG,
	BOX_LOG_INFO,
	BOX_LOG_WARNING,
	BOX_LOG_ERROR,
};

enum box_log_format {
	BOX_LOG_TEXT,
	BOX_LOG_JSON,
};

struct box_log_field {
	const char *key;
	enum {
		BOX_LOG_FIELD_INT,
		BOX_LOG_FIELD_STR
	} kind;
	int64_t integer;
	struct box_str str;
};

static inline struct box_log_field box_log_int(const char *key, int64_t value)
{
	return (struct box_log_field){.key = key, .kind = BOX_LOG_FIELD_INT, .integer = value};
}
static inline struct box_log_field box_log_bytes(const char *key, struct box_str value)
{
	return (struct box_log_field){.key = key, .kind = BOX_LOG_FIELD_STR, .str = value};
}
static inline struct box_log_field box_log_str(const char *key, const char *value)
{
	return box_log_bytes(key, box_str(value ? value : ""));
}
/* The text of an errno value, positive or negative. */
struct box_log_field box_log_errno(const char *key, int errnum);

/* `program` is the name of the process in every line; the string is not copied. */
void box_log_setup(const char *program, enum box_log_level least, enum box_log_format format);

/* 0 and the level, or -EINVAL for an unknown name. */
int box_log_level_parse(const char *name, enum box_log_level *ret_level);
int box_log_format_parse(const char *name, enum box_log_format *ret_format);

void box_log_emit(enum box_log_level level, const char *event, const struct box_log_field *fields,
	size_t count);

#define BOX_LOG(level, event, ...)                                                                 \
	do {                                                                                       \
		const struct box_log_field box_log_fields_[] = {                                   \
			(struct box_log_field){0}, ##__VA_ARGS__};                                 \
		box_log_emit(                                                                      \
			(level), (event), box_log_fields_ + 1, BOX_COUNT_OF(box_log_fields_) - 1); \
	} while (0)
