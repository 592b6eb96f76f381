/* When a line connects, pings, gives up and tries again. Pure: the caller passes the time and does the
 * work. For line.c. */
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
	struct box_line_times times; /* without zeros: defaults are filled in */
	enum box_line_phase phase;
	bool once; /* no second attempt */
	uint64_t random;
	int64_t pause_ms; /* the next pause, before jitter */
	/* When WAITING ends, CONNECTING times out; UP: the next ping or its timeout. */
	uint64_t next_ms;
	uint64_t up_ms;   /* since when it is up */
	bool pinged;      /* a ping is under way */
	int64_t failures; /* failed pings in a row */
};

enum box_line_event {
	BOX_LINE_GREETED, /* the attempt succeeded */
	BOX_LINE_LOST,    /* the attempt failed, or the connection is over */
	BOX_LINE_PONG,
	BOX_LINE_PING_REFUSED, /* the ping was answered with an error */
	BOX_LINE_HEARD,        /* any answer arrived */
};

enum box_line_due {
	BOX_LINE_NOTHING,
	BOX_LINE_CONNECT,
	BOX_LINE_PING,
	BOX_LINE_GIVE_UP, /* end the connection or the attempt; then report LOST */
};

/* Members of `times` that are 0 get their defaults. The first attempt is due at once. */
void box_line_schedule_init(struct box_line_schedule *state, const struct box_line_times *times,
	uint64_t random, uint64_t now_ms);
/* Up from the start, and down for good after the connection ends. */
void box_line_schedule_init_up(
	struct box_line_schedule *state, const struct box_line_times *times, uint64_t now_ms);

void box_line_schedule_report(
	struct box_line_schedule *state, enum box_line_event event, uint64_t now_ms);

/* What is to be done now; call again until it returns BOX_LINE_NOTHING. */
enum box_line_due box_line_schedule_due(struct box_line_schedule *state, uint64_t now_ms);

/* How long until something may be due; -1 for never. */
int64_t box_line_schedule_timeout_ms(const struct box_line_schedule *state, uint64_t now_ms);
