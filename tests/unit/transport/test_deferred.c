/* Deferred calls run once at the end of a loop turn, after all events that were ready and before
 * the loop sleeps. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "tests/unit/lib/test.h"
#include "transport/deferred.h"

static uv_loop_t loop;
static struct box_deferred turn;
static char said[32];

static void say(const char *word)
{
	ASSERT(strlen(said) + strlen(word) < sizeof(said));
	memcpy(said + strlen(said), word, strlen(word) + 1);
}

static void say_a(struct box_deferred_call *call)
{
	(void)call;
	say("a");
}

static struct box_deferred_call a = {.call = say_a};

static void say_b(struct box_deferred_call *call)
{
	(void)call;
	say("b");
	box_deferred_schedule(&turn, &a);
}

static struct box_deferred_call b = {.call = say_b};

static void start(void)
{
	ASSERT_INT(uv_loop_init(&loop), 0);
	box_deferred_init(&turn, &loop);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	say("r");
	box_deferred_schedule(&turn, poll->data);
	(void)uv_poll_stop(poll);
}

TEST(once_and_behind_all_that_is_ready)
{
	uv_poll_t polls[2];
	int ends[2];
	start();
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	ASSERT_INT(write(ends[1], "x", 1), 1);
	for (int i = 0; i < 2; i++) {
		int fd = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
		ASSERT_INT(uv_poll_init(&loop, &polls[i], fd), 0);
		polls[i].data = &a;
		ASSERT_INT(uv_poll_start(&polls[i], UV_READABLE, readable), 0);
	}
	ASSERT_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ASSERT_STR(said, "rra");
}

TEST(also_what_waits_from_inside)
{
	start();
	box_deferred_schedule(&turn, &b);
	box_deferred_schedule(&turn, &b);
	ASSERT_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ASSERT_STR(said, "ba");
}

static void ring(uv_timer_t *timer)
{
	(void)timer;
	say("t");
	box_deferred_schedule(&turn, &a);
}

static void late(uv_timer_t *timer)
{
	(void)timer;
	say("l");
}

/* Timers run before the loop sleeps. */
TEST(before_the_loop_sleeps)
{
	uv_timer_t timers[2];
	start();
	ASSERT_INT(uv_timer_init(&loop, &timers[0]), 0);
	ASSERT_INT(uv_timer_init(&loop, &timers[1]), 0);
	ASSERT_INT(uv_timer_start(&timers[0], ring, 0, 0), 0);
	ASSERT_INT(uv_timer_start(&timers[1], late, 50, 0), 0);
	ASSERT_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ASSERT_STR(said, "tal");
}

TEST(forgotten)
{
	start();
	box_deferred_cancel(&a);
	box_deferred_schedule(&turn, &a);
	box_deferred_schedule(&turn, &b);
	box_deferred_cancel(&a);
	box_deferred_cancel(&b);
	ASSERT_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ASSERT_STR(said, "");
	box_deferred_schedule(&turn, &a);
	ASSERT_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ASSERT_STR(said, "a");
}
