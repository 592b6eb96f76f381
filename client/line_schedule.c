/* The decisions of a line: times and events go in, what is due comes out. A connection that did not last for
 * one ping interval does not reset the pauses, so that a runtime that crashes at its start is not started
 * every few seconds for ever. */
#include "client/line_schedule.h"

static const struct box_line_times defaults = {
	.ping_interval_ms = 20000,
	.ping_wait_ms = 15000,
	.ping_failures = 3,
	.connect_ms = 30000,
	.pause_ms = 3000,
	.pause_max_ms = 60000,
	.jitter_percent = 10,
};

static int64_t pick(int64_t given, int64_t otherwise)
{
	return given > 0 ? given : otherwise;
}

static struct box_line_times complete(const struct box_line_times *given)
{
	struct box_line_times times = {
		.ping_interval_ms = pick(given->ping_interval_ms, defaults.ping_interval_ms),
		.ping_wait_ms = pick(given->ping_wait_ms, defaults.ping_wait_ms),
		.ping_failures = pick(given->ping_failures, defaults.ping_failures),
		.connect_ms = pick(given->connect_ms, defaults.connect_ms),
		.pause_ms = pick(given->pause_ms, defaults.pause_ms),
		.pause_max_ms = pick(given->pause_max_ms, defaults.pause_max_ms),
		.jitter_percent = given->jitter_percent < 0
			? 0
			: pick(given->jitter_percent, defaults.jitter_percent),
	};
	if (times.jitter_percent > 100) {
		times.jitter_percent = 100;
	}
	if (times.pause_max_ms < times.pause_ms) {
		times.pause_max_ms = times.pause_ms;
	}
	return times;
}

void box_line_schedule_init(struct box_line_schedule *state, const struct box_line_times *times,
	uint64_t random, uint64_t now_ms)
{
	*state = (struct box_line_schedule){
		.times = complete(times),
		.phase = BOX_LINE_WAITING,
		.random = random | 1, /* xorshift stays at zero for ever */
		.next_ms = now_ms,
	};
	state->pause_ms = state->times.pause_ms;
}

static void go_up(struct box_line_schedule *state, uint64_t now_ms)
{
	state->phase = BOX_LINE_UP;
	state->up_ms = now_ms;
	state->next_ms = now_ms + (uint64_t)state->times.ping_interval_ms;
	state->pinged = false;
	state->failures = 0;
}

void box_line_schedule_init_up(
	struct box_line_schedule *state, const struct box_line_times *times, uint64_t now_ms)
{
	box_line_schedule_init(state, times, 1, now_ms);
	state->once = true;
	go_up(state, now_ms);
}

/* xorshift64: not for secrets, it only has to differ between clients. */
static uint64_t next_random(struct box_line_schedule *state)
{
	state->random ^= state->random << 13;
	state->random ^= state->random >> 7;
	state->random ^= state->random << 17;
	return state->random;
}

static int64_t take_pause(struct box_line_schedule *state)
{
	int64_t pause = state->pause_ms;
	int64_t most = state->times.pause_max_ms;
	int64_t span = pause / 100 * state->times.jitter_percent +
		pause % 100 * state->times.jitter_percent / 100;
	state->pause_ms = pause > most / 2 ? most : 2 * pause;
	return pause - span + (int64_t)(next_random(state) % (uint64_t)(2 * span + 1));
}

static void lose(struct box_line_schedule *state, uint64_t now_ms)
{
	bool lasted = state->phase == BOX_LINE_UP &&
		now_ms - state->up_ms >= (uint64_t)state->times.ping_interval_ms;
	if (lasted) {
		state->pause_ms = state->times.pause_ms;
	}
	state->phase = state->once ? BOX_LINE_OVER : BOX_LINE_WAITING;
	state->next_ms = now_ms + (uint64_t)take_pause(state);
}

static void end_ping(struct box_line_schedule *state, bool good, uint64_t now_ms)
{
	if (state->phase == BOX_LINE_UP && state->pinged) {
		state->pinged = false;
		state->failures = good ? 0 : state->failures + 1;
		state->next_ms = now_ms + (uint64_t)state->times.ping_interval_ms;
	}
}

void box_line_schedule_report(
	struct box_line_schedule *state, enum box_line_event event, uint64_t now_ms)
{
	switch (event) {
	case BOX_LINE_GREETED:
		if (state->phase == BOX_LINE_CONNECTING) {
			go_up(state, now_ms);
		}
		break;
	case BOX_LINE_LOST:
		if (state->phase == BOX_LINE_CONNECTING || state->phase == BOX_LINE_UP) {
			lose(state, now_ms);
		}
		break;
	case BOX_LINE_PONG:
		end_ping(state, true, now_ms);
		break;
	case BOX_LINE_PING_REFUSED:
		end_ping(state, false, now_ms);
		break;
	case BOX_LINE_HEARD:
		state->failures = 0;
		break;
	}
}

static enum box_line_due due_up(struct box_line_schedule *state, uint64_t now_ms)
{
	if (state->pinged && now_ms >= state->next_ms) {
		end_ping(state, false, now_ms);
	}
	if (state->failures >= state->times.ping_failures) {
		return BOX_LINE_GIVE_UP;
	}
	if (state->pinged || now_ms < state->next_ms) {
		return BOX_LINE_NOTHING;
	}
	state->pinged = true;
	state->next_ms = now_ms + (uint64_t)state->times.ping_wait_ms;
	return BOX_LINE_PING;
}

enum box_line_due box_line_schedule_due(struct box_line_schedule *state, uint64_t now_ms)
{
	switch (state->phase) {
	case BOX_LINE_WAITING:
		if (now_ms < state->next_ms) {
			return BOX_LINE_NOTHING;
		}
		state->phase = BOX_LINE_CONNECTING;
		state->next_ms = now_ms + (uint64_t)state->times.connect_ms;
		return BOX_LINE_CONNECT;
	case BOX_LINE_CONNECTING:
		return now_ms < state->next_ms ? BOX_LINE_NOTHING : BOX_LINE_GIVE_UP;
	case BOX_LINE_UP:
		return due_up(state, now_ms);
	case BOX_LINE_OVER:
		break;
	}
	return BOX_LINE_NOTHING;
}

int64_t box_line_schedule_timeout_ms(const struct box_line_schedule *state, uint64_t now_ms)
{
	if (state->phase == BOX_LINE_OVER) {
		return -1;
	}
	if (state->phase == BOX_LINE_UP && state->failures >= state->times.ping_failures) {
		return 0;
	}
	return state->next_ms > now_ms ? (int64_t)(state->next_ms - now_ms) : 0;
}
