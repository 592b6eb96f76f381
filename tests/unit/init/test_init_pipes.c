/* box-init and commands whose pipes were passed in by someone else. */
#include <poll.h>

#include "tests/unit/lib/init_fixture.h"

/* Our ends of the pipes of one command. */
struct pipes {
	int in;
	int out;
	int err;
};

/* Passes the command's end to box-init and returns ours. */
static int send_pipe(const struct child *child, uint32_t id, uint32_t which)
{
	int ends[2];
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	int ours = which == STDIN_FILENO ? 1 : 0;
	send_with(child, BOX_INIT_PIPE, id, &which, sizeof(which), ends[1 - ours]);
	ASSERT_INT(close(ends[1 - ours]), 0);
	return ends[ours];
}

static struct pipes ask_with_pipes(const struct child *child, uint32_t id, const char *command)
{
	struct pipes pipes = {
		.in = send_pipe(child, id, STDIN_FILENO),
		.out = send_pipe(child, id, STDOUT_FILENO),
		.err = send_pipe(child, id, STDERR_FILENO),
	};
	forget(id);
	ask(child, id, (struct asked){.command = command, .flags = BOX_INIT_RUN_PIPES});
	return pipes;
}

static void close_pipes(const struct pipes *pipes)
{
	ASSERT_INT(close(pipes->in), 0);
	ASSERT_INT(close(pipes->out), 0);
	ASSERT_INT(close(pipes->err), 0);
}

/* Everything until the last writer has closed. */
static void expect_text(int fd, const char *text)
{
	char got[256];
	size_t len = 0;
	ssize_t count;
	while ((count = read(fd, got + len, sizeof(got) - len)) > 0) {
		len += (size_t)count;
	}
	ASSERT_INT(count, 0);
	ASSERT_BYTES(got, len, text, strlen(text));
}

TEST(its_bytes_pass_by)
{
	struct child child;
	start_child(&child);
	struct pipes pipes = ask_with_pipes(&child, 1, "cat; echo no >&2; exit 3");
	ASSERT_INT(write(pipes.in, "one\n", 4), 4);
	ASSERT_INT(close(pipes.in), 0);
	pipes.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 3);
	ASSERT(outcome_of(1)->started);
	ASSERT_OUT(outcome_of(1), ""); /* nothing arrived in packets */
	/* box-init has no end of the pipes either: they are at end of file. */
	expect_text(pipes.out, "one\n");
	expect_text(pipes.err, "no\n");
	close_pipes(&pipes);
	stop_child(&child);
}

TEST(it_ends_whoever_reads)
{
	struct child child;
	start_child(&child);
	struct pipes pipes = ask_with_pipes(&child, 1, "yes");
	while (!outcome_of(1)->started) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	send_kind(&child, BOX_INIT_KILL, 1, NULL, 0);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_SIGNAL, 9);
	close_pipes(&pipes);
	stop_child(&child);
}

/* Without all three, with unannounced ones, or twice the same. */
TEST(pipes_that_are_wrong)
{
	struct child child;
	start_child(&child);
	int only = send_pipe(&child, 1, STDOUT_FILENO);
	ask(&child, 1, (struct asked){.command = "true", .flags = BOX_INIT_RUN_PIPES});
	ASSERT_END(collect(&child, 1), BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome_of(1)->end.step, BOX_INIT_STEP_REQUEST);
	expect_text(only, "");
	ASSERT_INT(close(only), 0);

	int unasked = send_pipe(&child, 2, STDERR_FILENO);
	ask(&child, 2, (struct asked){.command = "true"});
	ASSERT_END(collect(&child, 2), BOX_INIT_END_FAILED, EINVAL);
	expect_text(unasked, "");
	ASSERT_INT(close(unasked), 0);

	int first = send_pipe(&child, 3, STDOUT_FILENO);
	int second = send_pipe(&child, 3, STDOUT_FILENO);
	expect_text(second, ""); /* closed at once */
	ASSERT_INT(close(second), 0);
	struct pipes pipes = {
		send_pipe(&child, 3, STDIN_FILENO), first, send_pipe(&child, 3, STDERR_FILENO)};
	ask(&child, 3, (struct asked){.command = "echo well", .flags = BOX_INIT_RUN_PIPES});
	/* A pipe that arrives while the command runs changes nothing. */
	int late = send_pipe(&child, 3, STDOUT_FILENO);
	ASSERT_END(collect(&child, 3), BOX_INIT_END_EXIT, 0);
	expect_text(late, "");
	ASSERT_INT(close(late), 0);
	expect_text(pipes.out, "well\n");
	close_pipes(&pipes);
	stop_child(&child);
}

/* Output of other processes after the end is read and discarded, and they are not killed for it. */
TEST(a_pipe_that_is_given_away)
{
	struct child child;
	start_child(&child);
	struct pipes pipes = ask_with_pipes(&child, 1,
		"exec 3<&0; setsid sh -c 'read x <&3; head -c 3000000 /dev/zero && echo done >&2' "
		"& :");
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 0);
	ASSERT_INT(fcntl(pipes.out, F_SETFL, O_NONBLOCK), 0);
	send_with(&child, BOX_INIT_DRAIN, 1, NULL, 0, pipes.out);
	ASSERT_INT(close(pipes.out), 0);
	ASSERT_INT(write(pipes.in, "go\n", 3), 3);
	expect_text(pipes.err, "done\n");
	ASSERT_INT(close(pipes.in), 0);
	ASSERT_INT(close(pipes.err), 0);
	ASSERT_OUT(run_one(&child, 2, (struct asked){.command = "echo sound"}), "sound\n");
	stop_child(&child);
}

TEST(a_reset_leaves_no_pipe)
{
	struct child child;
	start_child(&child);
	struct pipes pipes = ask_with_pipes(&child, 1, "sleep 30");
	int gathering = send_pipe(&child, 2, STDOUT_FILENO);
	send_kind(&child, BOX_INIT_RESET, 0, NULL, 0);
	while (!reset_done) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	expect_text(gathering, "");
	expect_text(pipes.out, "");
	ASSERT_INT(close(gathering), 0);
	close_pipes(&pipes);
	stop_child(&child);
}
