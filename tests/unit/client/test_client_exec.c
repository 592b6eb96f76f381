/* Live commands in libbox: terminals, their sizes, and signals. */
#include <errno.h>

#include "client/box.h"
#include "tests/unit/lib/fake_runtime_child.h"

#define CALL_MS 20000

static struct box_client *open_double(void)
{
	char self[4096] = "";
	struct box_client *client;
	ASSERT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	ASSERT_INT(setenv(DOUBLE, "serves", 1), 0);
	struct box_client_options options = {.spawn = true, .boxd = self};
	ASSERT_INT(box_client_open(&options, &client, NULL), 0);
	ASSERT_INT(unsetenv(DOUBLE), 0);
	return client;
}

static void no_output(void *arg, int fd, struct box_str bytes)
{
	(void)arg;
	(void)fd;
	(void)bytes;
	ASSERT(false);
}

static void no_end(void *arg, const struct box_exec_result *result, const struct box_err *err)
{
	(void)arg;
	(void)result;
	(void)err;
	ASSERT(false);
}

static const struct box_exec_events events = {no_output, no_end};

static struct box_exec *start(struct box_client *client, const struct box_exec_terminal *terminal)
{
	struct box_value spec = box_map_value();
	struct box_exec *exec;
	ASSERT_INT(box_exec_start(client, &spec, true, terminal, &events, NULL, &exec, NULL), 0);
	return exec;
}

static void await_start(struct box_client *client, const struct box_exec *exec)
{
	while (!box_exec_wants_input(exec)) {
		ASSERT_INT(box_client_wait(client, CALL_MS, NULL), 0);
	}
}

static void call(struct box_client *client, const char *action)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	ASSERT_INT(box_client_call(client, action, NULL, CALL_MS, arena, &data, NULL), 0);
	box_arena_free(arena);
}

static void assert_seen(struct box_client *client, const char *expected)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	ASSERT_INT(box_client_call(client, "seen", NULL, CALL_MS, arena, &data, NULL), 0);
	struct box_str seen = box_map_get(&data, "seen")->str;
	ASSERT_BYTES(seen.bytes, seen.len, expected, strlen(expected));
	box_arena_free(arena);
}

TEST(a_terminal_is_asked_for_with_its_size)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, &(struct box_exec_terminal){24, 80});
	await_start(client, exec);
	assert_seen(client, "tty 24x80 ");
	box_exec_free(exec);
	box_client_close(client);
}

TEST(a_size_before_the_start_is_told_after_it)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, &(struct box_exec_terminal){24, 80});
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){30, 90}, NULL), 0);
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){31, 91}, NULL), 0);
	await_start(client, exec);
	assert_seen(client, "tty 24x80 size 31x91 ");
	box_exec_free(exec);
	box_client_close(client);
}

TEST(of_many_sizes_the_last_counts)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, &(struct box_exec_terminal){24, 80});
	await_start(client, exec);
	for (uint16_t rows = 1; rows <= 200; rows++) {
		ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){rows, 80}, NULL), 0);
	}
	assert_seen(client, "tty 24x80 size 1x80 ");
	call(client, "release");
	assert_seen(client, "tty 24x80 size 1x80 size 200x80 ");
	/* The current size is not sent again. */
	call(client, "release");
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){200, 80}, NULL), 0);
	assert_seen(client, "tty 24x80 size 1x80 size 200x80 ");
	box_exec_free(exec);
	box_client_close(client);
}

TEST(sizes_that_cannot_be_are_refused_here)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, NULL);
	struct box_err err;
	await_start(client, exec);
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){24, 80}, &err), -ENOTTY);
	ASSERT_STR(err.text, "the command has no terminal");
	assert_seen(client, "tty -1x-1 ");
	box_exec_free(exec);
	exec = start(client, &(struct box_exec_terminal){24, 80});
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){0, 80}, &err), -EINVAL);
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){24, 0}, &err), -EINVAL);
	box_exec_free(exec);
	box_client_close(client);
}

TEST(signals_go_to_a_command_that_runs)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, NULL);
	struct box_err err;
	ASSERT_INT(box_exec_signal(exec, 2, &err), -EAGAIN);
	await_start(client, exec);
	ASSERT_INT(box_exec_signal(exec, 2, &err), 0);
	ASSERT_INT(box_exec_signal(exec, 15, &err), 0);
	/* The answers say that it has ended: its end event reports that, not they. */
	assert_seen(client, "tty -1x-1 signal 2 signal 15 ");
	box_exec_free(exec);
	box_client_close(client);
}

TEST(what_is_under_way_is_forgotten_with_the_command)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, &(struct box_exec_terminal){24, 80});
	await_start(client, exec);
	ASSERT_INT(box_exec_resize(exec, (struct box_exec_terminal){30, 90}, NULL), 0);
	ASSERT_INT(box_exec_signal(exec, 2, NULL), 0);
	box_exec_free(exec);
	call(client, "release");
	/* 1 is the ping at the start. */
	assert_seen(client, "tty 24x80 size 30x90 signal 2 cancel 3 cancel 2 ");
	box_client_close(client);
}

TEST(input_that_is_answered_out_of_order)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, NULL);
	await_start(client, exec);
	ASSERT_INT(box_exec_input(exec, "ab", 2, false, NULL), 0);
	ASSERT_INT(box_exec_input(exec, "c", 1, false, NULL), 0);
	ASSERT_INT(box_exec_input(exec, "", 0, true, NULL), 0);
	/* The last one is answered by now, the first two are not: both are cancelled. */
	assert_seen(client, "tty -1x-1 input 2 input 1 input 0 ");
	box_exec_free(exec);
	call(client, "release");
	assert_seen(client, "tty -1x-1 input 2 input 1 input 0 cancel 3 cancel 4 cancel 2 ");
	box_client_close(client);
}

TEST(input_goes_on_when_any_piece_is_taken)
{
	struct box_client *client = open_double();
	struct box_exec *exec = start(client, NULL);
	await_start(client, exec);
	for (int i = 0; i < BOX_EXEC_INPUTS_MAX; i++) {
		ASSERT_INT(box_exec_input(exec, "x", 1, false, NULL), 0);
	}
	ASSERT(!box_exec_wants_input(exec));
	ASSERT_INT(box_exec_input(exec, "x", 1, false, NULL), -EAGAIN);
	call(client, "release");
	ASSERT_INT(box_exec_input(exec, "y", 1, true, NULL), 0);
	box_exec_free(exec);
	box_client_close(client);
}
