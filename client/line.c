/* A connection that is kept: what line_schedule.c says is due is done here, without waiting.
 *
 * There is at most one client at a time, connecting or up, and at most one child of a client that
 * is gone; while that child ends no other is started. State first, events last. */
#include "client/line.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "client/client_steps.h"
#include "client/connection/client_link.h"
#include "client/line_schedule.h"

enum greeting {
	GREET_DIALLING, /* nothing was asked yet */
	GREET_ASKED,    /* `__ping` or `box_init` is under way */
	GREET_PINGED,
	GREET_DONE,
	GREET_REFUSED, /* `why` says by what */
};

struct box_line {
	struct box_arena *arena; /* of the options */
	struct box_client_options options;
	struct box_value config; /* null: none */
	struct box_line_events events;
	void *arg;
	bool shares_filesystem;
	struct box_line_schedule state;
	struct box_client *client; /* NULL: none */
	enum greeting greeting;
	int64_t ping_seq_id; /* 0: none is under way */
	int64_t last_seq_id; /* of the clients before */
	uint64_t heard;      /* answers that the state was told of */
	struct box_boxd_child old;
	uint64_t old_since_ms;
	int old_again_ms;
	struct box_err why; /* code NONE: nothing has failed */
};

static int64_t pause_of(const struct box_line *line)
{
	return box_line_schedule_timeout_ms(&line->state, box_clock_ms());
}

/* --- its ends --- */

/* The client has answered all its requests by now. */
static void let_go(struct box_line *line, const struct box_err *why)
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
	box_line_schedule_report(&line->state, BOX_LINE_LOST, box_clock_ms());
	if (line->events.down) {
		line->events.down(line->arg, &line->why, pause_of(line));
	}
}

static void give_up(struct box_line *line, const struct box_err *why)
{
	const struct box_err kept = *why;
	box_client_disconnect(line->client, &kept);
	let_go(line, &kept);
}

static void too_late(struct box_line *line)
{
	struct box_err why;
	const struct box_line_times *times = &line->state.times;
	if (line->state.phase == BOX_LINE_UP) {
		(void)box_err_set(&why, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"the runtime does not answer: %lld pings in a row were lost",
			(long long)times->ping_failures);
	} else {
		(void)box_err_set(&why, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"the runtime was not ready within %lld ms", (long long)times->connect_ms);
	}
	give_up(line, &why);
}

/* --- the greeting --- */

static void hear(struct box_line *line, enum greeting good, const struct box_err *err)
{
	line->greeting = err ? GREET_REFUSED : good;
	if (err) {
		line->why = *err;
	}
}

static void first_ping_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	(void)data;
	(void)last;
	hear(arg, GREET_PINGED, err);
}

static void init_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	(void)data;
	(void)last;
	hear(arg, GREET_DONE, err);
}

static void ask(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered)
{
	struct box_err err;
	line->greeting = GREET_ASKED;
	if (box_client_submit(line->client, action, data, answered, line, NULL, &err) < 0) {
		hear(line, GREET_REFUSED, &err);
	}
}

static void greet(struct box_line *line)
{
	if (line->state.phase != BOX_LINE_CONNECTING || !box_client_is_connected(line->client)) {
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
		line->heard = box_client_answer_count(line->client);
		box_line_schedule_report(&line->state, BOX_LINE_GREETED, box_clock_ms());
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
		let_go(line, &err);
	}
}

/* A ping that the connection took down with it tells nothing: that it is lost is told as such. */
static void pinged(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_line *line = arg;
	(void)data;
	(void)last;
	line->ping_seq_id = 0;
	line->heard += err != NULL; /* that was no sign of health */
	if (!err || err->code != BOX_ERR_RUNTIME_UNAVAILABLE) {
		box_line_schedule_report(
			&line->state, err ? BOX_LINE_PING_REFUSED : BOX_LINE_PONG, box_clock_ms());
	}
}

/* One that cannot even be sent runs into its time as if it were lost. */
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
	/* The successor of a child that has not ended waits, whatever the time. */
	while (line->old.pid == 0) {
		switch (box_line_schedule_due(&line->state, box_clock_ms())) {
		case BOX_LINE_NOTHING:
			return;
		case BOX_LINE_CONNECT:
			connect_now(line);
			break;
		case BOX_LINE_PING:
			ping(line);
			break;
		case BOX_LINE_GIVE_UP:
			too_late(line);
			break;
		}
	}
}

static void see_old_off(struct box_line *line)
{
	char how[BOX_BOXD_CHILD_END_SIZE];
	uint64_t waited_ms = box_clock_ms() - line->old_since_ms;
	(void)box_boxd_child_leave(&line->old, waited_ms, line->options.log_line,
		line->options.log_arg, how, &line->old_again_ms);
}

void box_line_step(struct box_line *line)
{
	struct box_err err;
	see_old_off(line);
	if (line->client && box_client_step(line->client, &err) < 0) {
		let_go(line, &err);
	}
	if (line->client && box_client_answer_count(line->client) != line->heard) {
		line->heard = box_client_answer_count(line->client);
		box_line_schedule_report(&line->state, BOX_LINE_HEARD, box_clock_ms());
	}
	do_due(line);
	if (line->client) {
		greet(line);
	}
}

/* --- for a loop --- */

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
	int64_t ms = box_line_schedule_timeout_ms(&line->state, box_clock_ms());
	ms = line->client ? sooner(ms, box_client_timeout_ms(line->client)) : ms;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

bool box_line_is_up(const struct box_line *line)
{
	return line->state.phase == BOX_LINE_UP;
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
	const struct box_connector_choice choice = box_client_link_choose(&options->client,
		options->shares_filesystem > 0           ? BOX_CONNECTOR_SHARES_YES
			: options->shares_filesystem < 0 ? BOX_CONNECTOR_SHARES_NO
							 : BOX_CONNECTOR_SHARES_DERIVED);
	struct box_endpoint endpoint;
	uint64_t random;
	int r = choice.endpoint ? box_connector_parse_endpoint(choice.endpoint, &endpoint, err) : 0;
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
	box_line_schedule_init(&line->state, &options->times, random, box_clock_ms());
	*ret_line = line;
	return 0;
}

struct box_line *box_line_adopt(struct box_client *client)
{
	static const struct box_line_times usual;
	struct box_line *line = new_line();
	line->client = client;
	line->heard = box_client_answer_count(client);
	box_client_keep_child_on_loss(client);
	box_line_schedule_init_up(&line->state, &usual, box_clock_ms());
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
