/* File reads take turns on their connection: how many run at once, which wait, and when the next
 * one starts. */
#include "tests/unit/lib/dispatch_fixture.h"

#define AT_ONCE (BOX_FILE_OP_READS_BYTES_MAX / BOX_FILE_OP_READ_BYTES_MAX)

static const struct box_file_outcome done = {.data = {"x", 1}, .facts.size = 1};

/* Reads a chunk of maximum size of the file named by its number. */
static void read_as(struct connection *c, int seq)
{
	char data[64];
	(void)snprintf(data, sizeof(data), "\"session_id\":\"s\",\"path\":\"f%d\"", seq);
	ask(c, seq, "box_file_read", data);
}

static void start_reading(struct connection *c, int count)
{
	start_with(c);
	make_live(c, "s");
	for (int i = 0; i < count; i++) {
		read_as(c, i);
	}
}

TEST(so_many_begin_and_the_others_wait)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE + 3);
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE);
	ASSERT_INT(c.count, 0);
	headless_filed("f3", &done);
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE + 1);
	ASSERT(headless_find(HEADLESS_FILE, "f8") != NULL);
	headless_filed("f8", &done);
	headless_filed("f0", &done);
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE + 3);
	ASSERT_INT(c.count, 3);
	finish_with(&c);
}

TEST(small_ones_do_not_wait)
{
	struct connection c = {0};
	start_reading(&c, 0);
	for (int i = 0; i < BOX_FILE_OPS_MAX; i++) {
		ask(&c, i, "box_file_read", "\"session_id\":\"s\",\"path\":\"a\",\"length\":65536");
	}
	ASSERT_INT(headless.begun[HEADLESS_FILE], BOX_FILE_OPS_MAX);
	finish_with(&c);
}

TEST(none_begins_while_the_connection_is_full)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE);
	c.congested = true;
	read_as(&c, 20);
	read_as(&c, 21);
	for (int i = 0; i < (int)AT_ONCE; i++) {
		headless_filed(NULL, &done);
	}
	ASSERT_INT(headless_count(HEADLESS_FILE), 0);
	c.congested = false;
	box_peer_drained(c.peer);
	ASSERT_INT(headless_count(HEADLESS_FILE), 2);
	finish_with(&c);
}

TEST(other_connections_have_turns_of_their_own)
{
	struct connection c = {0};
	struct connection other = {0};
	start_reading(&c, AT_ONCE + 1);
	open_peer(&other);
	read_as(&other, 40);
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE + 1);
	close_peer(&other);
	finish_with(&c);
}

TEST(a_cancelled_one_makes_room)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE + 2);
	ask(&c, 100, "__cancel_action", "\"seq_id\":8"); /* it waits */
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE);
	ask(&c, 101, "__cancel_action", "\"seq_id\":2");
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE + 1);
	ASSERT(headless_find(HEADLESS_FILE, "f9") != NULL);
	expect_success(&c, 1, "101", "{\"cancelled\":true}");
	finish_with(&c);
}

TEST(one_that_fails_at_its_turn_makes_room)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE);
	ask(&c, 50, "box_file_read", "\"session_id\":\"none\",\"path\":\"a\"");
	ask(&c, 51, "box_file_read", "\"session_id\":\"s\",\"path\":\"\"");
	read_as(&c, 52);
	ASSERT_INT(c.count, 0);
	headless_filed("f0", &done);
	expect_error(&c, 1, "50", "BoxSessionNotFoundError: session " ID("none") " not found");
	expect_error(&c, 2, "51", "BoxValidationError: path must not be empty");
	ASSERT(headless_find(HEADLESS_FILE, "f52") != NULL);
	finish_with(&c);
}

/* A connection that writes immediately calls back, inside send, that it is drained. */
static int depth;
static int deepest;

static void drain_within(struct connection *c)
{
	depth++;
	deepest = depth > deepest ? depth : deepest;
	box_peer_drained(c->peer);
	depth--;
}

TEST(answers_that_go_out_at_once_do_not_begin_from_inside)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE);
	for (int i = 0; i < 100; i++) {
		ask(&c, 100 + i, "box_file_read", "\"session_id\":\"none\",\"path\":\"a\"");
	}
	c.within = drain_within;
	headless_filed("f0", &done);
	ASSERT_INT(c.count, 101);
	ASSERT_INT(deepest, 2); /* the answer of the first, and one of the others */
	for (int i = 0; i < 100; i++) {
		char seq[16];
		(void)snprintf(seq, sizeof(seq), "{\"seq_id\":%d,", 100 + i);
		ASSERT(strncmp(c.answers[1 + i], seq, strlen(seq)) == 0);
	}
	c.within = NULL;
	finish_with(&c);
}

TEST(a_connection_that_goes_begins_nothing)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE + 5);
	close_peer(&c);
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE);
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], AT_ONCE);
	finish();
}

TEST(a_newer_placement_ends_all_and_begins_nothing)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE + 5);
	ask_at(&c, 2, 200, "box_get_sessions", "");
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE);
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], AT_ONCE);
	ASSERT_INT(c.count, AT_ONCE + 6);
	finish_with(&c);
}

TEST(a_session_that_goes_takes_those_that_wait_too)
{
	struct connection c = {0};
	start_reading(&c, AT_ONCE + 5);
	ask(&c, 300, "box_delete_session", "\"session_id\":\"s\"");
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], AT_ONCE);
	headless_gone();
	ASSERT_INT(headless.begun[HEADLESS_FILE], AT_ONCE);
	ASSERT_INT(c.count, AT_ONCE + 6);
	finish_with(&c);
}
