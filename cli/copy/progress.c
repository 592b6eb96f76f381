/* A line of numbers, and a bar in the space that is left. */
#include "cli/copy/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"

#define BAR_MIN 10
#define BAR_MAX 60
#define FRAME 4 /* "[] " and the last column: a letter there moves the cursor of some terminals */

static double mib(uint64_t bytes)
{
	return (double)bytes / (double)BOX_MIB;
}

/* The time left at the speed so far; nothing at the beginning. */
static void add_time_left(const struct box_progress *progress, char *figures, size_t size)
{
	uint64_t total = (uint64_t)progress->total;
	size_t len = strlen(figures);
	if (progress->done == 0 || progress->done >= total) {
		return;
	}
	double seconds = (double)(total - progress->done) / (double)progress->done *
		(double)progress->ms / 1000;
	if (seconds < 360000) {
		unsigned left = (unsigned)(seconds + 0.5);
		(void)snprintf(figures + len, size - len, "  %u:%02u", left / 60, left % 60);
	}
}

static void write_bar(char *bar, size_t width, double share)
{
	size_t full = (size_t)(share * (double)width);
	for (size_t i = 0; i < width; i++) {
		bar[i] = i < full ? '=' : i == full ? '>' : ' ';
	}
	bar[width] = '\0';
}

void box_progress_line(const struct box_progress *progress, char line[BOX_PROGRESS_LINE_MAX])
{
	char figures[128];
	char bar[BAR_MAX + 1] = "";
	double done = mib(progress->done);
	double rate = progress->ms > 0 ? done * 1000 / (double)progress->ms : 0;
	if (progress->total <= 0) {
		(void)snprintf(line, BOX_PROGRESS_LINE_MAX, "%.1f MiB  %.1f MiB/s", done, rate);
	} else {
		double share = (double)progress->done / (double)progress->total;
		share = share < 1 ? share : 1; /* the file has grown */
		(void)snprintf(figures, sizeof(figures), "%3d %%  %.1f of %.1f MiB  %.1f MiB/s",
			(int)(share * 100), done, mib((uint64_t)progress->total), rate);
		add_time_left(progress, figures, sizeof(figures));
		size_t taken = strlen(figures) + FRAME;
		size_t room = progress->columns > taken ? progress->columns - taken : 0;
		room = BOX_MIN(room, BAR_MAX);
		write_bar(bar, room, share);
		bool has_bar = room >= BAR_MIN;
		(void)snprintf(line, BOX_PROGRESS_LINE_MAX, "%s%s%s%s", has_bar ? "[" : "",
			has_bar ? bar : "", has_bar ? "] " : "", figures);
	}
	if (progress->columns > 0 && strlen(line) >= progress->columns) {
		line[progress->columns - 1] = '\0';
	}
}
