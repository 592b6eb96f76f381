/* File work by a real box-init: it runs in a process of its own, which may be killed at any moment;
 * malformed requests start none. */
#include <sys/stat.h>

#include "tests/unit/lib/init_file_fixture.h"

TEST(a_file_is_read_and_the_answer_told)
{
	char path[] = "/tmp/box-initread-XXXXXX";
	struct child child;
	int fd = mkstemp(path);
	ASSERT(fd >= 0);
	ASSERT_INT(fchmod(fd, 0644), 0);
	ASSERT_INT(write(fd, "hello", 5), 5);
	ASSERT_INT(close(fd), 0);
	start_child(&child);
	struct outcome *outcome = run_one(&child, 1, file_of(BOX_INIT_FILE_READ, path + 1));
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome, "hello");
	ASSERT_INT(answer_of(outcome).errnum, 0);
	ASSERT_INT(answer_of(outcome).facts.size, 5);
	ASSERT_INT(unlink(path), 0);
	outcome = run_one(&child, 2, file_of(BOX_INIT_FILE_READ, path + 1));
	ASSERT_INT(answer_of(outcome).errnum, ENOENT);
	ASSERT_OUT(outcome, "");
	stop_child(&child);
}

TEST(nonsense_is_not_begun)
{
	struct child child;
	struct asked asked = file_of(BOX_INIT_FILE_KINDS_, "a");
	start_child(&child);
	struct outcome *outcome = run_one(&child, 1, asked);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EBADMSG);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);
	asked = file_of(BOX_INIT_FILE_READ, "a");
	asked.command_size--;
	ASSERT_END(run_one(&child, 2, asked), BOX_INIT_END_FAILED, EBADMSG);
	stop_child(&child);
}

/* Its process group must exist from the first moment, so that it can be killed. */
TEST(it_can_be_killed_at_once)
{
	struct child child;
	start_child(&child);
	for (uint32_t id = 1; id <= 300; id++) {
		ask(&child, id, file_of(BOX_INIT_FILE_WATCH, "tmp"));
		send_kind(&child, BOX_INIT_KILL, id, NULL, 0);
		ASSERT_END(collect(&child, id), BOX_INIT_END_SIGNAL, 9);
	}
	stop_child(&child);
}
