/* Connections that write from inside their own callbacks: what waits for room is called while a
 * send is in progress. Everything is still sent once and in order, and nothing is used after its
 * end. */
#include "tests/unit/lib/stream_fixture.h"
#include "transport/conn.h"

/* --- a stream, a watch: the peer says from inside of send that there is room --- */

static void drain_within(struct connection *c)
{
	box_peer_drained(c->peer);
}

TEST(a_stream_is_told_of_room_while_it_sends)
{
	struct connection c = {0};
	start_live(&c);
	stream_with(&c, 5, "cmd", "");
	headless_started("cmd");
	c.congested = true;
	say_out("cmd", "one");
	say_err("cmd", "two");
	say_out("cmd", "three");
	headless_ran("cmd", &well);
	ASSERT_INT(c.count, 1);
	c.congested = false;
	c.within = drain_within;
	box_peer_drained(c.peer);
	expect_part(&c, 1, 0, OUT("one"));
	expect_part(&c, 2, 0, ERR("two"));
	expect_part(&c, 3, 0, OUT("three"));
	expect_part(&c, 4, 0, EXITED_WELL);
	expect_end(&c, 5);
	c.within = NULL;
	finish_with(&c);
}

TEST(a_watch_is_told_of_room_while_it_sends)
{
	static const struct box_file_outcome done = {0};
	struct connection c = {0};
	start_live(&c);
	ask(&c, 5, "box_file_watch", "\"session_id\":\"s\",\"path\":\"w\"");
	struct box_backend_op *op = headless_find(HEADLESS_FILE, "w");
	op->events->started(op->arg);
	c.congested = true;
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"a", "b", "c"};
		const struct box_file_event event = {.change = BOX_FILE_CREATED,
			.path = box_str(names[i]),
			.from = box_str(""),
			.cost = 20};
		op->events->event(op->arg, &event);
	}
	headless_filed("w", &done);
	ASSERT_INT(c.count, 1);
	c.congested = false;
	c.within = drain_within;
	box_peer_drained(c.peer);
	ASSERT(strstr(c.answers[1], "\"/workspace/w/a\"") != NULL);
	ASSERT(strstr(c.answers[2], "\"/workspace/w/b\"") != NULL);
	ASSERT(strstr(c.answers[3], "\"/workspace/w/c\"") != NULL);
	expect_end(&c, 4);
	c.within = NULL;
	finish_with(&c);
}

/* --- a connection: it is drained while it tells that it was --- */

/* The maximum size of a part when each byte takes six in JSON. As stdio lines that is more than a
 * connection holds. */
#define PART ((BOX_STREAM_PART_BYTES_MAX - 1024) / 6)

struct wire {
	struct box_conn conn; /* first */
	bool blocked;
	int depth;
	int deepest;
	int pauses;
	size_t taken;
	int ends;
};

static bool ends_a_stream(const struct box_conn_answer *out)
{
	static const char end[] = "\"chunk_status\":\"end\"}\n";
	size_t len = sizeof(end) - 1;
	return out->bytes.len >= len &&
		memcmp(out->bytes.bytes + out->bytes.len - len, end, len) == 0;
}

static void write_all(struct box_conn *conn)
{
	struct wire *wire = (struct wire *)conn;
	struct box_conn_answer *out;
	wire->depth++;
	wire->deepest = wire->depth > wire->deepest ? wire->depth : wire->deepest;
	while (!wire->blocked && (out = box_conn_first_answer(conn))) {
		wire->ends += ends_a_stream(out);
		wire->taken += out->bytes.len;
		box_conn_sent(conn, out->bytes.len);
	}
	wire->depth--;
}

static void pause_reading(struct box_conn *conn, bool paused)
{
	((struct wire *)conn)->pauses += paused;
}

static void give_up(struct box_conn *conn)
{
	(void)conn;
	TEST_FAIL("the connection was given up");
}

static const struct box_conn_ops wire_ops = {write_all, pause_reading, give_up};

static void stream_on(struct wire *wire, int seq, const char *cmd)
{
	struct box_message message = {.arena = box_arena_new(), .codec = BOX_CODEC_JSON};
	message.value = tree(message.arena,
		box_arena_printf(message.arena,
			"{\"seq_id\":%d,\"action\":\"box_exec_stream\",\"data\":{"
			"\"session_id\":\"s\",\"cmd\":\"%s\"},\"context\":{" PLACE
			",\"placement_generation\":1}}",
			seq, cmd));
	box_conn_receive(&wire->conn, &message);
	headless_started(cmd);
}

/* Both have more than fits; each part fills the connection, and sending one makes room again. */
TEST(a_connection_is_drained_while_it_tells_so)
{
	static const char *const commands[] = {"one", "two", "three"};
	static char bytes[PART];
	struct connection c = {0};
	struct wire wire = {0};
	memset(bytes, 1, sizeof(bytes)); /* six bytes each in JSON */
	start_live(&c);
	box_conn_open(&wire.conn, &wire_ops, dispatch, runtime, &(struct box_peer_identity){0},
		BOX_TRANSPORT_STDIO);
	wire.conn.json_lines = true;
	for (int i = 0; i < 3; i++) {
		stream_on(&wire, i, commands[i]);
	}
	wire.blocked = true;
	for (int i = 0; i < 9; i++) {
		headless_output(commands[i % 3], false, bytes, sizeof(bytes));
	}
	for (int i = 0; i < 3; i++) {
		headless_ran(commands[i], &well);
	}
	ASSERT_INT(wire.ends, 0);
	wire.blocked = false;
	wire.deepest = 0;
	write_all(&wire.conn);
	ASSERT_INT(wire.ends, 3);
	ASSERT(wire.taken > (size_t)9 * 6 * PART);
	ASSERT(wire.pauses >= 8);
	/* Sending happens inside the callback, and no deeper. */
	ASSERT_INT(wire.deepest, 2);
	ASSERT_INT(wire.conn.out_bytes, 0);
	box_conn_close(&wire.conn);
	finish_with(&c);
}
