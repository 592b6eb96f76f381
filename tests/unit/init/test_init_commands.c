/* box-init as an ordinary child of the test: commands from RUN to EXIT. */
#include <sys/stat.h>

#include "tests/unit/lib/init_fixture.h"

TEST(ends_and_output)
{
	static const struct {
		const char *command;
		uint32_t end;
		int value;
		const char *out;
		const char *err;
	} table[] = {
		{"true", BOX_INIT_END_EXIT, 0, "", ""},
		{"exit 7", BOX_INIT_END_EXIT, 7, "", ""},
		{"exit 255", BOX_INIT_END_EXIT, 255, "", ""},
		{"echo out; echo err >&2", BOX_INIT_END_EXIT, 0, "out\n", "err\n"},
		{"kill -9 $$", BOX_INIT_END_SIGNAL, 9, "", ""},
		{"echo x; kill -TERM $$", BOX_INIT_END_SIGNAL, 15, "x\n", ""},
		{"kill -34 $$", BOX_INIT_END_SIGNAL, 34, "", ""},
		{"nosuch 2>/dev/null", BOX_INIT_END_EXIT, 127, "", ""},
		{"cat", BOX_INIT_END_EXIT, 0, "", ""},
		{"pwd; echo $0 $#", BOX_INIT_END_EXIT, 0, "/\nsh 0\n", ""},
		{"cd /proc/self/fd; for fd in [0-9] [0-9][0-9]; do [ -e $fd ] && [ $fd != 10 ] && "
		 "echo $fd; done; true",
			BOX_INIT_END_EXIT, 0, "0\n1\n2\n", ""},
		{"umask", BOX_INIT_END_EXIT, 0, "0022\n", ""},
		{"ulimit -c 0; kill -SEGV $$", BOX_INIT_END_SIGNAL, 11, "", ""},
	};
	struct child child;
	start_child(&child);
	for (uint32_t i = 0; i < COUNT(table); i++) {
		struct outcome *outcome = run_one(
			&child, i + 1, (struct asked){.command = table[i].command});
		if (outcome->end.end != table[i].end || outcome->end.value != table[i].value) {
			TEST_FAIL("row %" PRIu32 ": end %" PRIu32 " value %" PRId32, i,
				outcome->end.end, outcome->end.value);
		}
		ASSERT_OUT(outcome, table[i].out);
		ASSERT_STR(outcome->err, table[i].err);
		ASSERT(!outcome->started);
		ASSERT_INT(outcome->end.stdout_dropped + outcome->end.stderr_dropped, 0);
	}
	stop_child(&child);
}

TEST(order_of_output)
{
	struct child child;
	start_child(&child);
	struct outcome *outcome = run_one(&child, 1, (struct asked){.command = "seq 1 200000"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	const char *at = outcome->out;
	for (long i = 1; i <= 200000; i++) {
		char *end;
		ASSERT_INT(strtol(at, &end, 10), i);
		ASSERT_INT(*end, '\n');
		at = end + 1;
	}
	ASSERT_INT(at - outcome->out, outcome->out_len);
	stop_child(&child);
}

/* No capability in any set, no new privileges, clean signals, killed before box-init. */
TEST(posture)
{
	struct child child;
	start_child(&child);
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){
			.command = "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|SigBlk|SigIgn)' "
				   "/proc/self/status"});
	ASSERT_OUT(outcome,
		"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
		"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
		"CapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n"
		"NoNewPrivs:\t1\n");
	char command[128];
	(void)snprintf(command, sizeof(command),
		"sleep 0.2; expr $(cat /proc/self/oom_score_adj) - $(cat /proc/%d/oom_score_adj)",
		child.pid);
	outcome = run_one(&child, 1, (struct asked){.command = command});
	ASSERT_OUT(outcome, "200\n");
	outcome = run_one(&child, 1,
		(struct asked){.command = "ps -o sid=,pgid= -p $$ | "
					  "{ read s g; expr $s - $$ + $g - $$; }"});
	ASSERT_OUT(outcome, "0\n");
	stop_child(&child);
}

TEST(environment)
{
	static const char *const env[] = {"A=1", "B=", "LONG=a b=c\n'd'", NULL};
	static const char *const none[] = {NULL};
	struct child child;
	start_child(&child);
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){.command = "/usr/bin/env\0",
			.command_size = 13,
			.flags = BOX_INIT_RUN_ARGV,
			.env = env});
	ASSERT_OUT(outcome, "A=1\nB=\nLONG=a b=c\n'd'\n");
	outcome = run_one(&child, 1,
		(struct asked){.command = "/usr/bin/env\0",
			.command_size = 13,
			.flags = BOX_INIT_RUN_ARGV,
			.env = none});
	ASSERT_OUT(outcome, "");
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	stop_child(&child);
}

TEST(arguments)
{
	static const char printf_args[] = "/usr/bin/printf\0[%s]\0a b\0\0c";
	static const char missing[] = "/nosuch/program\0x";
	static const char folder[] = "/tmp";
	struct child child;
	start_child(&child);
	struct asked asked = {.command = printf_args,
		.command_size = sizeof(printf_args),
		.flags = BOX_INIT_RUN_ARGV};
	ASSERT_OUT(run_one(&child, 1, asked), "[a b][][c]");
	asked.command = missing;
	asked.command_size = sizeof(missing);
	struct outcome *outcome = run_one(&child, 1, asked);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, ENOENT);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_EXEC);
	asked.command = folder;
	asked.command_size = sizeof(folder);
	outcome = run_one(&child, 1, asked);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EACCES);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_EXEC);
	/* The last one has no NUL. */
	asked.command = "/bin/true";
	asked.command_size = 9;
	outcome = run_one(&child, 1, asked);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);
	stop_child(&child);
}

TEST(text_with_a_nul)
{
	struct child child;
	start_child(&child);
	ASSERT_OUT(
		run_one(&child, 1, (struct asked){.command = "echo a", .command_size = 7}), "a\n");
	struct outcome *outcome = run_one(
		&child, 1, (struct asked){.command = "echo a\0b", .command_size = 8});
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);
	outcome = run_one(&child, 1, (struct asked){.command = "true", .workdir = "relative"});
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EINVAL);
	stop_child(&child);
}

TEST(workdir_is_made)
{
	char folder[] = "/tmp/init_workdir_XXXXXX";
	char path[128];
	ASSERT(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/a/b c/d", folder);
	struct child child;
	start_child(&child);
	struct outcome *outcome = run_one(
		&child, 1, (struct asked){.command = "pwd; stat -c %a .", .workdir = path});
	char expected[160];
	(void)snprintf(expected, sizeof(expected), "%s\n755\n", path);
	ASSERT_OUT(outcome, expected);
	outcome = run_one(&child, 1, (struct asked){.command = "pwd", .workdir = path});
	*strrchr(expected, '7') = '\0';
	ASSERT_OUT(outcome, expected);
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	outcome = run_one(&child, 1, (struct asked){.command = command});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	stop_child(&child);
}

TEST(workdir_that_cannot_be)
{
	static const struct {
		const char *path;
		int errnum;
	} table[] = {
		{"/proc/nosuch/folder", ENOENT},
		{"/dev/null", ENOTDIR},
		{"/dev/null/x", ENOTDIR},
		{"/proc/self/fd/3", ENOENT},
		{"/proc/self/fd/6", ENOENT},
		{"/proc/self/fd/1", ENOTDIR},
	};
	struct child child;
	start_child(&child);
	for (size_t i = 0; i < COUNT(table); i++) {
		struct outcome *outcome = run_one(
			&child, 1, (struct asked){.command = "true", .workdir = table[i].path});
		ASSERT_END(outcome, BOX_INIT_END_FAILED, table[i].errnum);
		ASSERT_INT(outcome->end.step, BOX_INIT_STEP_WORKDIR);
	}
	stop_child(&child);
}

TEST(timeout_with_the_output_so_far)
{
	struct child child;
	start_child(&child);
	uint64_t begin = now_us();
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){.command = "echo before; sleep 30 & sleep 30; echo after",
			.timeout_ms = 150});
	uint64_t took = now_us() - begin;
	ASSERT_END(outcome, BOX_INIT_END_TIMEOUT, 0);
	ASSERT_OUT(outcome, "before\n");
	ASSERT(took >= 150000 && took < 5000000);
	ASSERT(outcome->end.duration_us >= 150000);
	/* One that ends in time, and one with the longest timeout. */
	outcome = run_one(&child, 1, (struct asked){.command = "true", .timeout_ms = 10000});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	outcome = run_one(&child, 1, (struct asked){.command = "true", .timeout_ms = UINT64_MAX});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	stop_child(&child);
}

/* With a grace period SIGTERM is sent first; processes that ignore it are killed, also after the
 * command itself has ended. Each that survived would write its mark later. */
TEST(timeout_with_a_grace)
{
	static const struct {
		const char *command, *out;
		uint32_t grace_ms;
		bool waits; /* until it is killed */
	} table[] = {
		{"trap 'echo bye; exit 0' TERM; sleep 30 & wait", "bye\n", 20000, false},
		{"trap '' TERM; sleep 30; sleep 30", "", 500, true},
		{"(trap '' TERM; sleep 1.2; touch /tmp/box-grace-$PPID) & sleep 30", "", 20000,
			false},
		{"kill -STOP $$; echo never", "", 20000, false},
	};
	struct child child;
	start_child(&child);
	for (uint32_t i = 0; i < COUNT(table); i++) {
		uint64_t begin = now_us();
		struct outcome *outcome = run_one(&child, i + 1,
			(struct asked){.command = table[i].command,
				.timeout_ms = 150,
				.grace_ms = table[i].grace_ms});
		uint64_t took = now_us() - begin;
		ASSERT_END(outcome, BOX_INIT_END_TIMEOUT, 0);
		ASSERT_OUT(outcome, table[i].out);
		ASSERT(took >= (table[i].waits ? 650000U : 150000U) && took < 15000000);
	}
	struct outcome *outcome = run_one(
		&child, 9, (struct asked){.command = "sleep 1.3; rm /tmp/box-grace-$PPID"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 1);
	stop_child(&child);
}

/* Two timeouts, the later one requested first. */
TEST(timeouts_side_by_side)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "sleep 30", .timeout_ms = 400});
	ask(&child, 2, (struct asked){.command = "sleep 30", .timeout_ms = 100});
	ask(&child, 3, (struct asked){.command = "sleep 0.7; echo done", .timeout_ms = 20000});
	ASSERT_END(collect(&child, 2), BOX_INIT_END_TIMEOUT, 0);
	ASSERT(!outcome_of(1)->ended);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_TIMEOUT, 0);
	ASSERT(!outcome_of(3)->ended);
	ASSERT_END(collect(&child, 3), BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome_of(3), "done\n");
	stop_child(&child);
}

TEST(a_gibibyte_is_dropped)
{
	struct child child;
	start_child(&child);
	uint64_t begin = now_us();
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){
			.command = "head -c 1073741824 /dev/zero; echo x >&2", .limit = 1000});
	uint64_t took = now_us() - begin;
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome->out_len, 1000);
	ASSERT_INT(outcome->end.stdout_dropped, 1073741824 - 1000);
	ASSERT_INT(outcome->end.stderr_dropped, 0);
	ASSERT_STR(outcome->err, "x\n");
	(void)fprintf(stderr, "# 1 GiB dropped in %" PRIu64 " ms\n", took / 1000);
	outcome = run_one(&child, 2, (struct asked){.command = "echo 12345", .limit = UINT64_MAX});
	ASSERT_OUT(outcome, "");
	ASSERT_INT(outcome->end.stdout_dropped, 6);
	stop_child(&child);
}

/* Processor time so far. */
static uint64_t busy_us(const struct child *child)
{
	char path[64];
	uint64_t ns = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", child->pid);
	FILE *file = fopen(path, "re");
	ASSERT(file && fscanf(file, "%" SCNu64, &ns) == 1);
	ASSERT_INT(fclose(file), 0);
	return ns / 1000;
}

TEST(credit_stops_and_goes)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "head -c 1000000 /dev/zero", .credit = 5});
	struct outcome *outcome = outcome_of(1);
	while (receive(&child, 300)) {
	}
	ASSERT_INT(outcome->out_len, 5);
	send_number(&child, BOX_INIT_CREDIT, 1, 100000);
	while (receive(&child, 300)) {
	}
	ASSERT_INT(outcome->out_len, 100005);
	ASSERT(!outcome->ended);
	send_number(&child, BOX_INIT_CREDIT, 1, UINT64_MAX);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome->out_len, 1000000);
	/* A command that has ended, with unsent output. */
	ask(&child, 2, (struct asked){.command = "echo 12345; echo 678 >&2", .credit = UINT64_MAX});
	ASSERT(!receive(&child, 300));
	send_number(&child, BOX_INIT_CREDIT, 2, 6);
	while (receive(&child, 300)) {
	}
	ASSERT_OUT(outcome_of(2), "12345\n");
	ASSERT(!outcome_of(2)->ended);
	/* It waits without using the processor, whatever others write to its pipes meanwhile. */
	ask(&child, 4,
		(struct asked){
			.command = "(sleep 0.1; echo late >&2) & echo 4", .credit = UINT64_MAX});
	(void)usleep(250000);
	uint64_t busy = busy_us(&child);
	(void)usleep(300000);
	ASSERT(busy_us(&child) - busy < 20000);
	send_number(&child, BOX_INIT_CREDIT, 4, UINT64_MAX);
	ASSERT_END(collect(&child, 4), BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome_of(4), "4\n");
	send_number(&child, BOX_INIT_CREDIT, 2, 4);
	ASSERT_END(collect(&child, 2), BOX_INIT_END_EXIT, 0);
	ASSERT_STR(outcome_of(2)->err, "678\n");
	/* No output needs no credit. */
	ask(&child, 3, (struct asked){.command = "true", .credit = UINT64_MAX});
	ASSERT_END(collect(&child, 3), BOX_INIT_END_EXIT, 0);
	stop_child(&child);
}

/* Output of a killed command is dropped: its EXIT does not wait for credit. */
TEST(a_kill_needs_no_credit)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "yes", .credit = 5});
	while (receive(&child, 300)) {
	}
	ASSERT_INT(outcome_of(1)->out_len, 5);
	send_kind(&child, BOX_INIT_KILL, 1, NULL, 0);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_SIGNAL, SIGKILL);
	ASSERT_INT(outcome_of(1)->out_len, 5);
	/* One that has ended already. */
	ask(&child, 2, (struct asked){.command = "echo 1234; echo 567 >&2", .credit = 1});
	while (receive(&child, 300)) {
	}
	ASSERT(!outcome_of(2)->ended);
	send_kind(&child, BOX_INIT_KILL, 2, NULL, 0);
	ASSERT_END(collect(&child, 2), BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome_of(2)->end.stdout_dropped, 4);
	ASSERT_INT(outcome_of(2)->end.stderr_dropped, 4);
	stop_child(&child);
}

/* The reader is slow: everything must arrive, and timeouts still work meanwhile. */
TEST(a_slow_reader)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "head -c 4000000 /dev/zero"});
	ask(&child, 2, (struct asked){.command = "head -c 4000000 /dev/zero"});
	ask(&child, 3, (struct asked){.command = "sleep 30", .timeout_ms = 100});
	ask(&child, 4, (struct asked){.command = "echo four"});
	(void)usleep(500000);
	for (uint32_t id = 1; id <= 4; id++) {
		(void)collect(&child, id);
	}
	ASSERT_INT(outcome_of(1)->out_len, 4000000);
	ASSERT_INT(outcome_of(2)->out_len, 4000000);
	ASSERT_END(outcome_of(3), BOX_INIT_END_TIMEOUT, 0);
	ASSERT(outcome_of(3)->end.duration_us < 450000);
	ASSERT_OUT(outcome_of(4), "four\n");
	stop_child(&child);
}

TEST(side_by_side)
{
	struct child child;
	start_child(&child);
	uint64_t begin = now_us();
	for (uint32_t id = 1; id <= 64; id++) {
		char command[64];
		(void)snprintf(command, sizeof(command),
			"sleep 0.5; echo %" PRIu32 "; exit %" PRIu32, id, id);
		ask(&child, id, (struct asked){.command = command});
	}
	for (uint32_t id = 1; id <= 64; id++) {
		char expected[16];
		(void)snprintf(expected, sizeof(expected), "%" PRIu32 "\n", id);
		struct outcome *outcome = collect(&child, id);
		ASSERT_END(outcome, BOX_INIT_END_EXIT, (int)id);
		ASSERT_OUT(outcome, expected);
	}
	/* One after the other they would take 32 seconds. */
	ASSERT(now_us() - begin < 16000000);
	stop_child(&child);
}

TEST(a_command_of_megabytes)
{
	enum {
		SIZE = 5 * 1024 * 1024
	};
	static const char tail[] = "\necho end; exit 9";
	char *text = malloc(SIZE);
	ASSERT(text);
	memset(text, 'x', SIZE);
	text[0] = '#';
	memcpy(text + SIZE - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
	struct child child;
	start_child(&child);
	struct outcome *outcome = run_one(
		&child, 1, (struct asked){.command = text, .command_size = SIZE});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 9);
	ASSERT_OUT(outcome, "end\n");
	free(text);
	stop_child(&child);
}

/* Around the size at which the text is passed differently, nothing else may change. */
TEST(long_texts_behave_as_short_ones)
{
	static const struct {
		const char *tail;
		uint32_t end;
		int value;
		const char *out;
	} table[] = {
		{"exit 3", BOX_INIT_END_EXIT, 3, ""},
		{"false", BOX_INIT_END_EXIT, 1, ""},
		{"set -e; false; echo no", BOX_INIT_END_EXIT, 1, ""},
		{"if then", BOX_INIT_END_EXIT, 2, ""},
		{"echo $0 $#; nosuch", BOX_INIT_END_EXIT, 127, "sh 0\n"},
		{"kill -9 $$", BOX_INIT_END_SIGNAL, 9, ""},
		{"trap 'echo bye' EXIT; exit 5", BOX_INIT_END_EXIT, 5, "bye\n"},
		{"[ -e /proc/self/fd/3 ] && echo open; cat; exit 4", BOX_INIT_END_EXIT, 4, ""},
	};
	static const size_t sizes[] = {1000, 102400, 102401, 131072, 300000};
	static char text[300000];
	struct child child;
	start_child(&child);
	for (size_t i = 0; i < COUNT(table) * COUNT(sizes); i++) {
		size_t size = sizes[i % COUNT(sizes)];
		size_t row = i / COUNT(sizes);
		size_t len = strlen(table[row].tail);
		memset(text, ' ', size);
		put_bytes(text + size - len, table[row].tail, len);
		struct outcome *outcome = run_one(
			&child, 1, (struct asked){.command = text, .command_size = size});
		if (outcome->end.end != table[row].end || outcome->end.value != table[row].value) {
			TEST_FAIL("\"%s\" of %zu bytes: end %" PRIu32 " value %" PRId32,
				table[row].tail, size, outcome->end.end, outcome->end.value);
		}
		ASSERT_OUT(outcome, table[row].out);
	}
	stop_child(&child);
}
