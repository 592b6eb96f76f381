/* Input of a managed process, from whichever client is attached. */
#include "tests/unit/lib/process_reader_fixture.h"

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
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(box_process_write_input(one.reader, box_str("abc")), 0);
	ASSERT_INT(box_process_write_input(one.reader, box_str("de")), 0);
	expect_fed(number, "abcde");
	ASSERT_INT(box_process_input_end(one.reader), 5);
	tell_fed(number, 4);
	ASSERT_INT(one.fed, 4);
	box_process_detach(one.reader);
	attach_and_read(&two, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(two.input, 5);
	ASSERT_INT(box_process_write_input(two.reader, box_str("")), 0);
	ASSERT_INT(played_of(number)->eofs, 1);
	ASSERT_INT(box_process_write_input(two.reader, box_str("late")), -EPIPE);
	/* A client that resumes may repeat the end of input. */
	ASSERT_INT(box_process_write_input(two.reader, box_str("")), 0);
	ASSERT_INT(box_process_write_input(two.reader, box_str("late")), -EPIPE);
	expect_fed(number, "abcde");
	box_process_detach(two.reader);
	finish_processes();
}

/* At most 256 KiB are in flight; the rest follows as input is taken, and then the end. */
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
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(box_process_write_input(one.reader, (struct box_str){bytes, size}), 0);
	ASSERT_INT(box_process_write_input(one.reader, box_str("")), 0);
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

/* Pending input is limited; a refused piece is not taken in part. */
TEST(too_much_input)
{
	struct reading one = {0};
	uint32_t number = started();
	char *bytes = calloc(1, BOX_MIB);
	ASSERT(bytes);
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	int r = 0;
	int given = 0;
	while ((r = box_process_write_input(one.reader, (struct box_str){bytes, BOX_MIB})) == 0) {
		given++;
	}
	ASSERT_INT(r, -ENOBUFS);
	ASSERT_INT(given, BOX_PROCESS_INPUT_BYTES_MAX / BOX_MIB);
	ASSERT_INT(box_process_input_end(one.reader), (uint64_t)given * BOX_MIB);
	ASSERT(box_process_input_full(one.reader));
	/* It continues once some input is taken. */
	for (uint64_t taken = 64 * KIB; taken <= 10 * BOX_MIB; taken += 64 * KIB) {
		tell_fed(number, taken);
	}
	ASSERT_INT(box_process_write_input(one.reader, (struct box_str){bytes, BOX_MIB}), 0);
	free(bytes);
	box_process_detach(one.reader);
	finish_processes();
}

/* All pending input together is limited, too; beyond that each process has its own minimum. */
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
		box_process_read(all[i].reader, BOX_PROCESS_FROM_UNCONFIRMED);
		ASSERT(!box_process_input_full(all[i].reader));
		int r = box_process_write_input(all[i].reader, most);
		refused += r == -EAGAIN;
		ASSERT(r == 0 || r == -EAGAIN);
		r = r < 0 ? box_process_write_input(all[i].reader, own) : 0;
		ASSERT_INT(r, 0);
		/* A little more than its own minimum and what is in flight. */
		(void)box_process_write_input(
			all[i].reader, (struct box_str){own.bytes, WINDOW + KIB});
		full += box_process_input_full(all[i].reader);
	}
	ASSERT_INT(refused, PROCESSES - BOX_INPUTS_BYTES_MAX / (32 * BOX_MIB));
	ASSERT_INT(full, PROCESSES);
	/* A process's pending input goes with it. */
	for (size_t i = 0; i < PROCESSES; i++) {
		box_process_detach(all[i].reader);
	}
	tell_exit(1, 0, 0);
	struct box_process_op *op = NULL;
	ASSERT_INT(box_process_stop(process_of("s", "p0"), on_op, NULL, &op), 0);
	struct reading last = {0};
	last.reader = box_process_attach(process_of("s", "p19"), &events, &last);
	box_process_read(last.reader, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(box_process_write_input(last.reader, (struct box_str){most.bytes, 30 * BOX_MIB}),
		0);
	box_process_detach(last.reader);
	free((char *)(uintptr_t)most.bytes);
	finish_processes();
}

/* A predecessor sent input: clients continue after it, once its size is known. */
static void check_found_again(bool ended)
{
	struct reading one = {0};
	start_processes();
	headless.mark = 5;
	struct box_arena *arena = box_arena_new();
	struct box_value change = tree(arena,
		"{\"session\":{\"id\":\"" ID(
			"s") "\",\"logical\":\"s\",\"workspace\":"
			     "\"ws-108378aeed2d7cca4480d35e\",\"instance_uuid\":\"inst\","
			     "\"workspace_uuid\":\"ws\",\"backend\":"
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
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(one.attached, 0);
	ASSERT(!box_process_all_known(sessions));
	tell(3,
		(struct box_backend_process_state){.running = true,
			.freed = 100,
			.out_end = 150,
			.in_have = 40,
			.in_taken = 30,
			.in_ended = ended});
	ASSERT(box_process_all_known(sessions));
	ASSERT_INT(one.attached, 1);
	ASSERT_INT(one.offset, 100);
	ASSERT_INT(one.input, 40);
	played_of(3)->fed_len = 40;
	played_of(3)->fed = calloc(1, FED_MAX);
	ASSERT_INT(box_process_write_input(one.reader, box_str("next")), ended ? -EPIPE : 0);
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
