/* When a line connects, pings, gives up and tries again. Pure: the time is told, nothing is
 * done. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/line.h"

enum box_line_phase {
	BOX_LINE_WAITING,    /* for the next attempt */
	BOX_LINE_CONNECTING, /* one attempt is under way */
	BOX_LINE_UP,
	BOX_LINE_OVER, /* down for good */
};

struct box_line_schedule {
	struct box_line_times times; /* all set */
	enum box_line_phase phase;
	bool once; /* no second attempt */
	uint64_t random;
	int64_t pause_ms; /* the next one, before jitter */
	uint64_t next_ms; /* WAITING: the attempt. CONNECTING: its end. UP: ping, or its end */
	uint64_t up_ms;   /* since when it is up */
	bool pinged;      /* a ping is under way */
	int64_t failures; /* pings in a row */
};

enum box_line_event {
	BOX_LINE_GREETED, /* the attempt has come to its good end */
	BOX_LINE_LOST,    /* the attempt failed, or the connection is over */
	BOX_LINE_PONG,
	BOX_LINE_PING_REFUSED, /* the ping was answered by an error */
	BOX_LINE_HEARD,        /* something was answered, whatever it was */
};

enum box_line_due {
	BOX_LINE_NOTHING,
	BOX_LINE_CONNECT,
	BOX_LINE_PING,
	BOX_LINE_GIVE_UP, /* end the connection or the attempt; then tell LOST */
};

/* Members of `times` that are 0 get their defaults. The first attempt is due at once. */
void box_line_schedule_init(struct box_line_schedule *state, const struct box_line_times *times,
	uint64_t random, uint64_t now_ms);
/* Up from the start, and never again after its end. */
void box_line_schedule_init_up(
	struct box_line_schedule *state, const struct box_line_times *times, uint64_t now_ms);

void box_line_schedule_report(
	struct box_line_schedule *state, enum box_line_event event, uint64_t now_ms);

/* What is to be done now; ask until it says NOTHING. */
enum box_line_due box_line_schedule_due(struct box_line_schedule *state, uint64_t now_ms);

/* Until something may be due: -1 for never. */
int64_t box_line_schedule_timeout_ms(const struct box_line_schedule *state, uint64_t now_ms);
