/* When a line connects, pings, gives up and tries again: without sockets, on a simulated clock. */
#include "client/line_schedule.h"
#include "tests/unit/lib/test.h"

#define START 1000

static const struct box_line_times exact = {.jitter_percent = -1};

/* Connects at once, and is up. */
static struct box_line_schedule up_at(uint64_t now_ms)
{
	struct box_line_schedule state;
	box_line_schedule_init(&state, &exact, 7, now_ms);
	ASSERT_INT(box_line_schedule_due(&state, now_ms), BOX_LINE_CONNECT);
	box_line_schedule_report(&state, BOX_LINE_GREETED, now_ms);
	ASSERT_INT(state.phase, BOX_LINE_UP);
	return state;
}

TEST(there_is_one_attempt_at_a_time)
{
	struct box_line_schedule state;
	box_line_schedule_init(&state, &exact, 7, START);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, START), 0);
	ASSERT_INT(box_line_schedule_due(&state, START), BOX_LINE_CONNECT);
	for (uint64_t now = START; now < START + 30000; now += 1000) {
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_NOTHING);
	}
	ASSERT_INT(box_line_schedule_timeout_ms(&state, START + 29000), 1000);
	ASSERT_INT(box_line_schedule_due(&state, START + 30000), BOX_LINE_GIVE_UP);
}

TEST(pauses_double_up_to_the_most)
{
	static const int64_t expected[] = {3000, 6000, 12000, 24000, 48000, 60000, 60000, 60000};
	struct box_line_schedule state;
	uint64_t now = START;
	box_line_schedule_init(&state, &exact, 7, now);
	for (size_t i = 0; i < COUNT(expected); i++) {
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_CONNECT);
		now += 5; /* failing takes a while: the pause counts from its end */
		box_line_schedule_report(&state, BOX_LINE_LOST, now);
		ASSERT_INT(box_line_schedule_timeout_ms(&state, now), expected[i]);
		now += (uint64_t)expected[i];
		ASSERT_INT(box_line_schedule_due(&state, now - 1), BOX_LINE_NOTHING);
	}
}

TEST(pauses_start_anew_after_a_connection_that_lasted)
{
	struct box_line_schedule state = up_at(START);
	box_line_schedule_report(&state, BOX_LINE_LOST, START + 19999);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, START + 19999), 3000);
	uint64_t now = START + 19999 + 3000;
	ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_CONNECT);
	box_line_schedule_report(&state, BOX_LINE_GREETED, now);
	/* A connection that ends at once does not count. */
	box_line_schedule_report(&state, BOX_LINE_LOST, now + 1);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, now + 1), 6000);
	now += 6001;
	ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_CONNECT);
	box_line_schedule_report(&state, BOX_LINE_GREETED, now);
	box_line_schedule_report(&state, BOX_LINE_LOST, now + 20000);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, now + 20000), 3000);
}

TEST(pauses_are_not_the_same_for_all)
{
	const struct box_line_times times = {.pause_ms = 1000, .pause_max_ms = 1000};
	int64_t least = INT64_MAX;
	int64_t most = 0;
	for (uint64_t random = 0; random < 200; random++) {
		struct box_line_schedule state;
		box_line_schedule_init(&state, &times, random * 0x9e3779b97f4a7c15, START);
		for (int i = 0; i < 3; i++) {
			uint64_t now = state.next_ms;
			ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_CONNECT);
			box_line_schedule_report(&state, BOX_LINE_LOST, now);
			int64_t pause = box_line_schedule_timeout_ms(&state, now);
			least = pause < least ? pause : least;
			most = pause > most ? pause : most;
		}
	}
	ASSERT(least >= 900 && least < 930);
	ASSERT(most <= 1100 && most > 1070);
}

TEST(pings_come_every_interval)
{
	struct box_line_schedule state = up_at(START);
	uint64_t now = START;
	for (int i = 0; i < 5; i++) {
		ASSERT_INT(box_line_schedule_timeout_ms(&state, now), 20000);
		ASSERT_INT(box_line_schedule_due(&state, now + 19999), BOX_LINE_NOTHING);
		now += 20000;
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_PING);
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_NOTHING);
		ASSERT_INT(box_line_schedule_timeout_ms(&state, now), 15000);
		now += 100;
		box_line_schedule_report(&state, BOX_LINE_PONG, now);
	}
	ASSERT_INT(state.phase, BOX_LINE_UP);
}

TEST(three_lost_pings_in_a_row_end_it)
{
	struct box_line_schedule state = up_at(START);
	uint64_t now = START;
	for (int i = 0; i < 3; i++) {
		now += 20000;
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_PING);
		now += 15000;
		ASSERT_INT(box_line_schedule_due(&state, now - 1), BOX_LINE_NOTHING);
		ASSERT_INT(box_line_schedule_due(&state, now),
			i < 2 ? BOX_LINE_NOTHING : BOX_LINE_GIVE_UP);
	}
	/* The action is returned again until it is done. */
	ASSERT_INT(box_line_schedule_timeout_ms(&state, now), 0);
	ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_GIVE_UP);
	box_line_schedule_report(&state, BOX_LINE_LOST, now);
	ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_NOTHING);
	ASSERT_INT(box_line_schedule_due(&state, now + 3000), BOX_LINE_CONNECT);
}

/* Two pongs are lost; then `event`; does a third one end the connection? */
static bool third_ends_it(enum box_line_event event)
{
	struct box_line_schedule state = up_at(START);
	uint64_t now = START;
	enum box_line_due due = BOX_LINE_NOTHING;
	for (int i = 0; i < 3; i++) {
		now += 20000;
		ASSERT_INT(box_line_schedule_due(&state, now), BOX_LINE_PING);
		if (i == 2) {
			box_line_schedule_report(&state, event, now + 1);
		}
		now += 15000;
		due = box_line_schedule_due(&state, now);
	}
	return due == BOX_LINE_GIVE_UP;
}

TEST(an_answer_ends_the_row)
{
	ASSERT(!third_ends_it(BOX_LINE_PONG));
	ASSERT(!third_ends_it(BOX_LINE_HEARD));
	ASSERT(third_ends_it(BOX_LINE_PING_REFUSED));
}

TEST(what_comes_late_changes_nothing)
{
	struct box_line_schedule state = up_at(START);
	box_line_schedule_report(&state, BOX_LINE_GREETED, START + 5000);
	box_line_schedule_report(&state, BOX_LINE_PONG, START + 5000);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, START + 5000), 15000);
	box_line_schedule_report(&state, BOX_LINE_LOST, START + 6000);
	uint64_t next_ms = state.next_ms;
	/* Twice lost counts once; no pong and no greeting bring it back. */
	box_line_schedule_report(&state, BOX_LINE_LOST, START + 6500);
	box_line_schedule_report(&state, BOX_LINE_PONG, START + 6500);
	box_line_schedule_report(&state, BOX_LINE_GREETED, START + 6500);
	ASSERT_INT(state.phase, BOX_LINE_WAITING);
	ASSERT_INT(state.next_ms, next_ms);
}

TEST(one_that_was_adopted_stays_down)
{
	struct box_line_schedule state;
	box_line_schedule_init_up(&state, &exact, START);
	ASSERT_INT(state.phase, BOX_LINE_UP);
	ASSERT_INT(box_line_schedule_due(&state, START + 20000), BOX_LINE_PING);
	box_line_schedule_report(&state, BOX_LINE_LOST, START + 20001);
	ASSERT_INT(state.phase, BOX_LINE_OVER);
	ASSERT_INT(box_line_schedule_timeout_ms(&state, START + 20001), -1);
	ASSERT_INT(box_line_schedule_due(&state, START + 10000000), BOX_LINE_NOTHING);
}

TEST(times_have_defaults_and_sane_ends)
{
	const struct box_line_times strange = {
		.ping_failures = -5, .pause_ms = 90000, .jitter_percent = 1000};
	struct box_line_schedule state;
	box_line_schedule_init(&state, &strange, 0, START);
	ASSERT_INT(state.times.ping_failures, 3);
	ASSERT_INT(state.times.connect_ms, 30000);
	ASSERT_INT(state.times.pause_max_ms, 90000);
	ASSERT_INT(state.times.jitter_percent, 100);
	ASSERT_INT(box_line_schedule_due(&state, START), BOX_LINE_CONNECT);
	box_line_schedule_report(&state, BOX_LINE_LOST, START);
	ASSERT(box_line_schedule_timeout_ms(&state, START) <= 180000);
}
