/* File watches, from message to message: events in order, backpressure, and every way a watch ends.
 */
#include "tests/unit/lib/stream_fixture.h"

#define WATCH "\"session_id\":\"s\",\"path\":\"w\""

static void watch(struct connection *c)
{
	ask(c, 5, "box_file_watch", WATCH ",\"recursive\":true");
	ASSERT(headless_find(HEADLESS_FILE, "w")->ask->recursive);
	struct box_backend_op *op = headless_find(HEADLESS_FILE, "w");
	op->events->started(op->arg);
	expect_part(c, c->count - 1, 0, "{\"event\":\"started\"}");
}

static void watch_flowing(struct connection *c)
{
	receive(c,
		"{\"seq_id\":5,\"action\":\"box_file_watch\",\"stream_flow_control\":1,"
		"\"data\":{" WATCH "},\"context\":{" PLACE ",\"placement_generation\":1}}");
	struct box_backend_op *op = headless_find(HEADLESS_FILE, "w");
	op->events->started(op->arg);
	expect_part(c, 0, 1, "{\"event\":\"started\"}");
}

static void tell(enum box_file_change change, const char *path, const char *from)
{
	struct box_backend_op *op = headless_find(HEADLESS_FILE, "w");
	const struct box_file_event event = {
		.change = change, .path = box_str(path), .from = box_str(from), .cost = 20};
	op->events->event(op->arg, &event);
}

#define CREATED(name) \
	"{\"event\":\"created\",\"path\":\"/workspace/w/" name "\",\"is_folder\":false}"

TEST(each_event_is_a_part)
{
	const struct box_file_outcome done = {0};
	struct connection c = {0};
	start_live(&c);
	watch(&c);
	tell(BOX_FILE_CREATED, "a", "");
	tell(BOX_FILE_MOVED, "b/c", "a");
	tell(BOX_FILE_OVERFLOW, "", "");
	tell(BOX_FILE_REMOVED, "", "");
	ASSERT_INT(headless.credit, 80);
	headless_filed("w", &done);
	expect_part(&c, 1, 0, CREATED("a"));
	expect_part(&c, 2, 0,
		"{\"event\":\"moved\",\"path\":\"/workspace/w/b/c\",\"is_folder\":false,"
		"\"from\":\"/workspace/w/a\"}");
	expect_part(&c, 3, 0, "{\"event\":\"overflow\"}");
	expect_part(
		&c, 4, 0, "{\"event\":\"removed\",\"path\":\"/workspace/w\",\"is_folder\":false}");
	expect_end(&c, 5);
	finish_with(&c);
}

TEST(a_full_connection_holds_them_and_gives_no_credit)
{
	const struct box_file_outcome done = {0};
	struct connection c = {0};
	start_live(&c);
	watch(&c);
	c.congested = true;
	tell(BOX_FILE_CREATED, "a", "");
	tell(BOX_FILE_CREATED, "b", "");
	ASSERT_INT(c.count, 1);
	ASSERT_INT(headless.credit, 0);
	c.congested = false;
	box_peer_drained(c.peer);
	expect_part(&c, 1, 0, CREATED("a"));
	expect_part(&c, 2, 0, CREATED("b"));
	ASSERT_INT(headless.credit, 40);
	c.congested = true;
	headless_filed("w", &done);
	ASSERT_INT(c.count, 3);
	c.congested = false;
	box_peer_drained(c.peer);
	expect_end(&c, 3);
	finish_with(&c);
}

TEST(acknowledgements_let_more_out)
{
	struct connection c = {0};
	start_live(&c);
	watch_flowing(&c);
	for (int i = 0; i < 10; i++) {
		tell(BOX_FILE_CREATED, "a", "");
	}
	ASSERT_INT(c.count, 8);
	ask(&c, 6, "__stream_ack", "\"seq_id\":5,\"index\":2");
	expect_success(&c, 8, "6", "{\"accepted\":true}");
	expect_part(&c, 9, 9, CREATED("a"));
	expect_part(&c, 10, 10, CREATED("a"));
	ASSERT_INT(c.count, 11);
	ask(&c, 7, "__stream_ack", "\"seq_id\":5,\"index\":12");
	expect_error(&c, 11, "7", "ValueError: Invalid stream acknowledgement index");
	ask(&c, 8, "__cancel_action", "\"seq_id\":5");
	expect_success(&c, 12, "8", "{\"cancelled\":true}");
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], 1);
	finish_with(&c);
}

TEST(an_error_ends_it_and_drops_what_is_held)
{
	const struct box_file_outcome out = {.errnum = ENOENT};
	struct connection c = {0};
	start_live(&c);
	watch(&c);
	c.congested = true;
	tell(BOX_FILE_CREATED, "a", "");
	headless_filed("w", &out);
	ASSERT_INT(c.count, 2);
	expect_error(&c, 1, "5", "OSError: [ENOENT] /workspace/w: No such file or directory");
	finish_with(&c);
}

TEST(a_connection_that_goes_ends_it)
{
	struct connection c = {0};
	start_live(&c);
	watch(&c);
	c.congested = true;
	tell(BOX_FILE_CREATED, "a", "");
	close_peer(&c);
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], 1);
	finish();
}

TEST(a_session_that_goes_ends_it)
{
	struct connection c = {0};
	start_live(&c);
	watch(&c);
	ask(&c, 6, "box_delete_session", "\"session_id\":\"s\"");
	expect_error(&c, 1, "5",
		"BoxSessionNotFoundError: session " ID("s") " was removed while it was in use");
	headless_gone();
	finish_with(&c);
}

TEST(so_many_watches_and_no_more)
{
	struct connection c = {0};
	start_live(&c);
	for (int i = 0; i < BOX_FILE_OP_WATCHES_MAX; i++) {
		ask(&c, i, "box_file_watch", WATCH);
	}
	ask(&c, 90, "box_file_watch", WATCH);
	ASSERT_INT(c.count, 1);
	ask(&c, 91, "box_file_stat", WATCH);
	ASSERT_INT(c.count, 1);
	ask(&c, 92, "__cancel_action", "\"seq_id\":3");
	ask(&c, 93, "box_file_watch", WATCH);
	ASSERT_INT(c.count, 2);
	finish_with(&c);
}
