/* Who reads a managed process, one after the other, and what goes into it. */
#include "base/limits.h"
#include "tests/unit/process_play.h"

#define KIB 1024U
#define WINDOW (256 * KIB) /* of input on its way */

struct reading {
	struct box_process_reader *reader;
	int attached;
	uint64_t offset;
	uint64_t input;
	char out[128 * KIB];
	uint64_t next;
	uint64_t fed;
	int ended;
	bool with_process;
	void (*then)(struct reading *self);
};

static void on_attached(void *arg, uint64_t offset, uint64_t input)
{
	struct reading *self = arg;
	ASSERT(!self->ended);
	self->attached++;
	self->offset = self->next = offset;
	self->input = input;
	if (self->then) {
		self->then(self);
	}
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct reading *self = arg;
	ASSERT(self->attached == 1 && !self->ended);
	ASSERT_INT(offset, self->next);
	size_t at = (size_t)(offset - self->offset);
	ASSERT(at + bytes.len < sizeof(self->out));
	memcpy(self->out + at, bytes.bytes, bytes.len);
	self->next += bytes.len;
}

static void on_fed(void *arg, uint64_t taken)
{
	struct reading *self = arg;
	ASSERT(self->attached == 1 && !self->ended);
	self->fed = taken;
}

static void on_ended(void *arg, const struct box_process *process)
{
	struct reading *self = arg;
	self->ended++;
	self->with_process = process != NULL;
}

static const struct box_process_reader_events events = {
	.attached = on_attached,
	.output = on_output,
	.fed = on_fed,
	.ended = on_ended,
};

static void attach(struct reading *self, const char *id)
{
	*self = (struct reading){.then = self->then};
	self->reader = box_process_attach(process_of("s", id), &events, self);
	ASSERT_INT(self->attached, 0);
}

static void attach_and_read(struct reading *self, uint64_t from)
{
	attach(self, "default");
	box_process_read(self->reader, from);
}

static uint32_t started(void)
{
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	tell_running(number);
	return number;
}

static void expect_follow(
	uint32_t number, uint64_t freed, uint64_t from, uint64_t until, uint64_t hold)
{
	const struct box_kept_follow *follow = &played_of(number)->follow;
	ASSERT_INT(follow->freed, freed);
	ASSERT_INT(follow->from, from);
	ASSERT_INT(follow->until, until);
	ASSERT_INT(follow->hold, hold);
}

TEST(one_reader)
{
	struct reading one = {0};
	uint32_t number = started();
	attach(&one, "default");
	ASSERT_INT(played_of(number)->follows, 0);
	box_process_read(one.reader, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(one.attached, 1);
	ASSERT_INT(one.offset, 0);
	/* It says how far; the first time, from where. */
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	expect_follow(number, 0, 0, 100, 5000);
	tell_output(number, 0, "hello ");
	tell_output(number, 6, "world");
	ASSERT_STR(one.out, "hello world");
	/* What does not follow is not given. */
	tell_output(number, 6, "again");
	tell_output(number, 100, "gap");
	ASSERT_INT(one.next, 11);
	(void)box_process_confirm(one.reader, 6, 200, 6000);
	expect_follow(number, 6, BOX_KEPT_GO_ON, 200, 6000);
	/* Never back, and never more than was given. */
	ASSERT(!box_process_confirm(one.reader, 2, 200, 6000));
	box_process_tell_confirmed(one.reader);
	ASSERT_INT(played_of(number)->follow.freed, 6);
	ASSERT(!box_process_confirm(one.reader, 1000, 200, 6000));
	box_process_tell_confirmed(one.reader);
	ASSERT_INT(played_of(number)->follow.freed, 11);
	/* Gone: nothing may come, and all from what is not freed is sent again. */
	box_process_detach(one.reader);
	expect_follow(number, 11, 11, 0, 1024 * KIB);
	tell_output(number, 11, "nobody's");
	finish_processes();
}

/* Packets that nothing waits for would be as many as its output. */
TEST(what_is_confirmed_is_told_when_it_matters)
{
	static char bytes[100 * KIB];
	struct reading one = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	ASSERT(box_process_confirm(one.reader, 0, 1000 * KIB, 5000));
	ASSERT_INT(played_of(number)->follows, 1);
	memset(bytes, 'x', sizeof(bytes) - 1);
	tell_output(number, 0, bytes);
	ASSERT(!box_process_confirm(one.reader, 10, 1010 * KIB, 5000));
	ASSERT(!box_process_confirm(one.reader, 20, 1020 * KIB, 5000));
	ASSERT_INT(played_of(number)->follows, 1);
	box_process_tell_confirmed(one.reader);
	expect_follow(number, 20, BOX_KEPT_GO_ON, 1020 * KIB, 5000);
	box_process_tell_confirmed(one.reader); /* it knows */
	ASSERT_INT(played_of(number)->follows, 2);
	/* Much was confirmed; more may be held; much more may come; less may come. */
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1020 * KIB, 5000));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1020 * KIB, 5001));
	ASSERT(!box_process_confirm(one.reader, 70 * KIB, 1900 * KIB, 5001));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 2000 * KIB, 5001));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1999 * KIB, 5001));
	ASSERT_INT(played_of(number)->follows, 6);
	/* Whoever goes leaves nothing untold. */
	ASSERT(!box_process_confirm(one.reader, 71 * KIB, 1999 * KIB, 5001));
	box_process_detach(one.reader);
	expect_follow(number, 71 * KIB, 71 * KIB, 0, 1024 * KIB);
	finish_processes();
}

TEST(one_after_the_other)
{
	struct reading one = {0};
	struct reading two = {0};
	struct reading three = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&three, 0);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "abcdef");
	(void)box_process_confirm(one.reader, 2, 100, 5000);
	ASSERT_INT(two.attached + three.attached, 0);
	/* One that waits has no say. */
	int follows = played_of(number)->follows;
	(void)box_process_confirm(two.reader, 6, 100, 5000);
	ASSERT_INT(played_of(number)->follows, follows);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	ASSERT_INT(two.offset, 2);
	(void)box_process_confirm(two.reader, 0, 100, 5000);
	expect_follow(number, 2, 2, 100, 5000);
	tell_output(number, 2, "cdef");
	ASSERT_STR(two.out, "cdef");
	/* One in the middle of the line goes unnoticed. */
	box_process_detach(three.reader);
	ASSERT_INT(two.attached, 1);
	attach_and_read(&three, BOX_PROCESS_UNCONFIRMED);
	box_process_detach(two.reader);
	ASSERT_INT(three.attached, 1);
	ASSERT_INT(three.offset, 2);
	box_process_detach(three.reader);
	finish_processes();
}

TEST(from_an_offset)
{
	static const struct {
		uint64_t from;
		uint64_t offset;
	} table[] = {{0, 3}, {3, 3}, {5, 5}, {8, 8}, {9, 8}, {UINT64_MAX - 1, 8},
		{BOX_PROCESS_UNCONFIRMED, 3}};
	struct reading one = {0};
	uint32_t number = started();
	attach_and_read(&one, 0);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "01234567");
	(void)box_process_confirm(one.reader, 3, 100, 5000);
	box_process_detach(one.reader);
	for (size_t i = 0; i < COUNT(table); i++) {
		attach_and_read(&one, table[i].from);
		ASSERT_INT(one.offset, table[i].offset);
		box_process_detach(one.reader);
	}
	finish_processes();
}

/* The end is told behind the last output, not with the exit. */
TEST(the_end)
{
	struct reading one = {0};
	struct reading two = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_UNCONFIRMED);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "abc");
	tell(number, (struct box_kept_state){.exit_code = 1, .out_end = 5});
	ASSERT(!box_process_runs(process_of("s", "default")));
	ASSERT_INT(one.ended, 0);
	tell(number, (struct box_kept_state){.exit_code = 1, .out_end = 6, .out_ended = true});
	tell_output(number, 3, "d");
	ASSERT_INT(one.ended, 0);
	tell_output(number, 4, "ef");
	ASSERT_INT(one.ended, 1);
	ASSERT(one.with_process);
	ASSERT_STR(one.out, "abcdef");
	tell_output(number, 6, "more");
	/* Once, and the next one gets all of it too. */
	tell_exit(number, 1, 6);
	ASSERT_INT(one.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	(void)box_process_confirm(two.reader, 0, 100, 5000);
	tell_output(number, 0, "abcdef");
	ASSERT_INT(two.ended, 1);
	box_process_detach(two.reader);
	/* Of one that wrote nothing it is told at once. */
	number = begun("s", "default");
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	tell_exit(number, 0, 0);
	ASSERT_INT(one.ended, 1);
	box_process_detach(one.reader);
	finish_processes();
}

TEST(readers_of_one_that_goes)
{
	struct reading readers[4] = {0};
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	uint32_t number = started();
	attach_and_read(&readers[0], BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&readers[1], BOX_PROCESS_UNCONFIRMED);
	attach(&readers[2], "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	ASSERT_INT(readers[0].ended, 1);
	ASSERT_INT(readers[1].ended, 1);
	ASSERT_INT(readers[1].attached, 0);
	/* Not in line yet: told when it wants to be. */
	ASSERT_INT(readers[2].ended, 0);
	tell_exit(number, 0, 0);
	box_process_read(readers[2].reader, 0);
	ASSERT_INT(readers[2].ended, 1);
	ASSERT(!readers[2].with_process);
	/* Nothing can be done with them, and nothing goes wrong. */
	for (size_t i = 0; i < 3; i++) {
		(void)box_process_confirm(readers[i].reader, 0, 100, 5000);
		ASSERT_INT(box_process_feed(readers[i].reader, box_str("x")), -ESRCH);
		ASSERT(!box_process_input_full(readers[i].reader));
		ASSERT_INT(box_process_input_end(readers[i].reader), 0);
		box_process_skip_line(readers[i].reader, true);
		ASSERT(!box_process_skips_line(readers[i].reader));
		box_process_detach(readers[i].reader);
	}
	finish_processes();
}

TEST(readers_of_a_session_that_goes)
{
	struct reading one = {0};
	struct reading two = {0};
	struct note note = {0};
	(void)started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	attach(&two, "default");
	(void)remove_id(ID("s"), &note);
	ASSERT_INT(one.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(one.reader);
	headless_gone();
	box_process_read(two.reader, 0);
	ASSERT_INT(two.ended, 1);
	box_process_detach(two.reader);
	finish_processes();
}

static void detach_now(struct reading *self)
{
	box_process_detach(self->reader);
}

/* One that goes in the moment in which its turn comes. */
TEST(gone_at_once)
{
	struct reading one = {0};
	struct reading two = {.then = detach_now};
	struct reading three = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_UNCONFIRMED);
	attach_and_read(&three, BOX_PROCESS_UNCONFIRMED);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	ASSERT_INT(three.attached, 1);
	tell_exit(number, 0, 0);
	ASSERT_INT(three.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(three.reader);
	finish_processes();
}

/* --- input --- */

static void expect_fed(uint32_t number, const char *text)
{
	struct played *one = played_of(number);
	ASSERT_BYTES(one->fed, one->fed_len, text, strlen(text));
}

TEST(input)
{
	struct reading one = {0};
	struct reading two = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(box_process_feed(one.reader, box_str("abc")), 0);
	ASSERT_INT(box_process_feed(one.reader, box_str("de")), 0);
	expect_fed(number, "abcde");
	ASSERT_INT(box_process_input_end(one.reader), 5);
	tell_fed(number, 4);
	ASSERT_INT(one.fed, 4);
	box_process_detach(one.reader);
	attach_and_read(&two, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(two.input, 5);
	ASSERT_INT(box_process_feed(two.reader, box_str("")), 0);
	ASSERT_INT(played_of(number)->eofs, 1);
	ASSERT_INT(box_process_feed(two.reader, box_str("late")), -EPIPE);
	/* Whoever resumes may say again that it has ended. */
	ASSERT_INT(box_process_feed(two.reader, box_str("")), 0);
	ASSERT_INT(box_process_feed(two.reader, box_str("late")), -EPIPE);
	expect_fed(number, "abcde");
	box_process_detach(two.reader);
	finish_processes();
}

/* No more is on its way than 256 KiB; the rest follows as it is taken, and then the end. */
TEST(input_in_windows)
{
	struct reading one = {0};
	uint32_t number = started();
	size_t size = 600 * KIB + 7;
	char *bytes = malloc(size);
	ASSERT(bytes);
	for (size_t i = 0; i < size; i++) {
		bytes[i] = (char)(i * 31 + i / 251);
	}
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(box_process_feed(one.reader, (struct box_str){bytes, size}), 0);
	ASSERT_INT(box_process_feed(one.reader, box_str("")), 0);
	struct played *box = played_of(number);
	ASSERT_INT(box->fed_len, WINDOW);
	ASSERT_INT(box_process_input_end(one.reader), size);
	uint64_t taken = 0;
	for (uint64_t step = 1; taken < size; step = step * 3 % 50000 + 1) {
		ASSERT(box->fed_len - taken <= WINDOW);
		ASSERT_INT(box->eofs > 0, box->fed_len == size);
		taken = taken + step < box->fed_len ? taken + step : box->fed_len;
		tell_fed(number, taken);
		ASSERT_INT(one.fed, taken);
	}
	ASSERT_BYTES(box->fed, box->fed_len, bytes, size);
	ASSERT(box->eofs >= 1);
	free(bytes);
	box_process_detach(one.reader);
	finish_processes();
}

/* What nobody takes is bounded; what was refused was not taken in part. */
TEST(too_much_input)
{
	struct reading one = {0};
	uint32_t number = started();
	char *bytes = calloc(1, BOX_MIB);
	ASSERT(bytes);
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	int r = 0;
	int given = 0;
	while ((r = box_process_feed(one.reader, (struct box_str){bytes, BOX_MIB})) == 0) {
		given++;
	}
	ASSERT_INT(r, -ENOBUFS);
	ASSERT_INT(given, BOX_PROCESS_INPUT_BYTES_MAX / BOX_MIB);
	ASSERT_INT(box_process_input_end(one.reader), (uint64_t)given * BOX_MIB);
	ASSERT(box_process_input_full(one.reader));
	/* It goes on when some is taken. */
	for (uint64_t taken = 64 * KIB; taken <= 10 * BOX_MIB; taken += 64 * KIB) {
		tell_fed(number, taken);
	}
	ASSERT_INT(box_process_feed(one.reader, (struct box_str){bytes, BOX_MIB}), 0);
	free(bytes);
	box_process_detach(one.reader);
	finish_processes();
}

/* All that waits is bounded too; then each has only what is its own. */
TEST(too_much_input_for_all)
{
	enum {
		PROCESSES = 20
	};
	static struct reading all[PROCESSES];
	struct box_str most = {calloc(1, 32 * BOX_MIB), 32 * BOX_MIB};
	struct box_str own = {most.bytes, BOX_PROCESS_INPUT_BYTES_MIN};
	start_processes();
	rules.max_processes = PROCESSES;
	make_live("s");
	int refused = 0;
	int full = 0;
	for (size_t i = 0; i < PROCESSES; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "p%zu", i);
		tell_running(begun("s", box_arena_strndup(kept_arena, name, strlen(name))));
		all[i].reader = box_process_attach(process_of("s", name), &events, &all[i]);
		box_process_read(all[i].reader, BOX_PROCESS_UNCONFIRMED);
		ASSERT(!box_process_input_full(all[i].reader));
		int r = box_process_feed(all[i].reader, most);
		refused += r == -EAGAIN;
		ASSERT(r == 0 || r == -EAGAIN);
		r = r < 0 ? box_process_feed(all[i].reader, own) : 0;
		ASSERT_INT(r, 0);
		/* A little more than its own and what is on its way. */
		(void)box_process_feed(all[i].reader, (struct box_str){own.bytes, WINDOW + KIB});
		full += box_process_input_full(all[i].reader);
	}
	ASSERT_INT(refused, PROCESSES - BOX_INPUTS_BYTES_MAX / (32 * BOX_MIB));
	ASSERT_INT(full, PROCESSES);
	/* What one has goes with it. */
	for (size_t i = 0; i < PROCESSES; i++) {
		box_process_detach(all[i].reader);
	}
	tell_exit(1, 0, 0);
	struct box_process_op *op = NULL;
	ASSERT_INT(box_process_stop(process_of("s", "p0"), on_op, NULL, &op), 0);
	struct reading last = {0};
	last.reader = box_process_attach(process_of("s", "p19"), &events, &last);
	box_process_read(last.reader, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(box_process_feed(last.reader, (struct box_str){most.bytes, 30 * BOX_MIB}), 0);
	box_process_detach(last.reader);
	free((char *)(uintptr_t)most.bytes);
	finish_processes();
}

/* A predecessor sent some: whoever attaches goes on behind it, but not before that is known. */
static void check_found_again(bool ended)
{
	struct reading one = {0};
	start_processes();
	headless.mark = 5;
	struct box_arena *arena = box_arena_new();
	struct box_value change = tree(arena,
		"{\"session\":{\"id\":\"" ID("s") "\",\"logical\":\"s\",\"workspace\":"
						  "\"ws-108378aeed2d7cca4480d35e\",\"backend\":"
						  "\"headless\",\"generation\":1,\"created\":1,"
						  "\"mark\":5,\"spec\":{\"session_id\":\"s\"}},"
						  "\"process\":{\"session\":\"" ID(
							  "s") "\",\"number\":3,\"started\":1,"
							       "\"spec\":{\"command\":\"x\"}}}");
	box_sessions_replay(sessions, &change);
	box_arena_free(arena);
	headless.kept = box_alloc(sizeof(*headless.kept));
	headless.kept->mark = 5;
	headless.boxes++;
	box_sessions_adopt(sessions);
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	ASSERT_INT(one.attached, 0);
	ASSERT(!box_processes_known(sessions));
	tell(3,
		(struct box_kept_state){.running = true,
			.freed = 100,
			.out_end = 150,
			.in_have = 40,
			.in_taken = 30,
			.in_ended = ended});
	ASSERT(box_processes_known(sessions));
	ASSERT_INT(one.attached, 1);
	ASSERT_INT(one.offset, 100);
	ASSERT_INT(one.input, 40);
	played_of(3)->fed_len = 40;
	played_of(3)->fed = calloc(1, FED_MAX);
	ASSERT_INT(box_process_feed(one.reader, box_str("next")), ended ? -EPIPE : 0);
	ASSERT_INT(played_of(3)->fed_len, ended ? 40 : 44);
	(void)box_process_confirm(one.reader, 0, 500, 5000);
	expect_follow(3, 100, 100, 500, 5000);
	box_process_detach(one.reader);
	finish_processes();
}

TEST(found_again)
{
	check_found_again(false);
}

TEST(found_again_with_its_input_ended)
{
	check_found_again(true);
}

TEST(a_line_that_is_skipped)
{
	struct reading one = {0};
	struct reading two = {0};
	(void)started();
	attach_and_read(&one, BOX_PROCESS_UNCONFIRMED);
	ASSERT(!box_process_skips_line(one.reader));
	box_process_skip_line(one.reader, true);
	box_process_detach(one.reader);
	attach_and_read(&two, BOX_PROCESS_UNCONFIRMED);
	ASSERT(box_process_skips_line(two.reader));
	box_process_skip_line(two.reader, false);
	ASSERT(!box_process_skips_line(two.reader));
	box_process_detach(two.reader);
	finish_processes();
}
