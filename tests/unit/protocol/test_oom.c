/* The count of out-of-memory kills in the kernel's texts. */
#include "protocol/oom.h"
#include "tests/unit/lib/test.h"

static const struct {
	const char *text;
	uint64_t kills;
} rows[] = {
	/* memory.events, version 2 */
	{"low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n", 3},
	{"low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", 0},
	/* lines that come after it */
	{"low 0\nhigh 0\nmax 0\noom 1\noom_kill 12\noom_group_kill 9\nanother 8\n", 12},
	/* memory.oom_control, version 1 */
	{"oom_kill_disable 0\nunder_oom 0\noom_kill 41\n", 41},
	/* before Linux 4.13 it has no count */
	{"oom_kill_disable 1\nunder_oom 0\n", 0},
	/* names that only look alike */
	{"oom_kill_disable 5\n", 0},
	{"xoom_kill 5\n", 0},
	{"oom_group_kill 5\noom_kill 6\n", 6},
	{" oom_kill 5\n", 0},
	/* not a number */
	{"oom_kill \n", 0},
	{"oom_kill\n", 0},
	{"oom_kill  5\n", 0},
	{"oom_kill -5\n", 0},
	{"oom_kill 5x\n", 0},
	{"oom_kill x\noom_kill 7\n", 7},
	/* the last line without its end */
	{"oom_kill 17", 17},
	{"oom_kill ", 0},
	{"", 0},
	{"\n\n\noom_kill 1\n", 1},
	/* the maximum, and beyond */
	{"oom_kill 18446744073709551615\n", UINT64_MAX},
	{"oom_kill 18446744073709551614\n", UINT64_MAX - 1},
	{"oom_kill 18446744073709551616\n", UINT64_MAX},
	{"oom_kill 99999999999999999999999\n", UINT64_MAX},
};

TEST(counts)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		/* On the heap and without a NUL, so that a read past it is detected. */
		size_t len = strlen(rows[i].text);
		char *text = malloc(len ? len : 1);
		ASSERT(text);
		put_bytes(text, rows[i].text, len);
		uint64_t kills = box_oom_parse_kills(text, len);
		if (kills != rows[i].kills) {
			TEST_FAIL("row %zu: %" PRIu64 ", not %" PRIu64, i, kills, rows[i].kills);
		}
		free(text);
	}
}

TEST(ends_where_the_text_ends)
{
	ASSERT_INT(box_oom_parse_kills("oom_kill 123\n", 11), 12);
	ASSERT_INT(box_oom_parse_kills("oom_kill 123\n", 9), 0);
	ASSERT_INT(box_oom_parse_kills("oom 1\noom_kill 4\n", 6), 0);
}

TEST(a_nul_is_no_digit)
{
	ASSERT_INT(box_oom_parse_kills("oom_kill 1\0002\n", 13), 0);
}
