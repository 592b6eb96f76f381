/* A connection that is made again when it breaks: line_schedule.c decides what is due, and this file does it
 * without blocking.
 *
 * There is at most one client at a time, connecting or up, and at most one child of an earlier client; no
 * other child is started before that one has ended. State is changed before an event is called. */
#include "client/line.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "client/answer.h"
#include "client/client_steps.h"
#include "client/connection/connection.h"
#include "client/line_schedule.h"

enum greeting {
	GREET_DIALLING, /* nothing was sent yet */
	GREET_ASKED,    /* `__ping` or `box_init` is pending */
	GREET_PINGED,
	GREET_DONE,
	GREET_REFUSED, /* the reason is in `why` */
};

struct box_line {
	struct box_arena *arena; /* of the options */
	struct box_client_options options;
	struct box_value config; /* null: none */
	struct box_line_events events;
	void *arg;
	bool shares_filesystem;
	struct box_line_schedule schedule;
	struct box_client *client; /* NULL: none */
	enum greeting greeting;
	int64_t ping_seq_id;       /* 0: none is pending */
	int64_t last_seq_id;       /* of the earlier clients */
	uint64_t answers;          /* that were reported to the schedule */
	struct box_boxd_child old; /* the child of an earlier client, until it has ended */
	uint64_t old_since_ms;
	int old_again_ms;
	struct box_err why; /* code NONE: nothing has failed */
};

static int64_t pause_of(const struct box_line *line)
{
	return box_line_schedule_timeout_ms(&line->schedule, box_clock_ms());
}

/* --- how it breaks --- */

/* By now the client has called back for all its requests. */
static void drop_client(struct box_line *line, const struct box_err *why)
{
	struct box_client *client = line->client;
	line->why = *why;
	line->client = NULL;
	line->ping_seq_id = 0;
	if (client) {
		line->last_seq_id = box_client_last_seq_id(client);
		line->old = box_client_take_child(client);
		line->old_since_ms = box_clock_ms();
		line->old_again_ms = 0;
		box_client_close(client);
	}
	box_line_schedule_report(&line->schedule, BOX_LINE_LOST, box_clock_ms());
	if (line->events.down) {
		line->events.down(line->arg, &line->why, pause_of(line));
	}
}

static void give_up(struct box_line *line, const struct box_err *why)
{
	const struct box_err kept = *why;
	box_client_disconnect(line->client, &kept);
	drop_client(line, &kept);
}

static void time_out(struct box_line *line)
{
	struct box_err why;
	const struct box_line_times *times = &line->schedule.times;
	if (line->schedule.phase == BOX_LINE_UP) {
		(void)box_err_set(&why, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"the runtime does not answer: %lld pings in a row failed",
			(long long)times->ping_failures);
	} else {
		(void)box_err_set(&why, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"the runtime was not ready within %lld ms", (long long)times->connect_ms);
	}
	give_up(line, &why);
}

/* --- the greeting --- */

static void set_greeting(struct box_line *line, enum greeting next, const struct box_err *err)
{
	line->greeting = err ? GREET_REFUSED : next;
	if (err) {
		line->why = *err;
	}
}

static void first_ping_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	(void)data;
	(void)last;
	set_greeting(arg, GREET_PINGED, err);
}

static void init_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	(void)data;
	(void)last;
	set_greeting(arg, GREET_DONE, err);
}

static void ask(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered)
{
	struct box_err err;
	line->greeting = GREET_ASKED;
	if (box_client_submit(line->client, action, data, answered, line, NULL, &err) < 0) {
		set_greeting(line, GREET_REFUSED, &err);
	}
}

static void greet(struct box_line *line)
{
	if (line->schedule.phase != BOX_LINE_CONNECTING || !box_client_is_connected(line->client)) {
		return;
	}
	if (line->greeting == GREET_DIALLING) {
		ask(line, "__ping", NULL, first_ping_answered);
	}
	if (line->greeting == GREET_PINGED) {
		if (line->config.type == BOX_MAP) {
			ask(line, "box_init", &line->config, init_answered);
		} else {
			line->greeting = GREET_DONE;
		}
	}
	if (line->greeting == GREET_REFUSED) {
		give_up(line, &line->why);
	} else if (line->greeting == GREET_DONE) {
		line->why.code = BOX_ERR_NONE;
		line->answers = box_client_answer_count(line->client);
		box_line_schedule_report(&line->schedule, BOX_LINE_GREETED, box_clock_ms());
		if (line->events.up) {
			line->events.up(line->arg);
		}
	}
}

/* --- what is due --- */

static void connect_now(struct box_line *line)
{
	struct box_err err;
	line->greeting = GREET_DIALLING;
	if (box_client_start(&line->options, line->last_seq_id, &line->client, &err) < 0) {
		line->client = NULL;
		drop_client(line, &err);
	}
}

/* A ping that failed because the connection was lost is not counted: the loss itself is. */
static void pinged(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_line *line = arg;
	(void)data;
	(void)last;
	line->ping_seq_id = 0;
	line->answers += err != NULL; /* an error is not a sign of health */
	if (!err || err->code != BOX_ERR_RUNTIME_UNAVAILABLE) {
		box_line_schedule_report(&line->schedule,
			err ? BOX_LINE_PING_REFUSED : BOX_LINE_PONG, box_clock_ms());
	}
}

/* A ping that cannot be sent times out, like one that is not answered. */
static void ping(struct box_line *line)
{
	if (line->ping_seq_id != 0) {
		box_client_cancel(line->client, line->ping_seq_id);
		line->ping_seq_id = 0;
	}
	(void)box_client_submit(
		line->client, "__ping", NULL, pinged, line, &line->ping_seq_id, NULL);
}

static void do_due(struct box_line *line)
{
	/* No child is started before the earlier one has ended, even if that takes long. */
	while (line->old.pid == 0) {
		switch (box_line_schedule_due(&line->schedule, box_clock_ms())) {
		case BOX_LINE_NOTHING:
			return;
		case BOX_LINE_CONNECT:
			connect_now(line);
			break;
		case BOX_LINE_PING:
			ping(line);
			break;
		case BOX_LINE_GIVE_UP:
			time_out(line);
			break;
		}
	}
}

static void wait_for_old(struct box_line *line)
{
	char how[BOX_BOXD_CHILD_END_SIZE];
	uint64_t waited_ms = box_clock_ms() - line->old_since_ms;
	(void)box_boxd_child_leave(&line->old, waited_ms, line->options.log_line,
		line->options.log_arg, how, &line->old_again_ms);
}

void box_line_step(struct box_line *line)
{
	struct box_err err;
	wait_for_old(line);
	if (line->client && box_client_step(line->client, &err) < 0) {
		drop_client(line, &err);
	}
	if (line->client && box_client_answer_count(line->client) != line->answers) {
		line->answers = box_client_answer_count(line->client);
		box_line_schedule_report(&line->schedule, BOX_LINE_HEARD, box_clock_ms());
	}
	do_due(line);
	if (line->client) {
		greet(line);
	}
}

/* --- for an event loop --- */

int box_line_fd(const struct box_line *line)
{
	return line->client ? box_client_fd(line->client) : line->old.pidfd;
}

short box_line_poll_events(const struct box_line *line)
{
	return line->client ? box_client_events(line->client) : POLLIN;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

int box_line_timeout_ms(const struct box_line *line)
{
	if (line->old.pid != 0) {
		return line->old_again_ms;
	}
	int64_t ms = box_line_schedule_timeout_ms(&line->schedule, box_clock_ms());
	ms = line->client ? sooner(ms, box_client_timeout_ms(line->client)) : ms;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

bool box_line_is_up(const struct box_line *line)
{
	return line->schedule.phase == BOX_LINE_UP;
}

bool box_line_shares_filesystem(const struct box_line *line)
{
	return line->shares_filesystem;
}

const struct box_err *box_line_why(const struct box_line *line)
{
	return line->why.code == BOX_ERR_NONE ? NULL : &line->why;
}

struct box_client *box_line_client(struct box_line *line)
{
	return box_line_is_up(line) ? line->client : NULL;
}

/* --- begin and end --- */

static struct box_line *new_line(void)
{
	struct box_line *line = box_alloc(sizeof(*line));
	line->arena = box_arena_new();
	line->old = (struct box_boxd_child){.pidfd = -1, .log_fd = -1};
	return line;
}

static const char *copy_text(struct box_arena *arena, const char *text)
{
	return text ? box_arena_strndup(arena, text, strlen(text)) : NULL;
}

static void copy_options(struct box_line *line, const struct box_line_options *given)
{
	struct box_client_options *options = &line->options;
	*options = given->client;
	options->endpoint = copy_text(line->arena, options->endpoint);
	options->container_endpoint = copy_text(line->arena, options->container_endpoint);
	options->instance = copy_text(line->arena, options->instance);
	options->token = copy_text(line->arena, options->token);
	options->workspace = copy_text(line->arena, options->workspace);
	options->boxd = copy_text(line->arena, options->boxd);
	options->config = copy_text(line->arena, options->config);
	if (given->config) {
		line->config = box_value_copy(line->arena, given->config);
	}
	if (given->events) {
		line->events = *given->events;
	}
	line->arg = given->arg;
}

int box_line_open(
	const struct box_line_options *options, struct box_line **ret_line, struct box_err *err)
{
	const struct box_endpoint_choice choice = box_connection_choose(&options->client,
		options->shares_filesystem > 0           ? BOX_ENDPOINT_SHARES_YES
			: options->shares_filesystem < 0 ? BOX_ENDPOINT_SHARES_NO
							 : BOX_ENDPOINT_SHARES_DERIVED);
	struct box_endpoint endpoint;
	uint64_t random;
	int r = choice.endpoint ? box_endpoint_parse(choice.endpoint, &endpoint, err) : 0;
	if (r < 0) {
		return r;
	}
	if (options->config && options->config->type != BOX_MAP) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "config must be map, not %s",
			box_type_name(options->config->type));
	}
	struct box_line *line = new_line();
	copy_options(line, options);
	line->shares_filesystem = choice.shares_filesystem;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		random = box_clock_us();
	}
	box_line_schedule_init(&line->schedule, &options->times, random, box_clock_ms());
	*ret_line = line;
	return 0;
}

struct box_line *box_line_adopt(struct box_client *client)
{
	static const struct box_line_times defaults;
	struct box_line *line = new_line();
	line->client = client;
	line->answers = box_client_answer_count(client);
	box_client_keep_child_on_loss(client);
	box_line_schedule_init_up(&line->schedule, &defaults, box_clock_ms());
	return line;
}

void box_line_close(struct box_line *line)
{
	char how[BOX_BOXD_CHILD_END_SIZE];
	if (line) {
		box_client_close(line->client);
		box_boxd_child_end(&line->old, NULL, NULL, how);
		box_arena_free(line->arena);
		free(line);
	}
}

/* --- requests --- */

static int refuse(const struct box_line *line, struct box_err *err)
{
	const struct box_err *why = box_line_why(line);
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ENOTCONN, "%s%s",
		why ? "the runtime is not reachable: " : "the runtime is not connected yet",
		why ? why->text : "");
}

int box_line_submit(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	struct box_client *client = box_line_client(line);
	return client ? box_client_submit(client, action, data, answered, arg, ret_seq_id, err)
		      : refuse(line, err);
}

int box_line_submit_stream(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	struct box_client *client = box_line_client(line);
	return client
		? box_client_submit_stream(client, action, data, answered, arg, ret_seq_id, err)
		: refuse(line, err);
}

void box_line_taken(struct box_line *line, int64_t seq_id)
{
	struct box_client *client = box_line_client(line);
	if (client) {
		box_client_taken(client, seq_id);
	}
}

void box_line_cancel(struct box_line *line, int64_t seq_id)
{
	struct box_client *client = box_line_client(line);
	if (client) {
		box_client_cancel(client, seq_id);
	}
}

/* --- blocking --- */

int box_line_wait(struct box_line *line, int timeout_ms)
{
	struct pollfd ready = {.fd = box_line_fd(line), .events = box_line_poll_events(line)};
	int own_ms = box_line_timeout_ms(line);
	bool own = own_ms >= 0 && (timeout_ms < 0 || own_ms < timeout_ms);
	if (poll(&ready, 1, own ? own_ms : timeout_ms) < 0) {
		return -errno;
	}
	box_line_step(line);
	return 0;
}

/* Negative: never. */
static uint64_t deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : box_clock_ms() + (uint64_t)timeout_ms;
}

/* Runs one turn; false when the time is over. */
static bool turn_before(struct box_line *line, uint64_t until_ms)
{
	uint64_t now = box_clock_ms();
	if (now >= until_ms) {
		return false;
	}
	(void)box_line_wait(line, until_ms - now > INT_MAX ? -1 : (int)(until_ms - now));
	return true;
}

int box_line_wait_for(struct box_line *line, const bool *done, int timeout_ms)
{
	uint64_t until_ms = deadline(timeout_ms);
	while (!*done) {
		if (!turn_before(line, until_ms)) {
			return -ETIMEDOUT;
		}
	}
	return 0;
}

int box_line_wait_up(struct box_line *line, int timeout_ms, struct box_err *err)
{
	uint64_t until_ms = deadline(timeout_ms);
	while (!box_line_is_up(line)) {
		if (!turn_before(line, until_ms)) {
			(void)refuse(line, err);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

int box_line_call(struct box_line *line, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err)
{
	struct box_answer_wait call = {.arena = arena, .err = err};
	int64_t seq_id = 0;
	int r = box_line_submit(line, action, data, box_answer_wait_take, &call, &seq_id, err);
	if (r < 0) {
		return r;
	}
	if (box_line_wait_for(line, &call.done, timeout_ms) < 0) {
		box_line_cancel(line, seq_id);
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"%s: no answer within %d ms", action, timeout_ms);
	}
	if (call.result == 0) {
		*ret_data = call.data;
	}
	return call.result;
}
