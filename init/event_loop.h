/* What the loop of box-init waits for, and the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOX_NEVER UINT64_MAX

enum box_watch_kind {
	BOX_WATCH_CONTROL,
	BOX_WATCH_CHILDREN,
	BOX_WATCH_MOUNTER,
	BOX_WATCH_STDOUT, /* of a command */
	BOX_WATCH_STDERR,
	BOX_WATCH_STDIN,
	BOX_WATCH_ORPHAN,    /* a pipe whose command has ended */
	BOX_WATCH_MPROC_OUT, /* of a managed process */
	BOX_WATCH_MPROC_ERR,
	BOX_WATCH_MPROC_IN,
};

/* Whose an event is. `generation` tells an earlier user of the same place from the present one. */
struct box_watch {
	uint8_t kind;
	uint16_t index;
	uint32_t generation;
};

/* Called before SIGCHLD can come: it blocks it. */
int box_event_loop_open(void);
/* In a forked process that has no use for it. */
void box_event_loop_close(void);
int box_event_loop_watch(int fd, uint32_t events, struct box_watch watch);
/* Another owner for an fd that is watched. */
int box_event_loop_rewatch(int fd, uint32_t events, struct box_watch watch);
void box_event_loop_unwatch(int fd);

/* Waits until the deadline and calls `on_event` for each event. While `narrow`, only for children,
 * for room for answers and, unless `deaf`, for requests. */
void box_event_loop_turn(uint64_t deadline_ns, bool narrow, bool deaf,
	void (*on_event)(struct box_watch watch, uint32_t events));

/* Takes the news that there are ended children. */
void box_event_loop_take_children(void);

uint64_t box_event_loop_now_ns(void);
