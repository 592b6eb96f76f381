/* Managed processes through the local backend: packets out, and which of box-init's answers are
 * accepted. */
#include "protocol/init_process.h"
#include "tests/unit/lib/local_process_fixture.h"

/* What was reported about the process. */
static struct {
	int states;
	struct box_backend_process_state state;
	char out[256];
	uint64_t first;
	uint64_t next;
	uint64_t fed;
	uint64_t skipped;
} told;

static void on_state(void *arg, const struct box_backend_process_state *state)
{
	ASSERT(arg == &told);
	told.states++;
	told.state = *state;
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	ASSERT(arg == &told && bytes.len > 0);
	ASSERT_INT(offset, told.next);
	memcpy(told.out + (offset - told.first), bytes.bytes, bytes.len);
	told.next += bytes.len;
	told.out[told.next - told.first] = '\0';
}

static void on_skipped(void *arg, uint64_t offset)
{
	ASSERT(arg == &told && offset > told.next);
	told.skipped += offset - told.next;
	told.first = told.next = offset;
}

static void on_fed(void *arg, uint64_t taken)
{
	ASSERT(arg == &told);
	told.fed = taken;
}

static const struct box_backend_process_events events = {
	.state = on_state, .output = on_output, .skipped = on_skipped, .fed = on_fed};

static void keep_one_with(int64_t log_bytes)
{
	static const char *args[] = {"-n", "", NULL};
	static struct box_env env[] = {{"A", "b"}};
	const struct box_process_spec spec = {
		.process_id = "p",
		.command = "prog",
		.args = args,
		.arg_count = 2,
		.env = env,
		.env_count = 1,
		.cwd = "/w",
		.log_bytes = log_bytes,
	};
	struct box_err err;
	struct heard heard;
	ASSERT_INT(ops->start(played.box, NUMBER, &spec, &events, &told, &err), 0);
	expect(&played, BOX_INIT_START_PROCESS, NUMBER, &heard);
	struct box_init_start_process keep;
	memcpy(&keep, heard.bytes, sizeof(keep));
	const char *strings = heard.bytes + sizeof(keep) + keep.env_size;
	ASSERT_BYTES(strings, keep.workdir_size + keep.command_size, "/w\0prog\0-n\0", 12);
	ASSERT_INT(keep.log_bytes, log_bytes);
}

static void keep_one(void)
{
	keep_one_with(0);
}

static void follow(uint64_t freed, uint64_t from, uint64_t until)
{
	struct heard heard;
	ops->follow(played.box, NUMBER,
		&(struct box_backend_process_follow){freed, from, until, 1 << 20});
	expect(&played, BOX_INIT_FOLLOW_OUTPUT, NUMBER, &heard);
	if (from != BOX_BACKEND_PROCESS_CONTINUE) {
		told.first = told.next = from;
		told.out[0] = '\0';
	}
}

static void say_out(uint64_t offset, const char *text)
{
	char bytes[300];
	memcpy(bytes, &offset, sizeof(offset));
	put_bytes(bytes + sizeof(offset), text, strlen(text));
	say(&played, BOX_INIT_PROCESS_OUTPUT, NUMBER, bytes, sizeof(offset) + strlen(text));
}

static void say_skipped(uint64_t from, uint64_t to)
{
	const struct box_init_output_skipped skipped = {from, to};
	say(&played, BOX_INIT_OUTPUT_SKIPPED, NUMBER, &skipped, sizeof(skipped));
}

static void say_fed(uint64_t taken)
{
	say(&played, BOX_INIT_STDIN_TAKEN, NUMBER, &taken, sizeof(taken));
}

static void say_state(struct box_init_process_state state)
{
	say(&played, BOX_INIT_PROCESS_STATE, NUMBER, &state, sizeof(state));
}

static void say_running(void)
{
	say_state((struct box_init_process_state){.phase = BOX_INIT_PROCESS_RUNNING, .pid = 9});
}

static void expect_lost(const char *why)
{
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, why);
	finish_box();
}

TEST(states)
{
	start_box();
	keep_one();
	say_running();
	ASSERT_INT(told.states, 1);
	ASSERT(told.state.known && told.state.running);
	say_state((struct box_init_process_state){.phase = BOX_INIT_PROCESS_ENDED,
		.end = BOX_INIT_END_SIGNAL,
		.value = 11,
		.out_ended = 1});
	ASSERT(!told.state.running && told.state.out_ended);
	ASSERT_INT(told.state.exit_code, 128 + 11);
	ASSERT_INT(told.state.reason, BOX_BACKEND_END_SIGNAL);
	/* A process cannot come back after that. */
	say_running();
	expect_lost("an ended process of it is running again");
}

TEST(ends_by_memory_and_by_failing)
{
	start_box();
	keep_one();
	say_running();
	say_kills(&played, "oom_kill 1\n");
	say_state((struct box_init_process_state){
		.phase = BOX_INIT_PROCESS_ENDED, .end = BOX_INIT_END_SIGNAL, .value = 9});
	ASSERT_INT(told.state.reason, BOX_BACKEND_END_MEMORY);
	say_state((struct box_init_process_state){.phase = BOX_INIT_PROCESS_ENDED,
		.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_EXEC,
		.value = ENOENT});
	ASSERT_INT(told.state.exit_code, 127);
	ASSERT_STR(told.state.failure, "No such file or directory");
	say_state((struct box_init_process_state){.phase = BOX_INIT_PROCESS_UNKNOWN});
	ASSERT(!told.state.known);
	ASSERT_INT(played.lost, 0);
	finish_box();
}

TEST(output_as_it_may_come)
{
	start_box();
	keep_one();
	follow(0, 0, 10);
	say_out(0, "abc");
	say_out(3, "defg");
	ASSERT_STR(told.out, "abcdefg");
	say_out(3, "defg");
	say_out(9, "z");
	ASSERT_INT(told.next, 7);
	follow(5, BOX_BACKEND_PROCESS_CONTINUE, 20);
	say_out(7, "hij");
	ASSERT_INT(played.lost, 0);
	say_out(10, "0123456789x");
	expect_lost("it sent more output than allowed");
}

/* A reader has detached: output that it had requested is still in flight. It is discarded without
 * an error. */
TEST(output_on_its_way_when_a_reader_goes)
{
	start_box();
	keep_one();
	follow(0, 0, 100);
	say_out(0, "abc");
	follow(3, 3, 0);
	say_out(3, "def");
	say_out(6, "ghi");
	ASSERT_INT(told.next, 3);
	ASSERT_INT(played.lost, 0);
	/* The next reader gets it, split differently. */
	follow(3, 3, 100);
	say_out(3, "def");
	say_out(6, "g");
	ASSERT_STR(told.out, "defg");
	say_out(3, "defgh");
	ASSERT_STR(told.out, "defgh");
	say_out(8, "ij");
	ASSERT_STR(told.out, "defghij");
	/* With a smaller window than the previous reader had. */
	follow(3, 3, 5);
	say_out(3, "defgh");
	ASSERT_STR(told.out, "");
	say_out(3, "de");
	ASSERT_STR(told.out, "de");
	ASSERT_INT(played.lost, 0);
	finish_box();
}

/* A log may skip part of the next output; the window moves with it. */
TEST(output_that_a_log_skips)
{
	start_box();
	keep_one_with(64 * 1024);
	follow(0, 0, 10);
	say_out(0, "abc");
	say_skipped(2, 50); /* in flight from before */
	ASSERT_INT(told.skipped, 0);
	say_skipped(3, 100);
	ASSERT_INT(told.skipped, 97);
	/* An older request does not move it back. */
	follow(3, BOX_BACKEND_PROCESS_CONTINUE, 20);
	say_out(100, "defghij");
	ASSERT_STR(told.out, "defghij");
	say_skipped(107, 200); /* no more output is allowed */
	ASSERT_INT(told.skipped, 97);
	ASSERT_INT(played.lost, 0);
	say_out(107, "k");
	expect_lost("it sent more output than allowed");
}

TEST(output_that_must_not_be_skipped)
{
	start_box();
	keep_one();
	follow(0, 0, 10);
	say_out(0, "abc");
	say_skipped(3, 5);
	ASSERT_INT(told.skipped, 0);
	expect_lost("it skipped output of a process without a log");
}

/* The predecessor requested output: how much is unknown. */
TEST(output_of_one_that_was_found)
{
	struct heard heard;
	start_box();
	ops->adopt(played.box, NUMBER, &(struct box_backend_process_record){0}, &events, &told);
	expect(&played, BOX_INIT_QUERY_PROCESS, NUMBER, &heard);
	say_out(0, "first bytes ever");
	say_out(16, "and more");
	say_fed(3); /* the predecessor's input */
	ASSERT_INT(played.lost, 0);
	ASSERT_INT(told.next, 0);
	ASSERT_INT(told.fed, 0);
	say_state((struct box_init_process_state){.phase = BOX_INIT_PROCESS_RUNNING,
		.pid = 9,
		.out_end = 24,
		.in_have = 10,
		.in_taken = 4});
	ASSERT_INT(told.state.in_have, 10);
	follow(0, 0, 100);
	say_out(24, "on its way");
	say_out(0, "first bytes ever");
	ASSERT_STR(told.out, "first bytes ever");
	say_fed(10);
	ASSERT_INT(told.fed, 10);
	ASSERT_INT(played.lost, 0);
	finish_box();
}

TEST(input_that_was_taken)
{
	struct heard heard;
	start_box();
	keep_one();
	say_running();
	ops->feed(played.box, NUMBER, 0, box_str("abcde"));
	expect(&played, BOX_INIT_WRITE_STDIN, NUMBER, &heard);
	ASSERT_BYTES(heard.bytes + 8, heard.size - 8, "abcde", 5);
	say_fed(2);
	say_fed(5);
	ASSERT_INT(told.fed, 5);
	say_fed(6);
	expect_lost("it took input that was never sent");
}

TEST(input_goes_not_back)
{
	struct heard heard;
	start_box();
	keep_one();
	ops->feed(played.box, NUMBER, 0, box_str("abcde"));
	expect(&played, BOX_INIT_WRITE_STDIN, NUMBER, &heard);
	say_fed(4);
	say_fed(3);
	expect_lost("it took input that was never sent");
}

TEST(dropped_and_unknown)
{
	struct heard heard;
	start_box();
	keep_one();
	ops->stop(played.box, NUMBER, 5000);
	expect_packet(&played, BOX_INIT_STOP_PROCESS, NUMBER, &(uint32_t){5000}, sizeof(uint32_t));
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	/* Nothing is reported any more, and no requests are sent for a process that does not exist.
	 */
	say_running();
	say_out(0, "abc");
	say_fed(9);
	ASSERT_INT(told.states, 0);
	ASSERT_INT(played.lost, 0);
	ops->follow(played.box, NUMBER, &(struct box_backend_process_follow){0});
	ops->feed(played.box, NUMBER, 0, box_str("x"));
	ops->forget(played.box, NUMBER);
	expect_silence(&played);
	finish_box();
}

TEST(a_box_that_has_ended)
{
	static const struct box_process_spec spec = {.command = "x", .cwd = "/"};
	struct box_err err;
	start_box();
	keep_one();
	init_ends(&played);
	ASSERT_INT(played.lost, 1);
	ASSERT(ops->start(played.box, 6, &spec, &events, &told, &err) < 0);
	ASSERT_STR(err.text, "the box has ended");
	finish_box();
}

TEST(too_long)
{
	static char word[BOX_INIT_BYTES_MAX];
	const char *args[] = {word, NULL};
	struct box_process_spec spec = {.command = "x", .args = args, .arg_count = 1, .cwd = "/"};
	struct box_err err;
	start_box();
	ASSERT_INT(ops->check(played.box, &spec, &err), 0);
	memset(word, 'w', sizeof(word) - 1);
	ASSERT(ops->check(played.box, &spec, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	err.code = BOX_ERR_BOX;
	ASSERT(ops->start(played.box, 6, &spec, &events, &told, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	expect_silence(&played);
	finish_box();
}
