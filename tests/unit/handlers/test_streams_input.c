/* Requests to live commands: input in its forms, end of input, signals, and who may send them. */
#include "tests/unit/lib/stream_fixture.h"

#define UNKNOWN "BoxValidationError: exec_id names no running exec"
#define GIVEN "\"exec_id\":\"exec-1\""

static void give(struct connection *connection, int64_t seq, const char *members)
{
	char data[256];
	(void)snprintf(data, sizeof(data), GIVEN "%s%s", members[0] ? "," : "", members);
	ask(connection, seq, "box_exec_input", data);
}

/* The command "a" of request 5 runs as exec-1 and has stdin; `started` was its first part. */
static void start_reading(struct connection *connection)
{
	start_live(connection);
	stream_with(connection, 5, "a", ",\"stdin\":true");
	ASSERT(headless_find(HEADLESS_EXEC, "a")->live->has_stdin);
	headless_started("a");
	expect_part(connection, 0, 0, STARTED("exec-1"));
}

static void finish_reading(struct connection *connection)
{
	headless_ran("a", &well);
	finish_with(connection);
}

static void expect_given(int at, const char *bytes, size_t len, bool eof)
{
	ASSERT_INT(headless.input_count, at + 1);
	const struct headless_input *input = &headless.inputs[at];
	ASSERT_BYTES(input->bytes.bytes, input->bytes.len, bytes, len);
	ASSERT_INT(input->eof, eof);
}

/* --- forms --- */

TEST(input_is_answered_when_it_is_in)
{
	struct connection c = {0};
	start_reading(&c);
	give(&c, 6, "\"data\":\"abc\"");
	expect_given(0, "abc", 3, false);
	ASSERT_INT(c.count, 1);
	give(&c, 7, "\"data\":\"\xc3\xa9\"");
	expect_given(1, "\xc3\xa9", 2, false);
	headless_taken(0, NULL);
	expect_success(&c, 1, "6", "{}");
	headless_taken(1, NULL);
	expect_success(&c, 2, "7", "{}");
	finish_reading(&c);
}

TEST(input_can_be_base64)
{
	struct connection c = {0};
	start_reading(&c);
	give(&c, 6, "\"data_base64\":\"/wB6\",\"data\":null");
	expect_given(0, "\xff\x00z", 3, false);
	headless_taken(0, NULL);
	give(&c, 7, "\"data_base64\":\"\"");
	expect_success(&c, 2, "7", "{}");
	ASSERT_INT(headless.input_count, 1);
	finish_reading(&c);
}

TEST(input_can_be_bytes)
{
	struct connection c = {0};
	start_reading(&c);
	struct box_arena *arena = box_arena_new();
	struct box_value *message = box_arena_alloc(arena, sizeof(*message));
	*message = tree(arena,
		"{\"seq_id\":6,\"action\":\"box_exec_input\",\"context\":{" PLACE
		",\"placement_generation\":1}}");
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "exec_id", box_cstr("exec-1"));
	box_map_add(arena, &data, "data", box_bin((struct box_str){"\xff\x00", 2}));
	box_map_add(arena, message, "data", data);
	box_peer_receive(c.peer, arena, message, 1);
	expect_given(0, "\xff\x00", 2, false);
	headless_taken(0, NULL);
	expect_success(&c, 1, "6", "{}");
	finish_reading(&c);
}

TEST(the_end_of_input_comes_with_bytes_or_alone)
{
	struct connection c = {0};
	struct connection d = {0};
	start_reading(&c);
	give(&c, 6, "");
	expect_success(&c, 1, "6", "{}");
	give(&c, 7, "\"data\":\"\",\"eof\":false");
	expect_success(&c, 2, "7", "{}");
	ASSERT_INT(headless.input_count, 0);
	give(&c, 8, "\"eof\":true");
	expect_given(0, "", 0, true);
	expect_success(&c, 3, "8", "{}");
	give(&c, 9, "\"data\":\"late\"");
	expect_error(&c, 4, "9", "BoxValidationError: the input has ended already");
	give(&c, 10, "\"eof\":true");
	expect_error(&c, 5, "10", "BoxValidationError: the input has ended already");
	ASSERT_INT(headless.input_count, 1);
	headless_ran("a", &well);
	open_peer(&d);
	stream_with(&d, 5, "b", ",\"stdin\":true");
	headless_started("b");
	ask(&d, 6, "box_exec_input", "\"exec_id\":\"exec-2\",\"data\":\"last\",\"eof\":true");
	expect_given(1, "last", 4, true);
	headless_taken(1, NULL);
	expect_success(&d, 1, "6", "{}");
	ask(&d, 7, "box_exec_input", "\"exec_id\":\"exec-2\"");
	expect_error(&d, 2, "7", "BoxValidationError: the input has ended already");
	headless_ran("b", &well);
	close_peer(&d);
	finish_with(&c);
}

TEST(malformed_input_is_refused)
{
	static const struct {
		const char *members;
		const char *error;
	} rows[] = {
		{GIVEN ",\"data\":\"a\",\"data_base64\":\"YQ==\"",
			"BoxValidationError: data and data_base64 exclude each other"},
		{GIVEN ",\"data\":5", "BoxValidationError: data must be text or bytes"},
		{GIVEN ",\"data\":{}", "BoxValidationError: data must be text or bytes"},
		{GIVEN ",\"data_base64\":\"YQ\"", "BoxValidationError: data_base64 is not base64"},
		{GIVEN ",\"data_base64\":\"Y Q=\"",
			"BoxValidationError: data_base64 is not base64"},
		{GIVEN ",\"data_base64\":\"-_==\"",
			"BoxValidationError: data_base64 is not base64"},
		{GIVEN ",\"data_base64\":5", "ValueError: data_base64 must be str, not int"},
		{GIVEN ",\"eof\":1", "ValueError: eof must be bool, not int"},
		{"\"data\":\"a\"", "KeyError: 'exec_id'"},
		{"\"exec_id\":1", "ValueError: exec_id must be str, not int"},
		{"\"exec_id\":null", "ValueError: exec_id must be str, not null"},
		{"\"exec_id\":\"\"", UNKNOWN},
		{"\"exec_id\":\"exec-2\",\"data\":\"a\"", UNKNOWN},
	};
	struct connection c = {0};
	start_reading(&c);
	for (size_t i = 0; i < COUNT(rows); i++) {
		ask(&c, 6, "box_exec_input", rows[i].members);
		expect_error(&c, (int)i + 1, "6", rows[i].error);
	}
	/* None of these has ended the input. */
	ASSERT_INT(headless.input_count, 0);
	give(&c, 7, "\"data\":\"a\"");
	expect_given(0, "a", 1, false);
	headless_taken(0, NULL);
	finish_reading(&c);
}

TEST(a_command_without_stdin_takes_no_input)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", ",\"stdin\":false");
	headless_started("a");
	give(&c, 6, "\"data\":\"a\"");
	expect_error(&c, 1, "6", "BoxValidationError: the exec has no stdin");
	give(&c, 7, "\"eof\":true");
	expect_error(&c, 2, "7", "BoxValidationError: the exec has no stdin");
	ASSERT_INT(headless.input_count, 0);
	finish_reading(&c);
}

/* --- whose and when --- */

TEST(only_a_command_that_runs_can_be_asked)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", ",\"stdin\":true");
	give(&c, 6, "\"data\":\"early\"");
	expect_error(&c, 0, "6", UNKNOWN);
	ask(&c, 7, "box_exec_signal", GIVEN ",\"signal\":15");
	expect_error(&c, 1, "7", UNKNOWN);
	headless_started("a");
	c.congested = true;
	headless_ran("a", &well); /* over, but its end has not been sent */
	give(&c, 8, "\"data\":\"late\"");
	expect_error(&c, 3, "8", UNKNOWN);
	ask(&c, 9, "box_exec_signal", GIVEN ",\"signal\":15");
	expect_error(&c, 4, "9", UNKNOWN);
	c.congested = false;
	box_peer_drained(c.peer);
	expect_end(&c, 6);
	ASSERT_INT(headless.input_count + headless.signal_count, 0);
	finish_with(&c);
}

TEST(another_workspace_has_no_part_in_it)
{
	static const char *const actions[] = {"box_exec_input", "box_exec_signal"};
	struct connection c = {0};
	struct connection other = {0};
	start_reading(&c);
	open_peer(&other);
	for (int i = 0; i < 2; i++) {
		char text[512];
		(void)snprintf(text, sizeof(text),
			"{\"seq_id\":6,\"action\":\"%s\",\"data\":{" GIVEN
			",\"data\":\"a\",\"signal\":9},\"context\":{\"instance_uuid\":\"inst\","
			"\"workspace_uuid\":\"other\",\"placement_generation\":1}}",
			actions[i]);
		receive(&other, text);
		expect_error(&other, i, "6", UNKNOWN);
	}
	ASSERT_INT(headless.input_count + headless.signal_count, 0);
	close_peer(&other);
	finish_reading(&c);
}

TEST(another_connection_of_the_workspace_may_ask)
{
	struct connection c = {0};
	struct connection other = {0};
	start_reading(&c);
	open_peer(&other);
	give(&other, 6, "\"data\":\"a\"");
	expect_given(0, "a", 1, false);
	headless_taken(0, NULL);
	expect_success(&other, 0, "6", "{}");
	ask(&other, 7, "box_exec_signal", GIVEN ",\"signal\":2");
	expect_success(&other, 1, "7", "{}");
	ASSERT_INT(headless.last_signal, 2);
	ASSERT_INT(c.count, 1);
	close_peer(&other);
	finish_reading(&c);
}

/* --- ends --- */

TEST(input_of_a_command_that_ends_fails)
{
	struct connection c = {0};
	start_reading(&c);
	give(&c, 6, "\"data\":\"a\"");
	headless_taken(0, "the command has ended");
	expect_error(&c, 1, "6", "BoxError: the command has ended");
	headless_ran("a", &well);
	expect_end(&c, 3);
	finish_with(&c);
}

TEST(input_whose_asker_is_gone_is_forgotten)
{
	struct connection c = {0};
	struct connection other = {0};
	start_reading(&c);
	open_peer(&other);
	give(&other, 6, "\"data\":\"a\"");
	close_peer(&other);
	ASSERT(headless.inputs[0].forgotten);
	give(&c, 7, "\"data\":\"b\"");
	ask(&c, 8, "__cancel_action", "\"seq_id\":7");
	expect_success(&c, 1, "8", "{\"cancelled\":true}");
	ASSERT(headless.inputs[1].forgotten);
	ASSERT_INT(c.count, 2);
	/* The command itself keeps running. */
	ASSERT_INT(headless_count(HEADLESS_EXEC), 1);
	finish_reading(&c);
}

/* --- signals --- */

TEST(signals_have_a_range)
{
	static const struct {
		const char *number;
		const char *error; /* NULL: sent */
	} rows[] = {
		{"1", NULL},
		{"15", NULL},
		{"64", NULL},
		{"0", "BoxValidationError: signal must be 1 to 64"},
		{"65", "BoxValidationError: signal must be 1 to 64"},
		{"-9", "BoxValidationError: signal must be 1 to 64"},
		{"4294967305", "BoxValidationError: signal must be 1 to 64"},
		{"\"TERM\"", "ValueError: signal must be int, not str"},
		{"9.0", "ValueError: signal must be int, not float"},
		{"null", "ValueError: signal must be int, not null"},
	};
	struct connection c = {0};
	start_reading(&c);
	int sent = 0;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char data[128];
		(void)snprintf(data, sizeof(data), GIVEN ",\"signal\":%s", rows[i].number);
		ask(&c, 6, "box_exec_signal", data);
		if (rows[i].error) {
			expect_error(&c, (int)i + 1, "6", rows[i].error);
		} else {
			expect_success(&c, (int)i + 1, "6", "{}");
			ASSERT_INT(headless.last_signal, strtol(rows[i].number, NULL, 10));
			sent++;
		}
		ASSERT_INT(headless.signal_count, sent);
	}
	ask(&c, 6, "box_exec_signal", GIVEN);
	expect_error(&c, COUNT(rows) + 1, "6", "KeyError: 'signal'");
	ask(&c, 6, "box_exec_signal", "\"exec_id\":\"exec-9\",\"signal\":9");
	expect_error(&c, COUNT(rows) + 2, "6", UNKNOWN);
	ASSERT_INT(headless.signal_count, sent);
	finish_reading(&c);
}

/* Closing the connection cancels the stream first, then its pending input. */
TEST(an_input_outlives_its_connection)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", ",\"stdin\":true");
	headless_started("a");
	ask(&c, 6, "box_exec_input", "\"exec_id\":\"exec-1\",\"data\":\"abc\"");
	close_peer(&c);
	ASSERT(headless.inputs[0].taken == NULL);
	finish();
}
