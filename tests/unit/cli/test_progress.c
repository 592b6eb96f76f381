/* The progress line of a copy. */
#include "base/limits.h"
#include "cli/copy/progress.h"
#include "tests/unit/lib/test.h"

TEST(lines)
{
	static const struct {
		struct box_progress progress;
		const char *line;
	} rows[] = {
		{{32 * BOX_MIB, 64 * BOX_MIB, 2000, 80},
			"[=================>                 ]  50 %  32.0 of 64.0 MiB  16.0 MiB/s  0:02"},
		{{0, 64 * BOX_MIB, 0, 60},
			"[>                      ]   0 %  0.0 of 64.0 MiB  0.0 MiB/s"},
		{{64 * BOX_MIB, 64 * BOX_MIB, 4000, 60},
			"[=====================] 100 %  64.0 of 64.0 MiB  16.0 MiB/s"},
		/* The file grew meanwhile. */
		{{65 * BOX_MIB, 64 * BOX_MIB, 1000, 60},
			"[=====================] 100 %  65.0 of 64.0 MiB  65.0 MiB/s"},
		/* No room for a bar, or not for all figures. */
		{{32 * BOX_MIB, 64 * BOX_MIB, 2000, 50},
			" 50 %  32.0 of 64.0 MiB  16.0 MiB/s  0:02"},
		{{32 * BOX_MIB, 64 * BOX_MIB, 2000, 11}, " 50 %  32."},
		/* The total is unknown. */
		{{3 * BOX_MIB, -1, 1500, 80}, "3.0 MiB  2.0 MiB/s"},
		{{0, 0, 0, 80}, "0.0 MiB  0.0 MiB/s"},
		/* The rate is too low for an estimate. */
		{{1, 1LL << 50, 3600000, 60},
			"[>              ]   0 %  0.0 of 1073741824.0 MiB  0.0 MiB/s"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char line[BOX_PROGRESS_LINE_MAX];
		box_progress_line(&rows[i].progress, line);
		ASSERT_STR(line, rows[i].line);
	}
}

TEST(never_as_wide_as_the_terminal)
{
	for (size_t columns = 1; columns < 300; columns++) {
		char line[BOX_PROGRESS_LINE_MAX];
		const struct box_progress progress = {12345678, 987654321, 1234, columns};
		box_progress_line(&progress, line);
		ASSERT(strlen(line) < columns);
	}
}
