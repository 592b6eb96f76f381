/* Long output keeps head and tail, says how much is missing, and splits no character. */
#include "base/arena.h"
#include "base/utf8.h"
#include "client/service/truncate.h"
#include "tests/unit/lib/test.h"

static size_t count_chars(struct box_str text)
{
	size_t count = 0;
	for (size_t i = 0; i < text.len; i++) {
		count += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
	}
	return count;
}

TEST(short_output_is_left_alone)
{
	struct box_arena *arena = box_arena_new();
	struct box_str out;
	ASSERT(!box_truncate(arena, box_str("hello"), 5, &out));
	ASSERT_BYTES(out.bytes, out.len, "hello", 5);
	ASSERT(!box_truncate(arena, box_str(""), 0, &out));
	/* Characters count, not bytes. */
	ASSERT(!box_truncate(arena, box_str("\xc3\xa9\xc3\xa9\xc3\xa9"), 3, &out));
	ASSERT_INT(out.len, 6);
	box_arena_free(arena);
}

TEST(head_and_tail_stay)
{
	struct box_arena *arena = box_arena_new();
	char text[300];
	struct box_str out;
	for (size_t i = 0; i < sizeof(text); i++) {
		text[i] = (char)('a' + i % 26);
	}
	ASSERT(box_truncate(arena, (struct box_str){text, sizeof(text)}, 100, &out));
	const char *notice = "\n\n... [238 characters truncated] ...\n\n";
	ASSERT_INT(out.len, 100);
	ASSERT_INT(strlen(notice), 38);
	ASSERT_BYTES(out.bytes, 37, text, 37);
	ASSERT_BYTES(out.bytes + 37, 38, notice, 38);
	ASSERT_BYTES(out.bytes + 75, 25, text + 275, 25);
	box_arena_free(arena);
}

/* Every length and limit: never longer than the limit, whole characters, and a correct number. */
TEST(every_cut_is_true)
{
	static const char *const chars[] = {"a", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80"};
	for (size_t total = 30; total < 1100; total += 89) {
		struct box_arena *arena = box_arena_new();
		char *text = box_arena_bytes(arena, 4 * total + 1);
		size_t len = 0;
		for (size_t i = 0; i < total; i++) {
			len += (size_t)sprintf(text + len, "%s", chars[i % 4]);
		}
		for (size_t limit = 0; limit <= total; limit++) {
			struct box_str out;
			bool cut = box_truncate(arena, (struct box_str){text, len}, limit, &out);
			ASSERT(cut == (limit < total));
			ASSERT(count_chars(out) <= limit);
			ASSERT(box_utf8_valid(out.bytes, out.len));
			const char *at = cut ? memmem(out.bytes, out.len, "... [", 5) : NULL;
			if (at && limit > 60) {
				size_t said = strtoul(at + 5, NULL, 10);
				size_t notice = strlen("\n\n... [ characters truncated] ...\n\n") +
					(size_t)snprintf(NULL, 0, "%zu", said);
				ASSERT_INT(said, total - (count_chars(out) - notice));
			}
		}
		box_arena_free(arena);
	}
}

TEST(no_room_for_the_notice)
{
	struct box_arena *arena = box_arena_new();
	struct box_str out;
	ASSERT(box_truncate(arena, box_str("hello hello"), 0, &out));
	ASSERT_INT(out.len, 0);
	ASSERT(box_truncate(arena, box_str("hello hello"), 7, &out));
	ASSERT_BYTES(out.bytes, out.len, "\n\n... [", 7);
	box_arena_free(arena);
}
