/* Live commands whose pipes belong to box-rpc, after their end: output that is still in the pipes,
 * and who closes them. */
#include <sys/eventfd.h>

#include "tests/unit/lib/local_pipes_fixture.h"

#define WHILE "the box ended while the command ran: "

/* A background process has them: box-init reads and discards its output. */
TEST(pipes_that_others_have_go_to_init)
{
	struct scene scene = {0};
	struct heard heard;
	scene_begin(&scene, true, 100);
	command_writes(&scene, STDOUT_FILENO, "begun");
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_STR(scene.ran.live, "o:begun;");
	for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
		char got = 0;
		expect(&scene.played, BOX_INIT_DRAIN, 1, &heard);
		ASSERT(fcntl(heard.fd, F_GETFL) & O_NONBLOCK);
		ASSERT_INT(write(scene.fds[i], "x", 1), 1);
		ASSERT_INT(read(heard.fd, &got, 1), 1);
		ASSERT_INT(got, 'x');
		ASSERT_INT(close(heard.fd), 0);
	}
	expect_silence(&scene.played);
	scene_end(&scene);
}

/* Also when there is never enough credit for their output. */
TEST(those_who_write_on_do_not_keep_it_from_its_end)
{
	struct scene scene = {0};
	size_t before = 0;
	scene_begin(&scene, true, PIPE_BYTES / 2);
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	command_fills(&scene, PIPE_BYTES);
	turn();
	before = scene.out_bytes;
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 3);
	ASSERT_INT(scene.ran.calls, 0);
	for (int i = 0; i < 100 && scene.ran.calls == 0; i++) {
		backend->ops->credit(scene.ran.op, PIPE_BYTES / 4);
		turn();
		if (scene.ran.calls == 0) {
			command_fills(&scene, PIPE_BYTES / 4);
		}
	}
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 3, 0);
	ASSERT(scene.out_bytes - before >= (1 << 20));
	ASSERT(scene.out_bytes - before < (1 << 20) + PIPE_BYTES);
	scene_end(&scene);
}

/* Its end was reported before that of its box. */
TEST(an_end_that_waits_for_credit_outlives_its_box)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 3);
	command_writes(&scene, STDOUT_FILENO, "abcdef");
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 7);
	ASSERT_INT(scene.ran.calls, 0);
	init_ends(&scene.played);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 7, 0);
	ASSERT_STR(scene.ran.live, "o:abc;");
	scene_end(&scene);
}

static void count_event(uv_poll_t *poll, int status, int happened)
{
	uint64_t value;
	(void)happened;
	ASSERT_INT(status, 0);
	ASSERT_INT(read(*(int *)poll->data, &value, sizeof(value)), sizeof(value));
	*(int *)poll->data = -1;
}

/* The fd of a closed pipe may have been reused by the time the command ends. */
TEST(whoever_gets_the_number_of_a_closed_end_is_heard)
{
	enum {
		OTHERS = 8
	};
	struct scene scene = {0};
	uv_poll_t polls[OTHERS];
	int fds[OTHERS];
	int unheard[OTHERS];
	scene_begin(&scene, true, 100);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	ASSERT_INT(close(scene.fds[STDOUT_FILENO]), 0);
	scene.fds[STDOUT_FILENO] = -1;
	turn();
	for (int i = 0; i < OTHERS; i++) {
		unheard[i] = fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		ASSERT_INT(uv_poll_init(&loop, &polls[i], fds[i]), 0);
		polls[i].data = &unheard[i];
		ASSERT_INT(uv_poll_start(&polls[i], UV_READABLE, count_event), 0);
	}
	turn();
	close_pipes(&scene);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	for (int i = 0; i < OTHERS; i++) {
		ASSERT_INT(write(fds[i], &(uint64_t){1}, 8), 8);
	}
	turn();
	for (int i = 0; i < OTHERS; i++) {
		ASSERT_INT(unheard[i], -1);
		uv_close((uv_handle_t *)&polls[i], NULL);
		ASSERT_INT(close(fds[i]), 0);
	}
	turn();
	scene_end(&scene);
}

TEST(one_that_never_started_leaves_nothing)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	const struct box_init_exit end = {
		.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_CLONE, .value = EAGAIN};
	say(&scene.played, BOX_INIT_EXIT, 1, &end, sizeof(end));
	ASSERT_INT(scene.ran.calls, 1);
	ASSERT(scene.ran.failed);
	ASSERT_INT(scene.ran.started, 0);
	expect_silence(&scene.played);
	scene_end(&scene);
}

TEST(a_cancelled_one_tells_nothing_more)
{
	struct scene scene = {0};
	struct heard heard;
	scene_begin(&scene, true, 100);
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	backend->ops->cancel(scene.ran.op);
	expect_packet(&scene.played, BOX_INIT_KILL, 1, "", 0);
	command_writes(&scene, STDOUT_FILENO, "late");
	say_exit(&scene.played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_STR(scene.ran.live, "");
	ASSERT_INT(scene.ran.calls, 0);
	for (int i = 0; i < 2; i++) {
		expect(&scene.played, BOX_INIT_DRAIN, 1, &heard);
		ASSERT_INT(close(heard.fd), 0);
	}
	scene_end(&scene);
}

/* By the receiver of its output, and while its end waits for credit. */
TEST(it_can_be_cancelled_at_any_time)
{
	struct scene first = {.cancel = true};
	struct heard heard;
	scene_begin(&first, true, 100);
	command_writes(&first, STDOUT_FILENO, "one");
	expect_packet(&first.played, BOX_INIT_KILL, 1, "", 0);
	command_writes(&first, STDOUT_FILENO, "two");
	ASSERT_STR(first.ran.live, "o:one;");
	close_pipes(&first);
	say_exit(&first.played, 1, BOX_INIT_END_SIGNAL, 9);
	while (hear(&first.played, &heard)) {
		ASSERT_INT(heard.header.kind, BOX_INIT_DRAIN);
		ASSERT_INT(close(heard.fd), 0);
	}
	ASSERT_INT(first.ran.calls, 0);
	scene_end(&first);

	struct scene second = {0};
	scene_begin(&second, true, 1);
	command_writes(&second, STDOUT_FILENO, "12");
	close_pipes(&second);
	say_exit(&second.played, 1, BOX_INIT_END_EXIT, 0);
	backend->ops->cancel(second.ran.op);
	turn();
	ASSERT_INT(second.ran.calls, 0);
	ASSERT_INT(second.out_bytes, 1);
	while (hear(&second.played, &heard)) {
		ASSERT_INT(heard.header.kind, BOX_INIT_DRAIN);
		ASSERT_INT(close(heard.fd), 0);
	}
	scene_end(&second);
}

TEST(of_a_box_that_ends_the_last_words_come_too)
{
	struct scene scene = {0};
	scene_begin(&scene, true, 100);
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	ASSERT_INT(write(scene.fds[STDOUT_FILENO], "words", 5), 5);
	init_ends(&scene.played);
	ASSERT_STR(scene.ran.live, "o:words;");
	expect_failed(&scene.ran, BOX_ERR_BOX, EPIPE, WHILE "its first process has ended");
	scene_end(&scene);
}
