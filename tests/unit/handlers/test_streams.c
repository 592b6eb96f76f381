/* Commands with live output: parts in order, backpressure of a full connection, and every way a
 * stream ends. */
#include "tests/unit/lib/stream_fixture.h"

#define CREDIT (1024UL * 1024)
#define PART_MAX (256UL * 1024)

TEST(a_stream_starts_tells_and_ends)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	const struct box_backend_stream *live = headless_find(HEADLESS_EXEC, "a")->live;
	ASSERT(!live->has_stdin);
	ASSERT_INT(live->credit, CREDIT);
	ASSERT_INT(c.count, 0);
	headless_started("a");
	say_out("a", "one");
	say_err("a", "two");
	say_out("a", "three\\n");
	ASSERT_INT(headless.credit, strlen("onetwothree\\n"));
	headless_ran("a", &well);
	expect_part(&c, 0, 0, STARTED("exec-1"));
	expect_part(&c, 1, 0, OUT("one"));
	expect_part(&c, 2, 0, ERR("two"));
	expect_part(&c, 3, 0, OUT("three\\\\n"));
	expect_part(&c, 4, 0, EXITED_WELL);
	expect_end(&c, 5);
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	finish_with(&c);
}

TEST(each_stream_has_a_name_of_its_own)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	stream_with(&c, 5, "b", "");
	headless_started("b");
	headless_started("a");
	headless_ran("b", &well);
	headless_ran("a", &well);
	stream_with(&c, 5, "c", "");
	headless_started("c");
	headless_ran("c", &well);
	expect_part(&c, 0, 0, STARTED("exec-2"));
	expect_part(&c, 1, 0, STARTED("exec-1"));
	expect_part(&c, 6, 0, STARTED("exec-3"));
	finish_with(&c);
}

TEST(each_end_is_told)
{
	static const struct {
		struct box_backend_exec_outcome outcome;
		const char *event;
	} rows[] = {
		{{.exit_code = 3, .duration_ms = 7}, EXITED("completed", "3", "exit", "null")},
		{{.reason = BOX_BACKEND_END_SIGNAL,
			 .exit_code = 143,
			 .signal = 15,
			 .duration_ms = 7},
			EXITED("completed", "143", "signal", "15")},
		{{.reason = BOX_BACKEND_END_MEMORY,
			 .exit_code = 137,
			 .signal = 9,
			 .duration_ms = 7},
			EXITED("completed", "137", "memory", "9")},
		{{.reason = BOX_BACKEND_END_TIMEOUT, .duration_ms = 7},
			EXITED("timed_out", "null", "timeout", "null")},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct connection c = {0};
		start_live(&c);
		stream_with(&c, 5, "a", "");
		headless_started("a");
		headless_ran("a", &rows[i].outcome);
		expect_part(&c, 1, 0, rows[i].event);
		expect_end(&c, 2);
		/* A timeout ends the session, too. */
		ASSERT_INT(headless_count(HEADLESS_DESTROY),
			rows[i].outcome.reason == BOX_BACKEND_END_TIMEOUT);
		finish_with(&c);
	}
}

TEST(bytes_that_are_no_text_go_as_base64)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	headless_output("a", false, "\xff\x00z", 3);
	headless_output("a", true, "\xc3", 1);
	headless_output("a", false, "\xc3\xa9", 2);
	headless_ran("a", &well);
	expect_part(&c, 1, 0, "{\"event\":\"stdout\",\"data_base64\":\"/wB6\"}");
	expect_part(&c, 2, 0, "{\"event\":\"stderr\",\"data_base64\":\"ww==\"}");
	expect_part(&c, 3, 0, OUT("\xc3\xa9"));
	finish_with(&c);
}

/* --- a codec with bytes --- */

static struct {
	int count;
	enum box_type type; /* of the last event's data */
	char bytes[16];
	size_t len;
} binary;

static int send_binary(void *arg, int codec, const struct box_value *answer)
{
	(void)arg;
	ASSERT_INT(codec, 2);
	const struct box_value *data = box_map_get(box_map_get(answer, "data"), "data");
	binary.count++;
	if (data) {
		binary.type = data->type;
		binary.len = data->str.len;
		ASSERT(data->str.len <= sizeof(binary.bytes));
		memcpy(binary.bytes, data->str.bytes, data->str.len);
	}
	return 0;
}

static bool binary_has_bytes(int codec)
{
	return codec == 2;
}

TEST(a_codec_with_bytes_gets_bytes)
{
	static const struct box_peer_ops ops = {.send = send_binary, .has_bytes = binary_has_bytes};
	struct connection c = {0};
	start_live(&c);
	struct box_peer *peer = box_peer_new(dispatch, &ops, NULL, &(struct box_peer_identity){0});
	struct box_arena *arena = box_arena_new();
	struct box_value *message = box_arena_alloc(arena, sizeof(*message));
	*message = tree(arena,
		"{\"seq_id\":5,\"action\":\"box_exec_stream\",\"data\":{\"session_id\":\"s\","
		"\"cmd\":\"a\"},\"context\":{" PLACE ",\"placement_generation\":1}}");
	box_peer_receive(peer, arena, message, 2);
	headless_started("a");
	say_out("a", "text");
	ASSERT_INT(binary.type, BOX_BIN);
	ASSERT_BYTES(binary.bytes, binary.len, "text", 4);
	headless_output("a", true, "\xff\x00", 2);
	ASSERT_INT(binary.type, BOX_BIN);
	ASSERT_BYTES(binary.bytes, binary.len, "\xff\x00", 2);
	headless_ran("a", &well);
	ASSERT_INT(binary.count, 5);
	box_peer_free(peer);
	finish_with(&c);
}

/* --- a full connection --- */

TEST(a_full_connection_holds_parts_and_their_credit)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	say_out("a", "one");
	say_out("a", "+two");
	say_err("a", "three");
	say_out("a", "four");
	headless_ran("a", &well);
	ASSERT_INT(c.count, 1);
	ASSERT_INT(headless.credit, 0);
	ASSERT_INT(box_dispatch_request_count(dispatch), 1);
	box_peer_drained(c.peer); /* a false call */
	ASSERT_INT(c.count, 1);
	c.congested = false;
	box_peer_drained(c.peer);
	/* Consecutive output of one stream has been merged into one part. */
	expect_part(&c, 1, 0, OUT("one+two"));
	expect_part(&c, 2, 0, ERR("three"));
	expect_part(&c, 3, 0, OUT("four"));
	expect_part(&c, 4, 0, EXITED_WELL);
	expect_end(&c, 5);
	finish_with(&c);
}

TEST(credit_comes_back_when_a_part_goes_out)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	say_out("a", "12345");
	ASSERT_INT(headless.credit, 0);
	c.congested = false;
	say_out("a", "67");
	ASSERT_INT(headless.credit, 7);
	expect_part(&c, 1, 0, OUT("1234567"));
	headless_ran("a", &well);
	expect_end(&c, 3);
	finish_with(&c);
}

TEST(pieces_that_alternate_are_sorted_when_there_are_many)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	for (int i = 0; i < 40; i++) {
		say_out("a", "o");
		say_err("a", "e");
	}
	c.congested = false;
	box_peer_drained(c.peer);
	ASSERT_INT(c.count, 1 + 64);
	expect_part(&c, 62, 0, ERR("e"));
	expect_part(&c, 63, 0, OUT("ooooooooo"));
	expect_part(&c, 64, 0, ERR("eeeeeeeee"));
	ASSERT_INT(headless.credit, 80);
	headless_ran("a", &well);
	finish_with(&c);
}

TEST(a_part_has_its_size)
{
	static char bytes[PART_MAX];
	struct connection c = {0};
	start_live(&c);
	memset(bytes, 'x', sizeof(bytes));
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	headless_output("a", false, bytes, PART_MAX - 1);
	headless_output("a", false, "y", 1);
	headless_output("a", false, "z", 1);
	c.congested = false;
	box_peer_drained(c.peer);
	ASSERT_INT(c.count, 3);
	ASSERT_INT(strlen(c.answers[1]) - strlen(c.answers[2]), PART_MAX - 1);
	expect_part(&c, 2, 0, OUT("z"));
	ASSERT_INT(headless.credit, PART_MAX + 1);
	headless_ran("a", &well);
	finish_with(&c);
}

/* Clients abandon a stream with a part of more than 1 MiB, and control characters take six bytes as
 * JSON text. */
TEST(a_part_of_control_characters_is_no_longer_than_a_client_takes)
{
	static char bytes[PART_MAX];
	static const struct {
		char byte;
		const char *begins;
	} rows[] = {
		{'\0', "\"data\":{\"event\":\"stdout\",\"data_base64\":\"AAAA"},
		{'\x1b', "\"data\":{\"event\":\"stdout\",\"data_base64\":\"Gxsb"},
		{'\n', "\"data\":{\"event\":\"stdout\",\"data\":\"\\n\\n"},
		{'"', "\"data\":{\"event\":\"stdout\",\"data\":\"\\\"\\\""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct connection c = {0};
		start_live(&c);
		memset(bytes, rows[i].byte, sizeof(bytes));
		stream_flowing(&c, 5, "a");
		headless_started("a");
		headless_output("a", false, bytes, sizeof(bytes));
		headless_output("a", false, bytes, 2);
		ASSERT(strlen(c.answers[1]) <= BOX_STREAM_PART_BYTES_MAX);
		ASSERT(strstr(c.answers[1], rows[i].begins));
		/* Short output stays text. */
		ASSERT(strstr(c.answers[2], "\"data\":\"\\"));
		headless_ran("a", &well);
		finish_with(&c);
	}
}

/* --- ends that were not asked for --- */

TEST(a_stream_that_never_starts_is_an_error)
{
	struct connection c = {0};
	start_with(&c);
	stream_with(&c, 5, "a", "");
	headless_make_failed(BOX_ERR_BOX, "no box");
	expect_error(&c, 0, "5", "BoxError: no box");
	stream_with(&c, 5, "b", "");
	headless_made();
	headless_run_failed("b", BOX_ERR_VALIDATION, "no workdir");
	expect_error(&c, 1, "5", "BoxValidationError: no workdir");
	stream_with(&c, 5, "c", "");
	headless_started("c");
	headless_run_failed("c", BOX_ERR_BOX, "lost");
	expect_part(&c, 2, 0, STARTED("exec-3"));
	expect_error(&c, 3, "5", "BoxError: lost");
	ask(&c, 6, "box_exec_signal", "\"exec_id\":\"exec-3\",\"signal\":9");
	expect_error(&c, 4, "6", "BoxValidationError: exec_id names no running exec");
	finish_with(&c);
}

TEST(what_cannot_be_streamed_is_refused)
{
	static const struct {
		const char *data;
		const char *error;
	} rows[] = {
		{"\"session_id\":\"s\",\"cmd\":\" \"", "BoxValidationError: cmd must not be empty"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"stdin\":1",
			"BoxValidationError: stdin must be a boolean"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"stdin\":\"true\"",
			"BoxValidationError: stdin must be a boolean"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"tty\":false",
			"BoxValidationError: tty must be null or a map of two integers, rows and cols"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"tty\":{\"rows\":24}",
			"BoxValidationError: tty must be null or a map of two integers, rows and cols"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"tty\":{\"rows\":24,\"cols\":80,\"x\":1}",
			"BoxValidationError: tty must be null or a map of two integers, rows and cols"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"tty\":{\"rows\":0,\"cols\":80}",
			"BoxValidationError: rows and cols of a tty must be 1 to 65535"},
		{"\"session_id\":\"s\",\"cmd\":\"a\",\"network\":\"on\"",
			"BoxSessionConflictError: Box session " ID("s") " already exists with "
									"network=off"},
	};
	struct connection c = {0};
	start_live(&c);
	for (size_t i = 0; i < COUNT(rows); i++) {
		ask(&c, 5, "box_exec_stream", rows[i].data);
		expect_error(&c, (int)i, "5", rows[i].error);
	}
	ASSERT_INT(headless.begun[HEADLESS_EXEC], 0);
	finish_with(&c);
}

TEST(null_members_of_a_stream_are_none)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", ",\"stdin\":null,\"tty\":null");
	ASSERT(!headless_find(HEADLESS_EXEC, "a")->live->has_stdin);
	headless_ran("a", &well);
	finish_with(&c);
}

TEST(a_stream_is_cancelled_by_its_asker)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	say_out("a", "held");
	ask(&c, 6, "__cancel_action", "\"seq_id\":5");
	expect_success(&c, 1, "6", "{\"cancelled\":true}");
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	ASSERT_INT(box_dispatch_request_count(dispatch), 0);
	c.congested = false;
	box_peer_drained(c.peer);
	ASSERT_INT(c.count, 2);
	/* A stream that only has to report its end ends, too. */
	stream_with(&c, 5, "b", "");
	c.congested = true;
	headless_ran("b", &well);
	ask(&c, 6, "__cancel_action", "\"seq_id\":5");
	expect_success(&c, 2, "6", "{\"cancelled\":true}");
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	finish_with(&c);
}

TEST(a_stream_ends_with_its_connection)
{
	struct connection c = {0};
	struct connection other = {0};
	fill_window(&c);
	open_peer(&other);
	close_peer(&c);
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	ask(&other, 6, "box_exec_signal", "\"exec_id\":\"exec-1\",\"signal\":9");
	expect_error(&other, 0, "6", "BoxValidationError: exec_id names no running exec");
	finish_with(&other);
}

TEST(a_newer_placement_ends_a_stream)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	c.congested = true;
	say_out("a", "held");
	ask_at(&c, 2, 6, "box_get_sessions", "");
	expect_error(&c, 1, "5", STALE);
	expect_success(&c, 2, "6", "{\"sessions\":[]}");
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	finish_with(&c);
}

TEST(a_session_that_is_removed_ends_its_streams)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "a", "");
	headless_started("a");
	ask(&c, 6, "box_delete_session", "\"session_id\":\"s\"");
	expect_error(&c, 1, "5",
		"BoxSessionNotFoundError: session " ID("s") " was removed while it was in use");
	headless_gone();
	expect_success(&c, 2, "6", "{\"deleted\":\"s\"}");
	finish_with(&c);
}
