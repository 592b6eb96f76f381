/* A line (a connection that reconnects) to a scripted runtime, which is started and restarted as a
 * child. */
#include <errno.h>

#include "base/clock.h"
#include "client/line.h"
#include "tests/unit/lib/fake_runtime_child.h"

#define CALL_MS 20000

static struct {
	int ups;
	int downs;
	int64_t pause_ms;
	struct box_err why;
} seen_events;

static void went_up(void *arg)
{
	ASSERT(arg == &seen_events);
	seen_events.ups++;
}

static void went_down(void *arg, const struct box_err *why, int64_t pause_ms)
{
	ASSERT(arg == &seen_events);
	seen_events.downs++;
	seen_events.pause_ms = pause_ms;
	seen_events.why = *why;
}

static const struct box_line_events events = {went_up, went_down};
static char self[4096];

static struct box_line_options double_options(const char *what)
{
	ASSERT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	ASSERT_INT(setenv(DOUBLE, what, 1), 0);
	return (struct box_line_options){
		.client = {.spawn = true, .boxd = self, .workspace = "w", .generation = 4},
		.times = {.pause_ms = 50, .pause_max_ms = 200, .jitter_percent = -1},
		.events = &events,
		.arg = &seen_events,
	};
}

static struct box_line *open_line(const struct box_line_options *options)
{
	struct box_line *line;
	ASSERT_INT(box_line_open(options, &line, NULL), 0);
	return line;
}

static int ask(struct box_line *line, const char *action, struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	int r = box_line_call(line, action, NULL, CALL_MS, arena, &data, err);
	box_arena_free(arena);
	return r;
}

TEST(a_call_is_answered_once_it_is_up)
{
	const struct box_line_options options = double_options("serves");
	struct box_line *line = open_line(&options);
	struct box_err err;
	ASSERT(!box_line_is_up(line));
	ASSERT(!box_line_why(line));
	ASSERT_INT(ask(line, "echo", &err), -ENOTCONN);
	ASSERT_INT(err.code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ASSERT_STR(err.text, "the runtime is not connected yet");
	ASSERT_INT(box_line_wait_up(line, CALL_MS, &err), 0);
	ASSERT_INT(seen_events.ups, 1);
	ASSERT_INT(ask(line, "echo", &err), 0);
	ASSERT(box_line_shares_filesystem(line));
	ASSERT(box_client_is_private(box_line_client(line)));
	ASSERT_INT(ask(line, "fail", &err), -ENOSPC);
	ASSERT_STR(err.text, "full (3)");
	box_line_close(line);
}

static void count_lost(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	int *lost = arg;
	ASSERT(!data && err && last);
	ASSERT_INT(err->code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ASSERT_STR(err->text, "boxd ended with code 7");
	/* The requests end before the event. */
	ASSERT_INT(seen_events.downs, 0);
	(*lost)++;
}

TEST(requests_under_way_end_with_the_child_and_a_new_one_comes)
{
	const struct box_line_options options = double_options("serves");
	struct box_line *line = open_line(&options);
	struct box_err err;
	int lost = 0;
	int64_t before = 0;
	int64_t after = 0;
	ASSERT_INT(box_line_wait_up(line, CALL_MS, &err), 0);
	for (int i = 0; i < 5; i++) {
		ASSERT_INT(
			box_line_submit(line, "mute", NULL, count_lost, &lost, &before, NULL), 0);
	}
	ASSERT_INT(ask(line, "die", &err), -ECONNRESET);
	ASSERT_STR(err.text, "boxd ended with code 7");
	ASSERT_INT(lost, 5);
	ASSERT_INT(seen_events.downs, 1);
	ASSERT_INT(seen_events.pause_ms, 50);
	ASSERT_STR(seen_events.why.text, "boxd ended with code 7");
	ASSERT(!box_line_is_up(line));
	ASSERT(!box_line_client(line));
	ASSERT_INT(ask(line, "echo", &err), -ENOTCONN);
	ASSERT_STR(err.text, "the runtime is not reachable: boxd ended with code 7");
	ASSERT_INT(box_line_wait_up(line, CALL_MS, &err), 0);
	ASSERT_INT(seen_events.ups, 2);
	ASSERT_INT(ask(line, "echo", &err), 0);
	/* Numbers from the old connection are invalid now. */
	ASSERT_INT(box_line_submit(line, "mute", NULL, count_lost, &lost, &after, NULL), 0);
	ASSERT(after > before);
	box_line_close(line);
	ASSERT_INT(lost, 5);
}

static struct box_exec *running;
static int ends;

static void exec_ended(void *arg, const struct box_exec_result *result, const struct box_err *err)
{
	(void)arg;
	ASSERT(!result && err);
	ASSERT_INT(err->code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ends++;
}

/* Input and a size are in flight when its connection ends. */
TEST(a_live_command_outlives_its_connection_as_a_struct_only)
{
	static const struct box_exec_events exec_events = {.ended = exec_ended};
	static const struct box_exec_terminal size = {24, 80};
	const struct box_line_options options = double_options("serves");
	const struct box_value spec = box_map_value();
	struct box_line *line = open_line(&options);
	ASSERT_INT(box_line_wait_up(line, CALL_MS, NULL), 0);
	ASSERT_INT(box_exec_start(box_line_client(line), &spec, true, &size, &exec_events, NULL,
			   &running, NULL),
		0);
	ASSERT_INT(ask(line, "echo", NULL), 0);
	ASSERT_INT(box_exec_input(running, "x", 1, false, NULL), 0);
	ASSERT_INT(box_exec_resize(running, (struct box_exec_terminal){1, 1}, NULL), 0);
	ASSERT_INT(ask(line, "die", NULL), -ECONNRESET);
	ASSERT_INT(ends, 1);
	ASSERT_INT(box_line_wait_up(line, CALL_MS, NULL), 0);
	ASSERT(!box_exec_wants_input(running));
	ASSERT(box_exec_signal(running, 15, NULL) < 0);
	ASSERT_INT(box_exec_resize(running, size, NULL), 0);
	box_exec_taken(running);
	box_exec_free(running);
	box_line_close(line);
}

TEST(a_child_that_fails_is_tried_again_after_growing_pauses)
{
	const struct box_line_options options = double_options("fails");
	struct box_line *line = open_line(&options);
	struct box_err err;
	uint64_t began = box_clock_ms();
	while (seen_events.downs < 4) {
		ASSERT_INT(seen_events.pause_ms, ((int[]){0, 50, 100, 200})[seen_events.downs]);
		ASSERT_INT(box_line_wait(line, 1000), 0);
	}
	ASSERT(box_clock_ms() - began >= 50 + 100 + 200);
	ASSERT_INT(seen_events.ups, 0);
	ASSERT_STR(seen_events.why.text, "boxd ended with code 3");
	ASSERT_INT(box_line_wait_up(line, 1, &err), -ETIMEDOUT);
	ASSERT_STR(err.text, "the runtime is not reachable: boxd ended with code 3");
	box_line_close(line);
}

TEST(config_is_sent_before_any_request_and_its_refusal_is_no_connection)
{
	struct box_line_options options = double_options("serves");
	struct box_arena *arena = box_arena_new();
	struct box_value config = box_map_value();
	box_map_add(arena, &config, "backend", box_cstr("fake"));
	options.config = &config;
	/* The runtime does not know box_init: it requests flow control. */
	struct box_line *line = open_line(&options);
	box_arena_free(arena);
	struct box_err err;
	ASSERT_INT(box_line_wait_up(line, 300, &err), -ETIMEDOUT);
	ASSERT_STR(err.text, "the runtime is not reachable: no flow control");
	ASSERT_INT(seen_events.ups, 0);
	ASSERT(seen_events.downs >= 1);
	box_line_close(line);
}

TEST(one_that_is_silent_is_given_up)
{
	struct box_line_options options = double_options("silent");
	options.times.connect_ms = 100;
	struct box_line *line = open_line(&options);
	while (seen_events.downs == 0) {
		ASSERT_INT(box_line_wait(line, 1000), 0);
	}
	ASSERT_STR(seen_events.why.text, "the runtime was not ready within 100 ms");
	box_line_close(line);
}

TEST(lost_pings_end_it)
{
	struct box_line_options options = double_options("serves");
	options.times.ping_interval_ms = 30;
	options.times.ping_wait_ms = 30;
	struct box_line *line = open_line(&options);
	ASSERT_INT(box_line_wait_up(line, CALL_MS, NULL), 0);
	/* Pings are answered, for much longer than three of them take. */
	uint64_t until = box_clock_ms() + 500;
	while (box_clock_ms() < until) {
		ASSERT_INT(box_line_wait(line, 10), 0);
	}
	ASSERT_INT(seen_events.downs, 0);
	ASSERT_INT(ask(line, "deaf", NULL), 0);
	while (seen_events.downs == 0) {
		ASSERT_INT(box_line_wait(line, 1000), 0);
	}
	ASSERT_STR(seen_events.why.text, "the runtime does not answer: 3 pings in a row failed");
	ASSERT_INT(box_line_wait_up(line, CALL_MS, NULL), 0);
	box_line_close(line);
}

TEST(one_handed_in_counts_as_separated_and_stays_down)
{
	const struct box_line_options options = double_options("serves");
	struct box_client *client;
	struct box_err err;
	ASSERT_INT(box_client_open(&options.client, &client, &err), 0);
	struct box_line *line = box_line_adopt(client);
	ASSERT(box_line_is_up(line));
	ASSERT(!box_line_shares_filesystem(line));
	ASSERT_INT(ask(line, "echo", &err), 0);
	ASSERT_INT(ask(line, "die", &err), -ECONNRESET);
	ASSERT(!box_line_is_up(line));
	ASSERT_INT(box_line_timeout_ms(line), -1);
	ASSERT_INT(box_line_fd(line), -1);
	ASSERT_INT(box_line_wait_up(line, 50, &err), -ETIMEDOUT);
	box_line_close(line);
}

TEST(whether_paths_are_shared_is_derived_and_can_be_said)
{
	static const struct {
		const char *endpoint;
		int said;
		bool shares;
	} rows[] = {
		{NULL, 0, true},
		{NULL, 1, true},
		{NULL, -1, false},
		{"ws://127.0.0.1:1", 0, false},
		{"ws://127.0.0.1:1", 1, true},
		{"ws://127.0.0.1:1", -1, false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct box_line_options options = {
			.client = {.endpoint = rows[i].endpoint, .spawn = true},
			.shares_filesystem = rows[i].said,
		};
		struct box_line *line = open_line(&options);
		ASSERT_INT(box_line_shares_filesystem(line), rows[i].shares);
		box_line_close(line);
	}
}

TEST(options_that_never_work_are_refused)
{
	const struct box_value list = box_list_value();
	struct box_line *line = NULL;
	struct box_err err;
	struct box_line_options options = {.client = {.endpoint = "ftp://h"}};
	ASSERT_INT(box_line_open(&options, &line, &err), -EINVAL);
	ASSERT_STR(err.text, "endpoint \"ftp://h\": must begin with ws://, http:// or unix:");
	options = (struct box_line_options){.client = {.spawn = true}, .config = &list};
	ASSERT_INT(box_line_open(&options, &line, &err), -EINVAL);
	ASSERT_STR(err.text, "config must be map, not list");
	ASSERT(!line);
}

TEST(a_program_that_is_not_there_is_the_reason)
{
	struct box_line_options options = double_options("serves");
	options.client.boxd = "/nowhere/boxd";
	struct box_line *line = open_line(&options);
	struct box_err err;
	ASSERT_INT(box_line_wait_up(line, 100, &err), -ETIMEDOUT);
	ASSERT_STR(
		err.text, "the runtime is not reachable: /nowhere/boxd: No such file or directory");
	box_line_close(line);
}
