/* libbox against a scripted runtime. */
#include <errno.h>
#include <poll.h>

#include "base/macros.h"
#include "client/box.h"
#include "tests/unit/lib/fake_runtime_child.h"

#define CALL_MS 20000

static char log_lines[1024];

static void keep_line(void *arg, const char *line)
{
	size_t len = strlen(log_lines);
	(void)arg;
	(void)snprintf(log_lines + len, sizeof(log_lines) - len, "%s|", line);
}

static int open_as(const char *what, struct box_client **ret_client, struct box_err *err)
{
	char self[4096] = "";
	ASSERT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	ASSERT_INT(setenv(DOUBLE, what, 1), 0);
	struct box_client_options options = {
		.spawn = true, .boxd = self, .workspace = "w", .generation = 4};
	options.log_line = keep_line;
	int r = box_client_open(&options, ret_client, err);
	ASSERT_INT(unsetenv(DOUBLE), 0);
	return r;
}

static struct box_client *open_double(void)
{
	struct box_client *client;
	ASSERT_INT(open_as("serves", &client, NULL), 0);
	ASSERT(box_client_is_private(client));
	return client;
}

static struct box_value with_int(struct box_arena *arena, const char *key, int64_t value)
{
	struct box_value data = box_map_value();
	box_map_add(arena, &data, key, box_int(value));
	return data;
}

/* Acknowledgements and cancellations that the runtime has received. */
static void assert_seen(struct box_client *client, const char *expected)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	ASSERT_INT(box_client_call(client, "seen", NULL, CALL_MS, arena, &data, NULL), 0);
	struct box_str seen = box_map_get(&data, "seen")->str;
	ASSERT_BYTES(seen.bytes, seen.len, expected, strlen(expected));
	box_arena_free(arena);
}

TEST(a_call_is_answered)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct box_value asked = with_int(arena, "x", 42);
	struct box_value data;
	ASSERT_INT(box_client_call(client, "echo", &asked, CALL_MS, arena, &data, NULL), 0);
	ASSERT_INT(number(&data, "x"), 42);
	box_client_close(client);
	/* The answer belongs to the arena, not to the client. */
	ASSERT_INT(number(&data, "x"), 42);
	box_arena_free(arena);
}

TEST(a_call_names_who_asks)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	ASSERT_INT(box_client_call(client, "context", NULL, CALL_MS, arena, &data, NULL), 0);
	ASSERT_INT(data.count, 3);
	ASSERT(box_str_eq(box_map_get(&data, "workspace_uuid")->str, "w"));
	ASSERT_INT(number(&data, "placement_generation"), 4);
	/* A child's instance is a secret of this connection. */
	ASSERT_INT(box_map_get(&data, "instance_uuid")->str.len, 64);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(an_error_has_its_code_and_text)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_int(5);
	struct box_err err;
	ASSERT_INT(box_client_call(client, "fail", NULL, CALL_MS, arena, &data, &err), -ENOSPC);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT_STR(err.text, "full (3)");
	ASSERT_INT(data.integer, 5);
	box_arena_free(arena);
	box_client_close(client);
}

/* The runtime would not read it, and no request would ever be answered. */
TEST(a_request_with_text_that_is_no_utf8_is_refused)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct box_err err;
	struct box_value data;
	struct box_value text = box_map_value();
	struct box_value inside = box_map_value();
	struct box_value key = box_map_value();
	struct box_value list = box_list_value();
	struct box_value bytes = box_map_value();
	box_map_add(arena, &text, "x", box_cstr("\xff"));
	box_list_add(arena, &list, box_cstr("a\xc3"));
	box_map_add(arena, &inside, "x", list);
	box_map_add(arena, &key, "\xe9", box_int(1));
	const struct box_value *const wrong[] = {&text, &inside, &key};
	for (size_t i = 0; i < BOX_COUNT_OF(wrong); i++) {
		ASSERT_INT(box_client_call(client, "echo", wrong[i], CALL_MS, arena, &data, &err),
			-EILSEQ);
		ASSERT_INT(err.code, BOX_ERR_VALUE);
		ASSERT_STR(err.text, "a text in the request is not valid UTF-8");
	}
	box_map_add(arena, &bytes, "x", box_bin(box_str("\xff")));
	ASSERT_INT(box_client_call(client, "echo", &bytes, CALL_MS, arena, &data, &err), 0);
	box_arena_free(arena);
	box_client_close(client);
}

struct heard {
	int64_t values[512];
	size_t count;
	size_t errors;
	size_t lasts;
	char text[256];
	struct box_client *client;
	int64_t seq_id;
	bool take; /* box_client_taken in the callback */
	bool cancel;
};

static void hear(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct heard *heard = arg;
	heard->lasts += last;
	if (err) {
		heard->errors++;
		(void)snprintf(heard->text, sizeof(heard->text), "%.200s", err->text);
		return;
	}
	heard->values[heard->count++] = data->count ? data->pairs[0].value.integer : -1;
	if (heard->take) {
		box_client_taken(heard->client, heard->seq_id);
	}
	if (heard->cancel) {
		box_client_cancel(heard->client, heard->seq_id);
	}
}

static void run_until(struct box_client *client, const size_t *count, size_t wanted)
{
	while (*count < wanted) {
		ASSERT_INT(box_client_wait(client, CALL_MS, NULL), 0);
	}
}

TEST(answers_come_in_any_order_to_their_own_callbacks)
{
	struct box_client *client = open_double();
	struct heard first = {0};
	struct heard second = {0};
	struct heard order = {0};
	int64_t seqs[3];
	ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &first, &seqs[0], NULL), 0);
	ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &second, &seqs[1], NULL), 0);
	ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &order, &seqs[2], NULL), 0);
	ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &order, NULL, NULL), 0);
	ASSERT_INT(box_client_submit(client, "release", NULL, hear, &order, NULL, NULL), 0);
	run_until(client, &order.lasts, 3);
	ASSERT_INT(first.count, 1);
	ASSERT_INT(first.values[0], seqs[0]);
	ASSERT_INT(second.count, 1);
	ASSERT_INT(second.values[0], seqs[1]);
	/* The runtime answers the last one first. */
	ASSERT_INT(order.values[0], seqs[2] + 1);
	ASSERT_INT(order.values[1], seqs[2]);
	ASSERT_INT(order.values[2], -1);
	box_client_close(client);
}

TEST(no_more_than_128_are_under_way)
{
	struct box_client *client = open_double();
	struct heard heard = {0};
	struct box_err err;
	for (int i = 0; i < BOX_REQUESTS_MAX - 1; i++) {
		ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &heard, NULL, NULL), 0);
	}
	ASSERT_INT(box_client_submit(client, "release", NULL, hear, &heard, NULL, NULL), 0);
	ASSERT_INT(box_client_submit(client, "echo", NULL, hear, &heard, NULL, &err), -EBUSY);
	ASSERT_STR(err.text, "128 requests are pending already");
	run_until(client, &heard.lasts, BOX_REQUESTS_MAX);
	ASSERT_INT(box_client_submit(client, "echo", NULL, hear, &heard, NULL, &err), 0);
	box_client_close(client);
}

TEST(a_caller_with_a_loop_steps)
{
	struct box_client *client = open_double();
	struct heard heard = {0};
	ASSERT_INT(box_client_events(client), POLLIN);
	ASSERT_INT(box_client_step(client, NULL), 0); /* nothing to do: it does not wait */
	ASSERT_INT(box_client_submit(client, "echo", NULL, hear, &heard, NULL, NULL), 0);
	ASSERT_INT(box_client_events(client), POLLIN | POLLOUT);
	while (heard.lasts == 0) {
		struct pollfd ready = {box_client_fd(client), box_client_events(client), 0};
		ASSERT(poll(&ready, 1, CALL_MS) == 1);
		ASSERT_INT(box_client_step(client, NULL), 0);
	}
	ASSERT_INT(box_client_events(client), POLLIN);
	box_client_close(client);
}

TEST(large_messages_go_both_ways)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	size_t len = 12 * BOX_MIB;
	char *bytes = box_arena_bytes(arena, len);
	struct box_value asked = box_map_value();
	struct box_value data;
	memset(bytes, 0xa5, len);
	box_map_add(
		arena, &asked, "bytes", (struct box_value){.type = BOX_BIN, .str = {bytes, len}});
	ASSERT_INT(box_client_call(client, "echo", &asked, CALL_MS, arena, &data, NULL), 0);
	struct box_str back = box_map_get(&data, "bytes")->str;
	ASSERT_INT(back.len, len);
	ASSERT_INT(memcmp(back.bytes, bytes, len), 0);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_message_that_is_too_large_is_refused_here)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	char *bytes = box_arena_alloc(arena, BOX_MESSAGE_BYTES_MAX);
	struct box_value asked = box_map_value();
	struct box_value data;
	struct box_err err;
	box_map_add(arena, &asked, "bytes",
		(struct box_value){.type = BOX_BIN, .str = {bytes, BOX_MESSAGE_BYTES_MAX}});
	ASSERT_INT(box_client_call(client, "echo", &asked, CALL_MS, arena, &data, &err), -EMSGSIZE);
	/* The connection still works. */
	ASSERT_INT(box_client_call(client, "echo", NULL, CALL_MS, arena, &data, &err), 0);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_stream_is_acknowledged_as_it_is_taken)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct heard heard = {.client = client, .take = true};
	struct box_value asked = with_int(arena, "count", 18);
	ASSERT_INT(box_client_submit_stream(
			   client, "stream", &asked, hear, &heard, &heard.seq_id, NULL),
		0);
	run_until(client, &heard.lasts, 1);
	ASSERT_INT(heard.count, 19); /* the empty piece at the end counts, too */
	for (int i = 0; i < 18; i++) {
		ASSERT_INT(heard.values[i], i + 1);
	}
	char expected[128];
	(void)snprintf(expected, sizeof(expected), "ack %lld:4 ack %lld:8 ack %lld:12 ack %lld:16 ",
		(long long)heard.seq_id, (long long)heard.seq_id, (long long)heard.seq_id,
		(long long)heard.seq_id);
	assert_seen(client, expected);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_stream_that_is_not_taken_waits)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct heard heard = {.client = client};
	struct box_value asked = with_int(arena, "count", 20);
	ASSERT_INT(box_client_submit_stream(
			   client, "stream", &asked, hear, &heard, &heard.seq_id, NULL),
		0);
	run_until(client, &heard.count, BOX_STREAM_WINDOW);
	assert_seen(client, "");
	ASSERT_INT(heard.count, BOX_STREAM_WINDOW);
	box_client_taken(client, heard.seq_id);
	run_until(client, &heard.count, 2UL * BOX_STREAM_WINDOW);
	char expected[64];
	(void)snprintf(expected, sizeof(expected), "ack %lld:8 ", (long long)heard.seq_id);
	assert_seen(client, expected);
	ASSERT_INT(heard.count, 2 * BOX_STREAM_WINDOW);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_stream_that_breaks_its_rules_is_cancelled)
{
	static const struct {
		const char *action;
		size_t count;
		const char *why;
	} rows[] = {
		{"flood", BOX_STREAM_WINDOW, "the runtime sent more than the stream window allows"},
		{"gap", 1, "a streamed answer is out of order"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_client *client = open_double();
		struct heard heard = {.client = client};
		char expected[64];
		ASSERT_INT(box_client_submit_stream(
				   client, rows[i].action, NULL, hear, &heard, &heard.seq_id, NULL),
			0);
		run_until(client, &heard.lasts, 1);
		ASSERT_INT(heard.count, rows[i].count);
		ASSERT_INT(heard.errors, 1);
		ASSERT_STR(heard.text, rows[i].why);
		(void)snprintf(expected, sizeof(expected), "cancel %lld ", (long long)heard.seq_id);
		assert_seen(client, expected);
		ASSERT_INT(heard.lasts, 1);
		box_client_close(client);
	}
}

TEST(a_cancelled_request_calls_back_no_more)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct heard heard = {.client = client, .cancel = true};
	struct box_value asked = with_int(arena, "count", 8);
	char expected[64];
	ASSERT_INT(box_client_submit_stream(
			   client, "stream", &asked, hear, &heard, &heard.seq_id, NULL),
		0);
	run_until(client, &heard.count, 1);
	(void)snprintf(expected, sizeof(expected), "cancel %lld ", (long long)heard.seq_id);
	assert_seen(client, expected);
	ASSERT_INT(heard.count, 1);
	ASSERT_INT(heard.lasts, 0);
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_call_without_an_answer_ends_and_is_cancelled)
{
	struct box_client *client = open_double();
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	struct box_err err;
	ASSERT_INT(box_client_call(client, "mute", NULL, 50, arena, &data, &err), -ETIMEDOUT);
	ASSERT_STR(err.text, "mute: no answer within 50 ms");
	assert_seen(client, "cancel 2 ");
	box_arena_free(arena);
	box_client_close(client);
}

TEST(a_runtime_that_dies_answers_all)
{
	struct box_client *client = open_double();
	struct heard held = {0};
	struct heard dying = {0};
	struct box_err err;
	ASSERT_INT(box_client_submit(client, "hold", NULL, hear, &held, NULL, NULL), 0);
	ASSERT_INT(box_client_submit(client, "die", NULL, hear, &dying, NULL, NULL), 0);
	int r = 0;
	while (r == 0) {
		r = box_client_wait(client, CALL_MS, &err);
	}
	ASSERT_INT(r, -ENOTCONN);
	ASSERT_STR(err.text, "boxd ended with code 7");
	ASSERT_INT(err.code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ASSERT_INT(held.errors, 1);
	ASSERT_INT(held.lasts, 1);
	ASSERT_STR(held.text, "boxd ended with code 7");
	ASSERT_INT(dying.errors, 1);
	ASSERT_STR(log_lines, "one|two|");
	ASSERT_INT(box_client_fd(client), -1);
	ASSERT_INT(box_client_submit(client, "echo", NULL, hear, &held, NULL, &err), -ENOTCONN);
	ASSERT_INT(box_client_wait(client, CALL_MS, &err), -ENOTCONN);
	box_client_close(client);
}

TEST(a_runtime_that_does_not_start_says_why)
{
	struct box_client *client = NULL;
	struct box_err err;
	ASSERT(open_as("fails", &client, &err) < 0);
	ASSERT(client == NULL);
	ASSERT_STR(err.text, "boxd ended with code 3");
	ASSERT_STR(log_lines, "line 13|line 14|line 15|line 16|line 17|line 18|line 19|line 20|");
	/* Nothing of it is pending. */
	ASSERT_INT(waitpid(-1, NULL, WNOHANG), -1);
	ASSERT_INT(errno, ECHILD);
}

TEST(a_program_that_is_not_there_is_named)
{
	struct box_client_options options = {.spawn = true, .boxd = "/nonexistent/boxd"};
	struct box_client *client;
	struct box_err err;
	ASSERT_INT(box_client_open(&options, &client, &err), -ENOENT);
	ASSERT_STR(err.text, "/nonexistent/boxd: No such file or directory");
}

TEST(the_child_ends_with_its_client)
{
	struct box_client *client = open_double();
	box_client_close(client);
	ASSERT_INT(waitpid(-1, NULL, WNOHANG), -1);
	ASSERT_INT(errno, ECHILD);
	box_client_close(NULL);
}
