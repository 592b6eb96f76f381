/* What boxes and box-rpc may buffer for each other: output up to the limits of one command and of
 * all together, and requests that a box does not read. */
#include "base/limits.h"
#include "tests/unit/lib/local_fixture.h"

#define WHILE "the box ended while the command ran: "
#define TOO_MUCH "it sent more output than allowed"

/* --- output --- */

TEST(output_is_gathered_up_to_its_limit)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	struct heard heard;
	make_played(&played, 3);
	begin(&played, &spec, 10, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	say_text(&played, BOX_INIT_STDOUT, 1, "0123456");
	say_text(&played, BOX_INIT_STDERR, 1, "bad");
	say_text(&played, BOX_INIT_STDOUT, 1, "789");
	say_text(&played, BOX_INIT_STDERR, 1, "ly");
	const struct box_init_exit end = {.end = BOX_INIT_END_EXIT,
		.value = 3,
		.stdout_dropped = 5,
		.stderr_dropped = 1,
		.duration_us = 12999};
	say(&played, BOX_INIT_EXIT, 1, &end, sizeof(end));
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 3, 0);
	ASSERT_STR(ran.out, "0123456789");
	ASSERT_INT(ran.outcome.out_discarded, 5);
	ASSERT_STR(ran.errors, "badly");
	ASSERT_INT(ran.outcome.err_discarded, 1);
	ASSERT_INT(ran.outcome.duration_ms, 12);
	end_played(&played, 3);
	finish();
}

TEST(an_init_that_does_not_clip_is_given_up)
{
	for (int is_stderr = 0; is_stderr < 2; is_stderr++) {
		uint32_t kind = is_stderr ? BOX_INIT_STDERR : BOX_INIT_STDOUT;
		start();
		struct played played = {0};
		struct box_spec spec = spec_of("true");
		struct ran ran = {0};
		struct heard heard;
		make_played(&played, 3);
		begin(&played, &spec, 10, &ran);
		expect(&played, BOX_INIT_RUN, 1, &heard);
		say_text(&played, BOX_INIT_STDOUT, 1, "0123456789");
		say_text(&played, BOX_INIT_STDERR, 1, "0123456789");
		ASSERT_INT(played.lost, 0);
		say_text(&played, kind, 1, "x");
		ASSERT_INT(played.lost, 1);
		ASSERT_STR(played.why, TOO_MUCH);
		expect_failed(&ran, BOX_ERR_BOX, EPIPE, WHILE TOO_MUCH);
		end_played(&played, 3);
		finish();
	}
}

#define HOARD (64 * BOX_MIB)
#define HOARDS (BOX_OUTPUTS_BYTES_MAX / HOARD)

struct lengths {
	int calls;
	size_t out;
	size_t err;
	uint64_t out_discarded;
	uint64_t err_discarded;
};

static void on_lengths(
	void *arg, const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct lengths *lengths = arg;
	ASSERT(outcome && !err);
	*lengths = (struct lengths){lengths->calls + 1, outcome->out.len, outcome->err.len,
		outcome->out_discarded, outcome->err_discarded};
}

/* Command `id`, whose output counts with `counted` bytes. */
static void hoard(struct played *played, const struct box_spec *spec, uint32_t id, size_t counted,
	struct lengths *lengths)
{
	static char bytes[BOX_INIT_BYTES_MAX];
	struct heard heard;
	(void)backend->ops->exec(
		played->box, spec, 1000 * (int64_t)BOX_MIB, NULL, on_lengths, lengths);
	expect(played, BOX_INIT_RUN, id, &heard);
	size_t size = counted + BOX_OUTPUT_BYTES_MIN;
	for (size_t at = 0; at < size; at += sizeof(bytes)) {
		say(played, BOX_INIT_STDOUT, id, bytes, sizeof(bytes));
	}
}

/* Many commands have used up the shared limit: the next one still keeps the beginning of its
 * output. */
TEST(each_command_has_room_of_its_own)
{
	static struct lengths lengths[HOARDS + 2];
	static char bytes[BOX_OUTPUT_BYTES_MIN];
	const uint32_t last = HOARDS + 1;
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	make_played(&played, 3);
	for (uint32_t i = 1; i <= HOARDS; i++) {
		hoard(&played, &spec, i, HOARD, &lengths[i]);
	}
	hoard(&played, &spec, last, BOX_INIT_BYTES_MAX, &lengths[last]);
	for (size_t at = 0; at < sizeof(bytes); at += BOX_INIT_BYTES_MAX) {
		say(&played, BOX_INIT_STDERR, last, bytes, BOX_INIT_BYTES_MAX);
	}
	say_exit(&played, last, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(lengths[last].calls, 1);
	ASSERT_INT(lengths[last].out, BOX_OUTPUT_BYTES_MIN);
	ASSERT_INT(lengths[last].out_discarded, BOX_INIT_BYTES_MAX);
	ASSERT_INT(lengths[last].err, BOX_OUTPUT_BYTES_MIN);
	ASSERT_INT(lengths[last].err_discarded, 0);
	/* The share of an ended command is available to others again. */
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(lengths[1].out, HOARD + BOX_OUTPUT_BYTES_MIN);
	ASSERT_INT(lengths[1].out_discarded, 0);
	hoard(&played, &spec, last + 1, BOX_INIT_BYTES_MAX, &lengths[0]);
	say_exit(&played, last + 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(lengths[0].out, BOX_OUTPUT_BYTES_MIN + BOX_INIT_BYTES_MAX);
	for (uint32_t i = 2; i <= HOARDS; i++) {
		say_exit(&played, i, BOX_INIT_END_EXIT, 0);
		ASSERT_INT(lengths[i].out_discarded, 0);
	}
	end_played(&played, 3);
	finish();
}

/* --- requests --- */

#define LONG (18 * BOX_MIB)

static char *long_bytes;

static struct box_spec long_spec(void)
{
	struct box_spec spec = spec_of("");
	long_bytes = box_alloc(LONG);
	memset(long_bytes, 'x', LONG);
	spec.cmd = (struct box_str){long_bytes, LONG};
	return spec;
}

TEST(a_box_that_is_behind_gets_no_new_commands)
{
	static struct ran ran[BOX_INIT_QUEUE_RUNS_BYTES_MAX / LONG + 2];
	const size_t last = COUNT(ran) - 1;
	start();
	struct played played = {0};
	struct box_spec spec = long_spec();
	make_played(&played, 3);
	for (size_t i = 0; i <= last; i++) {
		begin(&played, &spec, 1000, &ran[i]);
	}
	turn();
	expect_failed(
		&ran[last], BOX_ERR_CAPACITY, EAGAIN, "too much data waits to be sent to the box");
	for (size_t i = 0; i < last; i++) {
		ASSERT_INT(ran[i].calls, 0);
	}
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	free(long_bytes);
	finish();
}

/* These were sent while the queue was empty. */
TEST(a_box_that_does_not_read_is_given_up)
{
	static struct box_mount mount = {
		.host_path = "/srv/a", .mount_path = "/data/a", .mode = BOX_MOUNT_RO};
	static struct ran ran[ASKED_MAX];
	start();
	struct played played = {0};
	struct box_spec spec = long_spec();
	spec.mounts = &mount;
	spec.mount_count = 1;
	make_played(&played, 3);
	for (size_t i = 0; i < COUNT(ran); i++) {
		begin(&played, &spec, 1000, &ran[i]);
	}
	for (size_t i = 0; i < COUNT(ran); i++) {
		boxd.mounts[i].done(boxd.mounts[i].arg, memory_file(""), NULL);
	}
	ASSERT_INT(played.lost, 0);
	backend->ops->cancel(ran[0].op);
	ASSERT_INT(played.lost, 0); /* not from inside the call */
	turn();
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, "it does not read its socket");
	ASSERT_INT(ran[0].calls, 0);
	for (size_t i = 1; i < COUNT(ran); i++) {
		expect_failed(&ran[i], BOX_ERR_BOX, EPIPE, WHILE "it does not read its socket");
	}
	end_played(&played, 3);
	free(long_bytes);
	finish();
}
