/* Arena, buffer, clock, errors, cleanup. */
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "tests/unit/lib/test.h"

/* --- arena --- */

TEST(arena_alignment)
{
	struct box_arena *arena = box_arena_new();
	for (size_t size = 0; size < 300; size++) {
		(void)box_arena_bytes(arena, size % 7);
		char *memory = box_arena_alloc(arena, size);
		ASSERT_INT((uintptr_t)memory % alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++) {
			ASSERT_INT(memory[i], 0);
		}
		memset(memory, 0xff, size);
	}
	box_arena_free(arena);
	box_arena_free(NULL);
}

TEST(arena_growth)
{
	enum {
		PIECES = 3000
	};
	static char *pieces[PIECES];
	static size_t sizes[PIECES];
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < PIECES; i++) {
		/* Small ones, and now and then one larger than any block. */
		sizes[i] = i % 500 == 7 ? 200000 : 1 + i * 31 % 400;
		pieces[i] = box_arena_bytes(arena, sizes[i]);
		memset(pieces[i], (int)(i % 251), sizes[i]);
	}
	for (size_t i = 0; i < PIECES; i++) {
		for (size_t at = 0; at < sizes[i]; at++) {
			ASSERT_INT((unsigned char)pieces[i][at], i % 251);
		}
	}
	box_arena_free(arena);
}

TEST(arena_adopt)
{
	struct box_arena *arena = box_arena_new();
	for (int i = 0; i < 100; i++) {
		char *memory = malloc(1000);
		memory[999] = 'x';
		box_arena_adopt(arena, memory);
	}
	box_arena_adopt(arena, NULL);
	box_arena_free(arena); /* the leak checker and the double-free check do the rest */
}

TEST(arena_texts)
{
	struct box_arena *arena = box_arena_new();
	ASSERT_STR(box_arena_printf(arena, "%s-%d", "a", 7), "a-7");
	ASSERT_STR(box_arena_printf(arena, "%s", ""), "");
	char *wide = box_arena_printf(arena, "%0100000d", 5);
	ASSERT_INT(strlen(wide), 100000);
	ASSERT_INT(wide[99999], '5');
	char *copy = box_arena_strndup(arena, "a\0b", 3);
	ASSERT_BYTES(copy, 4, "a\0b", 4);
	ASSERT_STR(box_arena_strndup(arena, NULL, 0), "");
	char *own = box_strdup("own");
	ASSERT_STR(own, "own");
	free(own);
	box_arena_free(arena);
}

/* --- buf --- */

TEST(buf_limit)
{
	struct box_buf buf = box_buf(10);
	ASSERT_INT(box_buf_append(&buf, "12345", 5), 0);
	ASSERT_INT(box_buf_append(&buf, "67890", 5), 0);
	ASSERT(!buf.overflowed);
	ASSERT_INT(box_buf_append(&buf, "x", 1), -EMSGSIZE);
	ASSERT(buf.overflowed);
	ASSERT_BYTES(buf.bytes, buf.len, "1234567890", 10);
	ASSERT_INT(box_buf_append(&buf, "", 0), 0);
	box_buf_free(&buf);
	ASSERT(buf.bytes == NULL && buf.len == 0 && !buf.overflowed);
	ASSERT_INT(buf.limit, 10);
	box_buf_free(&buf);
}

TEST(buf_overflow_keeps_content)
{
	struct box_buf buf = box_buf(100);
	ASSERT_INT(box_buf_append_str(&buf, "kept"), 0);
	ASSERT_INT(box_buf_append(&buf, buf.bytes, 97), -EMSGSIZE);
	ASSERT_INT(box_buf_append(&buf, buf.bytes, SIZE_MAX), -EMSGSIZE);
	ASSERT(box_buf_reserve(&buf, SIZE_MAX - 2) == NULL);
	ASSERT_INT(box_buf_printf(&buf, "%097d", 1), -EMSGSIZE);
	ASSERT_BYTES(buf.bytes, buf.len, "kept", 4);
	ASSERT_INT(box_buf_append(&buf, "!", 1), 0);
	ASSERT_BYTES(buf.bytes, buf.len, "kept!", 5);
	box_buf_free(&buf);
}

TEST(buf_headroom)
{
	struct box_buf buf = box_buf(1 << 20);
	for (int i = 0; i < 5000; i++) {
		ASSERT_INT(box_buf_printf(&buf, "%04d ", i), 0);
		memset(buf.bytes - BOX_BUF_HEADROOM, 0xee, BOX_BUF_HEADROOM);
	}
	ASSERT_INT(buf.len, 25000);
	for (int i = 0; i < 5000; i++) {
		char expected[16];
		(void)snprintf(expected, sizeof(expected), "%04d ", i);
		ASSERT_BYTES(buf.bytes + 5 * i, 5, expected, 5);
	}
	box_buf_free(&buf);
}

TEST(buf_printf_at_the_limit)
{
	/* 512 is also where the first allocation ends: the NUL of vsnprintf must fit. */
	const size_t limits[] = {0, 1, 5, 511, 512, 513, 1024, 4096};
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct box_buf buf = box_buf(limits[i]);
		ASSERT_INT(box_buf_printf(&buf, "%*s", (int)limits[i], ""), 0);
		ASSERT_INT(buf.len, limits[i]);
		ASSERT_INT(buf.limit, limits[i]);
		ASSERT(!buf.overflowed);
		ASSERT_INT(box_buf_printf(&buf, "x"), -EMSGSIZE);
		ASSERT_INT(buf.len, limits[i]);
		ASSERT(buf.overflowed);
		box_buf_free(&buf);
	}
}

TEST(buf_reserve)
{
	struct box_buf buf = box_buf(2000);
	char *place = box_buf_reserve(&buf, 2000);
	ASSERT(place != NULL);
	memset(place, 'r', 2000);
	ASSERT_INT(buf.len, 0);
	buf.len = 1500;
	ASSERT(box_buf_reserve(&buf, 501) == NULL);
	ASSERT(box_buf_reserve(&buf, 500) == buf.bytes + 1500);
	box_buf_free(&buf);
}

/* --- clock --- */

TEST(clock_format)
{
	static const struct {
		int64_t utc_us;
		const char *text;
	} rows[] = {
		{0, "1970-01-01T00:00:00.000000Z"},
		{1, "1970-01-01T00:00:00.000001Z"},
		{999999, "1970-01-01T00:00:00.999999Z"},
		{951782400LL * 1000000, "2000-02-29T00:00:00.000000Z"},
		{1794794100LL * 1000000 + 348528, "2026-11-16T01:55:00.348528Z"},
		{253402300799LL * 1000000 + 999999, "9999-12-31T23:59:59.999999Z"},
	};
	char text[BOX_CLOCK_TEXT_SIZE];
	(void)setenv("TZ", "Asia/Shanghai", 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		box_clock_format(rows[i].utc_us, text);
		ASSERT_STR(text, rows[i].text);
	}
}

TEST(clock_runs)
{
	uint64_t us = box_clock_us();
	ASSERT(box_clock_us() >= us);
	ASSERT(box_clock_ms() >= us / 1000);
	ASSERT(box_clock_utc_us() > 1700000000LL * 1000000);
}

/* --- err --- */

#define SUFFIX "... [protocol error truncated]"

static char *filled(char *text, size_t len, const char *with)
{
	for (size_t at = 0; at < len; at++) {
		text[at] = with[at % strlen(with)];
	}
	text[len] = '\0';
	return text;
}

TEST(err_cut)
{
	static char text[5 * BOX_ERROR_TEXT_MAX];
	static char expected[5 * BOX_ERROR_TEXT_MAX];
	struct box_err err;
	ASSERT_INT(box_err_set(&err, BOX_ERR_BOX, EIO, "%s", filled(text, 4096, "a")), -EIO);
	ASSERT_STR(err.text, text);
	(void)box_err_set(&err, BOX_ERR_BOX, EIO, "%s", filled(text, 4097, "a"));
	(void)snprintf(expected, sizeof(expected), "%.4096s%s", text, SUFFIX);
	ASSERT_STR(err.text, expected);

	/* Characters of 2, 3 and 4 bytes after 0 to 3 single bytes: always 4,096 are kept. */
	static const char *const wide[] = {"\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x98\x80"};
	for (size_t i = 0; i < COUNT(wide); i++) {
		for (size_t before = 0; before < 4; before++) {
			size_t unit = strlen(wide[i]);
			size_t kept = before + (BOX_ERROR_TEXT_MAX - before) * unit;
			filled(text, before, "a");
			filled(text + before, BOX_ERROR_TEXT_MAX * unit, wide[i]);
			(void)box_err_set(&err, BOX_ERR_BOX, EIO, "%s", text);
			if (before == 0) {
				ASSERT_STR(err.text, text);
				continue;
			}
			(void)snprintf(
				expected, sizeof(expected), "%.*s%s", (int)kept, text, SUFFIX);
			ASSERT_STR(err.text, expected);
			ASSERT(box_utf8_valid(err.text, strlen(err.text)));
		}
	}
}

TEST(err_set)
{
	struct box_err err;
	ASSERT_INT(box_err_set(&err, BOX_ERR_KEY, EINVAL, "'%s'", "x"), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_KEY);
	ASSERT_INT(err.errnum, EINVAL);
	ASSERT_STR(err.text, "'x'");
	ASSERT_INT(box_err_set(NULL, BOX_ERR_KEY, EPERM, "x"), -EPERM);
}

TEST(err_names)
{
	static const char *const names[] = {"BoxError", "BoxValidationError",
		"BoxBackendUnavailableError", "BoxRuntimeUnavailableError", "BoxAdmissionError",
		"BoxReadinessError", "BoxCapacityExceededError", "BoxSessionConflictError",
		"BoxSessionNotFoundError", "BoxManagedProcessConflictError",
		"BoxManagedProcessNotFoundError", "PermissionError", "ValueError",
		"ValidationError", "KeyError", "OSError"};
	size_t named = 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		enum box_code code = box_code_from_name(names[i]);
		ASSERT(code != BOX_ERR_NONE);
		ASSERT_STR(box_code_name(code), names[i]);
	}
	for (int code = 0; code < BOX_ERR_CODES_; code++) {
		const char *name = box_code_name((enum box_code)code);
		if (name) {
			named++;
			ASSERT_INT(box_code_from_name(name), code);
		}
	}
	ASSERT_INT(named, COUNT(names));
	ASSERT(box_code_name(BOX_ERR_NONE) == NULL);
	ASSERT(box_code_name(BOX_ERR_BUSY) == NULL);
	ASSERT_INT(box_code_from_name(""), BOX_ERR_NONE);
	ASSERT_INT(box_code_from_name("boxerror"), BOX_ERR_NONE);
}

/* --- cleanup --- */

/* Closing twice must not close an fd that has got the number since. */
TEST(a_closed_fd_is_forgotten)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int first = fd;
	ASSERT(fd >= 3);
	box_close_p(&fd);
	ASSERT_INT(fd, -1);
	int other = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, first);
	ASSERT_INT(other, first);
	box_close_p(&fd);
	ASSERT_INT(fcntl(other, F_GETFD), FD_CLOEXEC);
	box_close_p(&other);
}
