/* The event loop of box-init: epoll, SIGCHLD and the clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOX_NEVER UINT64_MAX

enum box_watch_kind {
	BOX_WATCH_CONTROL,  /* the control socket */
	BOX_WATCH_CHILDREN, /* a child has ended */
	BOX_WATCH_MOUNTER,  /* the socket to the mounter */
	BOX_WATCH_STDOUT,   /* a pipe of a command */
	BOX_WATCH_STDERR,
	BOX_WATCH_STDIN,
	BOX_WATCH_ORPHAN,    /* a pipe of a command that has ended */
	BOX_WATCH_MPROC_OUT, /* a pipe of a managed process */
	BOX_WATCH_MPROC_ERR,
	BOX_WATCH_MPROC_IN,
};

/* Says which object an event belongs to: entry `index` of the table for `kind`. An event whose
 * `generation` differs from that of the entry belongs to an earlier use of the entry. */
struct box_watch {
	uint8_t kind;
	uint16_t index;
	uint32_t generation;
};

/* A boot step. Blocks SIGCHLD, so it must be called before there are children. 0 or -errno. */
int box_event_loop_open(void);
/* In a forked process that does not use it. */
void box_event_loop_close(void);
int box_event_loop_watch(int fd, uint32_t events, struct box_watch watch);
/* Gives a watched fd to another object. */
int box_event_loop_rewatch(int fd, uint32_t events, struct box_watch watch);
void box_event_loop_unwatch(int fd);

/* Waits until the deadline and calls `on_event` for each event. With `pipes_paused`, only for ended
 * children, for space in the control socket and, unless `requests_paused`, for requests. */
void box_event_loop_turn(uint64_t deadline_ns, bool pipes_paused, bool requests_paused,
	void (*on_event)(struct box_watch watch, uint32_t events));

/* Consumes the pending SIGCHLD. */
void box_event_loop_take_children(void);

/* CLOCK_MONOTONIC. */
uint64_t box_event_loop_now_ns(void);
