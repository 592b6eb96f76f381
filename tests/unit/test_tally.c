/* What others can cause as often as they like is told once a second. */
#include "base/tally.h"
#include "tests/unit/test.h"

TEST(the_first_at_once_and_the_rest_with_its_number)
{
	struct box_tally tally = {0};
	uint64_t count = 0;
	ASSERT(!box_tally_due(&tally, 5, &count));
	box_tally_add(&tally);
	ASSERT(box_tally_due(&tally, 5, &count));
	ASSERT_INT(count, 1);
	for (int i = 0; i < 1000; i++) {
		box_tally_add(&tally);
		ASSERT(!box_tally_due(&tally, 5 + BOX_TALLY_MS - 1, &count));
	}
	ASSERT(box_tally_due(&tally, 5 + BOX_TALLY_MS, &count));
	ASSERT_INT(count, 1000);
	ASSERT(!box_tally_due(&tally, 5 + 9 * BOX_TALLY_MS, &count));
}
