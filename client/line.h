/* A lasting connection to a runtime: dialled or started, monitored, and made again when it breaks.
 *
 *   struct box_line_options options = {.client = {.endpoint = "ws://box:5410"}, .config = &config};
 *   struct box_line *line;
 *   if (box_line_open(&options, &line, &err) < 0) { ... }
 *   if (box_line_wait_up(line, 30000, &err) < 0) { ... still tries; err says why not yet ... }
 *   box_line_call(line, "box_status", NULL, 15000, arena, &status, &err);
 *
 * Which runtime: box_client_options. After each connect `__ping` and, with a config, `box_init` are sent
 * before any request. Then `__ping` every 20 s; the connection ends if three in a row are not answered
 * within 15 s each, or if it is closed. Then it is made again after 3 s, 6 s ... 60 s. There is one
 * attempt at a time. If a child is lost, it is ended before the next one is started.
 *
 * When it breaks, pending requests are answered with BOX_ERR_RUNTIME_UNAVAILABLE. Requests while it is
 * down fail at once with that, and the reason why it is down.
 *
 * Like a client, a line is used from one thread. Functions do not wait unless their comment says so.
 * (Names are looked up by a thread that ends with the lookup; a child that closed its connection has
 * 100 ms to exit.)
 */
#pragma once

#include "client/box.h"

#pragma GCC visibility push(default)

struct box_line;

struct box_line_events {
	/* Requests are accepted from now on. */
	void (*up)(void *arg);
	/* It broke, or an attempt failed; the next attempt is in pause_ms (-1: there is none,
	 * because it was adopted). */
	void (*down)(void *arg, const struct box_err *why, int64_t pause_ms);
};

/* 0 means the default in the comment. */
struct box_line_times {
	int64_t ping_interval_ms; /* 20,000 */
	int64_t ping_wait_ms;     /* 15,000 */
	int64_t ping_failures;    /* 3, in a row; any answer, even a late one, resets the count */
	int64_t connect_ms;       /* 30,000: dialling, `__ping` and `box_init` together */
	int64_t pause_ms;     /* 3,000 before the first attempt after a break, then twice as long */
	int64_t pause_max_ms; /* 60,000 */
	/* Pauses are longer or shorter by up to this much, so that many clients do not reconnect at
	 * once: 10; -1: exact. */
	int64_t jitter_percent;
};

/* Copied by box_line_open, except what `arg` points to. */
struct box_line_options {
	struct box_client_options client;
	const struct box_value *config; /* the map for `box_init`; NULL: it is not sent */
	/* Whether a path here is the same path for the runtime. 0: true for a child of ours, false for
	 * an endpoint that was dialled; 1: yes; -1: no. */
	int shares_filesystem;
	struct box_line_times times;
	const struct box_line_events *events; /* may be NULL, and so may its members */
	void *arg;
};

/* Refuses options that can never work. Does not wait: the first attempt begins with the first step. */
int box_line_open(
	const struct box_line_options *options, struct box_line **ret_line, struct box_err *err);

/* Makes a line from an existing connection, and takes over the client. Its file system counts as separate
 * from ours. When it breaks, it stays down, because the line does not know how it was made. */
struct box_line *box_line_adopt(struct box_client *client);

/* Drops pending requests without a callback. Waits for a child. NULL is fine. */
void box_line_close(struct box_line *line);
static inline void box_line_close_p(struct box_line **line)
{
	box_line_close(*line);
}

bool box_line_is_up(const struct box_line *line);
bool box_line_shares_filesystem(const struct box_line *line);
/* Why it is down; NULL while it is up, and before the first attempt has failed. */
const struct box_err *box_line_why(const struct box_line *line);
/* The current connection, for box_exec_start; NULL while it is down. Everything started on it gets its end
 * reported before it is freed. */
struct box_client *box_line_client(struct box_line *line);

/* --- requests: like those of a client. A number is never reused on the same line. --- */

int box_line_submit(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);
int box_line_submit_stream(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);
void box_line_taken(struct box_line *line, int64_t seq_id);
void box_line_cancel(struct box_line *line, int64_t seq_id);

/* --- for a program with its own event loop ---
 *
 * Poll the fd (-1 while there is none; it changes) for the events, no longer than the timeout
 * (-1: no limit), then step. Callbacks come from inside a step; they may submit and cancel, and
 * must neither step nor close. */

int box_line_fd(const struct box_line *line);
short box_line_poll_events(const struct box_line *line);
int box_line_timeout_ms(const struct box_line *line);
void box_line_step(struct box_line *line);

/* --- for a program without one: these wait. A timeout_ms of -1 means for ever. --- */

/* Waits until something happens, timeout_ms at most, and handles it. 0; -EINTR if a signal ends the
 * wait. */
int box_line_wait(struct box_line *line, int timeout_ms);

/* Waits until a callback has set *done. -ETIMEDOUT after timeout_ms. Signals do not end the wait. */
int box_line_wait_for(struct box_line *line, const bool *done, int timeout_ms);

/* Waits until it is up. -ETIMEDOUT after timeout_ms, with the reason of the last attempt. */
int box_line_wait_up(struct box_line *line, int timeout_ms, struct box_err *err);

/* Sends a request and waits for the answer, whose data are copied into the arena. -ETIMEDOUT after
 * timeout_ms. */
int box_line_call(struct box_line *line, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err);

#pragma GCC visibility pop
