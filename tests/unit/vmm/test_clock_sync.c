/* How a guest's clock is kept in step with the host's: what is asked, when it is stepped, and that
 * delays cause no wrong step. */
#include "tests/unit/lib/test.h"
#include "vmm/bridge/clock_sync.h"

#define MS 1000000ULL
#define SEC (1000 * MS)
#define DAY (86400 * SEC)

static const uint64_t noon = 1700000000ULL * SEC;

static struct box_clock_sync timing;

static struct box_clock_sync_clocks at(uint64_t since_ns)
{
	return (struct box_clock_sync_clocks){
		.real_ns = noon + since_ns, .steady_ns = 77 * SEC + since_ns};
}

/* Asks at `since`. The guest, whose clock is `ahead`, reads it after `there`, and its answer
 * arrives after `back`. */
static void exchange(uint64_t since, uint64_t there, uint64_t back, int64_t ahead)
{
	struct box_clock_sync_clocks now = at(since);
	struct box_microvm_clock clock = box_clock_sync_next(&timing, &now);
	ASSERT_INT(clock.step_ns, 0);
	ASSERT(clock.token != 0);
	struct box_microvm_time time = {clock.token, noon + since + there + (uint64_t)ahead};
	now = at(since + there + back);
	box_clock_sync_take(&timing, &time, &now);
}

static int64_t step(void)
{
	struct box_clock_sync_clocks now = at(0);
	ASSERT(timing.due);
	struct box_microvm_clock clock = box_clock_sync_next(&timing, &now);
	ASSERT_INT(clock.token, 0);
	return clock.step_ns;
}

TEST(a_clock_that_is_right)
{
	ASSERT(!timing.due);
	box_clock_sync_begin(&timing);
	ASSERT(timing.due);
	exchange(0, MS, MS, 0);
	ASSERT(!timing.due);
	box_clock_sync_begin(&timing);
	exchange(SEC, MS, MS, 49 * MS);
	ASSERT(!timing.due);
}

TEST(clocks_that_are_off)
{
	static const int64_t ahead[] = {51 * MS, -51 * (int64_t)MS, 3600 * SEC,
		-3600 * (int64_t)SEC, -(int64_t)(noon - SEC)};
	for (size_t i = 0; i < COUNT(ahead); i++) {
		box_clock_sync_begin(&timing);
		exchange(0, MS, MS, ahead[i]);
		ASSERT_INT(step(), -ahead[i]);
		ASSERT(!timing.due);
	}
}

/* The guest was suspended for a day after the request: it is asked again, and only then stepped. */
TEST(a_guest_that_stood_still)
{
	box_clock_sync_begin(&timing);
	exchange(0, DAY, MS, 0);
	ASSERT(timing.due);
	exchange(DAY, MS, MS, 0);
	ASSERT(!timing.due);
	/* A guest whose clock stood still meanwhile. */
	box_clock_sync_begin(&timing);
	exchange(0, DAY, MS, -(int64_t)DAY);
	exchange(DAY, MS, MS, -(int64_t)DAY);
	ASSERT_INT(step(), DAY);
}

/* However slow the connection is, a clock that may be right is not stepped, and asking ends. */
TEST(a_slow_way)
{
	unsigned asked = 0;
	box_clock_sync_begin(&timing);
	for (; timing.due && asked < 20; asked++) {
		exchange(asked * SEC, 900 * MS, 10 * MS, 0);
	}
	ASSERT(!timing.due);
	ASSERT_INT(asked, 4);
	/* A difference that the delay cannot explain is stepped. */
	box_clock_sync_begin(&timing);
	for (asked = 0; timing.due && asked < 4; asked++) {
		exchange(asked * SEC, 900 * MS, 10 * MS, 60 * SEC);
	}
	int64_t by = step();
	ASSERT(by < -59 * (int64_t)SEC && by > -61 * (int64_t)SEC);
}

TEST(what_nobody_asked_for)
{
	struct box_clock_sync_clocks now = at(0);
	struct box_microvm_time time = {1, 5};
	box_clock_sync_take(&timing, &time, &now);
	ASSERT(!timing.due);
	box_clock_sync_begin(&timing);
	struct box_microvm_clock clock = box_clock_sync_next(&timing, &now);
	time.token = clock.token + 1;
	box_clock_sync_take(&timing, &time, &now);
	ASSERT(!timing.due);
	/* The answer to an older request does not count after a new one. */
	box_clock_sync_begin(&timing);
	(void)box_clock_sync_next(&timing, &now);
	time.token = clock.token;
	box_clock_sync_take(&timing, &time, &now);
	ASSERT(!timing.due);
}

TEST(numbers_at_their_end)
{
	static const uint64_t said[] = {0, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1};
	for (size_t i = 0; i < COUNT(said); i++) {
		struct box_clock_sync_clocks now = at(0);
		box_clock_sync_begin(&timing);
		struct box_microvm_time time = {box_clock_sync_next(&timing, &now).token, said[i]};
		box_clock_sync_take(&timing, &time, &now);
		ASSERT(step() != 0);
	}
}
