/* Commands with live output whose client acknowledges parts: how many unacknowledged parts are
 * sent, and which acknowledgements count. */
#include "tests/unit/lib/stream_fixture.h"

static void acknowledge(struct connection *connection, int64_t seq, const char *data)
{
	ask(connection, seq, "__stream_ack", data);
}

#define ACCEPTED(is) "{\"accepted\":" is "}"

TEST(eight_parts_go_out_unacknowledged)
{
	struct connection c = {0};
	fill_window(&c);
	expect_part(&c, 0, 1, STARTED("exec-1"));
	expect_part(&c, 1, 2, OUT("2"));
	expect_part(&c, 7, 8, OUT("8"));
	acknowledge(&c, 6, "\"seq_id\":5,\"index\":1");
	expect_success(&c, 8, "6", ACCEPTED("true"));
	expect_part(&c, 9, 9, ERR("9"));
	ASSERT_INT(c.count, 10);
	acknowledge(&c, 7, "\"seq_id\":5,\"index\":4");
	expect_success(&c, 10, "7", ACCEPTED("true"));
	expect_part(&c, 11, 10, OUT("10"));
	ASSERT_INT(c.count, 12);
	ASSERT_INT(headless.credit, 10);
	headless_ran("a", &well);
	expect_part(&c, 12, 11, EXITED_WELL);
	expect_end(&c, 13);
	finish_with(&c);
}

TEST(the_end_waits_for_its_place_too)
{
	struct connection c = {0};
	fill_window(&c);
	headless_ran("a", &well);
	ASSERT_INT(c.count, 8);
	acknowledge(&c, 6, "\"seq_id\":5,\"index\":2");
	expect_part(&c, 10, 10, OUT("10"));
	ASSERT_INT(c.count, 11);
	acknowledge(&c, 7, "\"seq_id\":5,\"index\":2");
	ASSERT_INT(c.count, 12);
	ASSERT_INT(box_dispatch_request_count(dispatch), 1);
	acknowledge(&c, 8, "\"seq_id\":5,\"index\":3");
	expect_part(&c, 13, 11, EXITED_WELL);
	expect_end(&c, 14);
	/* The stream is over: there is nothing to acknowledge. */
	acknowledge(&c, 9, "\"seq_id\":5,\"index\":11");
	expect_success(&c, 15, "9", ACCEPTED("false"));
	ASSERT_INT(headless.credit, 7); /* a command that is over needs none */
	finish_with(&c);
}

TEST(wrong_acknowledgements_are_refused)
{
	static const char wrong[] = "ValueError: Invalid stream acknowledgement index";
	static const char no_integers[] =
		"ValueError: Stream acknowledgement requires integer sequence and index";
	static const struct {
		const char *data;
		const char *error; /* NULL: accepted, but not by a stream */
	} rows[] = {
		{"\"seq_id\":5,\"index\":3", wrong},
		{"\"seq_id\":5,\"index\":-1", wrong},
		{"\"seq_id\":5,\"index\":13", wrong},
		{"\"seq_id\":5,\"index\":9223372036854775807", wrong},
		{"\"seq_id\":5", no_integers},
		{"\"index\":5", no_integers},
		{"\"seq_id\":5,\"index\":null", no_integers},
		{"\"seq_id\":5,\"index\":\"5\"", no_integers},
		{"\"seq_id\":\"5\",\"index\":5", no_integers},
		{"\"seq_id\":5,\"index\":5.0", no_integers},
		{"\"seq_id\":77,\"index\":5", NULL},
		{"\"seq_id\":20,\"index\":0", NULL},
	};
	struct connection c = {0};
	fill_window(&c);
	exec(&c, 20, "s", "plain"); /* no stream */
	acknowledge(&c, 6, "\"seq_id\":5,\"index\":4");
	int at = c.count;
	for (size_t i = 0; i < COUNT(rows); i++, at++) {
		acknowledge(&c, 7, rows[i].data);
		if (rows[i].error) {
			expect_error(&c, at, "7", rows[i].error);
		} else {
			expect_success(&c, at, "7", ACCEPTED("false"));
		}
		ASSERT_INT(c.count, at + 1);
	}
	headless_ran("plain", &good);
	headless_ran("a", &well);
	finish_with(&c);
}

TEST(only_its_own_asker_acknowledges_a_stream)
{
	struct connection c = {0};
	struct connection other = {0};
	fill_window(&c);
	open_peer(&other);
	acknowledge(&other, 6, "\"seq_id\":5,\"index\":4");
	expect_success(&other, 0, "6", ACCEPTED("false"));
	receive(&c,
		"{\"seq_id\":6,\"action\":\"__stream_ack\",\"data\":{\"seq_id\":5,\"index\":4},"
		"\"context\":{\"instance_uuid\":\"inst\",\"workspace_uuid\":\"other\","
		"\"placement_generation\":1}}");
	expect_success(&c, 8, "6", ACCEPTED("false"));
	ASSERT_INT(c.count, 9);
	close_peer(&c);
	close_peer(&other);
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	finish();
}
