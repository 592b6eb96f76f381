/* A page of a directory listing: the smallest names, in order, each once. */
#include "init/file/file_page.h"
#include "tests/unit/lib/test.h"

#define LIMIT 3

/* The page of these names, as "a b c", or "a b c ..." when there are more. */
static const char *page_of(const char *const *names, size_t count)
{
	static char text[256];
	static box_file_name room[LIMIT];
	uint32_t heap[LIMIT];
	struct box_file_page page = {.names = room, .heap = heap, .limit = LIMIT};
	size_t len = 0;
	for (size_t i = 0; i < count; i++) {
		box_file_page_offer(&page, names[i]);
	}
	box_file_page_sort(&page);
	for (uint32_t i = 0; i < page.count; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
			box_file_page_name(&page, i));
	}
	(void)snprintf(text + len, sizeof(text) - len, "%s", page.more ? " ..." : "");
	return text;
}

#define PAGE(...) \
	page_of((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

TEST(the_smallest_come_in_order)
{
	ASSERT_STR(page_of(NULL, 0), "");
	ASSERT_STR(PAGE("b"), "b");
	ASSERT_STR(PAGE("c", "a", "b"), "a b c");
	ASSERT_STR(PAGE("d", "c", "b", "a"), "a b c ...");
	ASSERT_STR(PAGE("a", "b", "c", "d"), "a b c ...");
}

TEST(a_name_that_came_twice_is_there_once)
{
	ASSERT_STR(PAGE("a", "a"), "a");
	ASSERT_STR(PAGE("b", "a", "b"), "a b");
	ASSERT_STR(PAGE("a", "a", "a"), "a");
	/* Others may be dropped for it; the next page has them. */
	ASSERT_STR(PAGE("c", "a", "b", "a"), "a b ...");
}
