/* The tail of a process's stderr: the last bytes, in order, whatever came before. */
#include <errno.h>
#include <fcntl.h>

#include "init/process/tail.h"
#include "protocol/init_process.h"
#include "tests/unit/lib/test.h"

#define MOST BOX_INIT_STDERR_TAIL_MAX

static int ends[2];

static void start(void)
{
	ASSERT_INT(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
}

static void put(struct box_tail *tail, const char *bytes, size_t size)
{
	ASSERT_INT(write(ends[1], bytes, size), size);
	while (size > 0) {
		ssize_t got = box_tail_read(tail, ends[0]);
		ASSERT(got > 0);
		size -= (size_t)got;
	}
}

TEST(little)
{
	struct box_tail tail = {0};
	char copy[MOST];
	start();
	ASSERT_INT(box_tail_copy(&tail, copy), 0);
	ASSERT_INT(box_tail_read(&tail, ends[0]), -EAGAIN);
	ASSERT_INT(box_tail_copy(&tail, copy), 0);
	put(&tail, "one ", 4);
	put(&tail, "two", 3);
	ASSERT_BYTES(copy, box_tail_copy(&tail, copy), "one two", 7);
	ASSERT_INT(close(ends[1]), 0);
	ASSERT_INT(box_tail_read(&tail, ends[0]), 0);
	ASSERT_BYTES(copy, box_tail_copy(&tail, copy), "one two", 7);
	box_tail_close(&tail);
	box_tail_close(&tail);
	ASSERT_INT(box_tail_copy(&tail, copy), 0);
}

/* Pieces of many sizes: always the last bytes of all input. */
TEST(only_the_end)
{
	static char all[20 * MOST];
	static char copy[MOST];
	struct box_tail tail = {0};
	size_t len = 0;
	start();
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (char)(i * 31 + i / 251);
	}
	static const size_t sizes[] = {
		1, MOST - 2, 1, 1, MOST, MOST - 1, MOST + 1, 3 * MOST, 7, 2 * MOST + 5};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		put(&tail, all + len, sizes[i]);
		len += sizes[i];
		ASSERT_INT(tail.total, len);
		size_t kept = len < MOST ? len : MOST;
		ASSERT_INT(box_tail_copy(&tail, copy), kept);
		if (memcmp(copy, all + len - kept, kept) != 0) {
			TEST_FAIL("not the end after %zu bytes", len);
		}
	}
	box_tail_close(&tail);
}
