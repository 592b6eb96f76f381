/* How much a box holds where only its own box-init can look: what box-rpc asks, and which answers
 * it accepts. */
#include "protocol/init_file.h"
#include "tests/unit/lib/local_fixture.h"

static struct {
	int calls;
	int result;
	struct box_local_measured_parts parts;
} measured;

static void on_measured(void *arg, const struct box_local_measured_parts *parts, int result)
{
	(void)arg;
	measured.calls++;
	measured.result = result;
	measured.parts = *parts;
}

static struct played played;

static void begin_measure(void)
{
	struct heard heard;
	struct box_init_run run;
	struct box_init_file file;
	const char *texts[4];
	start();
	played = (struct played){0};
	make_played(&played, 7);
	box_local_measure(local, 7, on_measured, NULL);
	ASSERT_INT(measured.calls, 0);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, BOX_INIT_RUN_FILE);
	ASSERT_INT(run.timeout_ms, BOX_MEASURE_MS);
	ASSERT_INT(box_init_file_check(heard.bytes + sizeof(run) + 2, heard.size - sizeof(run) - 2,
			   &file, texts),
		0);
	ASSERT_INT(file.kind, BOX_INIT_FILE_MEASURE);
	ASSERT_STR(texts[0], "/home/box/.cache");
}

static void answer(const void *bytes, size_t size, int errnum)
{
	struct box_init_file_answer said = {.errnum = errnum, .data_size = size};
	if (size > 0) {
		say(&played, BOX_INIT_STDOUT, 1, bytes, size);
	}
	say(&played, BOX_INIT_STDERR, 1, &said, sizeof(said));
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(measured.calls, 1);
	ASSERT_INT(played.lost, 0);
	end_played(&played, 7);
	finish();
}

static const struct box_init_file_measured good = {
	.workspace = {1, 100, 2}, .cache = {0, 0, 0}, .temp = {1, INT64_MAX, 9}};

TEST(what_the_box_says)
{
	begin_measure();
	answer(&good, sizeof(good), 0);
	ASSERT_INT(measured.result, 0);
	ASSERT(measured.parts.workspace.exists && measured.parts.temp.exists);
	ASSERT(!measured.parts.cache.exists);
	ASSERT_INT(measured.parts.workspace.size_bytes, 100);
	ASSERT_INT(measured.parts.workspace.file_count, 2);
	ASSERT_INT(measured.parts.temp.size_bytes, INT64_MAX);
	ASSERT_INT(measured.parts.temp.file_count, 9);
}

TEST(what_it_could_not_measure)
{
	begin_measure();
	answer(NULL, 0, EXDEV);
	ASSERT_INT(measured.result, -EXDEV);
}

TEST(half_an_answer)
{
	begin_measure();
	answer(&good, sizeof(good) - 8, 0);
	ASSERT_INT(measured.result, -EBADMSG);
}

TEST(numbers_that_cannot_be)
{
	struct box_init_file_measured bad = good;
	bad.cache.size_bytes = UINT64_MAX;
	begin_measure();
	answer(&bad, sizeof(bad), 0);
	ASSERT_INT(measured.result, -EBADMSG);
	ASSERT_INT(measured.parts.workspace.size_bytes, 0);
}

TEST(a_box_that_ends_meanwhile)
{
	begin_measure();
	init_ends(&played);
	ASSERT_INT(measured.calls, 1);
	ASSERT_INT(measured.result, -ESRCH);
	end_played(&played, 7);
	finish();
}

TEST(no_such_box)
{
	start();
	box_local_measure(local, 8, on_measured, NULL);
	ASSERT_INT(measured.calls, 1);
	ASSERT_INT(measured.result, -ESRCH);
	finish();
}
