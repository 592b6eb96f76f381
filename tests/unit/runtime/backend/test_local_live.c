/* Live commands whose bytes go in packets: output within its credit, input in pieces, signals, and
 * a box-init that exceeds what it was allowed. */
#include "tests/unit/lib/local_fixture.h"

#define PIECE BOX_INIT_BYTES_MAX
#define AT_ONCE (BOX_INIT_INPUT_MAX / 2 / PIECE) /* pieces that are not taken yet */
#define ENDED "the command has ended"
#define WHILE "the box ended while the command ran: "

static void on_started(void *arg)
{
	struct ran *ran = arg;
	ran->started++;
}

/* "o:TEXT;" or "e:TEXT;", one after the other. */
static void on_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct ran *ran = arg;
	size_t len = strlen(ran->live);
	(void)snprintf(ran->live + len, sizeof(ran->live) - len, "%c:%.*s;", is_stderr ? 'e' : 'o',
		(int)bytes.len, bytes.bytes);
}

static const struct box_backend_stream_events events = {.started = on_started, .output = on_output};

static void begin_live(
	struct played *played, const struct box_spec *spec, bool has_stdin, struct ran *ran)
{
	/* Need not live longer than the call. */
	const struct box_backend_stream live = {
		.events = &events, .has_stdin = has_stdin, .credit = 100};
	ran->op = backend->ops->exec(played->box, spec, 1000, &live, on_ran, ran);
	ASSERT(ran->op != NULL);
}

/* A box with one live command, number 1, that has stdin and has started. */
struct scene {
	struct played played;
	struct box_spec spec;
	struct ran ran;
};

static void scene_begin(struct scene *scene)
{
	struct heard heard;
	start_microvms();
	make_played(&scene->played, 3);
	scene->spec = spec_of("cat");
	begin_live(&scene->played, &scene->spec, true, &scene->ran);
	expect(&scene->played, BOX_INIT_RUN, 1, &heard);
	say(&scene->played, BOX_INIT_STARTED, 1, NULL, 0);
	ASSERT_INT(scene->ran.started, 1);
}

static void scene_end(struct scene *scene)
{
	end_played(&scene->played, 3);
	finish();
}

/* --- output --- */

TEST(a_live_command_has_credit_and_no_limit)
{
	start_microvms();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	struct heard heard;
	make_played(&played, 3);
	begin_live(&played, &spec, false, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, BOX_INIT_RUN_STDIN);
	ASSERT(run.output_limit == UINT64_MAX);
	ASSERT_INT(run.credit, 100);
	/* Without stdin it gets an empty one. */
	expect_packet(&played, BOX_INIT_INPUT, 1, "", 0);
	expect_silence(&played);
	ASSERT_INT(ran.started, 0);
	backend->ops->cancel(ran.op);
	end_played(&played, 3);
	finish();
}

TEST(output_is_told_as_it_comes)
{
	struct scene scene = {0};
	scene_begin(&scene);
	expect_silence(&scene.played);
	say_text(&scene.played, BOX_INIT_STDOUT, 1, "one");
	say_text(&scene.played, BOX_INIT_STDERR, 1, "two");
	say_text(&scene.played, BOX_INIT_STDOUT, 1, "three");
	ASSERT_STR(scene.ran.live, "o:one;e:two;o:three;");
	const struct box_init_exit end = {.end = BOX_INIT_END_EXIT, .duration_us = 5000};
	say(&scene.played, BOX_INIT_EXIT, 1, &end, sizeof(end));
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(scene.ran.outcome.duration_ms, 5);
	ASSERT_STR(scene.ran.out, "");
	ASSERT_STR(scene.ran.errors, "");
	scene_end(&scene);
}

TEST(credit_is_passed_on_and_holds_for_both_streams)
{
	static char bytes[101];
	const uint64_t ten = 10;
	struct scene scene = {0};
	scene_begin(&scene);
	memset(bytes, 'x', sizeof(bytes));
	say(&scene.played, BOX_INIT_STDOUT, 1, bytes, 60);
	say(&scene.played, BOX_INIT_STDERR, 1, bytes, 40);
	backend->ops->credit(scene.ran.op, ten);
	expect_packet(&scene.played, BOX_INIT_CREDIT, 1, &ten, sizeof(ten));
	say(&scene.played, BOX_INIT_STDOUT, 1, bytes, 10);
	ASSERT_INT(scene.played.lost, 0);
	ASSERT_INT(strlen(scene.ran.live), 110 + 3 * strlen("o:;"));
	say(&scene.played, BOX_INIT_STDERR, 1, bytes, 1);
	ASSERT_INT(scene.played.lost, 1);
	ASSERT_STR(scene.played.why, "it sent more output than allowed");
	expect_failed(&scene.ran, BOX_ERR_BOX, EPIPE, WHILE "it sent more output than allowed");
	ASSERT_INT(strlen(scene.ran.live), 110 + 3 * strlen("o:;"));
	scene_end(&scene);
}

TEST(a_cancelled_live_command_tells_nothing_more)
{
	struct scene scene = {0};
	scene_begin(&scene);
	backend->ops->cancel(scene.ran.op);
	expect_packet(&scene.played, BOX_INIT_KILL, 1, "", 0);
	say_text(&scene.played, BOX_INIT_STDOUT, 1, "late");
	say_exit(&scene.played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(scene.ran.started, 1);
	ASSERT_STR(scene.ran.live, "");
	ASSERT_INT(scene.ran.calls, 0);
	ASSERT_INT(scene.played.lost, 0);
	scene_end(&scene);
}

TEST(a_second_start_is_a_lie)
{
	struct scene scene = {0};
	scene_begin(&scene);
	say(&scene.played, BOX_INIT_STARTED, 1, NULL, 0);
	ASSERT_INT(scene.played.lost, 1);
	ASSERT_STR(scene.played.why, "it started a command twice");
	ASSERT_INT(scene.ran.started, 1);
	scene_end(&scene);
}

/* It waited for its mounts until its timeout. */
TEST(a_command_that_never_ran_starts_before_it_ends)
{
	start_microvms();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin_live(&played, &spec, true, &ran);
	say_exit(&played, 1, BOX_INIT_END_TIMEOUT, 0);
	ASSERT_INT(ran.started, 1);
	expect_ended(&ran, BOX_BACKEND_END_TIMEOUT, 0, 0);
	end_played(&played, 3);
	finish();
}

TEST(signals_are_passed_on)
{
	static const uint32_t number = 15;
	struct scene scene = {0};
	scene_begin(&scene);
	backend->ops->signal(scene.ran.op, 15);
	expect_packet(&scene.played, BOX_INIT_SIGNAL, 1, &number, sizeof(number));
	say_exit(&scene.played, 1, BOX_INIT_END_SIGNAL, 15);
	expect_ended(&scene.ran, BOX_BACKEND_END_SIGNAL, 143, 15);
	scene_end(&scene);
}

/* --- input --- */

struct taken {
	int calls;
	bool failed;
	struct box_err err;
};

static void on_taken(void *arg, const struct box_err *err)
{
	struct taken *taken = arg;
	taken->calls++;
	taken->failed = err != NULL;
	if (err) {
		taken->err = *err;
	}
}

static void give(struct scene *scene, const char *bytes, size_t size, bool eof, struct taken *taken)
{
	backend->ops->input(scene->ran.op, (struct box_str){bytes, size}, eof, on_taken, taken);
	ASSERT_INT(taken->calls, 0);
}

static void expect_in(const struct taken *taken)
{
	ASSERT_INT(taken->calls, 1);
	ASSERT(!taken->failed);
}

TEST(input_is_in_when_the_command_has_taken_it)
{
	struct scene scene = {0};
	struct taken first = {0};
	struct taken second = {0};
	scene_begin(&scene);
	give(&scene, "abc", 3, false, &first);
	give(&scene, "de", 2, true, &second);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "abc", 3);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "de", 2);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	say_taken(&scene.played, 1, 2);
	ASSERT_INT(first.calls, 0);
	say_taken(&scene.played, 1, 3);
	expect_in(&first);
	ASSERT_INT(second.calls, 0);
	say_taken(&scene.played, 1, 3);
	say_taken(&scene.played, 1, 5);
	expect_in(&second);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(first.calls + second.calls, 2);
	expect_silence(&scene.played);
	scene_end(&scene);
}

/* Pieces of the input, one after the other. */
static void expect_pieces(struct scene *scene, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		expect_packet(&scene->played, BOX_INIT_INPUT, 1, bytes + i * PIECE, PIECE);
	}
}

TEST(long_input_goes_in_pieces_as_the_command_takes_them)
{
	static char bytes[(AT_ONCE + 2) * PIECE + 10];
	struct scene scene = {0};
	struct taken taken = {0};
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (char)('a' + i % 17);
	}
	scene_begin(&scene);
	give(&scene, bytes, sizeof(bytes), true, &taken);
	expect_pieces(&scene, bytes, AT_ONCE);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, 1);
	expect_pieces(&scene, bytes + AT_ONCE * PIECE, 1);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, PIECE);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, 3 * PIECE);
	expect_pieces(&scene, bytes + (AT_ONCE + 1) * PIECE, 1);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, bytes + (AT_ONCE + 2) * PIECE, 10);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, sizeof(bytes) - 1);
	ASSERT_INT(taken.calls, 0);
	say_taken(&scene.played, 1, sizeof(bytes));
	expect_in(&taken);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	scene_end(&scene);
}

TEST(input_that_waits_keeps_its_order_and_its_end)
{
	static char bytes[(AT_ONCE + 1) * PIECE];
	struct scene scene = {0};
	struct taken first = {0};
	struct taken second = {0};
	scene_begin(&scene);
	memset(bytes, 'x', sizeof(bytes));
	give(&scene, bytes, sizeof(bytes), false, &first);
	give(&scene, "tail", 4, false, &second);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	expect_pieces(&scene, bytes, AT_ONCE);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, AT_ONCE * PIECE);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, bytes, PIECE);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "tail", 4);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	say_taken(&scene.played, 1, sizeof(bytes) + 4);
	expect_in(&first);
	expect_in(&second);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	scene_end(&scene);
}

TEST(a_mere_end_is_sent_once)
{
	struct scene scene = {0};
	scene_begin(&scene);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	expect_silence(&scene.played);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	scene_end(&scene);
}

TEST(forgotten_input_goes_in_all_the_same)
{
	static char wanted[(AT_ONCE + 1) * PIECE];
	struct scene scene = {0};
	struct taken taken = {0};
	struct taken other = {0};
	scene_begin(&scene);
	memset(wanted, 'y', sizeof(wanted));
	char *bytes = box_alloc(sizeof(wanted));
	memcpy(bytes, wanted, sizeof(wanted));
	give(&scene, bytes, sizeof(wanted), true, &taken);
	backend->ops->forget_input(scene.ran.op, &other); /* not there */
	backend->ops->forget_input(scene.ran.op, &taken);
	free(bytes);
	expect_pieces(&scene, wanted, AT_ONCE);
	say_taken(&scene.played, 1, AT_ONCE * PIECE);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, wanted, PIECE);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	say_taken(&scene.played, 1, sizeof(wanted));
	ASSERT_INT(taken.calls, 0);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(taken.calls, 0);
	scene_end(&scene);
}

TEST(input_of_a_command_that_ends_is_told_so_first)
{
	static char bytes[5 * PIECE];
	struct scene scene = {0};
	struct taken taken[3] = {{0}};
	scene_begin(&scene);
	for (size_t i = 0; i < COUNT(taken); i++) {
		give(&scene, bytes, sizeof(bytes), false, &taken[i]);
	}
	backend->ops->forget_input(scene.ran.op, &taken[1]);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&scene.ran, BOX_BACKEND_END_EXIT, 0, 0);
	for (size_t i = 0; i < COUNT(taken); i++) {
		ASSERT_INT(taken[i].calls, i == 1 ? 0 : 1);
		if (i != 1) {
			ASSERT_STR(taken[i].err.text, ENDED);
			ASSERT_INT(taken[i].err.code, BOX_ERR_BOX);
			ASSERT_INT(taken[i].err.errnum, EPIPE);
		}
	}
	scene_end(&scene);
}

TEST(input_given_before_the_command_is_sent_waits_for_it)
{
	static struct box_mount mount = {
		.host_path = "/srv/a", .mount_path = "/data/a", .mode = BOX_MOUNT_RO};
	start_microvms();
	struct scene scene = {.spec = spec_of("cat")};
	struct taken taken = {0};
	struct heard heard;
	scene.spec.mounts = &mount;
	scene.spec.mount_count = 1;
	make_played(&scene.played, 3);
	begin_live(&scene.played, &scene.spec, true, &scene.ran);
	give(&scene, "abc", 3, false, &taken);
	backend->ops->input(scene.ran.op, (struct box_str){"", 0}, true, NULL, NULL);
	backend->ops->signal(scene.ran.op, 15);
	backend->ops->credit(scene.ran.op, 11);
	expect_silence(&scene.played);
	boxd.mounts[0].done(boxd.mounts[0].arg, memory_file(""), NULL);
	expect(&scene.played, BOX_INIT_MOUNT, 1, &heard);
	ASSERT_INT(close(heard.fd), 0);
	expect(&scene.played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.credit, 111);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "abc", 3);
	expect_packet(&scene.played, BOX_INIT_INPUT, 1, "", 0);
	expect_silence(&scene.played);
	say_taken(&scene.played, 1, 3);
	expect_in(&taken);
	say_exit(&scene.played, 1, BOX_INIT_END_EXIT, 0);
	scene_end(&scene);
}

TEST(an_init_that_counts_wrongly_is_given_up)
{
	static const struct {
		uint64_t before;
		uint64_t taken;
	} rows[] = {{0, 6}, {3, 2}, {5, UINT64_MAX}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct scene scene = {0};
		struct taken taken = {0};
		boxd.make_count = 0;
		boxd.end_count = 0;
		scene_begin(&scene);
		give(&scene, "abcde", 5, false, &taken);
		say_taken(&scene.played, 1, rows[i].before);
		ASSERT_INT(scene.played.lost, 0);
		say_taken(&scene.played, 1, rows[i].taken);
		ASSERT_INT(scene.played.lost, 1);
		ASSERT_STR(scene.played.why, "it took more input than was sent");
		expect_failed(
			&scene.ran, BOX_ERR_BOX, EPIPE, WHILE "it took more input than was sent");
		ASSERT_INT(taken.calls, 1);
		scene_end(&scene);
	}
}

TEST(a_command_that_is_not_live_takes_nothing)
{
	start_microvms();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran);
	say_taken(&played, 1, 1);
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, "it took more input than was sent");
	end_played(&played, 3);
	finish();
}
