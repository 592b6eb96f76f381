/* A lasting connection to a runtime: dialled or started, watched, and made again when it breaks.
 *
 *   struct box_line_options options = {.client = {.endpoint = "ws://box:5410"}, .config = &config};
 *   struct box_line *line;
 *   if (box_line_open(&options, &line, &err) < 0) { ... }
 *   if (box_line_wait_up(line, 30000, &err) < 0) { ... still tries; err says why not yet ... }
 *   box_line_call(line, "box_status", NULL, 15000, arena, &status, &err);
 *
 * Which runtime: box_client_options. After each connect come `__ping` and, with a config,
 * `box_init`, before anybody's request. Then `__ping` every 20 s; three in a row that are not
 * answered within 15 s each, or a connection that is closed, end it. Then it is made again after 3
 * s, 6 s ... 60 s. There is one attempt at a time. A child that was lost is ended before the next
 * is started.
 *
 * Requests under way when it breaks are answered with BOX_ERR_RUNTIME_UNAVAILABLE. Requests while
 * it is down fail at once with that, and the reason why it is down.
 *
 * As a client, a line is used from one thread. Nothing here waits, but what says so. (Names are
 * looked up by a thread that ends with the lookup; a child whose end was seen has 100 ms to be
 * one.)
 */
#pragma once

#include "client/box.h"

#pragma GCC visibility push(default)

struct box_line;

struct box_line_events {
	/* Requests are taken from now on. */
	void (*up)(void *arg);
	/* It broke, or an attempt to make it failed; the next comes in pause_ms (-1: none will,
	 * it was adopted). */
	void (*down)(void *arg, const struct box_err *why, int64_t pause_ms);
};

/* 0 means what stands behind. */
struct box_line_times {
	int64_t ping_interval_ms; /* 20,000 */
	int64_t ping_wait_ms;     /* 15,000 */
	int64_t ping_failures;    /* 3, in a row; an answer to anything else starts the row anew */
	int64_t connect_ms;       /* 30,000: the way there, `__ping` and `box_init` together */
	int64_t pause_ms;     /* 3,000 before the first attempt after a break, then twice as long */
	int64_t pause_max_ms; /* 60,000 */
	/* Pauses are up to so much longer or shorter, that many clients do not come at once: 10;
	 * -1: exact. */
	int64_t jitter_percent;
};

/* Copied by box_line_open, but for what the pointers `arg` mean. */
struct box_line_options {
	struct box_client_options client;
	const struct box_value *config; /* the map for `box_init`; NULL: that is not sent */
	/* Whether a path here is the same path for the runtime. 0: derived, true for a child of
	 * ours and false for what was dialled; 1: yes; -1: no. */
	int shares_filesystem;
	struct box_line_times times;
	const struct box_line_events *events; /* may be NULL, and so may its members */
	void *arg;
};

/* Refuses options that can never work. It does not wait: the first attempt begins with the first
 * step. */
int box_line_open(
	const struct box_line_options *options, struct box_line **ret_line, struct box_err *err);

/* A line on a connection that is there; the client becomes the line's. It counts as separated
 * from our file system. When it breaks, it stays down: nobody knows how it was made. */
struct box_line *box_line_adopt(struct box_client *client);

/* Requests under way are forgotten without a callback. A child is waited for. NULL is fine. */
void box_line_close(struct box_line *line);
static inline void box_line_close_p(struct box_line **line)
{
	box_line_close(*line);
}

bool box_line_is_up(const struct box_line *line);
bool box_line_shares_filesystem(const struct box_line *line);
/* Why it is down; NULL while it is up and before the first attempt has failed. */
const struct box_err *box_line_why(const struct box_line *line);
/* The connection as it is now, for box_exec_start; NULL while it is down. Whatever was begun on it
 * has been told its end before it is freed. */
struct box_client *box_line_client(struct box_line *line);

/* --- requests: as those of a client. Numbers are never used again on the same line. --- */

int box_line_submit(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);
int box_line_submit_stream(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);
void box_line_taken(struct box_line *line, int64_t seq_id);
void box_line_cancel(struct box_line *line, int64_t seq_id);

/* --- a loop of the caller's ---
 *
 * Poll the fd (-1 while there is none; it changes) for the events, no longer than the timeout
 * (-1: any time), then step. Callbacks come from inside a step; they may submit and cancel, and
 * must neither step nor close. */

int box_line_fd(const struct box_line *line);
short box_line_poll_events(const struct box_line *line);
int box_line_timeout_ms(const struct box_line *line);
void box_line_step(struct box_line *line);

/* --- without one: these wait --- */

/* One turn that waits for something to happen, timeout_ms at most (-1: for ever). 0; -EINTR when a
 * signal ends the wait. */
int box_line_wait(struct box_line *line, int timeout_ms);

/* Until a callback has set *done. -ETIMEDOUT after timeout_ms. Signals do not end it. */
int box_line_wait_for(struct box_line *line, const bool *done, int timeout_ms);

/* Until it is up. -ETIMEDOUT after timeout_ms, with the reason of the last attempt. */
int box_line_wait_up(struct box_line *line, int timeout_ms, struct box_err *err);

/* Asks and waits for the answer, whose data are copied into the arena. -ETIMEDOUT after
 * timeout_ms. */
int box_line_call(struct box_line *line, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err);

#pragma GCC visibility pop
