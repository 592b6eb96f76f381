/* Live commands whose pipes belong to box-rpc: output within its credit, and input. What follows
 * their end is in test_local_pipes_end.c. */
#include <sys/resource.h>

#include "tests/unit/lib/local_pipes_fixture.h"

/* --- output --- */

TEST(output_is_told_as_it_comes)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	ASSERT_INT(scene.ran.started, 0);
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	ASSERT_INT(scene.ran.started, 1);
	command_writes(&scene, STDOUT_FILENO, "one");
	command_writes(&scene, STDERR_FILENO, "two");
	command_writes(&scene, STDOUT_FILENO, "three");
	ASSERT_STR(scene.ran.live, "o:one;e:two;o:three;");
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 3);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 3, 0);
	expect_silence(&scene.played); /* there is no reader left, so nothing is handed over */
	scene_end(&scene);
}

/* Output may arrive before the report that the command runs. */
TEST(who_writes_has_started)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	command_writes(&scene, STDOUT_FILENO, "one");
	ASSERT_INT(scene.ran.started, 1);
	ASSERT_STR(scene.ran.live, "o:one;");
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	ASSERT_INT(scene.ran.started, 1);
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_SIGNAL, 15);
	expect_ended(&scene.ran, BOX_BACKEND_END_SIGNAL, 128 + 15, 15);
	scene_end(&scene);
}

TEST(what_is_left_in_the_pipes_comes_before_the_end)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	ASSERT_INT(write(scene.fds[STDERR_FILENO], "last", 4), 4);
	ASSERT_INT(write(scene.fds[STDOUT_FILENO], "words", 5), 5);
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(scene.out_bytes, 9);
	scene_end(&scene);
}

TEST(without_credit_the_command_waits)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 5);
	command_writes(&scene, STDOUT_FILENO, "12345678");
	ASSERT_STR(scene.ran.live, "o:12345;");
	command_writes(&scene, STDERR_FILENO, "e");
	ASSERT_STR(scene.ran.live, "o:12345;"); /* the credit covers both streams */
	backend->ops->credit(scene.ran.op, 2);
	ASSERT_STR(scene.ran.live, "o:12345;"); /* not from inside that call */
	turn();
	ASSERT_INT(scene.out_bytes, 7);
	backend->ops->credit(scene.ran.op, 100);
	turn();
	ASSERT_INT(scene.out_bytes, 9);
	expect_silence(&scene.played); /* box-init is not involved */
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

TEST(the_end_waits_for_a_slow_reader)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 5);
	command_writes(&scene, STDOUT_FILENO, "12345678");
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(scene.ran.calls, 0);
	backend->ops->credit(scene.ran.op, 1);
	turn();
	ASSERT_INT(scene.ran.calls, 0);
	ASSERT_INT(scene.out_bytes, 6);
	backend->ops->credit(scene.ran.op, 100);
	ASSERT_INT(scene.ran.calls, 0); /* not from inside that call */
	turn();
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(scene.out_bytes, 8);
	scene_end(&scene);
}

TEST(a_command_ends_once)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 1);
	command_writes(&scene, STDOUT_FILENO, "12");
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(scene.played.lost, 1);
	ASSERT_STR(scene.played.why, "it ended a command twice");
	scene_end(&scene);
}

/* A full pipe is enlarged, and read in few pieces. */
TEST(much_comes_at_once)
{
	struct scene scene = {.give = PIPE_BYTES};
	scene_begin(&scene, true, 1 << 20);
	command_fills(&scene, PIPE_BYTES);
	turn();
	ASSERT_INT(scene.largest, PIPE_BYTES);
	ASSERT(fcntl(scene.fds[STDOUT_FILENO], F_GETPIPE_SZ) > PIPE_BYTES);
	for (int i = 0; i < 3; i++) {
		command_fills(&scene, PIPE_BYTES);
	}
	turn();
	ASSERT_INT(scene.out_bytes, 4 * PIPE_BYTES);
	ASSERT(scene.largest > 2 * PIPE_BYTES);
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

/* --- input --- */

struct given {
	int told;
	bool failed;
};

static void on_taken(void *arg, const struct box_err *err)
{
	struct given *given = arg;
	given->told++;
	given->failed = err != NULL;
}

static void expect_input(struct scene *scene, const char *text)
{
	char got[64] = "";
	ASSERT_INT(read(scene->fds[STDIN_FILENO], got, sizeof(got)), strlen(text));
	ASSERT_STR(got, text);
}

TEST(input_goes_in_and_ends)
{
	struct scene scene = {0};
	struct given given = {0};
	scene_begin(&scene, true, 100);
	backend->ops->input(scene.ran.op, box_str("one"), false, on_taken, &given);
	ASSERT_INT(given.told, 0); /* not from inside that call */
	turn();
	ASSERT_INT(given.told, 1);
	ASSERT(!given.failed);
	expect_input(&scene, "one");
	backend->ops->input(scene.ran.op, box_str("two"), true, on_taken, &given);
	turn();
	ASSERT_INT(given.told, 2);
	expect_input(&scene, "two");
	expect_input(&scene, ""); /* the end */
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

TEST(a_mere_end_goes_in_too)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	turn();
	expect_input(&scene, "");
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

TEST(without_stdin_it_is_empty)
{
	struct scene scene = {0};
	scene_begin(&scene, false, 100);
	expect_input(&scene, "");
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

/* Input that does not fit waits, and so does the next piece. */
TEST(a_full_pipe_is_waited_for)
{
	static char bytes[4 << 20];
	static char got[1 << 20];
	struct scene scene = {0};
	struct given given[2] = {{0}, {0}};
	size_t total = 0;
	ssize_t count;
	char last = 0;
	scene_begin(&scene, true, 100);
	backend->ops->input(
		scene.ran.op, (struct box_str){bytes, sizeof(bytes)}, false, on_taken, &given[0]);
	backend->ops->input(scene.ran.op, box_str("z"), true, on_taken, &given[1]);
	turn();
	ASSERT_INT(given[0].told + given[1].told, 0);
	while ((count = read(scene.fds[STDIN_FILENO], got, sizeof(got))) > 0) {
		total += (size_t)count;
		last = got[count - 1];
		turn();
	}
	ASSERT_INT(total, sizeof(bytes) + 1);
	ASSERT_INT(last, 'z');
	ASSERT_INT(given[0].told, 1);
	ASSERT_INT(given[1].told, 1);
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

/* Nobody reads it any more: input is discarded, every time. */
TEST(input_that_nobody_reads_is_void)
{
	struct scene scene = {0};
	struct given given = {0};
	scene_begin(&scene, true, 100);
	ASSERT_INT(close(scene.fds[STDIN_FILENO]), 0);
	scene.fds[STDIN_FILENO] = -1;
	for (int i = 1; i <= 3; i++) {
		backend->ops->input(scene.ran.op, box_str("one"), i == 3, on_taken, &given);
		turn();
		ASSERT_INT(given.told, i);
		ASSERT(!given.failed);
	}
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

TEST(what_is_not_in_at_the_end_is_told)
{
	static char bytes[4 << 20];
	struct scene scene = {0};
	struct given given = {0};
	scene_begin(&scene, true, 100);
	backend->ops->input(
		scene.ran.op, (struct box_str){bytes, sizeof(bytes)}, false, on_taken, &given);
	turn();
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(given.told, 1);
	scene_end(&scene);
}

/* --- who has none --- */

TEST(a_terminal_has_no_pipes)
{
	const struct box_backend_stream live = {
		.events = &events, .has_stdin = true, .credit = 1, .rows = 24, .columns = 80};
	struct scene scene = {.fds = {-1, -1, -1}};
	struct heard heard;
	struct box_init_run run;
	start();
	make_played(&scene.played, 3);
	scene.spec = spec_of("sh");
	scene.ran.op = backend->ops->exec(
		scene.played.box, &scene.spec, 1000, &live, on_ran, &scene.ran);
	expect(&scene.played, BOX_INIT_RUN, 1, &heard);
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, BOX_INIT_RUN_STDIN | BOX_INIT_RUN_TTY);
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}

/* Its bytes go in packets instead. */
TEST(too_many_open_files_are_no_reason_to_fail)
{
	const struct box_backend_stream live = {.events = &events, .has_stdin = true, .credit = 1};
	struct scene scene = {.fds = {-1, -1, -1}};
	struct heard heard;
	struct rlimit before;
	start();
	make_played(&scene.played, 3);
	scene.spec = spec_of("cat");
	ASSERT_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
	/* Only two pipes may be opened: the other fds are reserved. */
	int next = another(0);
	ASSERT_INT(close(next), 0);
	struct rlimit tight = {.rlim_cur = 2 * ((rlim_t)next + 2), .rlim_max = before.rlim_max};
	ASSERT_INT(setrlimit(RLIMIT_NOFILE, &tight), 0);
	scene.ran.op = backend->ops->exec(
		scene.played.box, &scene.spec, 1000, &live, on_ran, &scene.ran);
	ASSERT_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect(&scene.played, BOX_INIT_RUN, 1, &heard);
	backend->ops->cancel(scene.ran.op);
	scene_end(&scene);
}
