/* Events that peers can cause at will are logged once a second, with their count. */
#include "base/rate_limit.h"
#include "tests/unit/lib/test.h"

TEST(the_first_at_once_and_the_rest_with_its_number)
{
	struct box_rate_limit tally = {0};
	uint64_t count = 0;
	ASSERT(!box_rate_limit_due(&tally, 5, &count));
	box_rate_limit_count(&tally);
	ASSERT(box_rate_limit_due(&tally, 5, &count));
	ASSERT_INT(count, 1);
	for (int i = 0; i < 1000; i++) {
		box_rate_limit_count(&tally);
		ASSERT(!box_rate_limit_due(&tally, 5 + BOX_RATE_LIMIT_MS - 1, &count));
	}
	ASSERT(box_rate_limit_due(&tally, 5 + BOX_RATE_LIMIT_MS, &count));
	ASSERT_INT(count, 1000);
	ASSERT(!box_rate_limit_due(&tally, 5 + 9 * BOX_RATE_LIMIT_MS, &count));
}
