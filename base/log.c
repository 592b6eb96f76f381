/* A line is built in a fixed buffer and written with one write(2): lines of several processes on the
 * same stderr do not mix, and logging allocates no memory. Lines that do not fit are cut. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"

#define LINE_MAX_BYTES 4096 /* PIPE_BUF: written in one piece, also to a pipe */
#define FIELD_MAX_BYTES 512
#define LINE_RESERVE 96 /* reserved to close quotes and braces of a line that is cut */

static const char *const level_names[] = {
	[BOX_LOG_DEBUG] = "debug",
	[BOX_LOG_INFO] = "info",
	[BOX_LOG_WARNING] = "warning",
	[BOX_LOG_ERROR] = "error",
};

static const char *log_program = "box";
static enum box_log_level log_least = BOX_LOG_INFO;
static enum box_log_format log_format = BOX_LOG_TEXT;

struct line {
	size_t len;
	char bytes[LINE_MAX_BYTES];
};

void box_log_setup(const char *program, enum box_log_level least, enum box_log_format format)
{
	log_program = program;
	log_least = least;
	log_format = format;
}

int box_log_level_parse(const char *name, enum box_log_level *ret_level)
{
	for (size_t i = 0; i < BOX_COUNT_OF(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret_level = (enum box_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

int box_log_format_parse(const char *name, enum box_log_format *ret_format)
{
	if (strcmp(name, "text") == 0) {
		*ret_format = BOX_LOG_TEXT;
	} else if (strcmp(name, "json") == 0) {
		*ret_format = BOX_LOG_JSON;
	} else {
		return -EINVAL;
	}
	return 0;
}

struct box_log_field box_log_errno(const char *key, int errnum)
{
	return box_log_str(key, box_err_strerror(errnum < 0 ? -errnum : errnum));
}

static bool is_full(const struct line *line)
{
	return line->len + LINE_RESERVE > sizeof(line->bytes);
}

static void put(struct line *line, const char *bytes, size_t len)
{
	/* Two bytes are reserved for the closing brace and the newline. */
	size_t left = sizeof(line->bytes) - 2 - line->len;
	size_t taken = BOX_MIN(len, left);
	memcpy(line->bytes + line->len, bytes, taken);
	line->len += taken;
}

static void put_text(struct line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* Quoted; everything but printable ASCII is \u00XX in both forms, so invalid UTF-8 does no harm. */
static void put_quoted(struct line *line, struct box_str s)
{
	size_t len = BOX_MIN(s.len, FIELD_MAX_BYTES);
	bool cut = len < s.len;
	put_text(line, "\"");
	for (size_t i = 0; i < len; i++) {
		if (is_full(line)) {
			cut = true;
			break;
		}
		unsigned char c = (unsigned char)s.bytes[i];
		char escaped[8];
		if (c == '"' || c == '\\') {
			escaped[0] = '\\';
			escaped[1] = (char)c;
			put(line, escaped, 2);
		} else if (c >= 0x20 && c < 0x7f) {
			put(line, s.bytes + i, 1);
		} else {
			(void)snprintf(escaped, sizeof(escaped), "\\u%04x", c);
			put_text(line, escaped);
		}
	}
	put_text(line, cut ? "...\"" : "\"");
}

static bool is_plain(struct box_str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.bytes[i];
		if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
			return false;
		}
	}
	return s.len > 0 && s.len <= FIELD_MAX_BYTES;
}

static void put_time(struct line *line)
{
	struct timespec now;
	struct tm utc;
	char text[40];
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(text + len, sizeof(text) - len, ".%03ldZ", now.tv_nsec / 1000000);
	put_text(line, text);
}

static void put_json_string(struct line *line, const char *key, struct box_str value)
{
	put_text(line, line->len == 1 ? "" : ",");
	put_quoted(line, box_str(key));
	put_text(line, ":");
	put_quoted(line, value);
}

static void put_field(struct line *line, const struct box_log_field *field)
{
	char number[32];
	(void)snprintf(number, sizeof(number), "%lld", (long long)field->integer);
	if (log_format == BOX_LOG_JSON) {
		if (field->kind == BOX_LOG_FIELD_STR) {
			put_json_string(line, field->key, field->str);
			return;
		}
		put_text(line, ",\"");
		put_text(line, field->key);
		put_text(line, "\":");
		put_text(line, number);
		return;
	}
	put_text(line, " ");
	put_text(line, field->key);
	put_text(line, "=");
	if (field->kind == BOX_LOG_FIELD_INT) {
		put_text(line, number);
	} else if (is_plain(field->str)) {
		put(line, field->str.bytes, field->str.len);
	} else {
		put_quoted(line, field->str);
	}
}

void box_log_emit(enum box_log_level level, const char *event, const struct box_log_field *fields,
	size_t count)
{
	if (level < log_least) {
		return;
	}
	int saved_errno = errno;
	struct line line = {0};
	if (log_format == BOX_LOG_JSON) {
		struct line when = {0};
		put_time(&when);
		put_text(&line, "{");
		put_json_string(&line, "time", (struct box_str){when.bytes, when.len});
		put_json_string(&line, "level", box_str(level_names[level]));
		put_json_string(&line, "program", box_str(log_program));
		put_json_string(&line, "event", box_str(event));
	} else {
		put_time(&line);
		put_text(&line, " ");
		put_text(&line, level_names[level]);
		put_text(&line, " ");
		put_text(&line, log_program);
		put_text(&line, " ");
		put_text(&line, event);
	}
	for (size_t i = 0; i < count && !is_full(&line); i++) {
		put_field(&line, &fields[i]);
	}
	if (log_format == BOX_LOG_JSON) {
		line.bytes[line.len++] = '}';
	}
	line.bytes[line.len++] = '\n';
	/* If stderr is closed, or full because nobody reads it, the line is lost: logging must not
	 * block. */
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT)) {
		ssize_t ignored = write(STDERR_FILENO, line.bytes, line.len);
		(void)ignored;
	}
	errno = saved_errno;
}
