/* Log lines as they leave the process. Each test makes stderr a pipe in packet mode, in which every
 * read returns exactly one write, logs events and checks the lines. */
#include <errno.h>
#include <fcntl.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/value.h"
#include "tests/unit/lib/json_tree.h"

#define LINE_BYTES_MAX 4096 /* the largest atomic write to a pipe */

static int saved_stderr = -1;
static int lines_fd = -1;

static void capture(enum box_log_level least, enum box_log_format format)
{
	int ends[2];
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_DIRECT | O_NONBLOCK), 0);
	saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	lines_fd = ends[0];
	ASSERT(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	(void)close(ends[1]);
	box_log_setup("prog", least, format);
}

/* The next write, or NULL. stderr is restored first, so that a failing test can report. */
static const char *next_write(void)
{
	static char text[65536];
	if (saved_stderr >= 0) {
		(void)dup2(saved_stderr, STDERR_FILENO);
		(void)close(saved_stderr);
		saved_stderr = -1;
	}
	ssize_t got = read(lines_fd, text, sizeof(text) - 1);
	if (got <= 0) {
		return NULL;
	}
	text[got] = '\0';
	ASSERT_INT(strlen(text), got);
	return text;
}

/* One write that is exactly one line: its text after the time stamp, without the newline. */
static char *next_line(void)
{
	static char line[65536];
	const char *text = next_write();
	ASSERT(text != NULL);
	size_t len = strlen(text);
	ASSERT(len <= LINE_BYTES_MAX);
	ASSERT_INT(text[len - 1], '\n');
	ASSERT(strchr(text, '\n') == text + len - 1);
	for (size_t i = 0; i + 1 < len; i++) {
		ASSERT(text[i] >= 0x20 && text[i] < 0x7f);
	}
	memcpy(line, text, len - 1);
	line[len - 1] = '\0';
	return line;
}

static void expect_time(const char *text)
{
	const char *form = "dddd-dd-ddTdd:dd:dd.dddZ";
	for (size_t i = 0; form[i]; i++) {
		ASSERT(form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i]);
	}
}

static void expect_text(const char *expected)
{
	const char *line = next_line();
	expect_time(line);
	ASSERT_STR(line + 24, expected);
}

static void expect_end(void)
{
	ASSERT(next_write() == NULL);
}

/* The next line as JSON; fails when it is invalid. */
static struct box_value next_json(struct box_arena *arena)
{
	struct box_value value = tree(arena, next_line());
	ASSERT_INT(value.type, BOX_MAP);
	return value;
}

static void expect_member(const struct box_value *map, const char *name, const char *expected)
{
	const struct box_value *value = box_map_get(map, name);
	ASSERT(value && value->type == BOX_STR);
	ASSERT_BYTES(value->str.bytes, value->str.len, expected, strlen(expected));
}

TEST(text_form)
{
	capture(BOX_LOG_INFO, BOX_LOG_TEXT);
	BOX_LOG(BOX_LOG_INFO, "started");
	BOX_LOG(BOX_LOG_WARNING, "worker.restarted", box_log_int("pid", -7),
		box_log_str("why", "it died"), box_log_int("big", INT64_MIN));
	BOX_LOG(BOX_LOG_ERROR, "e", box_log_str("plain", "a/b:c,d"), box_log_str("empty", ""),
		box_log_str("null", NULL), box_log_str("equals", "a=b"));
	BOX_LOG(BOX_LOG_ERROR, "e", box_log_errno("why", ENOENT), box_log_errno("also", -EPERM));
	expect_text(" info prog started");
	expect_text(" warning prog worker.restarted pid=-7 why=\"it died\" "
		    "big=-9223372036854775808");
	expect_text(" error prog e plain=a/b:c,d empty=\"\" null=\"\" equals=\"a=b\"");
	expect_text(" error prog e why=\"No such file or directory\" "
		    "also=\"Operation not permitted\"");
	expect_end();
}

TEST(json_form)
{
	struct box_arena *arena = box_arena_new();
	capture(BOX_LOG_INFO, BOX_LOG_JSON);
	BOX_LOG(BOX_LOG_WARNING, "worker.restarted", box_log_int("pid", -7),
		box_log_str("why", "it \"died\""));
	struct box_value line = next_json(arena);
	ASSERT_INT(line.count, 6);
	expect_time(box_map_get(&line, "time")->str.bytes);
	expect_member(&line, "level", "warning");
	expect_member(&line, "program", "prog");
	expect_member(&line, "event", "worker.restarted");
	expect_member(&line, "why", "it \"died\"");
	ASSERT_INT(box_map_get(&line, "pid")->integer, -7);
	expect_end();
	box_arena_free(arena);
}

TEST(escapes)
{
	static const struct {
		struct box_str value;
		const char *shown;
	} rows[] = {
		{{"a b", 3}, "\"a b\""},
		{{"a\nb", 3}, "\"a\\u000ab\""},
		{{"\r\t\x1b[2J", 6}, "\"\\u000d\\u0009\\u001b[2J\""},
		{{"a\0b", 3}, "\"a\\u0000b\""},
		{{"say \"x\"", 7}, "\"say \\\"x\\\"\""},
		{{"back\\slash", 10}, "\"back\\\\slash\""},
		{{"\x7f", 1}, "\"\\u007f\""},
		{{"\xff\xfe", 2}, "\"\\u00ff\\u00fe\""},
		{{"\xc3\xa9", 2}, "\"\\u00c3\\u00a9\""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char expected[256];
		capture(BOX_LOG_INFO, BOX_LOG_TEXT);
		BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", rows[i].value));
		(void)snprintf(expected, sizeof(expected), " info prog e v=%s", rows[i].shown);
		expect_text(expected);

		struct box_arena *arena = box_arena_new();
		capture(BOX_LOG_INFO, BOX_LOG_JSON);
		BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", rows[i].value));
		(void)snprintf(expected, sizeof(expected), "\"v\":%s}", rows[i].shown);
		char *line = next_line();
		ASSERT_STR(line + strlen(line) - strlen(expected), expected);
		capture(BOX_LOG_INFO, BOX_LOG_JSON);
		BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", rows[i].value));
		(void)next_json(arena);
		box_arena_free(arena);
	}
}

/* Every byte value, in both forms, gives one line without control characters. */
TEST(nothing_forges_a_line)
{
	char bytes[256];
	struct box_arena *arena = box_arena_new();
	for (int i = 0; i < 256; i++) {
		bytes[i] = (char)i;
	}
	const char *forged = "x\n2026-01-02T03:04:05.678Z info prog granted by=\"root\"\n\r\"}{\"";
	for (int format = BOX_LOG_TEXT; format <= BOX_LOG_JSON; format++) {
		capture(BOX_LOG_INFO, (enum box_log_format)format);
		BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("all", (struct box_str){bytes, 256}));
		BOX_LOG(BOX_LOG_INFO, "e", box_log_str("forged", forged), box_log_int("end", 1));
		if (format == BOX_LOG_TEXT) {
			(void)next_line();
			expect_text(
				" info prog e forged=\"x\\u000a2026-01-02T03:04:05.678Z info prog "
				"granted by=\\\"root\\\"\\u000a\\u000d\\\"}{\\\"\" end=1");
		} else {
			(void)next_json(arena);
			struct box_value line = next_json(arena);
			ASSERT_INT(line.count, 6);
			expect_member(&line, "forged", forged);
		}
		expect_end();
	}
	box_arena_free(arena);
}

static struct box_str repeated(struct box_arena *arena, char c, size_t len)
{
	char *bytes = box_arena_bytes(arena, len);
	memset(bytes, c, len);
	return (struct box_str){bytes, len};
}

TEST(long_fields_are_cut)
{
	struct box_arena *arena = box_arena_new();
	struct box_str fits = repeated(arena, 'x', 512);
	struct box_str longer = repeated(arena, 'x', 513);
	capture(BOX_LOG_INFO, BOX_LOG_TEXT);
	BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", fits), box_log_int("end", 1));
	BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", longer), box_log_int("end", 1));
	expect_text(box_arena_printf(arena, " info prog e v=%.512s end=1", fits.bytes));
	expect_text(box_arena_printf(arena, " info prog e v=\"%.512s...\" end=1", fits.bytes));
	capture(BOX_LOG_INFO, BOX_LOG_JSON);
	BOX_LOG(BOX_LOG_INFO, "e", box_log_bytes("v", longer), box_log_int("end", 1));
	struct box_value line = next_json(arena);
	expect_member(&line, "v", box_arena_printf(arena, "%.512s...", fits.bytes));
	ASSERT_INT(box_map_get(&line, "end")->integer, 1);
	box_arena_free(arena);
}

/* So many fields that the line is too long, or `count` of them, each with this value. */
static void emit_many(struct box_str value, size_t count, int64_t end)
{
	struct box_log_field fields[16];
	static const char *const keys[] = {
		"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"};
	for (size_t i = 0; i < count; i++) {
		fields[i] = box_log_bytes(keys[i], value);
	}
	fields[count] = box_log_int("end", end);
	box_log_emit(BOX_LOG_INFO, "e", fields, count + 1);
}

TEST(long_text_lines_are_cut)
{
	struct box_arena *arena = box_arena_new();
	capture(BOX_LOG_INFO, BOX_LOG_TEXT);
	emit_many(repeated(arena, 'x', 500), 15, 1);
	emit_many(repeated(arena, '\n', 512), 5, 1);
	BOX_LOG(BOX_LOG_INFO, "after");
	ASSERT(strlen(next_line()) > LINE_BYTES_MAX / 2);
	ASSERT(strlen(next_line()) > LINE_BYTES_MAX / 2);
	expect_text(" info prog after");
	expect_end();
	box_arena_free(arena);
}

/* However much is logged, a JSON line is valid JSON. With escapes of six and of two bytes and with
 * none, the cut falls on each of their bytes as the field before them grows. */
TEST(long_json_lines_parse)
{
	static const char bytes[] = {'x', '\n', '"', '\\'};
	for (size_t i = 0; i < sizeof(bytes); i++) {
		for (size_t len = 300; len <= 512; len++) {
			struct box_arena *arena = box_arena_new();
			capture(BOX_LOG_INFO, BOX_LOG_JSON);
			emit_many(repeated(arena, bytes[i], len), 14, INT64_MIN);
			struct box_value line = next_json(arena);
			expect_member(&line, "event", "e");
			expect_end();
			(void)close(lines_fd);
			box_arena_free(arena);
		}
	}
}

/* Numbers at the cut: few or many fields before the end of the line. */
TEST(long_json_lines_with_numbers_parse)
{
	for (size_t len = 0; len <= 512; len++) {
		struct box_arena *arena = box_arena_new();
		capture(BOX_LOG_INFO, BOX_LOG_JSON);
		emit_many(repeated(arena, 'x', len), 8, INT64_MIN);
		struct box_value line = next_json(arena);
		expect_member(&line, "event", "e");
		(void)close(lines_fd);
		box_arena_free(arena);
	}
}

TEST(levels)
{
	for (int least = BOX_LOG_DEBUG; least <= BOX_LOG_ERROR; least++) {
		static const char *const names[] = {"debug", "info", "warning", "error"};
		capture((enum box_log_level)least, BOX_LOG_TEXT);
		BOX_LOG(BOX_LOG_DEBUG, "e");
		BOX_LOG(BOX_LOG_INFO, "e");
		BOX_LOG(BOX_LOG_WARNING, "e");
		BOX_LOG(BOX_LOG_ERROR, "e");
		for (int level = least; level <= BOX_LOG_ERROR; level++) {
			char expected[64];
			(void)snprintf(expected, sizeof(expected), " %s prog e", names[level]);
			expect_text(expected);
		}
		expect_end();
	}
}

TEST(names)
{
	enum box_log_level level = BOX_LOG_ERROR;
	enum box_log_format format = BOX_LOG_JSON;
	ASSERT_INT(box_log_level_parse("debug", &level), 0);
	ASSERT_INT(level, BOX_LOG_DEBUG);
	ASSERT_INT(box_log_level_parse("warning", &level), 0);
	ASSERT_INT(level, BOX_LOG_WARNING);
	ASSERT_INT(box_log_level_parse("warn", &level), -EINVAL);
	ASSERT_INT(box_log_level_parse("", &level), -EINVAL);
	ASSERT_INT(level, BOX_LOG_WARNING);
	ASSERT_INT(box_log_format_parse("text", &format), 0);
	ASSERT_INT(format, BOX_LOG_TEXT);
	ASSERT_INT(box_log_format_parse("json", &format), 0);
	ASSERT_INT(format, BOX_LOG_JSON);
	ASSERT_INT(box_log_format_parse("JSON", &format), -EINVAL);
}

/* A stderr that accepts nothing blocks nobody, and errno is preserved. */
TEST(closed_stderr)
{
	capture(BOX_LOG_INFO, BOX_LOG_TEXT);
	(void)close(lines_fd);
	(void)signal(SIGPIPE, SIG_IGN);
	errno = E2BIG;
	BOX_LOG(BOX_LOG_INFO, "lost");
	ASSERT_INT(errno, E2BIG);
}
