/* Output of managed processes in box-init: windows, what is sent again, writers that block. */
#include "tests/unit/lib/init_process_fixture.h"

TEST(nothing_comes_that_was_not_asked_for)
{
	start_child(&child);
	keep(1, "echo hello; exec sleep 1000");
	WAIT_FOR(told[1].states > 0);
	ASSERT(told[1].state.pid > 0);
	while (look(1)->out_end < 6) {
	}
	expect_silence();
	follow(1, 0, 0, 2, HOLD);
	WAIT_FOR(told[1].next == 2);
	expect_silence();
	follow(1, 0, BOX_INIT_FROM_CURRENT, 5, HOLD);
	WAIT_FOR(told[1].next == 5);
	expect_out(1, "hello");
	/* Again, from any offset that was not freed. */
	follow(1, 0, 1, 100, HOLD);
	WAIT_FOR(told[1].next == 6);
	expect_out(1, "ello\n");
	follow(1, 4, 0, 100, HOLD);
	told[1].first = told[1].next = 4;
	WAIT_FOR(told[1].next == 6);
	expect_out(1, "o\n");
	ASSERT_INT(look(1)->freed, 4);
	/* Beyond the end, and a freed offset that goes backwards. */
	follow(1, 1, 1000, 2000, HOLD);
	expect_silence();
	ASSERT_INT(look(1)->freed, 4);
	follow(1, 1000, BOX_INIT_FROM_CURRENT, 2000, HOLD);
	ASSERT_INT(look(1)->freed, 6);
	drop(1);
	stop_child(&child);
}

/* Up to its limit, and then as much as is freed. */
TEST(a_writer_blocks)
{
	start_child(&child);
	keep(1, "exec seq 1 1000000");
	follow(1, 0, 0, 0, 64 * KIB);
	while (look(1)->out_end < 64 * KIB) {
	}
	ASSERT_INT(look(1)->out_end, 64 * KIB);
	ASSERT_INT(told[1].state.phase, BOX_INIT_PROCESS_RUNNING);
	follow(1, 0, 0, ENDLESS, 64 * KIB);
	WAIT_FOR(told[1].next == 64 * KIB);
	WAIT_FOR(told[1].state.blocked); /* reported after a while */
	expect_silence();
	ASSERT_INT(look(1)->phase, BOX_INIT_PROCESS_RUNNING);
	/* Freed in odd steps, and sent again occasionally. */
	uint64_t freed = 0;
	while (told[1].state.phase == BOX_INIT_PROCESS_RUNNING || told[1].next < 6888896) {
		freed += (told[1].next - freed) / 2 + 1;
		freed = freed < told[1].next ? freed : told[1].next;
		follow(1, freed, BOX_INIT_FROM_CURRENT, ENDLESS, 64 * KIB);
		(void)take_one(10);
		ASSERT(told[1].next - freed <= 64 * KIB + 1);
	}
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(told[1].state.out_end, 6888896);
	const char *at = told[1].out;
	for (long i = 1; i <= 1000000; i++) {
		char *end;
		ASSERT_INT(strtol(at, &end, 10), i);
		at = end + 1;
	}
	stop_child(&child);
}

/* With a log no reader is needed: it ends by itself, and its last lines are kept. */
TEST(a_log_never_blocks)
{
	start_child(&child);
	keep_log = 64 * KIB;
	keep(1, "exec seq 1 1000000");
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(told[1].state.out_end, 6888896);
	ASSERT_INT(told[1].state.blocked, 0);
	ASSERT(told[1].state.freed >= 6888896 - 64 * KIB);
	/* From the oldest byte that is kept; the number of missing bytes is reported. */
	follow(1, 0, 0, 1000, 64 * KIB);
	WAIT_FOR(told[1].next >= told[1].skipped + 1000);
	ASSERT_INT(told[1].skipped, told[1].state.freed);
	ASSERT_INT(told[1].next, told[1].skipped + 1000);
	follow(1, told[1].next, BOX_INIT_FROM_CURRENT, ENDLESS, 64 * KIB);
	WAIT_FOR(told[1].next == 6888896);
	long from = strtol(told[1].out, NULL, 10);
	const char *at = told[1].out;
	for (long i = from; i <= 1000000; i++) {
		char *end;
		ASSERT_INT(strtol(at, &end, 10), i);
		at = end + 1;
	}
	/* Confirmed or not, the log is kept for others. */
	ASSERT_INT(look(1)->freed, told[1].skipped);
	stop_child(&child);
}

/* A reader that stops half-way does not block it, and learns later what it has missed. */
TEST(a_slow_reader_of_a_log)
{
	start_child(&child);
	keep_log = 64 * KIB;
	keep(1, "echo begin; read x; seq 1 100000; echo last; exec sleep 1000");
	follow(1, 0, 0, 10, 64 * KIB);
	WAIT_FOR(told[1].next == 6);
	static const char packet[] = {0, 0, 0, 0, 0, 0, 0, 0, '\n'};
	send_kind(&child, BOX_INIT_WRITE_STDIN, 1, packet, sizeof(packet));
	while (look(1)->out_end < 588895 + 6 + 5) {
	}
	uint64_t end = look(1)->out_end;
	WAIT_FOR(told[1].next >= 10);
	/* It got what it had requested, at its old offset or after the gap. */
	follow(1, told[1].next, BOX_INIT_FROM_CURRENT, told[1].next + 5, 64 * KIB);
	WAIT_FOR(told[1].skipped > 0);
	follow(1, told[1].next, BOX_INIT_FROM_CURRENT, ENDLESS, 64 * KIB);
	WAIT_FOR(told[1].next == end);
	ASSERT_BYTES(told[1].out + (end - told[1].first) - 5, 5, "last\n", 5);
	stop_child(&child);
}

/* The size of box-init's mappings. */
static long mapped_pages(void)
{
	char path[64];
	long pages = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/statm", child.pid);
	FILE *file = fopen(path, "re");
	ASSERT(file);
	ASSERT_INT(fscanf(file, "%ld", &pages), 1);
	(void)fclose(file);
	return pages;
}

/* Memory of output that was read is kept for a moment for further output, and then released. */
TEST(memory_goes_when_all_is_read)
{
	const long much = 512 * (long)KIB / sysconf(_SC_PAGESIZE);
	start_child(&child);
	keep(1, "head -c 900000 /dev/zero; exec sleep 1000");
	while (look(1)->out_end < 900000) {
	}
	long held = mapped_pages();
	follow(1, 900000, 0, ENDLESS, HOLD);
	ASSERT_INT(look(1)->freed, 900000);
	for (int i = 0; i < 100 && mapped_pages() > held - much; i++) {
		(void)take_one(100);
	}
	ASSERT(mapped_pages() <= held - much);
	drop(1);
	stop_child(&child);
}

/* Output can be requested again from any byte that was not freed, at any time. */
TEST(sent_again_while_it_writes)
{
	start_child(&child);
	keep(1, "exec seq 1 60000");
	WAIT_FOR(told[1].states > 0);
	for (uint64_t turn = 0; turn < 60; turn++) {
		uint64_t from = turn * 1000;
		while (look(1)->out_end < from + 300) {
		}
		/* Repeated output is recognized by its offset. */
		told[1].loose = true;
		follow(1, 0, from, from + 300, HOLD);
		WAIT_FOR(told[1].next == from + 300);
	}
	told[1].loose = false;
	(void)look(1);
	follow(1, 0, 0, ENDLESS, HOLD);
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	WAIT_FOR(told[1].next == told[1].state.out_end);
	ASSERT_INT(told[1].next, 348894);
	const char *at = told[1].out;
	for (long i = 1; i <= 60000; i++) {
		char *end;
		ASSERT_INT(strtol(at, &end, 10), i);
		at = end + 1;
	}
	stop_child(&child);
}

/* The last output is still there when the process ended long ago and nobody has read it. */
TEST(output_behind_the_end)
{
	start_child(&child);
	keep(1, "seq 1 20000; exit 6"); /* 108,894 bytes: more than the ring and the pipe hold */
	follow(1, 0, 0, 0, 64 * KIB);
	WAIT_FOR(told[1].state.phase == BOX_INIT_PROCESS_ENDED);
	ASSERT_INT(told[1].state.value, 6);
	ASSERT(!told[1].state.out_ended);
	follow(1, 0, 0, ENDLESS, 64 * KIB);
	WAIT_FOR(told[1].next == 64 * KIB);
	follow(1, 64 * KIB, BOX_INIT_FROM_CURRENT, ENDLESS, 64 * KIB);
	WAIT_FOR(told[1].state.out_ended && told[1].next == told[1].state.out_end);
	ASSERT_INT(told[1].next, 108894);
	stop_child(&child);
}

/* Sent without a request, and not often, however much there is. */
TEST(stderr_is_told_while_it_runs)
{
	start_child(&child);
	keep(1, "echo first >&2; read x; yes >&2");
	WAIT_FOR(strcmp(told[1].err, "first\n") == 0);
	ASSERT_INT(told[1].state.phase, BOX_INIT_PROCESS_RUNNING);
	feed(1, 0, "\n", 1);
	WAIT_FOR(told[1].err_len == BOX_INIT_STDERR_TAIL_MAX);
	int states = told[1].states;
	uint64_t begun = now_us();
	WAIT_FOR(told[1].states >= states + 3);
	ASSERT(now_us() - begun > 900000);
	drop(1);
	stop_child(&child);
}

TEST(only_the_end_of_stderr)
{
	start_child(&child);
	keep(1, "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo $i >&2; done; exec sleep 1000");
	while (look(1)->phase == BOX_INIT_PROCESS_RUNNING && !strstr(told[1].err, "9000\n")) {
	}
	ASSERT_INT(told[1].err_len, BOX_INIT_STDERR_TAIL_MAX);
	ASSERT_STR(told[1].err + BOX_INIT_STDERR_TAIL_MAX - 15, "8998\n8999\n9000\n");
	drop(1);
	stop_child(&child);
}
